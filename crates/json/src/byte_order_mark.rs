//! The byte order mark of UTF-8, with which some runtimes begin their output.
//!
//! RFC 8259, 8.1 allows a reader to ignore it. It has no meaning in UTF-8.

use bytes::Bytes;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns the text behind a leading byte order mark; `None` if `text` begins with none.
pub fn behind(text: &Bytes) -> Option<Bytes> {
    text.starts_with(BYTE_ORDER_MARK).then(|| text.slice(BYTE_ORDER_MARK.len()..))
}
