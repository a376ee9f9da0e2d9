//! Vectors of the documents on disk between two runs, so that only new texts are embedded.
//!
//! Layout of the file: a line that names the model, the number of vectors, their dimension, the digests of their
//! texts, the numbers, and a digest of all that. Invariants: the file is written as a whole or not at all, only
//! its owner can read it, and a lock file admits one writing gateway. A file for another model, one that is too
//! long, or one that is damaged is ignored. Because a model may change under its name, one text is embedded again
//! at each start. The file is used only after that vector was equal to the stored one.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN, digest};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::is_made_by;
use super::passages::{Digested, Passage};
use super::vectors::{DocumentVectors, Vectors};
use crate::embedding::{Embedding, Error};
use runtime::private_file;

/// Pause between two writes.
const WRITE_INTERVAL: Duration = Duration::from_mins(1);
/// Longest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Numbers that are written at a time.
const CHUNK: usize = 16 * 1024;

/// The vector file of one handbook, with its content at the start.
pub(in super::super) struct VectorCache {
    file: Option<VectorFile>,
    cached: CachedVectors,
    /// Whether `cached` was made by the current model.
    is_proven: bool,
    /// Whether there are vectors that the file lacks.
    is_behind: bool,
    next_write: Instant,
    writing: Option<JoinHandle<(bool, VectorFile)>>,
}

impl VectorCache {
    /// The file at `path`, for the vectors of the model that `model` identifies. Without a path nothing is
    /// stored.
    pub(in super::super) fn new(path: Option<PathBuf>, model: &str) -> Self {
        Self {
            file: path.map(|path| VectorFile::new(path, model)),
            cached: CachedVectors::default(),
            is_proven: false,
            is_behind: false,
            next_write: Instant::now(),
            writing: None,
        }
    }

    /// Reads the file.
    pub(super) async fn open(mut self) -> Self {
        let Some(mut file) = self.file.take() else { return self };
        let read = tokio::task::spawn_blocking(move || (file.read(), file)).await;
        if let Ok((cached, file)) = read {
            self.cached = cached.unwrap_or_default();
            self.file = Some(file);
        }
        self
    }

    /// Returns the vector of the text with this digest.
    pub(super) fn find(&self, digest: &Digested) -> Option<Vec<f32>> {
        self.cached.find(digest).filter(|_| self.is_proven)
    }

    /// Checks with one of `passages` that `model` made the stored vectors, and drops them if not. An error is
    /// the provider's, and leaves the question open.
    pub(super) async fn prove<'a>(
        &mut self,
        model: &dyn Embedding,
        mut passages: impl Iterator<Item = &'a Passage>,
    ) -> Result<(), Error> {
        if self.is_proven {
            return Ok(());
        }
        if self.cached.places.is_empty() {
            // All documents are embedded again, and the cache may have questions that an earlier model embedded.
            model.forget_cached().await;
            self.is_proven = true;
            return Ok(());
        }
        let first = passages.find_map(|passage| Some((passage, self.cached.find(&passage.digest())?)));
        let Some((passage, vector)) = first else { return Ok(()) };
        self.is_proven = is_made_by(model, passage, &vector).await?;
        if !self.is_proven {
            tracing::info!(
                "the embedding model is another one than before: all documents are embedded again"
            );
            self.forget();
        }
        Ok(())
    }

    /// Drops the content that was read, after every document has its vectors.
    pub(super) fn forget(&mut self) {
        self.cached = CachedVectors::default();
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
        self.next_write = Instant::now() + WRITE_INTERVAL;
        self.writing = Some(tokio::task::spawn_blocking(move || (file.write(&vectors), file)));
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

/// Content of the file.
#[derive(Debug, Default)]
struct CachedVectors {
    /// Start of each vector in `bytes`, by the digest of its text.
    places: HashMap<Digested, usize>,
    vector_bytes: usize,
    bytes: Vec<u8>,
}

impl CachedVectors {
    /// Reads the content `bytes` of a file that begins with `head`. Returns `None` if it is for another model.
    fn parse(bytes: Vec<u8>, head: &str) -> io::Result<Option<Self>> {
        let damaged = || io::Error::other("it is damaged");
        let end = bytes.len().checked_sub(SHA256_OUTPUT_LEN).ok_or_else(damaged)?;
        if digest(&SHA256, &bytes[..end]).as_ref() != &bytes[end..] {
            return Err(damaged());
        }
        let Some(body) = bytes[..end].strip_prefix(head.as_bytes()) else { return Ok(None) };
        let ([count, dimension], body) = numbers(body).ok_or_else(damaged)?;
        let vector_bytes = dimension.checked_mul(size_of::<f32>()).ok_or_else(damaged)?;
        let entry_bytes = vector_bytes.checked_add(size_of::<Digested>());
        if entry_bytes.and_then(|entry| entry.checked_mul(count)) != Some(body.len()) {
            return Err(damaged());
        }
        let (digests, vectors) = body.split_at(count * size_of::<Digested>());
        let start = end - vectors.len();
        let place = |(at, digest): (usize, &Digested)| (*digest, start + at * vector_bytes);
        let places = digests.as_chunks().0.iter().enumerate().map(place).collect();
        Ok(Some(Self { places, vector_bytes, bytes }))
    }

    fn find(&self, digest: &Digested) -> Option<Vec<f32>> {
        let start = *self.places.get(digest)?;
        let bytes = self.bytes.get(start..start + self.vector_bytes)?;
        Some(bytes.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect())
    }
}

/// Reads the two numbers at the start of `body`.
fn numbers(body: &[u8]) -> Option<([usize; 2], &[u8])> {
    let (first, rest) = body.split_first_chunk()?;
    let (second, rest) = rest.split_first_chunk()?;
    let number = |bytes: &[u8; 8]| usize::try_from(u64::from_le_bytes(*bytes)).ok();
    Some(([number(first)?, number(second)?], rest))
}

/// The file, and the lock that permits writing it.
struct VectorFile {
    path: PathBuf,
    /// The first line of the file.
    head: String,
    lock: Option<File>,
    /// Last reason why the file could not be read or written. Each reason is logged once.
    complained: Option<String>,
}

impl VectorFile {
    fn new(path: PathBuf, model: &str) -> Self {
        Self { path, head: format!("switchyard handbook vectors 2 {model}\n"), lock: None, complained: None }
    }

    /// Reads the file. Returns `None` if there is no usable one.
    fn read(&mut self) -> Option<CachedVectors> {
        let bytes = match private_file::read(&self.path, MAX_FILE_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            read => read,
        };
        let parsed = bytes.and_then(|bytes| CachedVectors::parse(bytes, &self.head));
        if let Ok(None) = parsed {
            tracing::info!(file = %self.path.display(), "the vectors are those of another model and are made again");
        }
        parsed.map_err(|error| self.complain("read, and is made again", &error)).ok().flatten()
    }

    /// Replaces the file. Returns false, and logs a warning, if that failed.
    fn write(&mut self, vectors: &Vectors) -> bool {
        let written = self.try_write(vectors);
        match &written {
            Ok(()) => self.complained = None,
            Err(error) => self.complain("written", error),
        }
        written.is_ok()
    }

    fn try_write(&mut self, vectors: &Vectors) -> io::Result<()> {
        if self.lock.is_none() {
            let lock = private_file::open_lock(&self.path)?;
            let in_use = |_| io::Error::other("another gateway writes it");
            lock.try_lock().map_err(in_use)?;
            self.lock = Some(lock);
        }
        let documents: Vec<&DocumentVectors> =
            vectors.by_serial.values().map(AsRef::as_ref).filter(|of| !of.digests.is_empty()).collect();
        let dimension = documents.first().map_or(0, |of| of.numbers.len() / of.digests.len());
        let fits = |of: &&&DocumentVectors| of.numbers.len() == of.digests.len() * dimension;
        let count: usize = documents.iter().filter(fits).map(|of| of.digests.len()).sum();
        private_file::replace_with(&self.path, |file| {
            let mut digest = Context::new(&SHA256);
            let mut put = |bytes: &[u8]| {
                digest.update(bytes);
                file.write_all(bytes)
            };
            put(self.head.as_bytes())?;
            put(&(count as u64).to_le_bytes())?;
            put(&(dimension as u64).to_le_bytes())?;
            for text in documents.iter().filter(fits).flat_map(|of| &of.digests) {
                put(text)?;
            }
            for chunk in documents.iter().filter(fits).flat_map(|of| of.numbers.chunks(CHUNK)) {
                put(&chunk.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())?;
            }
            file.write_all(digest.finish().as_ref())
        })
    }

    fn complain(&mut self, what: &str, error: &io::Error) {
        let reason = error.to_string();
        if self.complained.as_ref() != Some(&reason) {
            tracing::warn!(file = %self.path.display(), reason, "the vectors of the handbook cannot be {what}");
        }
        self.complained = Some(reason);
    }
}

#[cfg(test)]
#[path = "vector_cache_tests.rs"]
mod tests;
