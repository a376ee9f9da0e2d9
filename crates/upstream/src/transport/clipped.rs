//! Reads the id of a message that was too long to be kept.

use net::Clip;

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
    let number = |text: &str| text.trim_start().strip_prefix(':').map(|rest| rest.trim_start().to_owned());
    let behind_key = |text: &str| text.rsplit_once("\"id\"").and_then(|(_, rest)| number(rest));
    let leading = |text: String| {
        let end = text.find(|c: char| !c.is_ascii_digit())?;
        text[..end].parse().ok()
    };
    behind_key(flat).and_then(leading).or_else(|| behind_key(last)?.parse().ok())
}
