//! What several targets need of the bytes that the fuzzer makes.

use bytes::Bytes;

/// The first `N` bytes, which say how, and the rest, which says what. None where there are not so many.
pub fn split<const N: usize>(data: &[u8]) -> Option<([u8; N], Bytes)> {
    let (how, what) = data.split_first_chunk::<N>()?;
    Some((*how, Bytes::copy_from_slice(what)))
}

/// `content` as it may arrive: in pieces, whose lengths `lengths` say again and again.
pub fn pieces(content: &Bytes, lengths: [u8; 4]) -> Vec<Bytes> {
    let (mut pieces, mut rest) = (Vec::new(), content.clone());
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        // At least one byte, or it would never end.
        pieces.push(rest.split_to(rest.len().min(usize::from(*length).max(1))));
    }
    pieces
}
