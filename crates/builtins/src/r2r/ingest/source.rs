//! An open file to be sent: its digest, and its bytes in chunks.
//!
//! Invariants: at most one chunk is in memory. The sent bytes are those of the digest. Otherwise the transfer
//! ends before its last chunk with a [`Fault`], so R2R never ingests half a file or a mixture of two
//! versions.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use futures_util::stream::try_unfold;
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

/// Bytes that are read at a time.
const PIECE: u64 = 128 * 1024;
/// Bytes at the start of a file that are searched for a zero byte, which no text has.
const PROBED: u64 = 8 * 1024;

/// An opened file.
#[derive(Debug, Clone)]
pub(super) struct SourceFile {
    pub file: Arc<File>,
    /// Name in R2R: that of its folder, and the path from there.
    pub(super) name: String,
    /// Size in bytes when it was opened.
    pub(super) len: u64,
}

/// Why a file could not be read completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// It changed after its digest was computed.
    Changed,
    /// The disk reported an error.
    Unreadable(String),
}

/// Where a transfer stores why it ended early.
pub(super) type Faults = Arc<Mutex<Option<Fault>>>;

/// Receives the number of bytes that were sent.
pub(super) type Sent = Box<dyn Fn(u64) + Send>;

impl SourceFile {
    pub(super) fn new(file: File, name: String, len: u64) -> Self {
        Self { file: Arc::new(file), name, len }
    }

    /// Whether the file begins like a text. Blocks.
    pub(super) fn looks_like_text(&self) -> bool {
        self.read(0, PROBED.min(self.len)).is_ok_and(|bytes| !bytes.contains(&0))
    }

    /// Computes the SHA-256 of the file, in hexadecimal.
    pub(super) async fn digest(&self) -> Result<String, Fault> {
        let source = self.clone();
        let digest = spawn_blocking(move || {
            let mut hash = Sha256::new();
            let mut at = 0;
            while at < source.len {
                let piece = source.read(at, PIECE.min(source.len - at))?;
                at += piece.len() as u64;
                hash.update(&piece);
            }
            source.ends().map(|()| hex::encode(hash.finalize()))
        });
        digest.await.map_err(|error| Fault::Unreadable(error.to_string()))?
    }

    /// Returns the file in chunks. If its digest is no longer `digest`, the stream ends before the last chunk
    /// and `faults` has the reason. `sent` receives the number of bytes so far.
    pub(super) fn pieces(
        &self,
        digest: &str,
        faults: &Faults,
        sent: Sent,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
        let reader = UploadReader {
            source: self.clone(),
            digest: digest.to_owned(),
            faults: Arc::clone(faults),
            hash: Sha256::new(),
            at: 0,
            sent,
        };
        try_unfold(reader, |mut reader| async move {
            if reader.at == reader.source.len {
                return Ok(None);
            }
            let piece = reader.next().await?;
            Ok(Some((piece, reader)))
        })
    }

    fn read(&self, at: u64, len: u64) -> Result<Bytes, Fault> {
        let mut piece = BytesMut::zeroed(usize::try_from(len).unwrap_or(0));
        match self.file.read_exact_at(&mut piece, at) {
            Ok(()) => Ok(piece.freeze()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Fault::Changed),
            Err(error) => Err(Fault::Unreadable(error.kind().to_string())),
        }
    }

    /// Checks that the file has not grown.
    fn ends(&self) -> Result<(), Fault> {
        match self.file.read_at(&mut [0], self.len) {
            Ok(0) => Ok(()),
            Ok(_) => Err(Fault::Changed),
            Err(error) => Err(Fault::Unreadable(error.kind().to_string())),
        }
    }
}

struct UploadReader {
    source: SourceFile,
    digest: String,
    faults: Faults,
    hash: Sha256,
    at: u64,
    sent: Sent,
}

impl UploadReader {
    async fn next(&mut self) -> io::Result<Bytes> {
        let (source, at) = (self.source.clone(), self.at);
        let read = spawn_blocking(move || {
            let piece = source.read(at, PIECE.min(source.len - at))?;
            let is_last = at + piece.len() as u64 == source.len;
            if is_last {
                source.ends()?;
            }
            Ok((piece, is_last))
        });
        let read = read.await.unwrap_or_else(|error| Err(Fault::Unreadable(error.to_string())));
        read.and_then(|(piece, is_last)| self.checked(piece, is_last)).map_err(|fault| {
            let words = fault.words();
            *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
            io::Error::other(words)
        })
    }

    fn checked(&mut self, piece: Bytes, is_last: bool) -> Result<Bytes, Fault> {
        self.hash.update(&piece);
        self.at += piece.len() as u64;
        if is_last && hex::encode(std::mem::take(&mut self.hash).finalize()) != self.digest {
            return Err(Fault::Changed);
        }
        (self.sent)(self.at);
        Ok(piece)
    }
}

impl Fault {
    /// Describes the fault for people.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Changed => "The file changed while it was read; nothing of it was taken.".to_owned(),
            Self::Unreadable(why) => format!("The file could not be read: {why}."),
        }
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
