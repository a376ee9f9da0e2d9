//! The list of skills of all servers.
//!
//! Invariant: the URIs of an entry have one form, because clients resolve paths in its directory. Not here: which skills
//! clash (`clashes`), and which are blocked (`trust`).

use super::listing::{CatalogEntry, Listing};
use super::{Part, caching, read_only};
use protocol::feature::{Item, Kind};
use protocol::skill::with_uris;
use protocol::uri::with_owner;

/// The skills of all parts that are not blocked, each in its exposed form.
pub(super) fn listing(parts: &[Part<'_>], are_clashing: &[bool], per_page: usize) -> Listing {
    let offered = parts.iter().flat_map(|part| part.items(Kind::Skills).map(move |skill| (part, skill)));
    let open = offered.zip(are_clashing).filter(|((part, skill), _)| part.trust.held(&skill.key).is_none());
    let entry = |((part, skill), clashes): ((&Part<'_>, &Item), &bool)| {
        let exposed = |uri: &str| clashes.then(|| with_owner(uri, part.server));
        let entry = read_only(Kind::Skills, &skill.key, part.server, skill);
        CatalogEntry {
            exposed: exposed(&skill.key).unwrap_or(entry.exposed),
            definition: with_uris(&skill.definition, exposed),
            ..entry
        }
    };
    Listing::new(open.map(entry).collect(), per_page, caching(parts, Kind::Skills))
}
