//! Scans for the next byte of a string that needs handling, many bytes at a time.

use wide::u8x16;

/// The position, from `at` on, of the first byte of `text` that ends a string, begins an escape or is not allowed in
/// one. The end of `text` if there is none.
pub(super) fn plain(text: &[u8], at: usize) -> usize {
    let mut here = at;
    while let Some(part) = text.get(here..).and_then(<[u8]>::first_chunk::<16>) {
        let found = special(*part);
        if found != 0 {
            return here + found.trailing_zeros() as usize;
        }
        here += 16;
        if here - at == LONG {
            here += blocks(&text[here..]);
        }
    }
    let rest = text.get(here..).unwrap_or_default();
    here + rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len())
}

/// The length from which on whole blocks are checked.
const LONG: usize = 64;

/// The number of bytes in leading blocks without special bytes.
fn blocks(text: &[u8]) -> usize {
    let (blocks, _) = text.as_chunks::<64>();
    let is_plain = |block: &&[u8; 64]| !block.iter().fold(false, |any, &byte| any | is_special(byte));
    64 * blocks.iter().take_while(is_plain).count()
}

const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// One bit for each special byte, the lowest for the first byte.
fn special(text: [u8; 16]) -> u32 {
    let text = u8x16::new(text);
    let is = |byte: u8| text.simd_eq(u8x16::splat(byte));
    (text.min(u8x16::splat(0x1f)).simd_eq(text) | is(b'"') | is(b'\\')).to_bitmask()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    proptest! {
        #[test]
        fn a_string_goes_as_far_as_it_goes(
            before in "[ -~]{0,9}",
            text in "[a-zé\u{7f}!#\\]]{0,200}",
            special in select(b"\"\\\n\x1f\x00".to_vec()),
            rest in "[ -~é]{0,80}",
        ) {
            let plain_text = text.replace('\\', "");
            let mut bytes = [before.as_bytes(), plain_text.as_bytes()].concat();
            prop_assert_eq!(plain(&bytes, before.len()), bytes.len());
            bytes.push(special);
            bytes.extend_from_slice(rest.as_bytes());
            prop_assert_eq!(plain(&bytes, before.len()), before.len() + plain_text.len());
        }
    }
}
