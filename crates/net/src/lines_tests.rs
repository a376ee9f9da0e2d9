//! Tests of the line framing.

use proptest::prelude::*;
use tokio_util::codec::FramedRead;

use super::*;

/// Returns all lines when `parts` arrive one after the other.
fn split(parts: &[&[u8]], limit: usize) -> Vec<Line> {
    let mut lines = Lines::new(limit);
    let mut buffer = BytesMut::new();
    let mut out = Vec::new();
    for part in parts {
        buffer.extend_from_slice(part);
        while let Some(line) = lines.decode(&mut buffer).expect("no I/O") {
            out.push(line);
        }
        // One more for a `\r` that may be half of a line end.
        assert!(buffer.len() <= limit + 1, "{} bytes are held, the cap is {limit}", buffer.len());
    }
    while let Some(line) = lines.decode_eof(&mut buffer).expect("no I/O") {
        out.push(line);
    }
    assert!(buffer.is_empty());
    out
}

fn whole(text: &'static str) -> Line {
    Line::Whole(Bytes::from_static(text.as_bytes()))
}

#[test]
fn lines_end_in_either_way_and_empty_ones_vanish() {
    let out = split(&[b"one\r\ntwo\n\n \r\n\nthr", b"ee\nlast"], 64);
    assert_eq!(out, [whole("one"), whole("two"), whole("three"), whole("last")]);
}

#[test]
fn a_line_at_the_cap_passes_and_one_beyond_is_skipped() {
    let out = split(&[b"12345678\n123456789\nok\n"], 8);
    let [first, Line::TooLong(clip), last] = out.as_slice() else { panic!("{out:?}") };
    assert_eq!((first, last), (&whole("12345678"), &whole("ok")));
    assert_eq!((clip.length(), clip.head()), (9, b"123456789".as_slice()));
}

// RULES R18
#[test]
fn a_huge_line_costs_no_more_than_the_cap() {
    let mut lines = Lines::new(1024);
    let mut buffer = BytesMut::new();
    for _ in 0..10_000 {
        buffer.extend_from_slice(&[b'x'; 700]);
        assert_eq!(lines.decode(&mut buffer).expect("no I/O"), None);
        assert!(buffer.capacity() <= 16 * 1024, "{} bytes are held", buffer.capacity());
    }
    buffer.extend_from_slice(b"\"id\":7}\nnext\n");
    let Some(Line::TooLong(clip)) = lines.decode(&mut buffer).expect("no I/O") else { panic!() };
    assert_eq!(clip.length(), 7_000_007);
    assert!(clip.tail().ends_with(b"\"id\":7}"));
    assert_eq!(lines.decode(&mut buffer).expect("no I/O"), Some(whole("next")));
}

/// Gives a text in as large pieces as its reader has room for, and counts them.
struct Counted<'t> {
    text: &'t [u8],
    reads: usize,
}

impl tokio::io::AsyncRead for Counted<'_> {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        room: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        let (piece, rest) = self.text.split_at(room.remaining().min(self.text.len()));
        room.put_slice(piece);
        (self.text, self.reads) = (rest, self.reads + 1);
        std::task::Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn the_rest_of_a_line_that_is_too_long_is_read_in_large_pieces() {
    let text = [&vec![b'x'; 1 << 20][..], b"\nnext\n"].concat();
    for given_up in [false, true] {
        let mut read = FramedRead::new(Counted { text: &text, reads: 0 }, Lines::new(1024));
        if given_up {
            let mut buffer = BytesMut::from(&b"begun"[..]);
            read.decoder_mut().give_up(&mut buffer);
            *read.read_buffer_mut() = buffer;
        }
        let mut found = Vec::new();
        while let Some(line) = futures_util::StreamExt::next(&mut read).await {
            found.push(line.expect("no I/O"));
        }
        assert!(matches!(found.as_slice(), [Line::TooLong(_), Line::Whole(next)] if next == "next"));
        let reads = read.get_ref().reads;
        assert!(reads < 400, "{reads} reads");
    }
}

#[test]
fn an_encoded_message_is_one_line() {
    assert_eq!(encode(Bytes::from_static(b"{\r\n \"a\": \"x\\n\"\n}")).as_ref(), b"{   \"a\": \"x\\n\" }\n");
}

proptest! {
    #[test]
    fn any_split_gives_the_same_lines(
        text in "[ab\r\n]{0,80}",
        cuts in proptest::collection::vec(0_usize..80, 0..6),
        limit in 1_usize..20,
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.array_windows().map(|&[from, to]| &text.as_bytes()[from..to]).collect();
        prop_assert_eq!(split(&parts, limit), split(&[text.as_bytes()], limit));
    }
}

#[test]
fn lines_without_content_are_dropped_at_once_and_counted() {
    let mut lines = Lines::new(16);
    let mut buffer = BytesMut::from(format!("{} \r\n\t\n  {{}}\n \n", "\n".repeat(1_000)).as_str());
    assert_eq!(lines.decode(&mut buffer).expect("no I/O"), Some(whole("  {}")));
    assert_eq!(lines.take_ignored(), 1_005);
    assert_eq!(lines.decode(&mut buffer).expect("no I/O"), None);
    assert_eq!((lines.take_ignored(), lines.take_ignored(), buffer.len()), (2, 0, 0));
}

#[test]
fn a_line_of_1_gib_has_a_meaning_and_the_rest_of_a_longer_one_has_none() {
    let mut lines = Lines::new(1_000);
    let (mut buffer, piece) = (BytesMut::new(), vec![b'x'; 1 << 20]);
    let mut discard = |pieces: usize| {
        for _ in 0..pieces {
            buffer.extend_from_slice(&piece);
            assert_eq!(lines.decode(&mut buffer).expect("no error"), None);
        }
        lines.take_ignored()
    };
    assert_eq!(discard(1_024), 0);
    assert_eq!(discard(10), 8 << 20, "one at its discovery, and one more in excess");
    buffer.extend_from_slice(b"\n");
    assert!(matches!(lines.decode(&mut buffer), Ok(Some(Line::TooLong(_)))));
}
