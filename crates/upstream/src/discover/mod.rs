//! Reads the offer of a server: its tools, resources, templates, prompts and skills.
//!
//! Invariants: everything is bounded. All pages are read on one connection, because a cursor may belong to a session.
//! Definitions keep their bytes. Problems are recorded in the offer, and only the part with the problem is left out. The
//! tools come first, and if the other lists take long, an offer with the tools alone is sent on. The other lists are read
//! beside each other. One that fails in any way keeps its previous content, so that another server cannot claim its names
//! and URIs. Without a previous reading it is missing. There is no offer if the connection is lost, or if a server has
//! nothing but tools and refuses to list them.
//!
//! Not here: when to read it (`supervise`, `refresh`), the names that clients see (`manager`).

mod stored;
mod usable;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::connection::{Call, Connection, EventSender};
use super::error::Error;
use super::offer::Offer;
use json::Raw;
use protocol::caching::Caching;
use protocol::error::code;
use protocol::feature::Kind;
use protocol::lifecycle::{MAX_INSTRUCTIONS, Peer};
use protocol::{Era, ErrorObject, definition};
use usable::{usable, usable_tools};

pub(super) use usable::charge;

/// The time limit of every list except the tools. A server whose prompts never arrive still has tools.
const SIDE_LIST_LIMIT: Duration = Duration::from_secs(10);
/// The share of the remaining time that these lists may take, so that the offer is made in time.
const SIDE_LIST_SHARE: f32 = 0.9;
/// How long the offer waits for these lists before the tools are sent on alone. Most servers answer within this time, and
/// their clients then see one change and not two.
const EARLY_AFTER: Duration = Duration::from_millis(200);
/// How long a connection that lost a request may take to report that it is closed.
const CLOSING_TIME: Duration = Duration::from_millis(100);

/// Lists of this size or more, in bytes, are not parsed on a worker.
const LARGE: usize = 256 * 1024;

/// Reads the offer.
pub(super) struct Discovery {
    /// Whether parameters are mirrored into headers (modern Streamable HTTP). Tools with an invalid annotation of such
    /// parameters then cannot be called.
    pub mirrors_parameters: bool,
    /// The name of the server, which pays for the memory of its lists.
    pub server: Arc<str>,
    /// The previous offer of the same server under the same configuration.
    pub before: Option<Arc<Offer>>,
    /// When the offer must have been read.
    pub deadline: Instant,
    /// How long the lists may take, once there is a connection.
    pub limit: Duration,
    /// Receives an offer with new tools and the previous other lists, if those take long.
    pub early: mpsc::Sender<Offer>,
}

impl Discovery {
    /// Reads the offer on `connection`. The inner error is the server's refusal to list.
    pub(super) async fn on(&self, connection: &dyn Connection) -> Result<Result<Offer, ErrorObject>, Error> {
        let late = Err(Error::TimedOut { after: self.limit });
        timeout(self.limit, self.read(connection)).await.unwrap_or(late)
    }

    async fn read(&self, connection: &dyn Connection) -> Result<Result<Offer, ErrorObject>, Error> {
        let peer = connection.peer();
        let declared: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| peer.has(*kind)).collect();
        let mut lists: Vec<ReadList> = Vec::new();
        if declared == [Kind::Tools] {
            let mut problems = Problems::default();
            match self.list(connection, Kind::Tools, &mut problems).await? {
                Ok(listed) => lists.push(ReadList { kind: Kind::Tools, listed: Some(listed), problems }),
                Err(refusal) => return Ok(Err(refusal)),
            }
        } else if declared.contains(&Kind::Tools) {
            lists.push(self.tools_of_several(connection).await?);
        }
        let side: Vec<Kind> = declared.into_iter().filter(|kind| *kind != Kind::Tools).collect();
        let mut reading = std::pin::pin!(self.side_lists(connection, &side));
        if !side.is_empty() && !lists.is_empty() {
            if let Ok(read) = timeout(EARLY_AFTER, &mut reading).await {
                lists.extend(read?);
            } else {
                let unread = side.iter().map(|kind| ReadList::unread(*kind));
                let early = lists.iter().cloned().chain(unread).collect();
                // Without room, the receiver has not even taken an earlier one.
                let early = Offer { is_partial: true, ..self.offer(peer, early).await };
                let _ = self.early.try_send(early);
                lists.extend(reading.await?);
            }
        } else {
            lists.extend(reading.await?);
        }
        Ok(Ok(self.offer(peer, lists).await))
    }

    /// Makes the offer of `lists`.
    async fn offer(&self, peer: &Peer, lists: Vec<ReadList>) -> Offer {
        let mirrored = self.mirrors_parameters && peer.version.is_modern();
        let mut problems = Problems::default();
        if peer.are_instructions_cut() {
            problems.add(format!("its instructions were cut to {MAX_INSTRUCTIONS} bytes"));
        }
        if lists.is_empty() {
            problems.add(
                "it declares no tools, resources or prompts in its capabilities, so none are listed".into(),
            );
        }
        let offer = Offer::empty(valid_peer(peer, &mut problems));
        let bytes = lists.iter().filter_map(|list| list.listed.as_ref()).map(|listed| listed.bytes).sum();
        let building =
            Building { offer, server: Arc::clone(&self.server), before: self.before.clone(), problems };
        off_worker(bytes, move || building.with(lists, mirrored)).await
    }

    /// Reads the tools of a server that has other lists too.
    async fn tools_of_several(&self, connection: &dyn Connection) -> Result<ReadList, Error> {
        let mut problems = Problems::default();
        let kind = Kind::Tools;
        let why = match self.list(connection, kind, &mut problems).await {
            Ok(Ok(listed)) => return Ok(ReadList { kind, listed: Some(listed), problems }),
            Ok(Err(refusal)) => refusal_text(&refusal),
            Err(error @ (Error::Malformed { .. } | Error::Unreadable { .. })) => error.to_string(),
            Err(error) => return Err(error),
        };
        Ok(self.failed(kind, problems, &why))
    }

    /// Reads the lists of `kinds` beside each other. Only the loss of the connection is an error.
    async fn side_lists(&self, connection: &dyn Connection, kinds: &[Kind]) -> Result<Vec<ReadList>, Error> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let limit = SIDE_LIST_LIMIT.min(left.mul_f32(SIDE_LIST_SHARE));
        try_join_all(kinds.iter().map(|kind| self.side_list(connection, *kind, limit))).await
    }

    async fn side_list(
        &self,
        connection: &dyn Connection,
        kind: Kind,
        limit: Duration,
    ) -> Result<ReadList, Error> {
        let mut problems = Problems::default();
        let reading = self.list(connection, kind, &mut problems);
        let why = match timeout(limit, reading).await.unwrap_or(Err(Error::TimedOut { after: limit })) {
            Ok(Ok(listed)) => return Ok(ReadList { kind, listed: Some(listed), problems }),
            Ok(Err(refusal)) => refusal_text(&refusal),
            Err(error) if is_closed(connection, &error).await => return Err(error),
            Err(error) => error.to_string(),
        };
        Ok(self.failed(kind, problems, &why))
    }

    /// Reads the list of `kind`; the inner error is the server's refusal.
    async fn list(
        &self,
        connection: &dyn Connection,
        kind: Kind,
        problems: &mut Problems,
    ) -> Result<Result<Listed, ErrorObject>, Error> {
        let mut walk = Walk::new(connection.peer().era(), self.had_none(kind));
        let mut params = None;
        loop {
            let call = Call::of_gateway(kind.method(), params);
            let page = match connection.request(&call, &EventSender::none()).await?.collect().await? {
                Ok(page) => page,
                Err(refusal) if refusal.code() == code::METHOD_NOT_FOUND && walk.pages == 0 => {
                    // Some servers declare a feature and never registered its method. Resources without templates
                    // are common and not reported.
                    if kind != Kind::Templates {
                        let (member, method) = (kind.member(), kind.method());
                        problems.add(format!("it declares {member} but does not know {method}"));
                    }
                    return Ok(Ok(Listed::default()));
                }
                Err(refusal) => return Ok(Err(refusal)),
            };
            match walk.add(&page, kind.member())? {
                Step::Next(cursor) => params = Some(Raw::empty_object().with("cursor", &cursor)),
                Step::End => return Ok(Ok(walk.listed)),
                Step::Stop(why) => {
                    problems.add(format!("the list of {} was read in part only: {why}", kind.member()));
                    return Ok(Ok(walk.listed));
                }
            }
        }
    }

    /// Whether no item of `kind` is known from a previous reading.
    fn had_none(&self, kind: Kind) -> bool {
        self.before.as_ref().is_none_or(|before| match kind {
            Kind::Tools => before.tools.is_empty(),
            _ => before.items(kind).is_empty(),
        })
    }

    fn failed(&self, kind: Kind, mut problems: Problems, why: &str) -> ReadList {
        problems.add(failed_list(kind, self.before.is_some(), why));
        ReadList { kind, listed: None, problems }
    }
}

/// A list that was read, or why not.
#[derive(Clone)]
struct ReadList {
    kind: Kind,
    listed: Option<Listed>,
    problems: Problems,
}

impl ReadList {
    /// A list whose reading takes longer.
    fn unread(kind: Kind) -> Self {
        Self { kind, listed: None, problems: Problems::default() }
    }
}

/// Whether the connection on which a list failed with `error` is closed.
async fn is_closed(connection: &dyn Connection, error: &Error) -> bool {
    let can_be = matches!(error, Error::Lost { .. } | Error::Cut { .. } | Error::NotSent { .. });
    let limit = if can_be { CLOSING_TIME } else { Duration::ZERO };
    timeout(limit, connection.closed()).await.is_ok()
}

fn refusal_text(refusal: &ErrorObject) -> String {
    format!("it was refused: {} {}", refusal.code(), quoted(&refusal.message()))
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

/// The declarations of the server in a form that clients accept.
fn valid_peer(peer: &Peer, problems: &mut Problems) -> Peer {
    let mut valid = peer.clone();
    for (member, name, (repaired, repairs)) in [
        (&mut valid.info, "serverInfo", definition::check_info(&peer.info)),
        (&mut valid.capabilities, "capabilities", definition::check_capabilities(&peer.capabilities)),
    ] {
        if let Some(repaired) = repaired {
            problems.add(format!("its {name} were repaired: {repairs}"));
            *member = repaired;
        }
    }
    valid
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
    fn with(mut self, lists: Vec<ReadList>, mirrored: bool) -> Offer {
        for ReadList { kind, listed, problems } in lists {
            self.offer.has_failed_lists |= listed.is_none();
            self.problems.extend(problems);
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
        let result = if kind == Kind::Tools {
            let mut tools = usable_tools(items, (self.offer.peer.version, mirrored), &mut self.problems);
            let repaired = tools.iter_mut().filter_map(|tool| tool.repaired.as_mut()).collect();
            usable::charge(repaired, &self.server)
                .and_then(|()| {
                    let definitions = tools.iter_mut().map(|tool| &mut tool.definition).collect();
                    usable::compact(definitions, listed.bytes, &self.server)
                })
                .map(|()| self.offer.tools = tools)
        } else {
            let mut items = usable(kind, items, self.offer.peer.version, &mut self.problems);
            let (repaired, sent): (Vec<_>, Vec<_>) =
                items.iter_mut().partition(|(_, is_repaired)| *is_repaired);
            usable::charge(repaired.into_iter().map(|(item, _)| &mut item.definition).collect(), &self.server)
                .and_then(|()| {
                    let definitions = sent.into_iter().map(|(item, _)| &mut item.definition).collect();
                    usable::compact(definitions, listed.bytes, &self.server)
                })
                .map(|()| self.offer.put(kind, items.into_iter().map(|(item, _)| item).collect()))
        };
        if let Err(why) = result {
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
        let version = offer.peer.version;
        offer.tools = usable_tools(tools, (version, false), &mut problems);
        let resources = usable(Kind::Resources, resources, version, &mut problems);
        offer.resources = resources.into_iter().map(|(item, _)| item).collect();
        offer.caching[Kind::Tools as usize] = Some(caching);
        offer
    }
}

/// Converts a server's refusal to list into an error for operators. The breaker does not count it, because a refusal is
/// an answer.
pub(super) fn refused(refusal: &ErrorObject) -> Error {
    let text = quoted(&refusal.message());
    Error::Connect { reason: format!("it refused to list its tools: {} {text}", refusal.code()) }
}

/// The most problems that are listed one by one.
const MAX_PROBLEMS: usize = 16;
/// Characters of a server's text in a problem or an error.
const MAX_QUOTED: usize = 200;

/// A bounded list of problems.
#[derive(Debug, Clone, Default)]
struct Problems {
    texts: Vec<String>,
    more: usize,
}

impl Problems {
    fn add(&mut self, text: String) {
        if self.texts.len() < MAX_PROBLEMS {
            self.texts.push(text);
        } else {
            self.more += 1;
        }
    }

    fn extend(&mut self, others: Self) {
        others.texts.into_iter().for_each(|text| self.add(text));
        self.more += others.more;
    }

    fn into_texts(mut self) -> Vec<String> {
        if self.more > 0 {
            self.texts.push(format!("and {} more", self.more));
        }
        self.texts
    }
}

/// A server's text, escaped and shortened.
fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_QUOTED).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}

/// Most pages of one list.
const MAX_PAGES: usize = 1_000;
/// Most items of one list.
const MAX_ITEMS: usize = 10_000;
/// Most bytes of all pages of one list.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// One whole list.
///
/// Invariants: pages, items and bytes are limited. A list that does not end is cut and reported as a problem. Items
/// keep their bytes.
#[derive(Debug, Clone, Default)]
struct Listed {
    /// The items, as the server printed them.
    pub items: Vec<Raw>,
    /// How long its pages may be cached, or none if there is no such list.
    pub caching: Option<Caching>,
    /// Bytes of all its pages.
    pub bytes: usize,
}

/// State of one list that is being read.
struct Walk {
    era: Era,
    /// Whether an answer without the array is an empty list.
    may_lack_array: bool,
    listed: Listed,
    cursors: HashSet<Raw>,
    pages: usize,
}

enum Step {
    Next(Raw),
    End,
    Stop(&'static str),
}

impl Walk {
    fn new(era: Era, may_lack_array: bool) -> Self {
        Self { era, may_lack_array, listed: Listed::default(), cursors: HashSet::new(), pages: 0 }
    }

    fn add(&mut self, page: &Raw, member: &str) -> Result<Step, Error> {
        let items = page.get(member).filter(|items| !items.is_null());
        // Some languages print an empty list as null, or leave it out. Where items are known, this is a failure: another
        // server could claim their names otherwise.
        let is_nothing = self.may_lack_array && self.pages == 0 && items.is_none() && page.is_object();
        if !is_nothing && !items.as_ref().is_some_and(|items| items.bytes().starts_with(b"[")) {
            return Err(Error::Malformed { reason: format!("a page of the list has no array {member:?}") });
        }
        self.pages += 1;
        self.listed.bytes += page.bytes().len();
        let caching = Caching::of(page, self.era);
        self.listed.caching = Some(self.listed.caching.map_or(caching, |before| before.and(caching)));
        for item in items.iter().flat_map(Raw::elements) {
            if self.listed.items.len() == MAX_ITEMS {
                return Ok(Step::Stop("it has more than 10,000 items"));
            }
            self.listed.items.push(item);
        }
        if is_nothing {
            return Ok(Step::Stop("a page without the array counts as empty"));
        }
        Ok(self.after(page.get("nextCursor").filter(|cursor| !cursor.is_null())))
    }

    /// An empty string is a valid cursor. Only a missing cursor ends a list.
    fn after(&mut self, cursor: Option<Raw>) -> Step {
        let Some(cursor) = cursor else { return Step::End };
        if !cursor.bytes().starts_with(b"\"") {
            Step::Stop("a cursor is not a string")
        } else if self.pages >= MAX_PAGES {
            Step::Stop("it has more than 1,000 pages")
        } else if self.listed.bytes >= MAX_BYTES {
            Step::Stop("it is larger than 16 MiB")
        } else if self.cursors.insert(cursor.clone()) {
            Step::Next(cursor)
        } else {
            Step::Stop("a cursor came twice")
        }
    }
}

#[cfg(test)]
mod side_list_tests;
#[cfg(test)]
mod tests;
