//! Properties of the searches: the end of a value does not depend on how its text arrives.

use proptest::prelude::*;

use super::*;

/// Returns the end of the value in `text` that begins behind its first byte. Reads byte by byte.
fn plainly(text: &[u8]) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (1, text[0] == b'"', false);
    for (at, byte) in text.iter().enumerate().skip(1) {
        match (quoted, *byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => {
                quoted = !quoted;
                if text[0] == b'"' {
                    return Some(at + 1);
                }
            }
            (false, b'{' | b'[') => depth += 1,
            (false, b'}' | b']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the end of the value, searched in pieces that end at `cuts`.
fn in_pieces(text: &[u8], cuts: &[usize]) -> Option<usize> {
    let (mut quoted, mut nested, mut at) = (Quoted::default(), Nested::opened(), 1);
    for length in cuts.iter().copied().chain([text.len()]) {
        let piece = &text[at..text.len().min(at + length)];
        let end = if text[0] == b'"' { quoted.end(piece) } else { nested.end(piece) };
        if let Some(end) = end {
            return Some(at + end);
        }
        at += piece.len();
    }
    None
}

/// Text with many significant bytes, and with long stretches without any.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        4 => prop::sample::select(vec!["\"", "\\\\", "\\\"", "{", "[", "}", "]", "\\n", ":", "é"])
            .prop_map(str::to_owned),
        1 => (1..200_usize).prop_map(|length| "x".repeat(length)),
        1 => (1..80_usize).prop_map(|length| "\\\\".repeat(length)),
        1 => (1..40_usize).prop_map(|length| "[{".repeat(length)),
    ];
    let begin = prop::sample::select(vec!["\"", "{"]);
    (begin, prop::collection::vec(part, 0..60))
        .prop_map(|(begin, parts)| [begin, &parts.concat()].concat().into_bytes())
        .prop_filter("backslashes outside strings are no JSON", |text| is_escaped_inside(text))
}

fn is_escaped_inside(text: &[u8]) -> bool {
    let (mut quoted, mut escaped) = (false, false);
    text.iter().all(|byte| {
        match (quoted, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (false, b'\\') => return false,
            (_, b'"') => quoted = !quoted,
            _ => {}
        }
        true
    })
}

proptest! {
    #[test]
    fn a_value_ends_where_it_ends(text in text(), cuts in prop::collection::vec(0..150_usize, 0..30)) {
        let expected = plainly(&text);
        prop_assert_eq!(in_pieces(&text, &[]), expected);
        prop_assert_eq!(in_pieces(&text, &cuts), expected);
        prop_assert_eq!(in_pieces(&text, &vec![1; text.len()]), expected);
    }
}

#[test]
fn runs_of_backslashes_are_counted_over_the_edge_of_a_block() {
    for before in 0..130 {
        for number in 1..140 {
            let run = "\\".repeat(number);
            let text = format!("[\"{}{run}\"]\"]", "x".repeat(before));
            // An even number escapes nothing, so the string ends there. Otherwise it ends at the next quote.
            let end = if number % 2 == 0 { text.len() - 2 } else { text.len() };
            assert_eq!(in_pieces(text.as_bytes(), &[]), Some(end), "{before} {number}");
        }
    }
}

mod block {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_bit_is_one_byte(text in prop::collection::vec(prop_oneof![
            prop::sample::select(b"\"\\{}[]".to_vec()), any::<u8>()], WIDTH)) {
            let text: &[u8; WIDTH] = text.as_slice().try_into().expect("a block");
            let block = Block::of(text);
            for (at, byte) in text.iter().enumerate() {
                let bits = [block.quotes, block.backslashes, block.opens, block.closes, block.letters];
                let found = bits.map(|bits| bits >> at & 1 == 1);
                let brackets = [b"{[".contains(byte), b"}]".contains(byte)];
                let expected = [*byte == b'"', *byte == b'\\', brackets[0], brackets[1], (b'H'..=b'O').contains(byte)];
                prop_assert_eq!(found, expected, "{} at {}", byte, at);
            }
        }
    }
}
