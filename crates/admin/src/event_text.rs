//! The text of live events: one piece of an event stream.
//!
//! Invariants: the text of a call is what `event_data` describes. A viewer without the role *superuser* sees no principal,
//! client, request, arguments or errors of attempts of calls that are not its own.
//!
//! Not here: printing a call (`gateway::manager::live_events::CallText`).

use bytes::Bytes;

use super::event_data::{data, gap};
use auth::Principal;
use gateway::manager::live_events::{CallText, EventContent, EventKind, LiveEvent};
use net::sse::Event;

/// Room for the first events.
const BYTES: usize = 16 * 1024;

/// One piece of a stream, for one viewer.
pub(super) struct EventChunk<'v> {
    text: CallText,
    viewer: &'v Principal,
}

impl<'v> EventChunk<'v> {
    pub(super) fn new(viewer: &'v Principal) -> Self {
        Self { text: CallText::with_capacity(BYTES), viewer }
    }

    /// Appends an event.
    pub(super) fn event(&mut self, event: &LiveEvent) {
        if let EventKind::Other(other) = &event.what {
            self.framed(event.number, name(event), data(other, event.at, self.viewer));
        }
        let Some((call, end)) = event.call() else { return };
        let is_shown = self.viewer.may_see(call.principal.as_deref());
        self.text.put("id: ");
        self.text.json(&event.number);
        self.text.put(match end {
            None => "\nevent: call_started\ndata: {",
            Some(_) => "\nevent: call_ended\ndata: {",
        });
        self.text.call(event.at, call, end, is_shown);
        self.text.put("}\n\n");
    }

    /// Appends the event that some were missed, of which `last` is the number of the last one.
    pub(super) fn gap(&mut self, missed: Option<u64>, last: u64) {
        self.framed(last, "gap", gap(missed));
    }

    pub(super) fn len(&self) -> usize {
        self.text.bytes().len()
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.text.into_bytes().into()
    }

    fn framed(&mut self, number: u64, name: &'static str, data: Bytes) {
        let id = Some(number.to_string().into());
        let event = Event { id, name: Bytes::from_static(name.as_bytes()), ..Event::of(data) };
        self.text.put(event.encode());
    }
}

/// The name of an event.
pub(super) fn name(event: &LiveEvent) -> &'static str {
    match &event.what {
        EventKind::CallStarted(_) => "call_started",
        EventKind::CallEnded(_) => "call_ended",
        EventKind::Other(other) => match other.content {
            EventContent::Server { .. } => "server_changed",
            EventContent::Breaker { .. } => "breaker_changed",
            EventContent::Tools { .. } => "tools_changed",
            EventContent::Action { .. } => "action",
        },
    }
}

#[cfg(test)]
#[path = "event_text_tests.rs"]
mod tests;
