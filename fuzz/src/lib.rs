//! Helpers that several targets use to interpret the fuzzer's bytes.

use bytes::Bytes;

/// Splits off the first `N` bytes, which control the target, from the rest, which is its input. None if
/// there are fewer.
pub fn split<const N: usize>(data: &[u8]) -> Option<([u8; N], Bytes)> {
    let (how, what) = data.split_first_chunk::<N>()?;
    Some((*how, Bytes::copy_from_slice(what)))
}

/// Splits `content` into pieces; `lengths` are repeated as often as needed.
pub fn pieces(content: &Bytes, lengths: [u8; 4]) -> Vec<Bytes> {
    let (mut pieces, mut rest) = (Vec::new(), content.clone());
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        // At least one byte, or the loop would never end.
        pieces.push(rest.split_to(rest.len().min(usize::from(*length).max(1))));
    }
    pieces
}
