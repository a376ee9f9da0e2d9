//! Calls as JSON text, for live events and for the history.
//!
//! Each call is printed at least once, so this is written by hand: with `serde_json` it costs nine times as many
//! instructions. Invariant: principal, client, request, arguments and errors are written only for somebody who may see
//! them.
//!
//! Not here: who may see them ([`auth::Principal::may_see`]), and the text around a call.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use super::{CallEnd, ToolCall};
use runtime::telemetry::RequestId;

/// A text that calls are appended to.
#[derive(Debug, Default)]
pub struct CallText {
    text: Vec<u8>,
    /// The last date that was written, and its second.
    date: Vec<u8>,
    second: u64,
}

impl CallText {
    /// Makes an empty text with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { text: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// The text so far.
    pub fn bytes(&self) -> &[u8] {
        &self.text
    }

    /// Returns the text.
    pub fn into_bytes(self) -> Vec<u8> {
        self.text
    }

    /// Empties the text, and keeps its room.
    pub fn clear(&mut self) {
        self.text.clear();
    }

    /// Appends the members of a call that began or ended at `at`, without braces. `is_shown`: whether the reader may see
    /// who made it, and its texts.
    pub fn call(&mut self, at: SystemTime, call: &ToolCall, end: Option<&CallEnd>, is_shown: bool) {
        self.put("\"at\":\"");
        self.date(at);
        self.beginning(call, is_shown);
        if let Some(end) = end {
            self.end(end, is_shown);
        }
    }

    /// Ends the date, and writes the members that both events of a call have, each after a comma.
    fn beginning(&mut self, call: &ToolCall, is_shown: bool) {
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
        self.put("]");
    }

    /// Appends `text` as it is.
    pub fn put(&mut self, text: impl AsRef<[u8]>) {
        self.text.extend_from_slice(text.as_ref());
    }

    /// Appends a value.
    pub fn json(&mut self, value: &(impl Serialize + ?Sized)) {
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

    /// Writes milliseconds, rounded to three decimals, of which one is always written.
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

/// Formats `time` in UTC as RFC 3339, with milliseconds. Such texts have the order of their times.
pub fn date(time: SystemTime) -> String {
    // Formatted by hand, because the formats of the library omit trailing zeros.
    let time = OffsetDateTime::from(time.max(UNIX_EPOCH));
    let (date, (hour, minute, second, millis)) = (time.date(), time.to_hms_milli());
    format!("{date}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(date(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        assert_eq!(date(UNIX_EPOCH + Duration::from_millis(1_795_178_096_789)), "2026-11-20T12:34:56.789Z");
    }
}
