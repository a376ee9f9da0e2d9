//! Converts URIs in results from the server's URI to the one for the client.
//!
//! The two differ only if several servers have that URI; all other bytes stay, and with a single server nothing
//! is searched. It converts links and embedded resources in the content of tools and prompts, and the URIs of
//! read resources.

use std::ops::ControlFlow;

use crate::manager::catalog::LinkBudget;
use crate::manager::{Scope, Snapshot};
use json::Raw;

/// Limit of converted blocks of one result. Links after them keep the URI of their server, which is refused as
/// ambiguous if another server has it too.
const MAX_BLOCKS: usize = 10_000;

/// Converts a result of a tool or a prompt of `server`, so that its references lead back to that server.
pub(super) fn followed(snapshot: &Snapshot, scope: &Scope, server: &str, result: Raw) -> Raw {
    if !snapshot.can_clash(scope) {
        return result;
    }
    let messages = result.get("messages");
    let messages = messages.iter().flat_map(Raw::elements).take(MAX_BLOCKS);
    let contents = messages.filter_map(|message| message.get("content"));
    let (mut changes, mut budget, mut left) = (Vec::new(), LinkBudget::default(), MAX_BLOCKS);
    let mut follow = |block: &Raw| {
        left -= 1;
        let exposed = uri_of(block).and_then(|uri| {
            let exposed = snapshot.exposed_uri(scope, (server, &uri.read::<String>().ok()?), &mut budget)?;
            Some((uri, Raw::of(&exposed)))
        });
        changes.extend(exposed);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    for content in contents.chain(result.get("content")) {
        // The blocks are not collected in a list: there may be millions.
        let done = if content.is_object() {
            follow(&content)
        } else {
            content.elements().try_for_each(|block| follow(&block))
        };
        if done.is_break() {
            break;
        }
    }
    result.replacing(&changes)
}

/// Returns the URI in a block that links to a resource, or embeds one.
fn uri_of(block: &Raw) -> Option<Raw> {
    match block.get_as::<String>("type")?.as_str() {
        "resource_link" => block.get("uri"),
        "resource" => block.get("resource")?.get("uri"),
        _ => None,
    }
}

/// Replaces the server's URI in a read resource by the one that the client requested.
pub(super) fn of_contents(
    snapshot: &Snapshot,
    scope: &Scope,
    (server, known, requested): (&str, &str, &str),
    result: &Raw,
) -> Raw {
    if known == requested && !snapshot.can_clash(scope) {
        return result.clone();
    }
    let (contents, mut budget) = (result.get("contents"), LinkBudget::default());
    let changes: Vec<(Raw, Raw)> = contents
        .iter()
        .flat_map(Raw::elements)
        .take(MAX_BLOCKS)
        .filter_map(|content| content.get("uri"))
        .filter_map(|uri| {
            let text: String = uri.read().ok()?;
            if text == known {
                return (known != requested).then(|| (uri, Raw::of(requested)));
            }
            Some((uri, Raw::of(&snapshot.exposed_uri(scope, (server, &text), &mut budget)?)))
        })
        .collect();
    result.replacing(&changes)
}
