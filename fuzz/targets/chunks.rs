//! Texts cut into pieces: all of it is there, in order, and no piece is beyond its size.

#![no_main]

use builtins::chunk::{Chunking, Format, chunks};
use libfuzzer_sys::fuzz_target;
use switchyard_fuzz::split;

// RULES G1
fuzz_target!(|data: &[u8]| {
    let Some(([size, overlap, format], content)) = split::<3>(data) else { return };
    let (Ok(text), Ok(chunking)) =
        (std::str::from_utf8(&content), Chunking::new(usize::from(size), usize::from(overlap)))
    else {
        return;
    };
    let format = if format % 2 == 0 { Format::Plain } else { Format::Markdown };
    let mut covered = 0;
    for chunk in chunks(text, chunking, format) {
        assert_eq!(chunk.content, &text[chunk.bytes.clone()]);
        assert!(chunk.content.chars().count() <= chunking.size(), "{chunk:?} of {text:?}");
        assert!(chunk.bytes.start <= covered && chunk.bytes.end > covered, "{chunk:?} of {text:?}");
        covered = chunk.bytes.end;
    }
    assert_eq!(covered, text.len(), "{text:?}");
});
