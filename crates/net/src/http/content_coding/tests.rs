//! The decoders themselves: pieces of any length, every coding, broken and hostile input.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use http::HeaderValue;

use super::*;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory")
}

fn zlib(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory")
}

fn bare(text: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).and_then(|()| encoder.finish()).expect("memory")
}

/// Brotli with meta-blocks that are not compressed (RFC 7932, 9.2), and a window of 64 KiB.
fn brotli(text: &[u8]) -> Vec<u8> {
    let (mut all, mut first) = (Vec::new(), true);
    for piece in text.chunks(60_000) {
        let length = u32::try_from(piece.len() - 1).expect("short");
        // One bit for the window (once), not the last, four nibbles of length, not compressed.
        let head = (length << 3) | (1 << 19);
        let head = if first { head << 1 } else { head };
        all.extend_from_slice(&head.to_le_bytes()[..3]);
        all.extend_from_slice(piece);
        first = false;
    }
    all.push(if first { 0x06 } else { 0x03 });
    all
}

fn decoder(codings: &str) -> Option<Box<ContentDecoder>> {
    let mut headers = HeaderMap::new();
    for line in codings.split('|') {
        headers.append(CONTENT_ENCODING, HeaderValue::from_str(line).expect("ASCII"));
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("1"));
    let decoder = ContentDecoder::of(&mut headers, &"origin".into());
    assert_eq!(decoder.is_some(), !headers.contains_key(CONTENT_LENGTH), "the length is that of the coding");
    decoder
}

/// Decodes `input`, which arrives in pieces of `piece` bytes.
fn decoded(codings: &str, input: &[u8], piece: usize) -> Result<Vec<u8>, Error> {
    let (mut decoder, mut all) = (decoder(codings).expect("a coding"), Vec::new());
    let mut pieces = input.chunks(piece);
    loop {
        match decoder.step()? {
            DecodedStep::Data(data) => {
                assert!(data.len() <= STEP);
                all.extend_from_slice(&data);
            }
            DecodedStep::End => return Ok(all),
            DecodedStep::NeedsInput => match pieces.next() {
                Some(piece) => decoder.push(Bytes::copy_from_slice(piece)),
                None => decoder.end(),
            },
        }
    }
}

fn text() -> Vec<u8> {
    (0..20_000).flat_map(|at: u32| format!("{{\"row\":{at}}}").into_bytes()).collect()
}

#[test]
fn every_coding_is_undone_however_it_arrives() {
    let text = text();
    let twice = brotli(&gzip(&text));
    let members = [gzip(&text[..1_000]), gzip(b""), gzip(&text[1_000..])].concat();
    for (codings, input) in [
        ("gzip", gzip(&text)),
        ("x-gzip", gzip(&text)),
        ("GZIP", gzip(&text)),
        ("identity, gzip", gzip(&text)),
        ("gzip", members),
        ("deflate", zlib(&text)),
        ("deflate", bare(&text)),
        ("br", brotli(&text)),
        ("gzip, br", twice.clone()),
        ("gzip|br", twice),
    ] {
        for piece in [1, 7, 4_096, usize::MAX] {
            let all = decoded(codings, &input, piece.min(input.len()));
            assert!(
                all.as_ref() == Ok(&text),
                "{codings} in pieces of {piece}: {:?}",
                all.map(|all| all.len())
            );
        }
    }
}

#[test]
fn no_coding_is_no_decoder() {
    assert!(decoder("identity").is_none() && decoder("").is_none());
    assert!(ContentDecoder::of(&mut HeaderMap::new(), &"origin".into()).is_none());
}

#[test]
fn a_body_of_no_bytes_is_empty_whatever_its_coding_is() {
    for codings in ["gzip", "deflate", "br", "gzip, br"] {
        assert_eq!(decoded(codings, b"", 1), Ok(Vec::new()), "{codings}");
    }
}

#[test]
fn an_unknown_coding_is_named() {
    for (codings, name) in [("zstd", "`zstd`"), ("gzip, dcb", "`dcb`"), ("x\u{7f}y", "")] {
        let Ok(value) = HeaderValue::from_str(codings) else { continue };
        let mut headers = HeaderMap::from_iter([(CONTENT_ENCODING, value)]);
        let mut decoder = ContentDecoder::of(&mut headers, &"origin".into()).expect("a coding");
        let Err(error) = decoder.step() else { panic!("{codings}") };
        assert!(error.to_string().contains(name), "{error}");
    }
    let error = decoded("gzip, gzip, gzip", b"x", 1).expect_err("too many").to_string();
    assert!(error.contains("3 content codings"), "{error}");
}

#[test]
fn a_coding_that_is_cut_or_broken_is_named() {
    let text = text();
    for (codings, name, mut input) in
        [("gzip", "gzip", gzip(&text)), ("deflate", "deflate", zlib(&text)), ("br", "br", brotli(&text))]
    {
        for length in [1, 2, input.len() / 2, input.len() - 1] {
            let error = decoded(codings, &input[..length], 100).expect_err(name).to_string();
            assert!(error.contains(&format!("`{name}` coding ends too early")), "{length}: {error}");
        }
        input[0] ^= 0xff;
        let wrong = decoded(codings, &input, 100).expect_err(name).to_string();
        assert!(wrong.contains(&format!("`{name}` coding")), "{wrong}");
    }
    let mut wrong_sum = gzip(&text);
    let at = wrong_sum.len() - 8;
    wrong_sum[at] ^= 1;
    assert!(decoded("gzip", &wrong_sum, 100).is_err());
}

#[test]
fn bytes_behind_a_complete_coding_are_ignored() {
    for (codings, mut input) in
        [("gzip", gzip(b"abc")), ("deflate", zlib(b"abc")), ("deflate", bare(b"abc")), ("br", brotli(b"abc"))]
    {
        input.extend_from_slice(b"\0\0garbage");
        for piece in [1, 1_000] {
            assert_eq!(decoded(codings, &input, piece).as_deref(), Ok(&b"abc"[..]), "{codings}");
        }
    }
}

#[test]
fn a_bomb_ends_at_the_ratio_and_not_in_memory() {
    let zeros = vec![0; 8 << 20];
    for (codings, input) in
        [("gzip", gzip(&zeros)), ("deflate", zlib(&zeros)), ("gzip, gzip", gzip(&gzip(&zeros)))]
    {
        let (mut decoder, mut total) = (decoder(codings).expect("a coding"), 0);
        decoder.push(Bytes::from(input.clone()));
        let error = loop {
            match decoder.step() {
                Ok(DecodedStep::Data(data)) => total += data.len() as u64,
                Ok(_) => panic!("{codings}: it is not refused"),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("more than 200 times"), "{error}");
        assert!(total <= FREE.max(input.len() as u64 * MAX_RATIO), "{codings}: {total}");
    }
    // A response that is small when decoded may have any ratio.
    assert_eq!(decoded("gzip", &gzip(&zeros[..1 << 20]), 100).map(|all| all.len()), Ok(1 << 20));
}

#[test]
fn flushed_data_is_returned_before_the_end() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut decoder = decoder("gzip").expect("a coding");
    for event in ["data: one\n\n", "data: two\n\n"] {
        encoder.write_all(event.as_bytes()).and_then(|()| encoder.flush()).expect("memory");
        let arrived = std::mem::take(encoder.get_mut());
        let mut given = Vec::new();
        decoder.push(arrived.into());
        while let DecodedStep::Data(data) = decoder.step().expect("gzip") {
            given.extend_from_slice(&data);
        }
        assert_eq!(given, event.as_bytes());
    }
}

#[test]
fn the_window_is_charged_while_the_decoder_lives() {
    let mut decoder = decoder("br").expect("a coding");
    // A window of 16 MiB (RFC 7932, 9.1), and the beginning of a meta-block.
    decoder.push(Bytes::from_static(&[0x0f]));
    assert!(matches!(decoder.step(), Ok(DecodedStep::NeedsInput)));
    assert_eq!(decoder.charge.bytes(), 1 << 24);
}
