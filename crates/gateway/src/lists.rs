//! `tools/list`, `prompts/list`, `resources/list` and `resources/templates/list`: one page of the items
//! that the caller sees.
//!
//! The catalog stores the printed pages, so a request costs a lookup and no copy. Invariant: a cursor
//! names the last item of a page, so it stays valid when the list changes elsewhere, and it means the same
//! in every process.
//!
//! Cursors are not sealed (`auth/seal`), because a page is printed once for all principals. The item that
//! a cursor names must be in the list that its caller sees; all other cursors are refused. An invented
//! cursor that is accepted could have been a real one, and gives access to that list only.

use super::caller::Caller;
use super::{absence, era, error};
use crate::manager::catalog::Page;
use crate::manager::{Manager, Snapshot};
use json::Raw;
use protocol::feature::Kind;
use protocol::{Closed, ErrorObject, Reply};
use upstream::EventSender;

/// Prefix of a cursor, before the key.
const AFTER: &str = "after:";

/// Answers with one page of the list of `kind`.
pub(super) async fn list(
    manager: &Manager,
    caller: &Caller,
    (kind, params): (Kind, Option<&Raw>),
    event_sender: &EventSender,
) -> Reply {
    manager.listable(&caller.scope).await;
    manager.refresh(caller.viewer()).await;
    let snapshot = manager.seen_by(Some(&caller.affinity));
    if let Some(line) = absence::line(&snapshot, caller) {
        event_sender.deliver(line).await;
    }
    Ok(page(manager, &snapshot, caller, (kind, params))?.result())
}

/// Answers a list at once, if no server must be waited for and no notification is due; else none.
pub(super) fn at_once(
    manager: &Manager,
    caller: &Caller,
    kind: Kind,
    params: Option<&Raw>,
) -> Option<Result<Closed, ErrorObject>> {
    let snapshot = manager.seen_by(Some(&caller.affinity));
    let is_plain = snapshot.listable_at(&caller.scope).is_none()
        && !absence::is_due(&snapshot, caller)
        && !manager.is_stale(caller.viewer());
    is_plain.then(|| page(manager, &snapshot, caller, (kind, params)))
}

fn page(
    manager: &Manager,
    snapshot: &Snapshot,
    caller: &Caller,
    (kind, params): (Kind, Option<&Raw>),
) -> Result<Closed, ErrorObject> {
    let catalog =
        snapshot.catalog(&caller.scope).map_err(|error| error::object(&error, caller.version.era()))?;
    if let Some(mailbox) = &caller.mailbox {
        mailbox.note_listed();
    }
    let shows_apps = kind == Kind::Tools && caller.shows_apps();
    let listing = if shows_apps { catalog.listing_for_apps(kind) } else { catalog.listing(kind) };
    let cursor = cursor(params);
    let after = cursor.as_ref().map(read_cursor).transpose()?;
    let bad_cursor = || error::bad_cursor(cursor.as_ref().unwrap_or(&Raw::of("")));
    let page = listing.page(after.as_deref(), caller.version).ok_or_else(bad_cursor)?;
    let is_settled = snapshot.is_settled(&caller.scope);
    let form = era::list_form(caller.version, is_settled);
    let hidden = match kind {
        Kind::Tools => manager.hidden_logins(snapshot, &caller.scope, &caller.principal),
        _ => Vec::new(),
    };
    if !hidden.is_empty() {
        let items = page.items_except(|route| route.is_login_to(&hidden));
        return Ok(Closed::new(&era::list(form, &result(kind, page, &items), listing.caching())));
    }
    Ok(page.written(form, |page| era::list(form, &result(kind, page, &page.items()), listing.caching())))
}

/// `{"tools":[…],"nextCursor":…}`.
fn result(kind: Kind, page: Page<'_>, items: &Raw) -> Raw {
    let next = page.next().map(write_cursor);
    Raw::empty_object().edit(&[(kind.member(), Some(items)), ("nextCursor", next.as_ref())])
}

/// The cursor in the parameters of a list. Some clients write an empty one for the beginning.
pub(crate) fn cursor(params: Option<&Raw>) -> Option<Raw> {
    params?.get("cursor").filter(|cursor| !cursor.is_null() && cursor.as_str() != "\"\"")
}

fn write_cursor(after: &str) -> Raw {
    Raw::of(&format!("{AFTER}{after}"))
}

fn read_cursor(cursor: &Raw) -> Result<String, ErrorObject> {
    let text = cursor.read::<String>().ok();
    let after = text.as_deref().and_then(|text| text.strip_prefix(AFTER));
    after.map(str::to_owned).ok_or_else(|| error::bad_cursor(cursor))
}
