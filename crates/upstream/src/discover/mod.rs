//! Reads the offer of a server: its tools, resources, templates, prompts and skills.
//!
//! Invariants: everything is bounded. All pages are read on one connection, because a cursor may belong to a session.
//! Definitions keep their bytes. Problems are recorded in the offer, and only the part with the problem is left out. A
//! list that is refused, broken or late keeps its previous content, so that another server cannot claim its names and
//! URIs. Without a previous reading it is missing. There is no offer only if a server has nothing but tools and refuses
//! to list them.
//!
//! Not here: when to read it (`supervise`, `refresh`), the names that clients see (`manager`).

mod compact;
mod pages;
mod problems;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::connection::Connection;
use super::error::Error;
use super::offer::Offer;
use super::retry::RetrySafety as Repeat;
use super::work::Work;
use json::Raw;
use pages::Listed;
use problems::{Problems, quoted};
use protocol::ErrorObject;
use protocol::caching::Caching;
use protocol::feature::{Item, Kind, Tool};
use protocol::lifecycle::{MAX_INSTRUCTIONS, Peer};
use protocol::message::MAX_DEPTH;
use protocol::skill;
use protocol::uri::{MAX_URI, Template};
use runtime::telemetry::limit::Limit;

/// The time limit of every list except the tools. A server whose prompts never arrive still has tools.
const SIDE_LIST_LIMIT: Duration = Duration::from_secs(10);
/// The longest name of a tool or prompt, in bytes. MCP recommends at most 128 characters.
const MAX_NAME: usize = 1_024;
/// The most resource templates of one server. A URI is compared with each template that has the same prefix.
const MAX_TEMPLATES: usize = 1_000;

/// Lists of this size or more, in bytes, are not parsed on a worker.
const LARGE: usize = 256 * 1024;

/// Reads the offer. The inner error is the server's refusal to list.
pub(super) struct Discovery {
    /// Whether parameters are mirrored into headers (modern Streamable HTTP). Tools with an invalid annotation of such
    /// parameters then cannot be called.
    pub mirrors_parameters: bool,
    /// The name of the server, which pays for the memory of its lists.
    pub server: Arc<str>,
    /// The previous offer of the same server under the same configuration.
    pub before: Option<Arc<Offer>>,
}

impl Work for Discovery {
    type Output = Result<Offer, ErrorObject>;

    fn name(&self) -> &'static str {
        "discovery"
    }

    fn kind(&self) -> Repeat {
        Repeat::Read
    }

    fn on<'a>(&'a self, connection: &'a dyn Connection) -> BoxFuture<'a, Result<Self::Output, Error>> {
        Box::pin(self.read(connection))
    }
}

impl Discovery {
    async fn read(&self, connection: &dyn Connection) -> Result<Result<Offer, ErrorObject>, Error> {
        let peer = connection.peer();
        let declared: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| peer.has(*kind)).collect();
        let mirrored = self.mirrors_parameters && peer.version.is_modern();
        let (mut lists, mut problems): (Vec<(Kind, Option<Listed>)>, _) = (Vec::new(), Problems::default());
        if peer.are_instructions_cut() {
            problems.add(format!("its instructions were cut to {MAX_INSTRUCTIONS} bytes"));
        }
        for &kind in &declared {
            let listed = if declared == [Kind::Tools] {
                match pages::read(connection, kind, &mut problems).await? {
                    Ok(listed) => Some(listed),
                    Err(refusal) => return Ok(Err(refusal)),
                }
            } else {
                one_of_several(connection, kind, self.before.is_some(), &mut problems).await?
            };
            lists.push((kind, listed));
        }
        let offer = Offer::empty(peer.clone());
        let bytes = lists.iter().filter_map(|(_, listed)| listed.as_ref()).map(|listed| listed.bytes).sum();
        let building =
            Building { offer, server: Arc::clone(&self.server), before: self.before.clone(), problems };
        Ok(Ok(off_worker(bytes, move || building.with(lists, mirrored)).await))
    }
}

/// Runs `work` on lists of `bytes`. Large lists are processed on a thread for blocking work, because they would block a
/// worker.
pub(super) async fn off_worker<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes < LARGE {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is ending, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Reads a list whose failure affects no other list; `None` if it failed.
async fn one_of_several(
    connection: &dyn Connection,
    kind: Kind,
    was_read_before: bool,
    problems: &mut Problems,
) -> Result<Option<Listed>, Error> {
    let reading = pages::read(connection, kind, problems);
    let read = match kind {
        Kind::Tools => reading.await,
        _ => {
            timeout(SIDE_LIST_LIMIT, reading).await.unwrap_or(Err(Error::TimedOut { after: SIDE_LIST_LIMIT }))
        }
    };
    let why = match read {
        Ok(Ok(listed)) => return Ok(Some(listed)),
        Ok(Err(refusal)) => format!("it was refused: {} {}", refusal.code(), quoted(&refusal.message())),
        Err(error @ (Error::Malformed { .. } | Error::Unreadable { .. })) => error.to_string(),
        Err(error @ Error::TimedOut { .. }) if kind != Kind::Tools => error.to_string(),
        Err(error) => return Err(error),
    };
    problems.add(failed_list(kind, was_read_before, &why));
    Ok(None)
}

fn failed_list(kind: Kind, was_read_before: bool, why: &str) -> String {
    let outcome = if was_read_before { "stays as it was read last" } else { "is left out" };
    format!("its list of {} {outcome}: {why}", kind.member())
}

/// An offer while it is made from the lists.
struct Building {
    offer: Offer,
    server: Arc<str>,
    before: Option<Arc<Offer>>,
    problems: Problems,
}

impl Building {
    /// Adds the usable items of `lists`.
    fn with(mut self, lists: Vec<(Kind, Option<Listed>)>, mirrored: bool) -> Offer {
        for (kind, listed) in lists {
            match listed {
                Some(listed) => self.take(kind, listed, mirrored),
                None => self.keep_before(kind),
            }
        }
        self.offer.problems = self.problems.into_texts();
        self.offer
    }

    /// Adds the usable items of a list, if the memory budget has room for it.
    fn take(&mut self, kind: Kind, mut listed: Listed, mirrored: bool) {
        let items = std::mem::take(&mut listed.items);
        let kept = if kind == Kind::Tools {
            let mut tools = usable_tools(items, mirrored, &mut self.problems);
            let definitions = tools.iter_mut().map(|tool| &mut tool.definition).collect();
            compact::compact(definitions, listed.bytes, &self.server).map(|()| self.offer.tools = tools)
        } else {
            let mut items = usable(kind, items, &mut self.problems);
            let definitions = items.iter_mut().map(|item| &mut item.definition).collect();
            compact::compact(definitions, listed.bytes, &self.server).map(|()| self.offer.put(kind, items))
        };
        if let Err(why) = kept {
            self.problems.add(failed_list(kind, self.before.is_some(), &why.to_string()));
            return self.keep_before(kind);
        }
        self.offer.caching[kind as usize] = listed.caching;
        self.offer.bytes += listed.bytes;
    }

    /// Copies the list of `kind` from the previous offer.
    fn keep_before(&mut self, kind: Kind) {
        let Some(before) = &self.before else { return };
        let offer = &mut self.offer;
        offer.caching[kind as usize] = before.caching[kind as usize];
        match kind {
            Kind::Tools => offer.tools.clone_from(&before.tools),
            Kind::Resources => offer.put(kind, before.resources.clone()),
            Kind::Templates => offer.put(kind, before.templates.clone()),
            Kind::Prompts => offer.put(kind, before.prompts.clone()),
            Kind::Skills => offer.put(kind, before.skills.clone()),
        }
    }
}

impl Offer {
    /// Returns an offer of Switchyard, with these definitions of tools and resources.
    pub fn of_own(peer: Peer, tools: Vec<Raw>, resources: Vec<Raw>, caching: Caching) -> Self {
        let (mut problems, mut offer) = (Problems::default(), Self::empty(peer));
        offer.tools = usable_tools(tools, false, &mut problems);
        offer.resources = usable(Kind::Resources, resources, &mut problems);
        offer.caching[Kind::Tools as usize] = Some(caching);
        offer
    }
}

/// Converts a server's refusal to list into an error for operators. The breaker does not count it, because a refusal is
/// an answer.
pub(super) fn refused(refusal: &ErrorObject) -> Error {
    let said = quoted(&refusal.message());
    Error::Malformed { reason: format!("it refused to list its tools: {} {said}", refusal.code()) }
}

fn usable_tools(definitions: Vec<Raw>, mirrored: bool, problems: &mut Problems) -> Vec<Tool> {
    let mut filter = OfferFilter::new(Kind::Tools, problems);
    let read = |definition: Raw| {
        let tool = filter.is_shallow(&definition).then(|| Tool::from_definition(definition))?;
        if let Some(Tool { name, header_params: Err(why), .. }) = tool.as_ref().filter(|_| mirrored) {
            filter.problems.add(format!("the tool {} was left out: {}", quoted(name), quoted(why)));
            return None;
        }
        let name = tool.as_ref().map(|tool| tool.name.as_str());
        if filter.is_new(name) && filter.fits(name) { tool } else { None }
    };
    definitions.into_iter().filter_map(read).collect()
}

fn usable(kind: Kind, definitions: Vec<Raw>, problems: &mut Problems) -> Vec<Item> {
    let mut filter = OfferFilter::new(kind, problems);
    let read = |definition: Raw| {
        let item = filter.is_shallow(&definition).then(|| Item::from_definition(kind, definition))?;
        let key = item.as_ref().map(|item| item.key.as_str());
        let is_usable = filter.is_new(key) && filter.fits(key) && filter.is_loadable(item.as_ref());
        item.filter(|_| is_usable)
    };
    let mut items: Vec<Item> = definitions.into_iter().filter_map(read).collect();
    if kind == Kind::Templates && items.len() > MAX_TEMPLATES {
        let more = Limit::ListedItems.met(items.len() - MAX_TEMPLATES);
        problems.add(format!("{more} resource templates beyond the first {MAX_TEMPLATES} were left out"));
        items.truncate(MAX_TEMPLATES);
    }
    items
}

/// Leaves out items that cannot be offered, and records a problem for each.
struct OfferFilter<'a> {
    kind: Kind,
    seen: HashSet<String>,
    problems: &'a mut Problems,
}

impl<'a> OfferFilter<'a> {
    fn new(kind: Kind, problems: &'a mut Problems) -> Self {
        Self { kind, seen: HashSet::new(), problems }
    }

    /// Whether the nesting is within the limit. Switchyard and clients walk definitions recursively, and unlimited
    /// nesting would overflow a stack.
    fn is_shallow(&mut self, definition: &Raw) -> bool {
        let (depth, one) = (definition.depth(), self.kind.singular());
        if depth > MAX_DEPTH {
            self.problems.add(format!("a {one} whose definition is nested {depth} levels deep was left out"));
        }
        depth <= MAX_DEPTH
    }

    /// Whether the key is within the limits of its kind.
    fn fits(&mut self, key: Option<&str>) -> bool {
        let key = key.unwrap_or_default();
        let beyond = |most: usize| {
            let length = key.len();
            (length > most).then(|| format!("has {length} bytes, at most {most} are accepted"))
        };
        let excess = match self.kind {
            Kind::Tools | Kind::Prompts => beyond(MAX_NAME),
            Kind::Resources | Kind::Skills => beyond(MAX_URI),
            Kind::Templates => Template::excess(key),
        };
        if let Some(excess) = &excess {
            let (one, member) = (self.kind.singular(), self.kind.key());
            Limit::ListedItems.met(());
            self.problems.add(format!("the {one} {} was left out: its {member} {excess}", quoted(key)));
        }
        excess.is_none()
    }

    /// Whether hosts may load the item, if it is a skill. Clients throw away a whole list for one entry that they must
    /// not load.
    fn is_loadable(&mut self, item: Option<&Item>) -> bool {
        let skill = item.filter(|_| self.kind == Kind::Skills);
        let Some((skill, problem)) = skill.and_then(|item| Some((item, skill::problem(&item.definition)?)))
        else {
            return true;
        };
        self.problems.add(format!("the skill {} was left out: {problem}", quoted(&skill.key)));
        false
    }

    /// Whether there is a key that did not occur before.
    fn is_new(&mut self, key: Option<&str>) -> bool {
        let one = self.kind.singular();
        let Some(key) = key else {
            self.problems.add(format!("a {one} without a {} was left out", self.kind.key()));
            return false;
        };
        let is_new = self.seen.insert(key.to_owned());
        if !is_new {
            self.problems.add(format!("the {one} {} stands twice, the first one counts", quoted(key)));
        }
        is_new
    }
}

#[cfg(test)]
mod tests;
