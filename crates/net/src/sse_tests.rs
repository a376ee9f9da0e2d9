//! Tests of the event stream framing.

use proptest::prelude::*;

use super::*;

/// Returns all items when `parts` arrive one after the other, and the decoder after them.
fn decode(parts: &[&[u8]], limit: usize) -> (Vec<Item>, Decoder) {
    let mut decoder = Decoder::new(limit);
    let mut out = Vec::new();
    for part in parts {
        let mut input = Bytes::copy_from_slice(part);
        while !input.is_empty() {
            out.extend(decoder.decode(&mut input));
        }
    }
    (out, decoder)
}

/// The data of the events in `stream`.
fn data(stream: &str) -> Vec<String> {
    let (items, _) = decode(&[stream.as_bytes()], 1024);
    items
        .into_iter()
        .map(|item| match item {
            Item::Event(event) => String::from_utf8(event.data.to_vec()).expect("UTF-8"),
            Item::TooLong(clip) => panic!("too long: {clip:?}"),
        })
        .collect()
}

#[test]
fn the_examples_of_the_standard() {
    assert_eq!(data("data: YHOO\ndata: +2\ndata: 10\n\n"), ["YHOO\n+2\n10"]);
    assert_eq!(data("data\n\ndata\ndata\n\ndata:"), ["", "\n"], "the last one has no blank line");
    assert_eq!(data("data:test\n\ndata: test\n\n"), ["test", "test"]);
    let stream =
        ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n";
    assert_eq!(data(stream), ["first event", "second event", " third event"]);
    assert_eq!(decode(&[stream.as_bytes()], 99).1.last_id(), None, "an empty id resets");
}

#[test]
fn every_line_end_and_a_byte_order_mark() {
    assert_eq!(data("\u{feff}data: a\r\rdata: b\r\n\r\ndata: c\n\n"), ["a", "b", "c"]);
    assert_eq!(data("\u{feff}\u{feff}data: a\n\ndata: b\n\n"), ["b"], "only one mark is taken off");
}

#[test]
fn an_id_without_data_is_remembered_and_gives_no_event() {
    let (items, decoder) = decode(&[b"id: 5\nretry: 2500\n\nid: a\0b\n\nretry: 1x\n\n"], 64);
    assert_eq!(items, []);
    assert_eq!(decoder.last_id().map(Bytes::as_ref), Some(b"5".as_slice()));
    assert_eq!(decoder.retry(), Some(Duration::from_millis(2500)));
    let (items, _) = decode(&[b"id: 6\ndata:\n\n"], 64);
    let priming = Event { id: Some(Bytes::from_static(b"6")), ..Event::default() };
    assert_eq!(items, [Item::Event(priming)], "an empty data line is data");
}

#[test]
fn a_line_within_one_chunk_is_a_slice_of_it() {
    let chunk = Bytes::from_static(b"event: message\ndata: {\"a\":1}\n\n");
    let within = chunk.as_ptr_range();
    let mut input = chunk.clone();
    let Some(Item::Event(event)) = Decoder::new(64).decode(&mut input) else { panic!() };
    assert_eq!((event.name.as_ref(), event.data.as_ref()), (b"message".as_slice(), b"{\"a\":1}".as_slice()));
    assert!(within.contains(&event.data.as_ptr()), "it was copied");
}

// RULES R17
#[test]
fn a_huge_event_costs_no_more_than_the_cap() {
    const CAP: usize = 64 * 1024;
    let chunk = Bytes::from(vec![b'x'; 16 * 1024]);
    for start in [b"data:".as_slice(), b"data: a\ndata: ", b"event: ", b"id: ", b"foo: ", b": ", b"foo"] {
        let mut decoder = Decoder::new(CAP);
        decoder.decode(&mut Bytes::copy_from_slice(start));
        for _ in 0..1_000 {
            assert_eq!(decoder.decode(&mut chunk.clone()), None);
            assert!(decoder.held() <= 4 * CAP, "{} bytes are held", decoder.held());
        }
        let expected = start.starts_with(b"data");
        let item = decoder.decode(&mut Bytes::from_static(b"\n\n"));
        assert_eq!(matches!(item, Some(Item::TooLong(_))), expected, "{start:?}");
        let next = decoder.decode(&mut Bytes::from_static(b"data: ok\n\n"));
        assert_eq!(next, Some(Item::Event(Event::of(Bytes::from_static(b"ok")))));
    }
}

#[test]
fn the_cap_is_exact_and_the_ends_survive() {
    let (items, _) = decode(&[b"data: 12345678\n\ndata: 1234\ndata: 5678\n\ndata: ok\n\n"], 8);
    let [Item::Event(first), Item::TooLong(clip), Item::Event(last)] = items.as_slice() else { panic!() };
    assert_eq!((first.data.as_ref(), last.data.as_ref()), (b"12345678".as_slice(), b"ok".as_slice()));
    assert_eq!((clip.length(), clip.head()), (9, b"1234\n5678".as_slice()));
}

#[test]
fn a_line_end_in_a_name_begins_no_field() {
    let event = Event { name: Bytes::from_static(b"a\ndata: b"), ..Event::of(Bytes::from_static(b"c\r\nd")) };
    assert_eq!(event.encode().as_ref(), b"event: a\ndata: c\ndata: d\n\n");
    assert_eq!(Event::default().encode().as_ref(), b"data: \n\n");
}

fn cut(text: &[u8], mut cuts: Vec<usize>) -> Vec<&[u8]> {
    for cut in &mut cuts {
        *cut %= text.len() + 1;
    }
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.array_windows().map(|&[from, to]| &text[from..to]).collect()
}

/// Streams made of pieces with a meaning, so that random ones reach every branch.
fn stream() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\n"),
        Just("\r"),
        Just("\r\n"),
        Just("\n\n"),
        Just("data"),
        Just("data:"),
        Just("data: "),
        Just("id:"),
        Just("id: 7"),
        Just("event: x"),
        Just("retry: 10"),
        Just("retry:99999999999999999999999"),
        Just(":"),
        Just("abc"),
        Just("unknownfield: 1"),
        Just("\0"),
        Just("\u{feff}"),
        Just("{\"k\":[1,2]}"),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(
        stream in stream(),
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
        limit in 1_usize..40,
    ) {
        let (whole, one) = decode(&[stream.as_bytes()], limit);
        let (split, other) = decode(&cut(stream.as_bytes(), cuts), limit);
        prop_assert_eq!(split, whole);
        prop_assert_eq!((one.last_id(), one.retry()), (other.last_id(), other.retry()));
    }

    #[test]
    fn encoded_events_are_decoded(
        name in "[a-z:]{0,8}",
        lines in proptest::collection::vec("[^\r\n]{0,20}", 1..5),
        id in proptest::option::of("[^\0\r\n]{0,8}"),
        retry in proptest::option::of(0_u64..100_000),
        cuts in proptest::collection::vec(any::<usize>(), 0..6),
    ) {
        let event = Event {
            name: Bytes::from(name),
            data: Bytes::from(lines.join("\n")),
            id: id.map(Bytes::from),
            retry: retry.map(Duration::from_millis),
        };
        let (items, _) = decode(&cut(&event.encode(), cuts), 4096);
        prop_assert_eq!(items, [Item::Event(event)]);
    }
}

#[test]
fn meaningless_lines_are_counted_and_read_some_at_a_time() {
    let mut decoder = Decoder::new(64);
    let mut input = Bytes::from(format!("{}unknown: x\ndata: a\n\n", ":\n".repeat(100)));
    assert_eq!((decoder.decode(&mut input), input.is_empty()), (None, false), "there is more of it");
    assert_eq!(decoder.take_ignored(), 2 * LINES_AT_ONCE);
    assert!(matches!(decoder.decode(&mut input), Some(Item::Event(_))));
    assert_eq!(decoder.take_ignored(), 2 * (100 - LINES_AT_ONCE) + 11);
    assert!(decoder.decode(&mut Bytes::from_static(b"data: b\n\n")).is_some());
    assert_eq!(decoder.take_ignored(), 0, "events are not");
}

#[test]
fn long_ids_and_names_are_not_kept() {
    for length in [LONGEST_ID, LONGEST_ID + 1, 1 << 20] {
        let long = "x".repeat(length);
        let stream = format!("id: 1\ndata: a\n\nid: {long}\nevent: {long}\ndata: b\n\n");
        let halves = stream.as_bytes().split_at(stream.len() / 2);
        for parts in [&[stream.as_bytes()][..], &[halves.0, halves.1]] {
            let (items, decoder) = decode(parts, 1 << 10);
            let Some(Item::Event(event)) = items.last() else { panic!("{items:?}") };
            assert_eq!((event.data.as_ref(), event.name.len()), (b"b".as_slice(), LONGEST_NAME));
            let id_length = decoder.last_id().map(Bytes::len);
            assert_eq!(id_length, (length == LONGEST_ID).then_some(length), "a longer one is none");
            assert!(decoder.held() <= LONGEST_ID, "{}", decoder.held());
        }
    }
}

#[test]
fn an_event_that_is_not_over_keeps_no_chunk() {
    let mut decoder = Decoder::new(1 << 20);
    let mut input = Bytes::from("x".repeat(100_000) + "\n\nid: 7\nevent: e\ndata: d\n");
    let whole = input.clone();
    assert_eq!(decoder.decode(&mut input), None);
    decoder.detach();
    drop(input);
    assert!(whole.is_unique(), "a slice of it is left");
    let item = decoder.decode(&mut Bytes::from_static(b"data: f\n\n"));
    let Some(Item::Event(event)) = item else { panic!("{item:?}") };
    assert_eq!((event.data.as_ref(), event.name.as_ref()), (b"d\nf".as_slice(), b"e".as_slice()));
    assert_eq!(decoder.last_id().map(Bytes::as_ref), Some(b"7".as_slice()));
}

/// Feeds `line` `count` times. Returns the bytes that had a meaning, as the decoder counts them.
fn meaning(line: &str, count: usize, limit: usize) -> usize {
    let mut decoder = Decoder::new(limit);
    let mut input = Bytes::from(line.repeat(count));
    while !input.is_empty() {
        assert_eq!(decoder.decode(&mut input), None, "{line:?} completes no event");
    }
    line.len() * count - decoder.take_ignored()
}

#[test]
fn lines_of_an_event_that_does_not_end_lose_their_meaning() {
    assert_eq!(meaning("event: x\n", 1_000, 1 << 20), 3 * 9);
    assert_eq!(meaning("id\n", 1_000, 1 << 20), 3 * 3);
    assert_eq!(meaning("retry: 1\r", 1_000, 1 << 20), 3 * 9);
    assert_eq!(meaning("\n", 1_000, 1 << 20), 0);
    assert_eq!(
        meaning("data: 0123456789abcdef\n", 1_000, 1 << 20),
        23 * 1_000,
        "a large event is none of them"
    );
    let meant = meaning("data: 0123456789abcdef\n", 10_000, 1 << 10);
    assert!((3 << 10..6 << 10).contains(&meant), "{meant} bytes, with a limit of 1 KiB");
}
