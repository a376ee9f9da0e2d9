//! The differences between two snapshots that watchers see: the tools of servers, and servers that were disabled.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::snapshot::{Server, Snapshot};
use super::{EventContent, LiveEvents, SampledNames};
use json::Raw;
use runtime::telemetry::untrusted;
use upstream::State;

/// Most names in one list of an event.
const MOST_NAMES: usize = 16;

impl SampledNames {
    fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut listed = Self::default();
        for name in names {
            if listed.count < MOST_NAMES {
                listed.first.push(untrusted(name).to_string());
            }
            listed.count += 1;
        }
        listed
    }
}

impl LiveEvents {
    /// Records the servers that were disabled, and those whose tools or approvals differ between two snapshots.
    pub(in super::super) fn published(&self, before: &Snapshot, next: &Snapshot) {
        for server in next.servers() {
            let name = &server.upstream.config().name;
            let earlier = before.server(name).ok();
            // A disabled server is a new one that never had another state, so it reports no change.
            if !is_enabled(server) && earlier.is_some_and(is_enabled) {
                self.changed(name, EventContent::Server { state: State::Disabled.as_str(), reason: None });
            }
            if let Some(what) = change(earlier.map(Arc::as_ref), server) {
                self.changed(name, what);
            }
        }
    }
}

fn is_enabled(server: &Arc<Server>) -> bool {
    server.upstream.config().enabled
}

fn change(before: Option<&Server>, now: &Server) -> Option<EventContent> {
    let is_same = before.is_some_and(|before| {
        let offers = (&before.offer, &now.offer);
        Arc::ptr_eq(&before.trust, &now.trust)
            && matches!(offers, (Some(before), Some(now)) if Arc::ptr_eq(before, now))
    });
    if is_same {
        return None;
    }
    let (old, new) = (before.map(tools).unwrap_or_default(), tools(now));
    let trusted = |server: &Server| server.trust.changes().count();
    let was_approved = before.is_some_and(|before| trusted(before) != trusted(now));
    let added = SampledNames::of(new.keys().filter(|name| !old.contains_key(*name)).copied());
    let removed = SampledNames::of(old.keys().filter(|name| !new.contains_key(*name)).copied());
    let changed =
        new.iter().filter(|(name, now)| old.get(*name).is_some_and(|old| old.bytes() != now.bytes()));
    let changed = SampledNames::of(changed.map(|(name, _)| *name));
    let is_equal = added.count + removed.count + changed.count == 0 && !was_approved;
    if is_equal { None } else { Some(EventContent::Tools { count: new.len(), added, removed, changed }) }
}

/// Returns the definitions of the tools by name.
fn tools(server: &Server) -> BTreeMap<&str, &Raw> {
    let offer = server.offer.iter();
    offer.flat_map(|offer| &offer.tools).map(|tool| (&*tool.name, &tool.definition)).collect()
}
