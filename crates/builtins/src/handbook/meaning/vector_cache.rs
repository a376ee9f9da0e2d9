//! Vectors on disk between two runs, so that a model is asked again only for texts that are new.
//!
//! Layout of the body: how many vectors, how many numbers in each, what texts they were made of, the
//! numbers. Invariants: it is for one model at one place, as it is configured; because a model may be another one
//! under its old name, one text is embedded anew at each start, and nothing is believed unless its vector
//! is what was kept. Until that is shown nothing is found here.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::indexer::{LIMIT, is_refusal};
use super::passages::{Digested, Passage};
use super::vectors::{OfDocument, Vectors};
use crate::embedding::{Embedding, Error, MOST_DIMENSIONS, is_same_direction};
use crate::handbook::disk_cache::{Body, Kept};

/// Pause between two writes.
const KEEPING: Duration = Duration::from_mins(1);
/// Numbers that are written or read in one piece.
const PIECE: usize = 16 * 1024;

/// What was kept.
#[derive(Debug, Default)]
struct Known {
    places: HashMap<Digested, usize>,
    length: usize,
    numbers: Vec<f32>,
    is_proven: bool,
}

/// The file for the vectors of one handbook, and what it said at the start.
pub(in super::super) struct KeptVectors {
    file: Option<Kept>,
    known: Known,
    /// Whether there are vectors that are not in it.
    is_behind: bool,
    next_write: Instant,
    writing: Option<JoinHandle<(bool, Kept)>>,
}

impl KeptVectors {
    /// The file at `path`, for the vectors of the model that `model` tells apart; none: nothing is kept.
    pub(in super::super) fn new(path: Option<PathBuf>, model: &str) -> Self {
        let file = path.map(|path| Kept::new(path, &format!("handbook vectors 1 {model}")));
        Self { file, known: Known::default(), is_behind: false, next_write: Instant::now(), writing: None }
    }

    /// Reads what is there.
    pub(super) async fn open(mut self) -> Self {
        let Some(mut file) = self.file.take() else { return self };
        let read = tokio::task::spawn_blocking(move || (file.read(Known::read), file)).await;
        if let Ok((known, file)) = read {
            self.known = known.unwrap_or_default();
            self.file = Some(file);
        }
        self
    }

    /// The vector of the text with this digest.
    pub(super) fn find(&self, digest: &Digested) -> Option<&[f32]> {
        self.known.find(digest).filter(|_| self.known.is_proven)
    }

    /// Shows by one of `passages` that `model` makes what is kept, or forgets it. The error is the provider's:
    /// then it is not known yet.
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

    /// Lets go of what was kept: every document has its vectors.
    pub(super) fn forget(&mut self) {
        self.known = Known::default();
    }

    /// There are new vectors.
    pub(super) fn fell_behind(&mut self) {
        self.is_behind = self.file.is_some() || self.writing.is_some();
    }

    /// When vectors are to be written, if they are.
    pub(super) fn due(&self) -> Option<Instant> {
        self.is_behind.then_some(self.next_write)
    }

    /// Writes them, if there are any that are not in the file. Who stops waiting leaves a write under way, and
    /// the next one waits for it.
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

/// Whether `model` makes `kept` of this passage now. What it refuses it did not make. The error is the provider's:
/// then it is not known yet.
pub(super) async fn is_made_by(
    model: &dyn Embedding,
    passage: &Passage,
    kept: &[f32],
) -> Result<bool, Error> {
    let text = [passage.text.clone()];
    match model.embed_anew(&text, Instant::now() + LIMIT).await {
        Err(error) if !is_refusal(&error) => Err(error),
        made => Ok(made.is_ok_and(|made| made.first().is_some_and(|made| is_same_direction(made, kept)))),
    }
}

impl Known {
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
