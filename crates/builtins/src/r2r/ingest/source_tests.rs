//! Tests of sending files that change, and of those that do not.

use std::fs;
use std::io::Write;
use std::path::Path;

use futures_util::{StreamExt, TryStreamExt, pin_mut};

use super::*;

fn source(path: &Path) -> SourceFile {
    let file = File::open(path).expect("there");
    let len = file.metadata().expect("known").len();
    SourceFile::new(file, "a.md".into(), len)
}

fn written(bytes: &[u8]) -> (tempfile::TempDir, SourceFile) {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("a.md"), bytes).expect("written");
    let source = source(&dir.path().join("a.md"));
    (dir, source)
}

/// Returns all chunks, or the number of bytes and the reason why it ended early.
async fn sent(source: &SourceFile, digest: &str) -> Result<Vec<Bytes>, (usize, Fault)> {
    let faults = Faults::default();
    let pieces = source.pieces(digest, &faults, Box::new(|_| {}));
    pin_mut!(pieces);
    let mut all = Vec::new();
    loop {
        match pieces.next().await {
            Some(Ok(piece)) => all.push(piece),
            Some(Err(_)) => {
                let fault = faults.lock().expect("no panic").clone().expect("a reason");
                return Err((all.iter().map(Bytes::len).sum(), fault));
            }
            None => return Ok(all),
        }
    }
}

#[tokio::test]
async fn a_file_comes_in_pieces_and_none_is_large() {
    let bytes: Vec<u8> = (0..3 * PIECE + 7).map(|n| u8::try_from(n % 251).expect("small")).collect();
    let (_dir, source) = written(&bytes);
    let digest = source.digest().await.expect("readable");
    assert_eq!(digest, hex::encode(Sha256::digest(&bytes)));
    let pieces = sent(&source, &digest).await.expect("unchanged");
    assert!(pieces.iter().all(|piece| piece.len() as u64 <= PIECE));
    assert_eq!(pieces.concat(), bytes);
}

#[tokio::test]
async fn a_file_that_changes_is_never_sent_whole() {
    type Change = fn(&Path);
    let long = vec![b'x'; usize::try_from(2 * PIECE).expect("small") + 9];
    let changes: [Change; 4] = [
        |path| File::options().write(true).open(path).expect("open").set_len(PIECE + 1).expect("cut"),
        |path| File::options().append(true).open(path).expect("open").write_all(b"y").expect("longer"),
        |path| File::options().write(true).open(path).expect("open").write_all(b"y").expect("another"),
        |path| File::options().write(true).open(path).expect("open").set_len(0).expect("emptied"),
    ];
    for change in changes {
        let (dir, source) = written(&long);
        let digest = source.digest().await.expect("readable");
        change(&dir.path().join("a.md"));
        let (sent, fault) = sent(&source, &digest).await.expect_err("changed");
        assert!(sent < long.len() && fault == Fault::Changed, "{sent} {fault:?}");
    }
}

#[tokio::test]
async fn a_change_in_the_middle_of_the_reading_is_seen() {
    let (dir, source) = written(&vec![b'x'; usize::try_from(3 * PIECE).expect("small")]);
    let digest = source.digest().await.expect("readable");
    let pieces = source.pieces(&digest, &Faults::default(), Box::new(|_| {}));
    pin_mut!(pieces);
    pieces.try_next().await.expect("the first").expect("there");
    let file = File::options().write(true).open(dir.path().join("a.md")).expect("open");
    file.set_len(PIECE * 2).expect("cut");
    assert!(pieces.try_collect::<Vec<_>>().await.is_err());
}

#[test]
fn bytes_that_are_no_text_are_seen() {
    assert!(written("Привет".as_bytes()).1.looks_like_text());
    assert!(!written(b"\x7fELF\0\0").1.looks_like_text());
}
