//! Vectors on disk between two runs, so that only new texts are embedded.
//!
//! Layout of the body: the number of vectors, their dimension, the digests of their texts, and the numbers.
//! Invariants: the file belongs to one model at one place with its settings. Because a model may change under
//! its name, one text is embedded again at each start. The file is used only after that vector was equal to
//! the stored one.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::passages::{Digested, Passage};
use super::provider::is_made_by;
use super::vectors::{OfDocument, Vectors};
use crate::embedding::{Embedding, Error, MOST_DIMENSIONS};
use crate::handbook::disk_cache::{Body, Kept};

/// Pause between two writes.
const KEEPING: Duration = Duration::from_mins(1);
/// Numbers that are written or read at a time.
const PIECE: usize = 16 * 1024;

/// Content of the file.
#[derive(Debug, Default)]
struct CachedVectors {
    places: HashMap<Digested, usize>,
    length: usize,
    numbers: Vec<f32>,
    is_proven: bool,
}

/// The vector file of one handbook, with its content at the start.
pub(in super::super) struct KeptVectors {
    file: Option<Kept>,
    known: CachedVectors,
    /// Whether there are vectors that the file lacks.
    is_behind: bool,
    next_write: Instant,
    writing: Option<JoinHandle<(bool, Kept)>>,
}

impl KeptVectors {
    /// The file at `path`, for the vectors of the model that `model` identifies. Without a path nothing is
    /// stored.
    pub(in super::super) fn new(path: Option<PathBuf>, model: &str) -> Self {
        let file = path.map(|path| Kept::new(path, &format!("handbook vectors 1 {model}")));
        Self {
            file,
            known: CachedVectors::default(),
            is_behind: false,
            next_write: Instant::now(),
            writing: None,
        }
    }

    /// Reads the file.
    pub(super) async fn open(mut self) -> Self {
        let Some(mut file) = self.file.take() else { return self };
        let read = tokio::task::spawn_blocking(move || (file.read(CachedVectors::read), file)).await;
        if let Ok((known, file)) = read {
            self.known = known.unwrap_or_default();
            self.file = Some(file);
        }
        self
    }

    /// Returns the vector of the text with this digest.
    pub(super) fn find(&self, digest: &Digested) -> Option<&[f32]> {
        self.known.find(digest).filter(|_| self.known.is_proven)
    }

    /// Checks with one of `passages` that `model` made the stored vectors, and drops them if not. An error is
    /// the provider's, and leaves the question open.
    pub(super) async fn prove<'a>(
        &mut self,
        model: &dyn Embedding,
        mut passages: impl Iterator<Item = &'a Passage>,
    ) -> Result<(), Error> {
        if self.known.is_proven || self.known.places.is_empty() {
            return Ok(());
        }
        let first = passages.find_map(|passage| Some((passage, self.known.find(&passage.digest())?)));
        let Some((passage, kept)) = first else { return Ok(()) };
        if is_made_by(model, passage, kept).await? {
            self.known.is_proven = true;
        } else {
            tracing::info!(
                "the embedding model is another one than before: all documents are embedded again"
            );
            self.forget();
        }
        Ok(())
    }

    /// Drops the content that was read, after every document has its vectors.
    pub(super) fn forget(&mut self) {
        self.known = CachedVectors::default();
    }

    /// Records that there are new vectors.
    pub(super) fn fell_behind(&mut self) {
        self.is_behind = self.file.is_some() || self.writing.is_some();
    }

    /// Returns when vectors should be written, if there are new ones.
    pub(super) fn due(&self) -> Option<Instant> {
        self.is_behind.then_some(self.next_write)
    }

    /// Writes the vectors, if there are new ones. If the caller is cancelled, the write continues, and the
    /// next call waits for it.
    pub(super) async fn write(&mut self, vectors: Arc<Vectors>) {
        self.settle().await;
        if !self.is_behind {
            return;
        }
        let Some(mut file) = self.file.take() else { return };
        self.is_behind = false;
        self.next_write = Instant::now() + KEEPING;
        let write = move || (file.write(|out| write(&vectors, out)), file);
        self.writing = Some(tokio::task::spawn_blocking(write));
        self.settle().await;
    }

    async fn settle(&mut self) {
        let Some(writing) = &mut self.writing else { return };
        let written = writing.await;
        self.writing = None;
        if let Ok((is_written, file)) = written {
            self.is_behind |= !is_written;
            self.file = Some(file);
        }
    }
}

impl CachedVectors {
    fn find(&self, digest: &Digested) -> Option<&[f32]> {
        let begin = self.places.get(digest)? * self.length;
        self.numbers.get(begin..begin + self.length)
    }

    fn read<R: Read>(body: &mut Body<R>) -> io::Result<Self> {
        let (count, length) = (body.number()?, body.number()?);
        let bytes = length.checked_mul(size_of::<f32>() as u64);
        let bytes = bytes.and_then(|bytes| (bytes + size_of::<Digested>() as u64).checked_mul(count));
        if length > MOST_DIMENSIONS as u64 || bytes != Some(body.left) {
            return Err(io::Error::other("its vectors are not as long as it says"));
        }
        let (count, length) = (to_usize(count)?, to_usize(length)?);
        let mut places = HashMap::with_capacity(count);
        for place in 0..count {
            let mut digest = Digested::default();
            body.read_exact(&mut digest)?;
            places.insert(digest, place);
        }
        let mut numbers = Vec::with_capacity(count * length);
        while numbers.len() < count * length {
            let most = PIECE.min(count * length - numbers.len());
            let piece = body.take((most * size_of::<f32>()) as u64)?;
            numbers.extend(piece.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        }
        Ok(Self { places, length, numbers, is_proven: false })
    }
}

fn to_usize(number: u64) -> io::Result<usize> {
    usize::try_from(number).map_err(io::Error::other)
}

fn write(vectors: &Vectors, out: &mut impl Write) -> io::Result<()> {
    let documents: Vec<&OfDocument> =
        vectors.by_serial.values().map(AsRef::as_ref).filter(|of| !of.digests.is_empty()).collect();
    let length = documents.first().map_or(0, |of| of.numbers.len() / of.digests.len());
    let fits = |of: &&&OfDocument| of.numbers.len() == of.digests.len() * length;
    let count: usize = documents.iter().filter(fits).map(|of| of.digests.len()).sum();
    out.write_all(&(count as u64).to_le_bytes())?;
    out.write_all(&(length as u64).to_le_bytes())?;
    for digest in documents.iter().filter(fits).flat_map(|of| &of.digests) {
        out.write_all(digest)?;
    }
    for piece in documents.iter().filter(fits).flat_map(|of| of.numbers.chunks(PIECE)) {
        let bytes: Vec<u8> = piece.iter().flat_map(|number| number.to_le_bytes()).collect();
        out.write_all(&bytes)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "vector_cache_tests.rs"]
mod tests;
