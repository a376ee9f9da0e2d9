//! The text of live events: one piece of an event stream.
//!
//! Each call has two events, so those are written by hand: with `serde_json` they cost nine times as many instructions.
//! Invariants: the text of a call is what `event_data` describes. A viewer without the role *superuser* sees no principal,
//! client, request, arguments or errors of attempts of calls that are not its own.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::error::of_rest;
use super::event_data::{data, gap, may_see};
use super::view::date;
use auth::Principal;
use gateway::manager::live_events::{CallEnd, CallStart, EventContent, LiveEvent};
use net::sse::Event;

/// Calls whose beginning is remembered for the text of their end.
const REMEMBERED: usize = 32;

/// One piece of a stream, for one viewer.
pub(super) struct Piece<'v> {
    text: Vec<u8>,
    viewer: &'v Principal,
    /// The last second that was written, with its text.
    second: Option<(u64, String)>,
    /// The last calls that began in this piece, and where their members are in the text.
    begun: Vec<(u64, Range<usize>)>,
}

impl<'v> Piece<'v> {
    pub(super) fn new(viewer: &'v Principal) -> Self {
        Self { text: Vec::with_capacity(4096), viewer, second: None, begun: Vec::new() }
    }

    /// Appends an event.
    pub(super) fn event(&mut self, event: &LiveEvent) {
        let name = name(event);
        let EventContent::Call { call, end } = &event.what else {
            return self.framed(event.number, name, data(event, self.viewer));
        };
        let is_shown = may_see(self.viewer, call.principal.as_ref());
        self.put("id: ");
        self.json(&event.number);
        self.put("\nevent: ");
        self.put(name);
        self.put("\ndata: {\"at\":\"");
        self.date(event.at);
        self.put("\"");
        self.call(event.server.as_deref().unwrap_or_default(), call, is_shown);
        if let Some(end) = end {
            self.end(end, is_shown);
        }
        self.put("}\n\n");
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

    /// Writes the members that both events of a call have, each after a comma.
    fn call(&mut self, server: &str, call: &CallStart, is_shown: bool) {
        let known = self.begun.iter().rev().find(|(number, _)| *number == call.number);
        if let Some((_, range)) = known {
            return self.text.extend_from_within(range.clone());
        }
        let start = self.text.len();
        self.put(",\"server\":");
        self.string(server);
        self.put(",\"call\":");
        self.json(&call.number);
        self.put(",\"tool\":");
        self.string(&call.tool);
        self.put(",\"principal\":");
        self.string_or_null(call.principal.as_deref().filter(|_| is_shown));
        self.put(",\"client\":");
        let client = call.client.as_deref().unwrap_or("REST");
        self.string_or_null(Some(client).filter(|name| is_shown && !name.is_empty()));
        self.put(",\"request_id\":");
        self.json(&call.request_id.filter(|_| is_shown));
        if let Some(arguments) = call.arguments.as_deref().filter(|_| is_shown) {
            self.put(",\"arguments\":");
            // Their beginning is a text if they were cut.
            self.json(&serde_json::from_str::<Value>(arguments).unwrap_or_else(|_| arguments.into()));
        }
        if self.begun.len() == REMEMBERED {
            self.begun.clear();
        }
        self.begun.push((call.number, start..self.text.len()));
    }

    fn end(&mut self, end: &CallEnd, is_shown: bool) {
        self.put(",\"outcome\":");
        self.string(end.outcome);
        self.put(",\"code\":");
        self.json(&end.code.map(of_rest));
        self.put(",\"duration_ms\":");
        self.ms(end.duration);
        self.put(",\"attempts\":[");
        for (index, attempt) in end.attempts.iter().enumerate() {
            self.put(if index == 0 { "{\"attempt\":" } else { ",{\"attempt\":" });
            self.json(&(index + 1));
            self.put(",\"outcome\":");
            self.string(if attempt.error.is_none() { "answered" } else { "failed" });
            self.put(",\"duration_ms\":");
            self.ms(attempt.duration);
            self.put(",\"error\":");
            // An error may quote the call.
            self.string_or_null(attempt.error.as_deref().filter(|_| is_shown));
            self.put("}");
        }
        self.put("]");
    }

    fn put(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    fn json(&mut self, value: &impl Serialize) {
        // Writing into memory does not fail, and the values have no maps with other keys than strings.
        let _ = serde_json::to_writer(&mut self.text, value);
    }

    fn string(&mut self, text: &str) {
        if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
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
        let micros = u64::try_from(time.as_nanos().saturating_add(500) / 1000).unwrap_or(u64::MAX);
        self.json(&(micros / 1000));
        self.put(".");
        let decimals = digits(micros % 1000);
        let zeros = decimals[1..].iter().rev().take_while(|digit| **digit == b'0').count();
        self.text.extend_from_slice(&decimals[..3 - zeros]);
    }

    /// Writes a date as [`date`] formats it.
    fn date(&mut self, at: SystemTime) {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        if self.second.as_ref().is_none_or(|(last, _)| *last != since.as_secs()) {
            let mut text = date(at);
            text.truncate("2026-11-26T01:02:03.".len());
            self.second = Some((since.as_secs(), text));
        }
        if let Some((_, text)) = &self.second {
            self.text.extend_from_slice(text.as_bytes());
        }
        self.text.extend_from_slice(&digits(since.subsec_millis().into()));
        self.put("Z");
    }
}

/// The last three decimal digits of `number`.
fn digits(number: u64) -> [u8; 3] {
    [100, 10, 1].map(|unit| b'0' + u8::try_from(number / unit % 10).unwrap_or_default())
}

/// The name of an event.
pub(super) const fn name(event: &LiveEvent) -> &'static str {
    match &event.what {
        EventContent::Call { end: None, .. } => "call_started",
        EventContent::Call { end: Some(_), .. } => "call_ended",
        EventContent::Server { .. } => "server_changed",
        EventContent::Breaker { .. } => "breaker_changed",
        EventContent::Tools { .. } => "tools_changed",
        EventContent::Action { .. } => "action",
    }
}

#[cfg(test)]
#[path = "event_text_tests.rs"]
mod tests;
