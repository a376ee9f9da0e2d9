//! The items of a list that can be offered.
//!
//! Invariant: an item that is left out or repaired has a problem, and affects no other item.
//!
//! Not here: what a valid definition is (`protocol::definition`).

use std::collections::HashSet;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::{Problems, quoted};
use json::Raw;
use protocol::feature::{Item, Kind, Tool};
use protocol::message::MAX_DEPTH;
use protocol::output_schema::LegacyForm;
use protocol::uri::{MAX_URI, Template};
use protocol::{Version, definition};
use runtime::memory::{self, Account, Exhausted};
use runtime::telemetry::limit::Limit;

/// The longest name of a tool or prompt, in bytes. MCP recommends at most 128 characters.
const MAX_NAME: usize = 1_024;
/// The most resource templates of one server. A URI is compared with each template that has the same prefix.
const MAX_TEMPLATES: usize = 1_000;

/// The tools of a server of the revision `version` that can be offered.
pub(super) fn usable_tools(
    definitions: Vec<Raw>,
    (version, mirrored): (Version, bool),
    problems: &mut Problems,
) -> Vec<Tool> {
    let mut filter = OfferFilter::new(Kind::Tools, version, problems);
    let read = |definition: Raw| {
        let tool = filter.is_shallow(&definition).then(|| Tool::from_definition(definition))?;
        if let Some(Tool { name, header_params: Err(why), .. }) = tool.as_ref().filter(|_| mirrored) {
            filter.problems.add(format!("the tool {} was left out: {}", quoted(name), quoted(why)));
            return None;
        }
        let name = tool.as_ref().map(|tool| tool.name.as_str());
        let tool = if filter.is_new(name) && filter.fits(name) { tool } else { None }?;
        let (repaired, legacy) = filter.check(&tool.name, &tool.definition)?;
        Some(Tool { repaired, legacy, ..tool })
    };
    definitions.into_iter().filter_map(read).collect()
}

/// The items that can be offered, each with whether it was repaired.
pub(super) fn usable(
    kind: Kind,
    definitions: Vec<Raw>,
    version: Version,
    problems: &mut Problems,
) -> Vec<(Item, bool)> {
    let mut filter = OfferFilter::new(kind, version, problems);
    let read = |definition: Raw| {
        let item = filter.is_shallow(&definition).then(|| Item::from_definition(kind, definition))?;
        let key = item.as_ref().map(|item| item.key.as_str());
        let item = if filter.is_new(key) && filter.fits(key) { item } else { None }?;
        let (repaired, _) = filter.check(&item.key, &item.definition)?;
        let is_repaired = repaired.is_some();
        Some((Item { definition: repaired.unwrap_or(item.definition), ..item }, is_repaired))
    };
    let mut items: Vec<_> = definitions.into_iter().filter_map(read).collect();
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
    version: Version,
    seen: HashSet<String>,
    problems: &'a mut Problems,
}

impl<'a> OfferFilter<'a> {
    fn new(kind: Kind, version: Version, problems: &'a mut Problems) -> Self {
        Self { kind, version, seen: HashSet::new(), problems }
    }

    /// Checks the definition of the item with `key`. Returns the repaired one, if it needs repairs.
    fn check(&mut self, key: &str, definition: &Raw) -> Option<(Option<Raw>, LegacyForm)> {
        let (one, key_text) = (self.kind.singular(), quoted(key));
        let checked = match definition::check(self.kind, key, definition, self.version) {
            Ok(checked) => checked,
            Err(why) => {
                self.problems.add(format!("the {one} {key_text} was left out: {why}"));
                return None;
            }
        };
        if !checked.repairs.is_none() {
            self.problems.add(format!("the {one} {key_text} was repaired: {}", checked.repairs));
        }
        if let Some(flaw) = checked.schema_flaw {
            let what = "is offered, but its inputSchema is not valid";
            self.problems.add(format!("the {one} {key_text} {what}: {flaw}"));
        }
        Some((checked.repaired, checked.legacy))
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

/// The size of pages from which on their other content matters.
const LARGE: usize = 64 * 1024;

/// Copies `definitions` out of their pages, which have `page_bytes`, unless they are most of the pages. After an error
/// the definitions are unchanged.
///
/// A definition is a slice of its page, and one of 40 bytes keeps a page of 16 MiB in memory.
///
/// Invariant: the memory of a list is at most twice the size of its definitions, or less than [`LARGE`], and the size
/// of the repaired ones. All of it is charged to the server. Pages that are kept are charged since they were read.
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
mod compact_tests {
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
