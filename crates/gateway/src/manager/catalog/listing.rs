//! One merged list in pages. Each page is encoded once for each form.
//!
//! Invariants: a cursor is the exposed name of the last item of a page, so it stays valid when the
//! list changes elsewhere. Encoded pages live as long as the list, at most 6 for each page (two
//! choices of definitions, three forms). Readers share them without copies.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};

use crate::manager::tool_arguments::ToolArguments;
use json::Raw;
use json::canonical;
use protocol::caching::Caching;
use protocol::feature::Effect;
use protocol::headers::HeaderParam;
use protocol::{Closed, Version};

/// The server of an item, and the facts that a request for it needs.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    /// The server's name.
    pub server: Arc<str>,
    /// The item's name on the server: the name of a tool or prompt, a URI, or a template.
    pub subject: Arc<str>,
    /// The effect that a tool's annotations declare; other items are only read.
    pub effect: Effect,
    /// Parameters of a tool that the modern HTTP transport repeats in headers.
    pub header_params: Arc<[HeaderParam]>,
    /// Arguments that a view gives the tool.
    pub arguments: Option<Arc<ToolArguments>>,
    /// Whether clients that accept only objects as structured results see this tool's result wrapped
    /// in an object.
    pub wraps_result: bool,
    /// Whether its server runs the tool only as a task of 2025-11-25.
    pub needs_task: bool,
    /// Whether it is the tool of Switchyard with which a person logs in to the server. It is never called there.
    pub is_login: bool,
}

impl Route {
    /// Whether it is the login tool of one of `servers`.
    pub fn is_login_to(&self, servers: &[Arc<str>]) -> bool {
        self.is_login && servers.contains(&self.server)
    }
}

/// One item as clients see it.
#[derive(Debug, Clone)]
pub struct CatalogEntry {
    /// The name or URI under which it is offered.
    pub exposed: String,
    /// Its server and its name there.
    pub route: Arc<Route>,
    /// Its definition, under that name or URI.
    pub definition: Raw,
    /// Another definition for clients of the legacy revisions, if they need one.
    pub older: Option<Raw>,
}

/// The form of the result around the items of a page. The gateway writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The form of the legacy revisions.
    Legacy,
    /// The form of the modern revision.
    Modern,
    /// The modern form while some servers have not connected yet.
    Unsettled,
}

/// One page of a list.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    listing: &'a Listing,
    first: usize,
    /// Whether it is for clients of the legacy revisions.
    is_older: bool,
}

/// One merged list.
#[derive(Debug)]
pub struct Listing {
    entries: Vec<CatalogEntry>,
    /// The encoded pages, by number. Pages with other first items are not stored.
    pages: Vec<EncodedPage>,
    /// Whether any definition differs for older clients.
    has_older: bool,
    /// Number of a page, by the name of the last item before it.
    page_after: HashMap<String, usize>,
    per_page: usize,
    caching: Caching,
}

/// The encoded forms of one page, for newer and for older clients.
type EncodedPage = [[OnceLock<Closed>; 3]; 2];

impl Default for Listing {
    fn default() -> Self {
        Self::new(Vec::new(), 1, Caching::LEGACY)
    }
}

impl Listing {
    /// A list of `entries`, which caches may store as `caching` says.
    pub(super) fn new(entries: Vec<CatalogEntry>, per_page: usize, caching: Caching) -> Self {
        let per_page = per_page.max(1);
        let count = entries.len().div_ceil(per_page).max(1);
        let last_of = |number: usize| entries.get(number * per_page - 1);
        let page_after =
            (1..count).filter_map(|n| last_of(n).map(|last| (last.exposed.clone(), n))).collect();
        let has_older = entries.iter().any(|entry| entry.older.is_some());
        let pages = std::iter::repeat_with(EncodedPage::default).take(count).collect();
        Self { entries, pages, has_older, page_after, per_page, caching }
    }

    /// Every item, in list order.
    pub fn entries(&self) -> &[CatalogEntry] {
        &self.entries
    }

    /// How caches may store the list.
    pub const fn caching(&self) -> Caching {
        self.caching
    }

    /// Returns the page after the item `after`, or the first page, in the form for clients of
    /// `version`. Returns none if there is no such item.
    pub fn page(&self, after: Option<&str>, version: Version) -> Option<Page<'_>> {
        let is_older = self.has_older && !version.is_modern();
        let first = match after {
            None => 0,
            Some(key) => match self.page_after.get(key) {
                Some(number) => number * self.per_page,
                // The cursor comes from an earlier version of the list.
                None => self.entries.iter().position(|entry| entry.exposed == key)? + 1,
            },
        };
        Some(Page { listing: self, first, is_older })
    }

    /// Whether both list the same items; the order of members in an item does not matter.
    pub(super) fn lists_the_same(&self, other: &Self) -> bool {
        let is_same = |one: &Raw, two: &Raw| one == two || canonical::text(one) == canonical::text(two);
        let mut both = self.entries.iter().zip(&other.entries);
        self.entries.len() == other.entries.len()
            && both.all(|(one, two)| one.exposed == two.exposed && is_same(&one.definition, &two.definition))
    }
}

impl<'a> Page<'a> {
    fn entries(self) -> &'a [CatalogEntry] {
        let rest = self.listing.entries.get(self.first..).unwrap_or_default();
        &rest[..rest.len().min(self.listing.per_page)]
    }

    /// Prints the JSON array of its definitions.
    pub fn items(self) -> Raw {
        self.items_except(|_| false)
    }

    /// Prints the JSON array of the definitions of its items except for the hidden ones.
    pub fn items_except(self, is_hidden: impl Fn(&Route) -> bool) -> Raw {
        let shown = self.entries().iter().filter(|entry| !is_hidden(&entry.route));
        array(shown.map(|entry| self.definition(entry)))
    }

    fn definition(self, entry: &CatalogEntry) -> &Raw {
        match &entry.older {
            Some(older) if self.is_older => older,
            _ => &entry.definition,
        }
    }

    /// Returns the name of the last item of this page, if another page follows.
    pub fn next(self) -> Option<&'a str> {
        let part = self.entries();
        let is_last = self.first + part.len() >= self.listing.entries.len();
        part.last().filter(|_| !is_last).map(|last| last.exposed.as_str())
    }

    /// Returns the page in `form`, which `write` prints the first time. A page that begins at an
    /// unusual item, because the list changed since the page before, is encoded each time.
    pub fn written(self, form: Form, write: impl FnOnce(Self) -> Raw) -> Closed {
        let write = || Closed::new(&write(self));
        let number = self.first / self.listing.per_page;
        match self.listing.pages.get(number) {
            Some(page) if self.first == number * self.listing.per_page => {
                page[usize::from(self.is_older)][form as usize].get_or_init(write).clone()
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
