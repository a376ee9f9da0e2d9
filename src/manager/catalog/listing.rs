//! One merged list, printed in advance, page by page.
//!
//! Invariant: a cursor is the exposed key of the item behind which to go on, so it survives changes
//! elsewhere in the list.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::protocol::Raw;
use crate::protocol::caching::Caching;
use crate::protocol::feature::Effect;
use crate::protocol::headers::HeaderParam;

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
        let pages: Vec<Page> = (0..count).map(|number| page(&entries, number * per_page, per_page)).collect();
        let page_after =
            pages.iter().enumerate().filter_map(|(i, page)| Some((page.next.clone()?, i + 1))).collect();
        Self { entries, pages, page_after, per_page, caching }
    }

    /// Every item, in list order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What its parts allow caches to keep.
    pub const fn caching(&self) -> Caching {
        self.caching
    }

    /// The page that begins behind the item called `after`, or the first one; none when no item is
    /// called that. Pages that begin elsewhere than usual, because the list has changed since the
    /// page before, are printed when they are asked for.
    pub fn page(&self, after: Option<&str>) -> Option<Page> {
        let Some(key) = after else { return self.pages.first().cloned() };
        if let Some(&number) = self.page_after.get(key) {
            return self.pages.get(number).cloned();
        }
        let last = self.entries.iter().position(|entry| entry.exposed == key)?;
        Some(page(&self.entries, last + 1, self.per_page))
    }

    /// Whether both list the same bytes.
    pub(super) fn lists_the_same(&self, other: &Self) -> bool {
        self.pages == other.pages
    }
}

/// The page of `size` entries that begins at `start`.
fn page(entries: &[Entry], start: usize, size: usize) -> Page {
    let end = entries.len().min(start + size);
    let part = &entries[start..end];
    let next = if end < entries.len() { part.last().map(|last| last.exposed.clone()) } else { None };
    Page { items: array(part), next }
}

fn array(entries: &[Entry]) -> Raw {
    let length: usize = entries.iter().map(|entry| entry.definition.bytes().len() + 1).sum();
    let mut out = BytesMut::with_capacity(length + 2);
    out.put_u8(b'[');
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        out.put_slice(entry.definition.bytes());
    }
    out.put_u8(b']');
    let bytes: Bytes = out.freeze();
    Raw::parse(&bytes).unwrap_or_else(|_| Raw::of(&[(); 0]))
}
