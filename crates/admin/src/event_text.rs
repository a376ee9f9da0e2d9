//! The text of live events: one piece of an event stream.
//!
//! Each call has two events, so those are written by hand: with `serde_json` they cost nine times as many instructions.
//! Invariants: the text of a call is what `event_data` describes. A viewer without the role *superuser* sees no principal,
//! client, request, arguments or errors of attempts of calls that are not its own.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::event_data::{data, gap, may_see};
use super::view::date;
use auth::Principal;
use gateway::manager::live_events::{CallEnd, EventContent, EventKind, LiveEvent, ToolCall};
use net::sse::Event;
use runtime::telemetry::RequestId;

/// Room for the first events.
const BYTES: usize = 16 * 1024;

/// One piece of a stream, for one viewer.
pub(super) struct EventChunk<'v> {
    text: Vec<u8>,
    viewer: &'v Principal,
    /// The last date that was written, and its second.
    date: Vec<u8>,
    second: u64,
}

impl<'v> EventChunk<'v> {
    pub(super) fn new(viewer: &'v Principal) -> Self {
        Self { text: Vec::with_capacity(BYTES), viewer, date: Vec::new(), second: 0 }
    }

    /// Appends an event.
    pub(super) fn event(&mut self, event: &LiveEvent) {
        if let EventKind::Other(other) = &event.what {
            self.framed(event.number, name(event), data(other, event.at, self.viewer));
        }
        let Some((call, end)) = event.call() else { return };
        let is_shown = may_see(self.viewer, call.principal.as_ref());
        self.put("id: ");
        self.json(&event.number);
        self.put(match end {
            None => "\nevent: call_started\ndata: {\"at\":\"",
            Some(_) => "\nevent: call_ended\ndata: {\"at\":\"",
        });
        self.date(event.at);
        self.call(call, is_shown);
        match end {
            None => self.put("}\n\n"),
            Some(end) => self.end(end, is_shown),
        }
    }

    /// Appends the event that some were missed, of which `last` is the number of the last one.
    pub(super) fn gap(&mut self, missed: Option<u64>, last: u64) {
        self.framed(last, "gap", gap(missed));
    }

    pub(super) const fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.text.into()
    }

    fn framed(&mut self, number: u64, name: &'static str, data: Bytes) {
        let id = Some(number.to_string().into());
        let event = Event { id, name: Bytes::from_static(name.as_bytes()), ..Event::of(data) };
        self.text.extend_from_slice(&event.encode());
    }

    /// Ends the date, and writes the members that both events of a call have, each after a comma.
    fn call(&mut self, call: &ToolCall, is_shown: bool) {
        self.put("\",\"server\":");
        self.string(&call.server);
        self.put(",\"call\":");
        self.json(&call.number);
        self.put(",\"tool\":");
        self.string(&call.tool);
        self.put(",\"principal\":");
        self.string_or_null(call.principal.as_deref().filter(|_| is_shown));
        self.put(",\"client\":");
        let client = call.client.as_deref().unwrap_or("REST");
        self.string_or_null(Some(client).filter(|name| is_shown && !name.is_empty()));
        match call.request_id.filter(|_| is_shown) {
            Some(id) => {
                self.put(",\"request_id\":\"");
                self.put(id.text(&mut [0; RequestId::TEXT_BYTES]));
                self.put("\"");
            }
            None => self.put(",\"request_id\":null"),
        }
        if let Some(arguments) = call.arguments.as_deref().filter(|_| is_shown) {
            self.put(",\"arguments\":");
            // Their beginning is a text if they were cut.
            self.json(&serde_json::from_str::<Value>(arguments).unwrap_or_else(|_| arguments.into()));
        }
    }

    fn end(&mut self, end: &CallEnd, is_shown: bool) {
        self.put(",\"outcome\":\"");
        self.put(end.outcome);
        self.put("\",\"code\":");
        self.string_or_null(end.code.map(|code| code.over_rest().as_str()));
        if let Some(error) = end.error.as_deref().filter(|_| is_shown) {
            self.put(",\"error\":");
            self.json(error);
        }
        self.put(",\"duration_ms\":");
        self.ms(end.duration);
        self.put(",\"attempts\":[");
        for (index, attempt) in end.attempts.iter().enumerate() {
            self.put(if index == 0 { "{\"attempt\":" } else { ",{\"attempt\":" });
            self.json(&(index + 1));
            self.put(match attempt.error {
                None => ",\"outcome\":\"answered\",\"duration_ms\":",
                Some(_) => ",\"outcome\":\"failed\",\"duration_ms\":",
            });
            self.ms(attempt.duration);
            self.put(",\"error\":");
            // An error may quote the call.
            self.string_or_null(attempt.error.as_deref().filter(|_| is_shown));
            self.put("}");
        }
        self.put("]}\n\n");
    }

    fn put(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    fn json(&mut self, value: &(impl Serialize + ?Sized)) {
        // Writing into memory does not fail, and the values have no maps with other keys than strings.
        let _ = serde_json::to_writer(&mut self.text, value);
    }

    fn string(&mut self, text: &str) {
        // Control characters and `"` are below, as are the space and `!`, which are rare in names.
        if text.bytes().all(|byte| byte > b'"' && byte != b'\\') {
            self.put("\"");
            self.put(text);
            self.put("\"");
        } else {
            self.json(&text);
        }
    }

    fn string_or_null(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.string(text),
            None => self.put("null"),
        }
    }

    /// Writes milliseconds as [`super::view::in_ms`] returns them.
    fn ms(&mut self, time: Duration) {
        let micros = (u64::from(time.subsec_nanos()) + 500) / 1000;
        let micros = time.as_secs().saturating_mul(1_000_000).saturating_add(micros);
        self.json(&(micros / 1000));
        self.put(".");
        let decimals = digits(micros % 1000);
        let count = match decimals {
            [_, b'0', b'0'] => 1,
            [_, _, b'0'] => 2,
            _ => 3,
        };
        self.text.extend_from_slice(&decimals[..count]);
    }

    /// Writes a date as [`date`] formats it.
    fn date(&mut self, at: SystemTime) {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        match self.date.last_chunk_mut() {
            Some([a, b, c, _]) if self.second == since.as_secs() => {
                [*a, *b, *c] = digits(since.subsec_millis().into());
            }
            _ => (self.date, self.second) = (date(at).into_bytes(), since.as_secs()),
        }
        self.text.extend_from_slice(&self.date);
    }
}

/// The last three decimal digits of `number`.
fn digits(number: u64) -> [u8; 3] {
    [100, 10, 1].map(|unit| b'0' + u8::try_from(number / unit % 10).unwrap_or_default())
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
