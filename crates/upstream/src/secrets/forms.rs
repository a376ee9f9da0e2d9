//! The forms in which a secret may appear in a text of a server.
//!
//! Covered: unchanged, escaped for a log, escaped in JSON, percent-encoded, Base64 and hexadecimal. Base64 is found at
//! every alignment, so a password is found inside the credentials of `Basic user:password` too.
//!
//! Invariant: the number of forms of one secret is a constant, for each of its lines and for the whole. Not here: two
//! nested encodings, apart from escaping, and deliberate disguise.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_encode_byte, utf8_percent_encode};
use url::form_urlencoded;

use protocol::visible::visible;

/// All except the unreserved characters (RFC 3986, 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// As Python's `quote` does it.
const IN_PATH: &AsciiSet = &RESERVED.remove(b'/');
/// As JavaScript's `encodeURIComponent` does it.
const COMPONENT: &AsciiSet = &RESERVED.remove(b'!').remove(b'*').remove(b'\'').remove(b'(').remove(b')');
/// As a URL parser encodes a query (WHATWG).
const IN_QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'\'');
/// The characters of Base64 that have a meaning in URLs.
const IN_BASE64: &AsciiSet = &CONTROLS.add(b'+').add(b'/');

/// All forms of `secret`: all forms of the whole, and the forms without an encoding of each line.
pub(super) fn of(secret: &str) -> BTreeSet<String> {
    let whole = secret.trim();
    let lines = whole.lines().map(str::trim).chain([whole]).flat_map(quoted);
    lines.chain(percent(whole)).chain(base64(whole.as_bytes())).chain(digits(whole)).collect()
}

/// The text itself and its JSON string, each also escaped for a log as `char`, `str` and [`visible`] do it.
fn quoted(text: &str) -> Vec<String> {
    let json = inside(serde_json::Value::from(text).to_string());
    let texts = [text.to_owned(), json.replace('/', "\\/"), ascii(&json), json];
    let escaped = |text: &String| {
        let by_char: String = text.chars().flat_map(char::escape_debug).collect();
        [text.clone(), by_char, inside(format!("{text:?}")), visible(text).to_string()]
    };
    texts.iter().flat_map(escaped).collect()
}

/// A quoted text without its quotes.
fn inside(quoted: String) -> String {
    quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).map(str::to_owned).unwrap_or(quoted)
}

/// JSON with ASCII characters only, as many encoders write it.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        if char.is_ascii() {
            text.push(char);
            continue;
        }
        for unit in char.encode_utf16(&mut [0; 2]) {
            let _ = write!(text, "\\u{unit:04x}"); // into a String: never fails
        }
    }
    text
}

fn percent(text: &str) -> Vec<String> {
    let sets = [NON_ALPHANUMERIC, RESERVED, IN_PATH, COMPONENT, IN_QUERY];
    let encoded = sets.into_iter().map(|set| utf8_percent_encode(text, set).to_string());
    let form = form_urlencoded::byte_serialize(text.as_bytes()).collect();
    let all = text.bytes().map(percent_encode_byte).collect();
    encoded.chain([form, all]).flat_map(|text| [lower(&text), text]).collect()
}

/// Converts the digits of `%2F` to lower case.
fn lower(text: &str) -> String {
    let mut digits = 0;
    let lowered = text.chars().map(|char| match char {
        '%' => {
            digits = 2;
            char
        }
        _ if digits > 0 => {
            digits -= 1;
            char.to_ascii_lowercase()
        }
        _ => char,
    });
    lowered.collect()
}

/// Both alphabets, and for each alignment the characters that depend on the secret alone.
fn base64(bytes: &[u8]) -> Vec<String> {
    let parts = |encode: &dyn Fn(&[u8]) -> String| -> Vec<String> {
        (0..3).map(|offset| aligned(bytes, offset, encode)).chain([encode(bytes)]).collect()
    };
    let standard = parts(&|bytes| STANDARD_NO_PAD.encode(bytes));
    let in_urls: Vec<String> =
        standard.iter().map(|text| utf8_percent_encode(text, IN_BASE64).to_string()).collect();
    let lowered: Vec<String> = in_urls.iter().map(|text| lower(text)).collect();
    let in_json: Vec<String> = standard.iter().map(|text| text.replace('/', "\\/")).collect();
    [standard, parts(&|bytes| URL_SAFE_NO_PAD.encode(bytes)), in_urls, lowered, in_json].concat()
}

/// The characters that depend on `bytes` alone, if `offset` other bytes precede them and more follow.
fn aligned(bytes: &[u8], offset: usize, encode: &dyn Fn(&[u8]) -> String) -> String {
    let mut shifted = vec![0; offset];
    shifted.extend(bytes);
    let text = encode(&shifted);
    // A character that also contains bits of a neighbor is unknown.
    let end = text.len() - usize::from(!shifted.len().is_multiple_of(3));
    let begin = [0, 2, 3][offset];
    text.get(begin..end).unwrap_or_default().to_owned()
}

fn digits(text: &str) -> [String; 2] {
    let lower = hex::encode(text.as_bytes());
    [lower.to_uppercase(), lower]
}
