//! Releases the pages from which definitions were read.
//!
//! A definition is a slice of its page, and one of 40 bytes keeps a page of 16 MiB in memory.
//!
//! Invariant: the memory of a list is at most twice the size of its definitions, or less than [`LARGE`], and the size of
//! the repaired ones. All of it is charged to the server. Pages that are kept are charged since they were read.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use json::Raw;
use runtime::memory::{self, Account, Exhausted};

/// The size of pages from which on their other content matters.
const LARGE: usize = 64 * 1024;

/// Copies `definitions` out of their pages, which have `page_bytes`, unless they are most of the pages. After an error
/// the definitions are unchanged.
pub(super) fn compact(
    definitions: Vec<&mut Raw>,
    page_bytes: usize,
    server: &Arc<str>,
) -> Result<(), Exhausted> {
    let stored: usize = definitions.iter().map(|definition| definition.bytes().len()).sum();
    if page_bytes < LARGE || stored >= page_bytes / 2 {
        return Ok(());
    }
    charge(definitions, server)
}

/// Copies `definitions` into memory that is charged to `server`. After an error they are unchanged.
pub(crate) fn charge(definitions: Vec<&mut Raw>, server: &Arc<str>) -> Result<(), Exhausted> {
    let size = definitions.iter().map(|definition| definition.bytes().len()).sum();
    if size == 0 {
        return Ok(());
    }
    let mut copies = BytesMut::with_capacity(size);
    for definition in &definitions {
        copies.extend_from_slice(definition.bytes());
    }
    let account = || Account::Server(Arc::clone(server));
    let mut copies: Bytes = memory::hold(copies.freeze(), account, memory::ChargeKind::Answer)?;
    for definition in definitions {
        let copy = copies.split_to(definition.bytes().len());
        *definition = definition.moved_to(copy);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page with `count` definitions and `padding` bytes beside them.
    fn page(count: usize, padding: usize) -> (Raw, Vec<Raw>) {
        let items: Vec<_> =
            (0..count).map(|number| serde_json::json!({"name": number.to_string()})).collect();
        let page = Raw::of(&serde_json::json!({"pad": "p".repeat(padding), "tools": items}));
        let items = page.get("tools").map(|tools| tools.elements().collect()).unwrap_or_default();
        (page, items)
    }

    fn are_in(page: &Raw, items: &[Raw]) -> bool {
        let range = page.bytes().as_ptr_range();
        items.iter().any(|item| range.contains(&item.bytes().as_ptr()))
    }

    #[test]
    fn definitions_leave_a_page_that_is_much_larger_than_they_are() {
        for (count, padding, stay) in
            [(2, 16 << 20, false), (2, 1 << 10, true), (9_000, 100, true), (9_000, 1 << 20, false)]
        {
            let (page, mut items) = page(count, padding);
            let before = items.clone();
            let server = "compact".into();
            compact(items.iter_mut().collect(), page.bytes().len(), &server).expect("room");
            assert!(items == before && are_in(&page, &items) == stay, "{count} {padding}");
            let stored: usize = items.iter().map(|item| item.bytes().len()).sum();
            eprintln!(
                "a page of {} bytes: {stored} bytes of definitions, in the page: {stay}",
                page.bytes().len()
            );
        }
    }
}
