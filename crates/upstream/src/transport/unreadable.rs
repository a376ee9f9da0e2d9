//! Finds the request that a message answers which cannot be read: it is not JSON, or it was too long to be kept.
//!
//! Invariants: only what looks like a response counts, so the id of a server's own request is never taken for one of
//! Switchyard's. The search is linear in the text. Not here: what is wrong with the message (`json::Fault`).

use json::decimal;
use net::Clip;

/// The most responses that are looked for in one line: those of the largest batch.
const MOST: usize = 1_024;

/// The ids of the responses in a text that is not one message. There may be several, where a program wrote no line end
/// between them, and other text before the first one.
pub(super) fn answered(text: &[u8]) -> Vec<u64> {
    let (mut ids, mut at, mut begins, mut is_understood) = (Vec::new(), 0, 0, true);
    while let Some(begin) = text[at..].iter().position(|byte| *byte == b'{').filter(|_| begins < MOST) {
        at += begin;
        let envelope = Envelope::read(&text[at..]);
        ids.extend(envelope.answers());
        is_understood = envelope.is_complete || envelope.is_call;
        at += envelope.length;
        begins += 1;
    }
    if ids.is_empty() && begins == 1 && !is_understood {
        id_in(&Clip::of(text)).into_iter().collect()
    } else {
        ids
    }
}

/// The members of an object whose values may be anything but JSON.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // facts that have nothing to do with each other
struct Envelope {
    id: Option<u64>,
    has_version: bool,
    has_result: bool,
    is_call: bool,
    /// Whether its end was found.
    is_complete: bool,
    length: usize,
}

impl Envelope {
    /// Reads the object at the beginning of `text`, or what there is of it. Only strings and brackets are understood.
    fn read(text: &[u8]) -> Self {
        let mut envelope = Self::default();
        let (mut depth, mut at) = (0_usize, 0);
        // Whether the next string is a name of the object itself.
        let mut is_name = false;
        while let Some(byte) = text.get(at) {
            match byte {
                b'"' => {
                    let end = string_end(text, at);
                    if is_name && depth == 1 {
                        envelope.member(&text[at..end], &text[end..]);
                    }
                    (is_name, at) = (false, end);
                    continue;
                }
                b'{' | b'[' => (depth, is_name) = (depth + 1, *byte == b'{'),
                b'}' | b']' if depth == 1 => {
                    (envelope.length, envelope.is_complete) = (at + 1, true);
                    return envelope;
                }
                b'}' | b']' => depth -= 1,
                b',' => is_name = true,
                _ => {}
            }
            at += 1;
        }
        envelope.length = text.len();
        envelope
    }

    /// Notes the member called `name`, whose colon and value are at the beginning of `rest`.
    fn member(&mut self, name: &[u8], rest: &[u8]) {
        let Some(value) = rest.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start) else {
            return;
        };
        match name {
            b"\"id\"" => self.id = self.id.or_else(|| decimal::whole(token(value))),
            b"\"jsonrpc\"" => self.has_version = true,
            b"\"result\"" => self.has_result |= value.starts_with(b"{"),
            b"\"method\"" => self.is_call |= !value.starts_with(b"null"),
            _ => {}
        }
    }

    /// The id, if this looks like a response. Programs also print their logs as JSON, with ids of their own.
    fn answers(&self) -> Option<u64> {
        self.id.filter(|_| !self.is_call && (self.has_version || self.has_result))
    }
}

/// The number or string at the beginning of `text`.
fn token(text: &[u8]) -> &[u8] {
    if text.starts_with(b"\"") {
        return &text[..string_end(text, 0)];
    }
    let end = text.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(text.len());
    &text[..end]
}

/// The position behind the string whose opening quote is at `begin`.
fn string_end(text: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

/// The id in the envelope of a message of which only the ends are left: before the first nested value, or right before
/// the closing brace.
///
/// `"id"` followed by a colon cannot occur inside a JSON string, where the quotes are escaped.
pub(super) fn id_in(clip: &Clip) -> Option<u64> {
    let head = String::from_utf8_lossy(clip.head());
    let flat = head
        .trim_start()
        .strip_prefix('{')
        .map_or("", |rest| &rest[..rest.find(['{', '[']).unwrap_or(rest.len())]);
    let tail = String::from_utf8_lossy(clip.tail());
    let last = tail.trim_end().strip_suffix('}').map(str::trim_end).unwrap_or_default();
    let behind_key = |text: &str| {
        let (_, rest) = text.rsplit_once("\"id\"")?;
        Some(rest.trim_start().strip_prefix(':')?.trim_start().to_owned())
    };
    let is_call = flat.contains("\"method\"") || flat.contains("\"params\"");
    let leading = |text: String| decimal::whole(token(text.as_bytes()));
    let whole = |text: String| decimal::whole(text.as_bytes());
    behind_key(flat).and_then(leading).or_else(|| behind_key(last).and_then(whole)).filter(|_| !is_call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_of_an_unreadable_response_is_found_wherever_its_id_stands() {
        for (text, ids) in [
            (&br#"{"jsonrpc":"2.0","id":7,"result":{"a":NaN}}"#[..], &[7][..]),
            (br#"{"jsonrpc":"2.0","result":{"id":9,"b":[{"id":8}],"a":NaN},"id":7}"#, &[7]),
            (br#"{"result":{"a":NaN},"id":"7","jsonrpc":"2.0"}"#, &[7]),
            (b"{\"jsonrpc\":\"2.0\",\"result\":{\"a\":\"caf\xe9 \\\"id\\\":3\"},\"id\" : 7 }", &[7]),
            (br#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"ty"#, &[7]),
            (br#"{"jsonrpc":"2.0","result":{"a":"say "hi" to"},"id":7}"#, &[7]),
            (br#"DEBUG {'x': 1} {"jsonrpc":"2.0","id":7,"result":{}}"#, &[7]),
            (br#"{"jsonrpc":"2.0","id":7,"result":{}}{"jsonrpc":"2.0","id":8,"result":{}}"#, &[7, 8]),
            (br#"{"id":7,"result":{}}"#, &[7]),
            (br#"{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"a":NaN}}"#, &[]),
            (br#"{"jsonrpc":"2.0","params":{"a":NaN},"method":"x","id":7}"#, &[]),
            (br#"{"jsonrpc":"2.0","id":7,"params":{"a":NaN},"method":"x"}"#, &[]),
            (br#"{"jsonrpc":"2.0","id":7,"result":[{"method":"GET"}}"#, &[7]),
            (br#"{"id":7,"result":{}} and more"#, &[7]),
            (br#"  { "id": 7, "result": {} }"#, &[7]),
            (br#"[{"jsonrpc":"2.0","id":7,"result":{}},1,{"jsonrpc":"2.0","id":8,"result":{}}]"#, &[7, 8]),
            (br#"{"level":"info","id":7,"error":"none"}"#, &[]),
            (br#"{"level":30,"id":3,"msg":{"jsonrpc":"2.0","id":7,"result":{}}}"#, &[]),
            (br#"{"level":30,"id":3,"msg":{"jsonrpc":"2.0","id":7,"method":"tools/call"}}"#, &[]),
            (br#"DEBUG {"user":"x","id":3} -> {"jsonrpc":"2.0","id":7,"result":{}}"#, &[7]),
            (br#"{"jsonrpc":"2.0","result":{"id":7,"a":NaN}}"#, &[]),
            (b"a banner", &[]),
            (b"", &[]),
        ] {
            assert_eq!(answered(text), ids, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn a_hostile_line_is_searched_once() {
        let started = std::time::Instant::now();
        for text in
            ["{".repeat(1 << 20), "{\"".repeat(1 << 20), "{}".repeat(1 << 20), "\\\"{".repeat(1 << 20)]
        {
            assert_eq!(answered(text.as_bytes()), [0_u64; 0]);
        }
        eprintln!("four lines of 1 to 3 MiB were searched in {:?}", started.elapsed());
    }
}
