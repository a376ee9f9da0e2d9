//! Backups: saves the earlier version of a document while a new one replaces it. R2R cannot replace a
//! document, so the earlier version is removed first, and restored if the new one is refused.
//!
//! ```text
//!  content ──► file on disk ──► noted in the journal ──► removed ──► sent ── taken in: the file goes
//!                                                                     └── refused: sent again from the file
//! ```
//!
//! Invariants: a removal is noted in the journal first, so it survives a restart. A restored document has the
//! digest and the metadata of the removed one, and never replaces a complete document. A backup can be read
//! by its owner only, and there are at most [`MOST`] of them. If R2R does not return the content, or it
//! exceeds the limit for responses, there is no backup. A refusal then says that the earlier version is gone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::form::{self, DocumentForm};
use super::job::{ErrorAction, IngestJob, TRIES, pause, what_next};
use super::journal::{Journal, RemovedDocument};
use super::source::SourceFile;
use super::tasks::{JOB_LIMIT, Task, Tasks, is_parked};
use crate::answer::Failure;
use crate::r2r::id::Id;
use crate::r2r::model::{R2rDocument, Stage};
use runtime::private_file;
use upstream::api::Error;

/// Most backups at a time.
const MOST: usize = 64;
/// Extension of a backup file. The name of the journal and the id of the document precede it.
const ENDING: &str = "earlier";

impl IngestJob<'_> {
    /// Saves the content of `there` and notes the removal, if `there` is a complete document.
    pub(super) async fn keep(&self, there: &R2rDocument) -> Result<(), Failure> {
        if there.stage() != Stage::Success || self.journal.removed(self.number).is_some() {
            return Ok(());
        }
        let content = self.content().await?;
        let digest = form::digest(&there.metadata).map(str::to_owned);
        let document = Id(self.form.id);
        let is_kept = match content.zip(digest) {
            Some((content, digest)) => self.journal.keep(document, content, digest).await,
            None => false,
        };
        tracing::debug!(%document, is_kept, "an earlier version is to be removed");
        self.journal
            .note_removal(self.number, RemovedDocument { metadata: there.metadata.clone(), is_kept })
            .await;
        Ok(())
    }

    /// Returns the content of the earlier version, if R2R provides it. While R2R is unavailable nothing is
    /// removed.
    async fn content(&self) -> Result<Option<Bytes>, Failure> {
        let mut tries = 0;
        loop {
            let error = match self.remote.content(self.form.id).await {
                Ok(content) => return Ok(content),
                Err(error) => error,
            };
            let is_away = what_next(&error) == ErrorAction::Again;
            let is_waited_for = is_away && !self.is_awaited;
            if tries + 1 >= TRIES && !is_waited_for {
                tracing::debug!(document = %self.form.id, %error, "an earlier version cannot be kept");
                return if is_away { Err(error.into()) } else { Ok(None) };
            }
            sleep(pause(tries, &error)).await;
            tries += 1;
        }
    }
}

impl Tasks {
    /// Restores what `task` removed before it failed with `failure`. Returns the failure for the client.
    pub(super) async fn put_back(&self, task: &Task, failure: Failure) -> Failure {
        let Some(removed) = self.journal.removed(task.number) else { return failure };
        // A restarted gateway resumes the document, and finds this record again.
        if is_parked(&failure) {
            return with(failure, "the earlier version was removed before");
        }
        let document = task.entry.document;
        let turn = self.turn(document.0);
        let _turn = turn.lock().await;
        let restored = timeout(JOB_LIMIT, self.restored(task, &removed)).await;
        match restored.unwrap_or(Err(Error::TimedOut { after: JOB_LIMIT }.into())) {
            Ok(Restored::Never) => {
                self.journal.forget_kept(document).await;
                failure
            }
            Ok(Restored::Back) => {
                self.journal.forget_kept(document).await;
                with(failure, "the earlier version was put back")
            }
            Err(why) => {
                let file = removed.is_kept.then(|| self.journal.kept_at(document).display().to_string());
                tracing::error!(%document, kept_in = file, ?why, "the earlier version of a document could not be put back");
                with(failure, "the earlier version was removed before")
            }
        }
    }

    async fn restored(&self, task: &Task, removed: &RemovedDocument) -> Result<Restored, Failure> {
        let document = task.entry.document;
        if self.remote.document(document.0).await?.is_some_and(|there| there.stage() == Stage::Success) {
            return Ok(Restored::Never);
        }
        let gone = || Error::Unavailable { state: "not kept" };
        let form =
            DocumentForm::earlier((document.0, task.entry.collection.0), task.entry.mode, &removed.metadata);
        let form = form.filter(|_| removed.is_kept).ok_or_else(gone)?;
        let source = self.journal.kept(document, form.name()).await.map_err(|_| gone())?;
        let Ok(upload) = self.uploads.acquire().await else { return Err(gone().into()) };
        let (steps, _) = watch::channel(super::Step { share: 0.0, message: String::new(), outcome: None });
        let job = IngestJob {
            remote: self.remote.as_ref(),
            path: &task.entry.path,
            source,
            form,
            steps: &steps,
            uploads: &self.uploads,
            journal: &self.journal,
            number: task.number,
            is_awaited: false,
            is_watched: false,
        };
        job.run(upload).await.map(|_| Restored::Back)
    }
}

/// Result of a restore.
enum Restored {
    /// R2R has a complete document: it was not removed, or another program put one there.
    Never,
    /// The earlier version is in R2R again.
    Back,
}

impl Journal {
    /// Saves `content` as the backup of `document`, if it has `digest`. Returns whether it was saved.
    async fn keep(&self, document: Id, content: Bytes, digest: String) -> bool {
        if !self.is_ours() {
            return false;
        }
        let (path, journal) = (self.kept_at(document), self.path().to_owned());
        let kept = spawn_blocking(move || {
            if hex::encode(Sha256::digest(&content)) != digest
                || (!path.exists() && kept_beside(&journal)? >= MOST)
            {
                return Ok(false);
            }
            private_file::replace(&path, &content).map(|()| true)
        });
        kept.await.map_err(io::Error::other).and_then(|kept| kept).unwrap_or_else(|error| {
            tracing::warn!(%document, %error, "an earlier version could not be kept");
            false
        })
    }

    /// Opens the backup of `document`, as a file called `name`.
    async fn kept(&self, document: Id, name: String) -> io::Result<SourceFile> {
        let path = self.kept_at(document);
        let opened = spawn_blocking(move || {
            let file = private_file::open(&path)?;
            let len = file.metadata()?.len();
            Ok(SourceFile::new(file, name, len))
        });
        opened.await.map_err(io::Error::other)?
    }

    /// Deletes the backup of `document`.
    pub(super) async fn forget_kept(&self, document: Id) {
        let path = self.kept_at(document);
        // Usually there is none. A backup of another gateway must not be removed.
        if !self.is_ours() {
            return;
        }
        let _ = spawn_blocking(move || fs::remove_file(path)).await;
    }

    fn kept_at(&self, document: Id) -> PathBuf {
        private_file::beside(self.path(), &format!("{document}.{ENDING}"))
    }
}

/// Counts the backups beside the journal at `path`.
fn kept_beside(path: &Path) -> io::Result<usize> {
    let Some((folder, name)) = path.parent().zip(path.file_name()) else { return Ok(0) };
    let name = name.to_string_lossy();
    let is_kept = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| {
            let other = entry.file_name();
            let other = other.to_string_lossy();
            other.starts_with(&*name) && other.ends_with(ENDING)
        })
    };
    Ok(fs::read_dir(folder)?.filter_map(|entry| is_kept(entry).then_some(())).count())
}

/// Returns `failure` with a text about the earlier version.
fn with(failure: Failure, what: &str) -> Failure {
    let and = |words: &str| format!("{words} ({what})");
    match failure {
        Failure::Refused(refusal) => {
            let words = and(refusal.message());
            Failure::Refused(refusal.because(&words))
        }
        // This error has no text of its own.
        Failure::Failed(error @ Error::TimedOut { .. }) => {
            Failure::Failed(Error::Lost { reason: and(&error.to_string()) })
        }
        Failure::Failed(error) => Failure::Failed(error.reworded(|words| and(&words))),
    }
}
