//! Event streams: cut anywhere they hold the same events, none is beyond the cap, and what is printed of one is
//! read as the same.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use net::sse::{Decoder, Item};
use switchyard_fuzz::{pieces, split};

// RULES G1
fuzz_target!(|data: &[u8]| {
    let Some(([limit, lengths @ ..], text)) = split::<5>(data) else { return };
    let limit = usize::from(limit);
    let whole = read(limit, [text.clone()]);
    assert_eq!(whole, read(limit, pieces(&text, lengths)), "cut by {lengths:?}: {text:?}");
    for item in &whole.0 {
        let Item::Event(event) = item else { continue };
        let printed = read(usize::MAX, [event.encode()]);
        assert_eq!(printed.0, [Item::Event(event.clone())], "{text:?}");
    }
});

type Read = (Vec<Item>, Option<Bytes>, Option<std::time::Duration>);

fn read(limit: usize, pieces: impl IntoIterator<Item = Bytes>) -> Read {
    let (mut decoder, mut items) = (Decoder::new(limit), Vec::new());
    for mut piece in pieces {
        while !piece.is_empty() {
            items.extend(decoder.decode(&mut piece));
        }
    }
    (items, decoder.last_id().cloned(), decoder.retry())
}
