//! One merged list, printed in advance, page by page.
//!
//! Invariant: a cursor is the exposed key of the item behind which to go on, so it survives changes
//! elsewhere in the list.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::protocol::caching::Caching;
use crate::protocol::feature::Effect;
use crate::protocol::headers::HeaderParam;
use crate::protocol::{Raw, Version};

/// Where something lives, and what must be known to ask for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    /// The server's name.
    pub server: Arc<str>,
    /// What the server calls it: the name of a tool or prompt, a URI, a template.
    pub subject: String,
    /// What the annotations of a tool promise; the rest is only read.
    pub effect: Effect,
    /// What modern HTTP mirrors into headers, for a tool.
    pub header_params: Arc<[HeaderParam]>,
    /// Whether a client that knows only objects as structured results was told that this tool's are
    /// wrapped into one.
    pub wraps_result: bool,
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

/// One page of a list, printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The JSON array of this page's definitions.
    pub items: Raw,
    /// The exposed key behind which the next page begins; none on the last page.
    pub next: Option<String>,
}

/// One merged list.
#[derive(Debug)]
pub struct Listing {
    entries: Vec<Entry>,
    pages: Vec<Page>,
    /// The pages for older clients, where one of them is another one.
    older_pages: Option<Vec<Page>>,
    /// Page number by the key the page before it ends with.
    page_after: HashMap<String, usize>,
    per_page: usize,
    caching: Caching,
}

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
        let print = |version| -> Vec<Page> {
            (0..count).map(|number| page(&entries[number * per_page..], per_page, version)).collect()
        };
        let pages = print(Version::NEWEST_MODERN);
        let older_pages = entries.iter().any(|entry| entry.older.is_some());
        let older_pages = older_pages.then(|| print(Version::NEWEST_LEGACY));
        let page_after =
            pages.iter().enumerate().filter_map(|(i, page)| Some((page.next.clone()?, i + 1))).collect();
        Self { entries, pages, older_pages, page_after, per_page, caching }
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
    /// `version` can read it; none when no item is called that. Pages that begin elsewhere than
    /// usual, because the list has changed since the page before, are printed when they are asked
    /// for.
    pub fn page(&self, after: Option<&str>, version: Version) -> Option<Page> {
        let older = self.older_pages.as_ref().filter(|_| !version.has_any_output());
        let pages = older.unwrap_or(&self.pages);
        let Some(key) = after else { return pages.first().cloned() };
        if let Some(&number) = self.page_after.get(key) {
            return pages.get(number).cloned();
        }
        let last = self.entries.iter().position(|entry| entry.exposed == key)?;
        Some(page(&self.entries[last + 1..], self.per_page, version))
    }

    /// Whether both list the same bytes.
    pub(super) fn lists_the_same(&self, other: &Self) -> bool {
        self.pages == other.pages
    }
}

/// The page of the first `size` of `entries`.
fn page(entries: &[Entry], size: usize, version: Version) -> Page {
    let part = &entries[..entries.len().min(size)];
    let next = part.last().filter(|_| part.len() < entries.len()).map(|last| last.exposed.clone());
    let definitions = part.iter().map(|entry| match &entry.older {
        Some(older) if !version.has_any_output() => older,
        _ => &entry.definition,
    });
    Page { items: array(definitions), next }
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
