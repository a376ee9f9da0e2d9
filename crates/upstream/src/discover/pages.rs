//! One list of a server, page by page.
//!
//! Invariants: pages, items and bytes are limited. A list that does not end is cut and reported as a problem.
//! Items keep their bytes.

use std::collections::HashSet;

use super::problems::Problems;
use crate::connection::{Call, Connection, EventSender};
use crate::error::Error;
use json::Raw;
use protocol::caching::Caching;
use protocol::error::code;
use protocol::feature::Kind;
use protocol::{Era, ErrorObject};

/// Most pages of one list.
const MAX_PAGES: usize = 1_000;
/// Most items of one list.
const MAX_ITEMS: usize = 10_000;
/// Most bytes of all pages of one list.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// One whole list.
#[derive(Debug, Clone, Default)]
pub(super) struct Listed {
    /// The items, as the server printed them.
    pub items: Vec<Raw>,
    /// How long its pages may be cached, or none if there is no such list.
    pub caching: Option<Caching>,
    /// Bytes of all its pages.
    pub bytes: usize,
}

/// Reads the list of `kind`; the inner error is the server's refusal.
pub(super) async fn read(
    connection: &dyn Connection,
    kind: Kind,
    problems: &mut Problems,
) -> Result<Result<Listed, ErrorObject>, Error> {
    let mut walk = Walk::new(connection.peer().era());
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

/// State of one list that is being read.
struct Walk {
    era: Era,
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
    fn new(era: Era) -> Self {
        Self { era, listed: Listed::default(), cursors: HashSet::new(), pages: 0 }
    }

    fn add(&mut self, page: &Raw, member: &str) -> Result<Step, Error> {
        let items = page.get(member).filter(|items| items.bytes().starts_with(b"["));
        let items = items.ok_or_else(|| Error::Malformed {
            reason: format!("a page of the list has no array {member:?}"),
        })?;
        self.pages += 1;
        self.listed.bytes += page.bytes().len();
        let caching = Caching::of(page, self.era);
        self.listed.caching = Some(self.listed.caching.map_or(caching, |before| before.and(caching)));
        for item in items.elements() {
            if self.listed.items.len() == MAX_ITEMS {
                return Ok(Step::Stop("it has more than 10,000 items"));
            }
            self.listed.items.push(item);
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
