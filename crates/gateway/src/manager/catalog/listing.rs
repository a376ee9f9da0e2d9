//! One merged list, page by page, each printed once in every form that is asked for.
//!
//! Invariants: a cursor is the exposed key of the item behind which to go on, so it survives changes
//! elsewhere in the list; what was printed is kept as long as the list, at most 6 times for each page
//! (two choices of definitions, three forms), and handed out without a copy.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};

use json::Raw;
use json::canonical;
use protocol::caching::Caching;
use protocol::feature::Effect;
use protocol::headers::HeaderParam;
use protocol::{Closed, Version};

/// Where something lives, and what must be known to ask for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    /// The server's name.
    pub server: Arc<str>,
    /// What the server calls it: the name of a tool or prompt, a URI, a template.
    pub subject: Arc<str>,
    /// What the annotations of a tool promise; the rest is only read.
    pub effect: Effect,
    /// What modern HTTP mirrors into headers, for a tool.
    pub header_params: Arc<[HeaderParam]>,
    /// Whether a client that knows only objects as structured results was told that this tool's are
    /// wrapped into one.
    pub wraps_result: bool,
    /// Whether its server runs it only as a task of 2025-11-25.
    pub needs_task: bool,
}

/// One item as clients see it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The name or URI it is offered under.
    pub exposed: String,
    /// Where it lives.
    pub route: Arc<Route>,
    /// Its definition, under that name or URI.
    pub definition: Raw,
    /// The same for clients that know only objects as structured results, where that is another one.
    pub older: Option<Raw>,
}

/// What stands around the items of a page; how, the gateway knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As the legacy revisions have it.
    Legacy,
    /// As the modern one has it.
    Modern,
    /// The same while servers are still connecting for the first time.
    Unsettled,
}

/// One page of a list.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    listing: &'a Listing,
    first: usize,
    /// Whether it is for clients that know only objects as structured results.
    is_older: bool,
}

/// One merged list.
#[derive(Debug)]
pub struct Listing {
    entries: Vec<Entry>,
    /// What was printed of each page that begins where pages usually do.
    printed: Vec<Printed>,
    /// Whether a definition is another one for older clients.
    has_older: bool,
    /// Page number by the key the page before it ends with.
    page_after: HashMap<String, usize>,
    per_page: usize,
    caching: Caching,
}

/// The forms of one page, for newer and for older clients.
type Printed = [[OnceLock<Closed>; 3]; 2];

impl Default for Listing {
    fn default() -> Self {
        Self::new(Vec::new(), 1, Caching::LEGACY)
    }
}

impl Listing {
    /// The list of `entries`, whose parts all allow `caching`.
    pub(super) fn new(entries: Vec<Entry>, per_page: usize, caching: Caching) -> Self {
        let per_page = per_page.max(1);
        let count = entries.len().div_ceil(per_page).max(1);
        let last_of = |number: usize| entries.get(number * per_page - 1);
        let page_after =
            (1..count).filter_map(|n| last_of(n).map(|last| (last.exposed.clone(), n))).collect();
        let has_older = entries.iter().any(|entry| entry.older.is_some());
        let printed = std::iter::repeat_with(Printed::default).take(count).collect();
        Self { entries, printed, has_older, page_after, per_page, caching }
    }

    /// Every item, in list order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What its parts allow caches to keep.
    pub const fn caching(&self) -> Caching {
        self.caching
    }

    /// The page that begins behind the item called `after`, or the first one, as a client of
    /// `version` can read it; none when no item is called that.
    pub fn page(&self, after: Option<&str>, version: Version) -> Option<Page<'_>> {
        let is_older = self.has_older && !version.has_any_output();
        let first = match after {
            None => 0,
            Some(key) => match self.page_after.get(key) {
                Some(number) => number * self.per_page,
                // The list has changed since the page before.
                None => self.entries.iter().position(|entry| entry.exposed == key)? + 1,
            },
        };
        Some(Page { listing: self, first, is_older })
    }

    /// Whether both list the same, in whatever order the members of an item are.
    pub(super) fn lists_the_same(&self, other: &Self) -> bool {
        let is_same = |one: &Raw, two: &Raw| one == two || canonical::text(one) == canonical::text(two);
        let mut both = self.entries.iter().zip(&other.entries);
        self.entries.len() == other.entries.len()
            && both.all(|(one, two)| one.exposed == two.exposed && is_same(&one.definition, &two.definition))
    }
}

impl<'a> Page<'a> {
    fn entries(self) -> &'a [Entry] {
        let rest = self.listing.entries.get(self.first..).unwrap_or_default();
        &rest[..rest.len().min(self.listing.per_page)]
    }

    /// The JSON array of its definitions, printed now.
    pub fn items(self) -> Raw {
        array(self.entries().iter().map(|entry| match &entry.older {
            Some(older) if self.is_older => older,
            _ => &entry.definition,
        }))
    }

    /// The exposed key behind which the next page begins; none on the last page.
    pub fn next(self) -> Option<&'a str> {
        let part = self.entries();
        let is_last = self.first + part.len() >= self.listing.entries.len();
        part.last().filter(|_| !is_last).map(|last| last.exposed.as_str())
    }

    /// The page in `form`, as `write` made it the first time that it was asked for. Only a page that
    /// begins elsewhere than usual, because the list has changed since the page before, is written
    /// each time.
    pub fn written(self, form: Form, write: impl FnOnce(Self) -> Raw) -> Closed {
        let write = || Closed::new(&write(self));
        let number = self.first / self.listing.per_page;
        match self.listing.printed.get(number) {
            Some(printed) if self.first == number * self.listing.per_page => {
                printed[usize::from(self.is_older)][form as usize].get_or_init(write).clone()
            }
            _ => write(),
        }
    }
}

fn array<'a>(definitions: impl Iterator<Item = &'a Raw>) -> Raw {
    let mut out = BytesMut::from(&b"["[..]);
    for (index, definition) in definitions.enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        out.put_slice(definition.bytes());
    }
    out.put_u8(b']');
    let bytes: Bytes = out.freeze();
    Raw::parse(&bytes).unwrap_or_else(|_| Raw::of(&[(); 0]))
}
