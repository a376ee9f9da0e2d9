//! Reads the output of `git log -z --raw`, to find the commit that gave a file its current content.
//!
//! The newest commit that produced exactly this content counts, so neither a merge nor a revert in between
//! misleads.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;

/// Longest part of the output that is kept: a path, or a commit with its first change.
const LONGEST: usize = 64 * 1024;
/// Byte before the time of a commit.
const MARK: u8 = 1;
/// Format of a commit for git: the mark, then the time in seconds since 1970.
pub(super) const FORMAT: &str = "--format=format:%x01%ct";

/// Id of a content in git: its digests for repositories of both kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Blob {
    sha1: [u8; 20],
    sha256: [u8; 32],
}

impl Blob {
    /// Computes the digests that git uses for these bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let (mut sha1, mut sha256) = ([0; 20], [0; 32]);
        sha1.copy_from_slice(&digest_of(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes));
        sha256.copy_from_slice(&digest_of(&digest::SHA256, bytes));
        Self { sha1, sha256 }
    }

    /// Returns the collision-resistant digest.
    pub(super) fn strong(&self) -> [u8; 32] {
        self.sha256
    }

    /// Whether `name` is the id that git uses.
    pub(super) fn is_called(&self, name: &[u8]) -> bool {
        let own: &[u8] = if name.len() == 2 * self.sha1.len() { &self.sha1 } else { &self.sha256 };
        let digits = own.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        name.iter().copied().eq(digits.map(|digit| b"0123456789abcdef"[usize::from(digit)]))
    }
}

fn digest_of(algorithm: &'static digest::Algorithm, bytes: &[u8]) -> Vec<u8> {
    let mut digest = digest::Context::new(algorithm);
    digest.update(format!("blob {}\0", bytes.len()).as_bytes());
    digest.update(bytes);
    digest.finish().as_ref().to_vec()
}

/// Files by path, each with the time of the commit that gave it its current content.
pub(super) type CommitTimes = HashMap<String, (Blob, SystemTime)>;

/// Reader of git output with `-z`: parts that end with a zero byte.
pub(super) trait GitOutput {
    /// Returns the buffer of the current part.
    fn begun(&mut self) -> &mut Vec<u8>;

    /// Reads a complete part.
    fn read(&mut self, piece: &[u8]);

    /// Whether every file was found.
    fn is_done(&self) -> bool;

    /// Reads the next bytes, wherever they were split. Returns false when every file was found.
    fn take(&mut self, bytes: &[u8]) -> bool {
        for &byte in bytes {
            match byte {
                0 => {
                    let piece = std::mem::take(self.begun());
                    self.read(&piece);
                }
                // A part longer than the limit is not a wanted path.
                _ if self.begun().len() < LONGEST => self.begun().push(byte),
                _ => {}
            }
        }
        !self.is_done()
    }
}

/// Reads the output part by part, newest commit first.
pub(super) struct LogReader {
    wanted: HashMap<String, Blob>,
    found: CommitTimes,
    piece: Vec<u8>,
    /// Time of the commit whose changes are being read.
    time: Option<SystemTime>,
    oldest: Option<SystemTime>,
    /// Content id of the file whose path comes next.
    content: Option<Vec<u8>>,
}

impl LogReader {
    /// Makes a reader that looks for the commits of these files.
    pub(super) fn new(wanted: HashMap<String, Blob>) -> Self {
        Self { wanted, found: HashMap::new(), piece: Vec::new(), time: None, oldest: None, content: None }
    }

    /// Returns the found files, the missing ones, and the time of the oldest commit. Ignores an incomplete
    /// last part.
    pub(super) fn finish(self) -> (CommitTimes, HashMap<String, Blob>, Option<SystemTime>) {
        (self.found, self.wanted, self.oldest)
    }

    fn commit(&mut self, seconds: &[u8]) {
        let seconds = std::str::from_utf8(seconds).ok().and_then(|text| text.trim().parse().ok());
        self.time = seconds.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
        self.oldest = match (self.oldest, self.time) {
            (Some(oldest), Some(time)) => Some(oldest.min(time)),
            (oldest, time) => oldest.or(time),
        };
    }

    fn changed(&mut self, path: &[u8], content: &[u8]) {
        let (Ok(path), Some(time)) = (std::str::from_utf8(path), self.time) else { return };
        if self.wanted.get(path).is_some_and(|blob| blob.is_called(content))
            && let Some((path, blob)) = self.wanted.remove_entry(path)
        {
            self.found.insert(path, (blob, time));
        }
    }
}

impl GitOutput for LogReader {
    fn begun(&mut self) -> &mut Vec<u8> {
        &mut self.piece
    }

    fn read(&mut self, piece: &[u8]) {
        if let Some(content) = self.content.take() {
            return self.changed(piece, &content);
        }
        let mut change = piece;
        if let [MARK, rest @ ..] = change {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            self.commit(&rest[..end]);
            change = rest.get(end + 1..).unwrap_or_default();
        }
        // `:MODE MODE BLOB BLOB STATUS`. A merge has one more mode and blob for each parent.
        if change.starts_with(b":") {
            self.content = change.rsplit(|byte| *byte == b' ').nth(1).map(<[u8]>::to_vec);
        }
    }

    fn is_done(&self) -> bool {
        self.wanted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OLD: &str = "0000000000000000000000000000000000000000";
    /// Output of `git hash-object` for `a\n`, in repositories of both kinds.
    const A: &str = "78981922613b2afb6025042ff6bd878ac1994e85";

    fn wanted(files: &[(&str, &str)]) -> HashMap<String, Blob> {
        files.iter().map(|(path, text)| ((*path).to_owned(), Blob::of(text.as_bytes()))).collect()
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn contents_are_called_what_git_calls_them() {
        let blob = Blob::of(b"a\n");
        assert!(blob.is_called(A.as_bytes()));
        assert!(blob.is_called(b"f8625e43f9e04f24291f77cdbe4c71b3c2a3b0003f60419b3ed06a058d766c8b"));
        assert!(!blob.is_called(OLD.as_bytes()) && !blob.is_called(b""));
    }

    #[test]
    fn the_newest_commit_counts_that_made_the_file_what_it_is() {
        let log = format!(
            "\x01400\n:100644 000000 {A} {OLD} D\0gone.md\0\0\
             \x01300\n:100644 100644 {A} 1111111111111111111111111111111111111111 M\0edited.md\0\
             ::100644 100644 100644 {OLD} {OLD} {A} MM\0sub/merged ü.md\0\0\
             \x01200\n:000000 100644 {OLD} {A} A\0a.md\0:000000 100644 {OLD} {A} A\0other.txt\0\0\
             \x01100\n:000000 100644 {OLD} {A} A\0a.md\0:000000 100644 {OLD} {A} A\0edited.md\0"
        );
        let files = [("a.md", "a\n"), ("sub/merged ü.md", "a\n"), ("edited.md", "b\n"), ("new.md", "a\n")];
        for size in [1, 7, log.len()] {
            let mut reader = LogReader::new(wanted(&files));
            assert!(log.as_bytes().chunks(size).all(|part| reader.take(part)), "two are never found");
            let (found, unfound, oldest) = reader.finish();
            assert!(unfound.contains_key("new.md") && !unfound.contains_key("a.md"));
            assert_eq!(oldest, Some(at(100)));
            let times: HashMap<&str, SystemTime> =
                found.iter().map(|(path, (_, time))| (path.as_str(), *time)).collect();
            assert_eq!(times, HashMap::from([("a.md", at(200)), ("sub/merged ü.md", at(300))]));
        }
    }

    #[test]
    fn it_stops_when_all_are_found() {
        let mut reader = LogReader::new(wanted(&[("a.md", "a\n")]));
        assert!(reader.take(format!("\x017\n:000000 100644 {OLD} {A} A\0a.m").as_bytes()));
        assert!(!reader.take(b"d\0"));
    }

    proptest! {
        #[test]
        fn no_output_is_too_odd(log in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(b':'), Just(b'\n'), any::<u8>()], 0..300)) {
            let mut reader = LogReader::new(wanted(&[("a.md", "a\n")]));
            prop_assert!(reader.take(&log));
            prop_assert!(reader.finish().0.is_empty());
        }
    }
}
