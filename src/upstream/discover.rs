//! Reads everything a server offers, page by page.
//!
//! Invariants: bounded in pages, items and bytes; one connection from the first page to the last,
//! because a cursor may belong to a session; definitions keep their bytes. What is wrong with an
//! offer is told in it and costs only the part that is wrong.
//!
//! Not here: when to read it (`supervise`), the names clients see (`manager`). Resources and prompts
//! join as further members of [`Offer`], read by the same `pages`.

use std::collections::HashSet;

use futures_util::future::BoxFuture;

use super::attempt::Work;
use super::connection::{Call, Connection, Outlet};
use super::error::Error;
use super::retry::Kind;
use crate::protocol::error::code;
use crate::protocol::feature::Tool;
use crate::protocol::lifecycle::Peer;
use crate::protocol::message::MAX_DEPTH;
use crate::protocol::{ErrorObject, Raw, method};

/// Pages of one list.
const MAX_PAGES: usize = 1_000;
/// Items of one list.
const MAX_ITEMS: usize = 10_000;
/// Bytes of all pages of one list.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Problems that are told one by one.
const MAX_PROBLEMS: usize = 16;
/// Characters of a server's own text in a problem or an error.
const MAX_QUOTED: usize = 200;

/// What one server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What it said of itself.
    pub peer: Peer,
    /// Its tools in its order, each name once.
    pub tools: Vec<Tool>,
    /// What is wrong with it, for operators: dropped tools, lists that did not end.
    pub problems: Vec<String>,
}

/// Reads the offer; the inner error is the server's refusal to list.
pub(super) struct Discovery {
    /// Whether parameters are mirrored into headers (modern Streamable HTTP), so that tools whose
    /// annotation of them is invalid cannot be called.
    pub mirrors_parameters: bool,
}

impl Work for Discovery {
    type Output = Result<Offer, ErrorObject>;

    fn name(&self) -> &'static str {
        "discovery"
    }

    fn kind(&self) -> Kind {
        Kind::Read
    }

    fn on<'a>(&'a self, connection: &'a dyn Connection) -> BoxFuture<'a, Result<Self::Output, Error>> {
        Box::pin(self.read(connection))
    }
}

impl Discovery {
    async fn read(&self, connection: &dyn Connection) -> Result<Result<Offer, ErrorObject>, Error> {
        let peer = connection.peer().clone();
        let mut problems = Problems::default();
        let definitions = if peer.offers("tools") {
            match pages(connection, method::TOOLS_LIST, "tools", &mut problems).await? {
                Ok(definitions) => definitions,
                Err(refusal) => return Ok(Err(refusal)),
            }
        } else {
            Vec::new()
        };
        let mirrored = self.mirrors_parameters && peer.version.is_modern();
        let tools = usable_tools(definitions, mirrored, &mut problems);
        Ok(Ok(Offer { peer, tools, problems: problems.into_texts() }))
    }
}

/// The refusal of a server to list, as a failure of ours to report. The breaker is not told: to
/// refuse is to answer.
pub(super) fn refused(refusal: &ErrorObject) -> Error {
    let said = quoted(&refusal.message());
    Error::Malformed { reason: format!("it refused to list its tools: {} {said}", refusal.code()) }
}

fn usable_tools(definitions: Vec<Raw>, mirrored: bool, problems: &mut Problems) -> Vec<Tool> {
    let (mut tools, mut names) = (Vec::with_capacity(definitions.len()), HashSet::new());
    for definition in definitions {
        // Clients and we walk definitions recursively; nesting without end would end somebody's stack.
        let depth = definition.depth();
        if depth > MAX_DEPTH {
            problems.add(format!("a tool whose definition is nested {depth} levels deep was left out"));
            continue;
        }
        let Some(tool) = Tool::from_definition(definition) else {
            problems.add("a tool without a name was left out".into());
            continue;
        };
        match &tool.header_params {
            Err(why) if mirrored => {
                problems.add(format!("the tool {} was left out: {}", quoted(&tool.name), quoted(why)));
            }
            _ if !names.insert(tool.name.clone()) => {
                problems.add(format!("the tool {} stands twice, the first one counts", quoted(&tool.name)));
            }
            _ => tools.push(tool),
        }
    }
    tools
}

/// All items of the list that `method` pages through, each page holding some of them in `member`.
async fn pages(
    connection: &dyn Connection,
    method: &str,
    member: &str,
    problems: &mut Problems,
) -> Result<Result<Vec<Raw>, ErrorObject>, Error> {
    let mut walk = Walk::default();
    let mut params = None;
    loop {
        let call = Call::of_gateway(method, params);
        let page = match connection.request(&call, &Outlet::none()).await? {
            Ok(page) => page,
            // Declared, and yet not there: some servers declare what they never registered.
            Err(refusal) if refusal.code() == code::METHOD_NOT_FOUND && walk.pages == 0 => {
                problems.add(format!("it declares {member} but does not know {method}"));
                return Ok(Ok(Vec::new()));
            }
            Err(refusal) => return Ok(Err(refusal)),
        };
        match walk.add(&page, member)? {
            Step::Next(cursor) => params = Some(Raw::empty_object().with("cursor", &cursor)),
            Step::End => return Ok(Ok(walk.items)),
            Step::Stop(why) => {
                problems.add(format!("the list of {member} was read in part only: {why}"));
                return Ok(Ok(walk.items));
            }
        }
    }
}

/// What was seen of one list so far.
#[derive(Default)]
struct Walk {
    items: Vec<Raw>,
    cursors: HashSet<Raw>,
    pages: usize,
    bytes: usize,
}

enum Step {
    Next(Raw),
    End,
    Stop(&'static str),
}

impl Walk {
    fn add(&mut self, page: &Raw, member: &str) -> Result<Step, Error> {
        let items = page.get(member).filter(|items| items.bytes().starts_with(b"["));
        let items = items.ok_or_else(|| Error::Malformed {
            reason: format!("a page of the list has no array {member:?}"),
        })?;
        self.pages += 1;
        self.bytes += page.bytes().len();
        for item in items.elements() {
            if self.items.len() == MAX_ITEMS {
                return Ok(Step::Stop("it has more than 10,000 items"));
            }
            self.items.push(item);
        }
        Ok(self.after(page.get("nextCursor").filter(|cursor| !cursor.is_null())))
    }

    /// An empty string is a cursor like any other; only absence ends a list.
    fn after(&mut self, cursor: Option<Raw>) -> Step {
        let Some(cursor) = cursor else { return Step::End };
        if !cursor.bytes().starts_with(b"\"") {
            Step::Stop("a cursor is not a string")
        } else if self.pages >= MAX_PAGES {
            Step::Stop("it has more than 1,000 pages")
        } else if self.bytes >= MAX_BYTES {
            Step::Stop("it is larger than 16 MiB")
        } else if self.cursors.insert(cursor.clone()) {
            Step::Next(cursor)
        } else {
            Step::Stop("a cursor came twice")
        }
    }
}

/// A bounded list of what is wrong.
#[derive(Default)]
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

    fn into_texts(mut self) -> Vec<String> {
        if self.more > 0 {
            self.texts.push(format!("and {} more", self.more));
        }
        self.texts
    }
}

/// A server's own text, escaped and shortened.
fn quoted(text: &str) -> String {
    let short: String = text.chars().take(MAX_QUOTED).collect();
    format!("{short:?}")
}

#[cfg(test)]
#[path = "discover_tests.rs"]
mod tests;
