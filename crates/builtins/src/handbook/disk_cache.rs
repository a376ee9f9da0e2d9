//! A cache file that saves work after a restart. The handbook also works without it.
//!
//! Layout: a line that names the kind and version, the body, and a digest of both. Invariants: the file is
//! written as a whole or not at all, only its owner can read it, and a lock file admits one writing gateway.
//! A file of another kind or version, one that is too long, or one with a wrong digest is ignored. Without a
//! usable file the caller repeats the work. All functions may block.
//!
//! Not here: the content of the body (`archive`, `semantic/vector_cache`).

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::PathBuf;

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN};

use runtime::private_file;

/// Longest file that is read, in bytes.
const MOST_BYTES: u64 = 1 << 30;

/// The path of a cache file, and the lock that permits writing it.
pub(super) struct Kept {
    path: PathBuf,
    /// The first line of the file.
    head: String,
    lock: Option<File>,
    /// Last reason why the file could not be read or written. Each reason is logged once.
    complained: Option<String>,
}

/// Reader of the body that computes the digest.
pub(super) struct Body<R> {
    file: R,
    /// Bytes of the body that were not read yet.
    pub left: u64,
    digest: Context,
}

/// Writer that computes the digest of what it writes.
pub(super) struct Digesting<'a, W> {
    file: &'a mut W,
    digest: Context,
}

impl Kept {
    /// The file at `path`. `what` names everything whose change makes the content useless.
    pub(super) fn new(path: PathBuf, what: &str) -> Self {
        let head = format!("switchyard {what}\n");
        Self { path, head, lock: None, complained: None }
    }

    /// Returns what `read` makes of the body. Returns `None` if there is no usable file; a damaged one is
    /// logged.
    pub(super) fn read<T>(
        &mut self,
        read: impl FnOnce(&mut Body<BufReader<File>>) -> io::Result<T>,
    ) -> Option<T> {
        match self.try_read(read) {
            Ok(found) => found,
            Err(error) => {
                self.complain("read, and is built again", &error);
                None
            }
        }
    }

    fn try_read<T>(
        &self,
        read: impl FnOnce(&mut Body<BufReader<File>>) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        let file = match private_file::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        let frame = (self.head.len() + SHA256_OUTPUT_LEN) as u64;
        if metadata.len() > MOST_BYTES || metadata.len() < frame {
            return Err(io::Error::other("it is no file of this kind"));
        }
        let mut body = Body::new(BufReader::new(file), metadata.len() - SHA256_OUTPUT_LEN as u64);
        let mut head = vec![0; self.head.len()];
        body.read_exact(&mut head)?;
        if head != self.head.as_bytes() {
            tracing::info!(file = %self.path.display(), "it is of another version or for another model and is built again");
            return Ok(None);
        }
        let found = read(&mut body)?;
        body.finish()?;
        Ok(Some(found))
    }

    /// Replaces the body with what `write` writes. Returns false, and logs a warning, if that failed.
    pub(super) fn write(
        &mut self,
        write: impl FnOnce(&mut Digesting<'_, io::BufWriter<File>>) -> io::Result<()>,
    ) -> bool {
        let written = self.try_write(write);
        match &written {
            Ok(()) => self.complained = None,
            Err(error) => self.complain("written", error),
        }
        written.is_ok()
    }

    fn try_write(
        &mut self,
        write: impl FnOnce(&mut Digesting<'_, io::BufWriter<File>>) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.lock.is_none() {
            let lock = private_file::open_lock(&self.path)?;
            let in_use = |_| io::Error::other("another gateway writes it");
            lock.try_lock().map_err(in_use)?;
            self.lock = Some(lock);
        }
        let head = self.head.as_bytes();
        private_file::replace_with(&self.path, |file| {
            let mut out = Digesting { file, digest: Context::new(&SHA256) };
            out.write_all(head)?;
            write(&mut out)?;
            let digest = out.digest.finish();
            file.write_all(digest.as_ref())
        })
    }

    fn complain(&mut self, what: &str, error: &io::Error) {
        let reason = error.to_string();
        if self.complained.as_ref() != Some(&reason) {
            tracing::warn!(file = %self.path.display(), reason, "a file of the handbook cannot be {what}");
        }
        self.complained = Some(reason);
    }
}

impl<R: Read> Body<R> {
    fn new(file: R, left: u64) -> Self {
        Self { file, left, digest: Context::new(&SHA256) }
    }

    /// Reads the next `length` bytes.
    pub(super) fn take(&mut self, length: u64) -> io::Result<Vec<u8>> {
        if length > self.left {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads the next number.
    pub(super) fn number(&mut self) -> io::Result<u64> {
        let mut bytes = [0; size_of::<u64>()];
        self.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Checks that the body was read completely and that its digest is correct.
    fn finish(mut self) -> io::Result<()> {
        let mut written = [0; SHA256_OUTPUT_LEN];
        self.file.read_exact(&mut written)?;
        if self.left > 0 || self.digest.finish().as_ref() != written {
            return Err(io::Error::other("it is damaged"));
        }
        Ok(())
    }
}

impl<R: Read> Read for Body<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).map_or(into.len(), |left| left.min(into.len()));
        let read = self.file.read(&mut into[..most])?;
        self.left -= read as u64;
        self.digest.update(&into[..read]);
        Ok(read)
    }
}

impl<W: Write> Write for Digesting<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use std::path::Path;

    use super::*;

    fn kept(folder: &Path) -> Kept {
        Kept::new(folder.join("state/docs.index"), "test 1")
    }

    fn text(kept: &mut Kept) -> Option<String> {
        kept.read(|body| {
            let length = body.number()?;
            String::from_utf8(body.take(length)?).map_err(io::Error::other)
        })
    }

    fn put(kept: &mut Kept, text: &str) -> bool {
        kept.write(|out| {
            out.write_all(&(text.len() as u64).to_le_bytes())?;
            out.write_all(text.as_bytes())
        })
    }

    #[test]
    fn what_was_written_last_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut one = kept(folder.path());
        assert_eq!(text(&mut one), None);
        assert!(put(&mut one, "first") && put(&mut one, "second"));
        assert_eq!(text(&mut kept(folder.path())).as_deref(), Some("second"));
    }

    #[test]
    fn no_byte_of_it_can_be_another_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut one = kept(folder.path());
        assert!(put(&mut one, "some text"));
        let whole = fs::read(&one.path).expect("there");
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&one.path, &damaged).expect("written");
            assert_eq!(text(&mut one), None, "byte {at}");
            fs::write(&one.path, &whole[..at]).expect("written");
            assert_eq!(text(&mut one), None, "cut at {at}");
        }
        fs::write(&one.path, [&whole[..], b"x"].concat()).expect("written");
        assert_eq!(text(&mut one), None, "longer");
        fs::write(&one.path, &whole).expect("written");
        assert_eq!(text(&mut one).as_deref(), Some("some text"));
    }

    #[test]
    fn one_gateway_writes_and_another_reads() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut one, mut other) = (kept(folder.path()), kept(folder.path()));
        assert!(put(&mut one, "one"));
        assert!(!put(&mut other, "other"));
        assert_eq!(text(&mut other).as_deref(), Some("one"));
        drop(one);
        assert!(put(&mut other, "other"), "the lock went with its holder");
        assert_eq!(text(&mut other).as_deref(), Some("other"));
    }

    #[test]
    fn a_write_that_fails_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut one = kept(folder.path());
        assert!(put(&mut one, "one"));
        assert!(!one.write(|out| {
            out.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        }));
        assert_eq!(text(&mut one).as_deref(), Some("one"));
        assert!(!private_file::beside(&one.path, "new").exists());
    }
}
