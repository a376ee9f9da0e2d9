//! Lines of a child process: cut anywhere they are the same, and none is beyond the cap.

#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use net::lines::{Line, Lines};
use switchyard_fuzz::{pieces, split};
use tokio_util::codec::Decoder as _;

// RULES G1
fuzz_target!(|data: &[u8]| {
    let Some(([limit, lengths @ ..], text)) = split::<5>(data) else { return };
    let limit = usize::from(limit);
    let whole = read(limit, std::slice::from_ref(&text));
    assert_eq!(whole, read(limit, &pieces(&text, lengths)), "cut by {lengths:?}: {text:?}");
    for line in whole {
        match line {
            Line::Whole(line) => assert!(line.len() <= limit && !line.contains(&b'\n'), "{line:?}"),
            Line::TooLong(clip) => assert!(clip.length() > limit as u64, "{text:?}"),
        }
    }
});

fn read(limit: usize, pieces: &[Bytes]) -> Vec<Line> {
    let (mut lines, mut buffer, mut found) = (Lines::new(limit), BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        found.extend(std::iter::from_fn(|| lines.decode(&mut buffer).expect("it cannot fail")));
    }
    found.extend(std::iter::from_fn(|| lines.decode_eof(&mut buffer).expect("it cannot fail")));
    found
}
