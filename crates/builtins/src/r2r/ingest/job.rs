//! Ingestion of one document: from its file to its collection in R2R.
//!
//! ```text
//!  look ── there, the same ──────────────────────────────► join ──► done
//!   │  ├── there, another, or failed: remove ──┐            ▲
//!   │  └── being worked on ──► follow ─► look  │            │
//!   └── not there ───────────────────────────► send ──► follow ── failed: the reason
//!                                                └── outcome unknown: look ─► stands still: remove, send, once
//! ```
//!
//! Invariants: before a step that may have been done is repeated, the job looks at the document in R2R. An
//! old version is removed only after the new file was read completely and the old one was saved (`backup`).
//! Between `remove` and `send` the document is missing, because R2R cannot replace one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, sleep};

use super::form::DocumentForm;
use super::journal::Journal;
use super::remote::R2rApi;
use super::source::{Faults, SourceFile};
use crate::answer::Failure;
use crate::r2r::id::Id;
use crate::r2r::model::{R2rDocument, Stage};
use crate::refusal::Refusal;
use upstream::api::Error;

/// First pause before a request is repeated, and between two looks at a document.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause between two looks, and before a request is repeated.
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// Longest pause between two looks if no client waits: there may be hundreds of such documents.
const LONGEST_UNWATCHED: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Most times that a document is sent, if requests end without an answer.
const SENDINGS: u32 = 3;
/// Most attempts of a request if a client waits for the document.
pub(super) const TRIES: u32 = 3;
/// Age in seconds at which an unfinished document counts as left behind: R2R was stopped while it worked on
/// the document, and never resumes such work by itself.
const ABANDONED: i64 = 3600;
/// How long R2R may show a document at one step, after a request whose answer was lost, until the document
/// counts as left behind. Except for the largest files, a step takes minutes at most.
const STILL: Duration = Duration::from_mins(10);

/// When an unfinished document counts as left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeftBehind {
    /// When it is old: another program or an earlier instance sent it.
    Old,
    /// When its step does not change: Switchyard sent it, and the result is unknown.
    Still,
    /// Never: R2R confirmed the document, or it was sent again already.
    Never,
}

/// Progress of a document.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// Share of the work that is done, from 0 to 1.
    pub(super) share: f64,
    pub(super) message: String,
    pub(super) outcome: Option<Outcome>,
}

pub(super) type Outcome = Result<Done, Failure>;

/// How a document came to be in its collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// It was there already, made of an identical file.
    Unchanged,
    /// It is new, or replaces another version.
    Ingested,
}

/// One document and everything that its ingestion needs.
pub(super) struct IngestJob<'a> {
    pub(super) remote: &'a dyn R2rApi,
    pub(super) path: &'a str,
    pub(super) source: SourceFile,
    pub(super) form: DocumentForm,
    pub(super) steps: &'a watch::Sender<Step>,
    /// Limits how many jobs send at a time.
    pub(super) uploads: &'a Semaphore,
    /// Where the job notes what it removes, under its `number`. After the job ended, its caller looks there
    /// in any case.
    pub(super) journal: &'a Journal,
    pub(super) number: u64,
    /// A client waits and should soon learn that R2R is unavailable. Otherwise the job waits for R2R.
    pub(super) is_awaited: bool,
    /// A client wants progress notifications.
    pub(super) is_watched: bool,
}

impl IngestJob<'_> {
    /// Ingests the document. A job that was dropped at any point can be run again. `upload` is the permit to
    /// send.
    pub(super) async fn run(&self, upload: SemaphorePermit<'_>) -> Outcome {
        let (mut upload, mut last, mut may_give_up) = (Some(upload), None, true);
        for sending in 0..=SENDINGS {
            let left_behind = match (sending, &last) {
                (0, _) => LeftBehind::Old,
                (1..SENDINGS, Some(_)) if may_give_up => LeftBehind::Still,
                _ => LeftBehind::Never,
            };
            match self.look(&mut upload, left_behind).await? {
                Some(there) if self.is_done(&there, sending) => {
                    self.join(&there).await?;
                    return Ok(if sending == 0 { Done::Unchanged } else { Done::Ingested });
                }
                Some(there) if there.stage() == Stage::Failed && sending > 0 => {
                    let reason = there.reason();
                    return Err(failed(reason.as_deref().unwrap_or("no reason was given")));
                }
                _ if sending == SENDINGS => break,
                Some(there) => {
                    self.regain(&mut upload).await;
                    self.step(0.04, "removing the earlier version");
                    self.keep(&there).await?;
                    self.insist(|| self.remote.remove(self.form.id)).await?;
                    may_give_up &= left_behind != LeftBehind::Still || there.stage() != Stage::Pending;
                }
                None => self.regain(&mut upload).await,
            }
            last = self.send(sending).await?;
        }
        // All attempts are used up. R2R has no document, or one that another program put there.
        Err(last.map_or_else(|| failed("it is not there although it was taken"), Failure::Failed))
    }

    /// Waits for the permit to send, before anything is removed.
    async fn regain<'s>(&'s self, upload: &mut Option<SemaphorePermit<'s>>) {
        if upload.is_none() {
            // The semaphore is never closed while the job runs.
            *upload = self.uploads.acquire().await.ok();
        }
    }

    /// Whether `there` is the finished document that this job should make.
    fn is_done(&self, there: &R2rDocument, sending: u32) -> bool {
        let is_same =
            self.form.is_same(&there.metadata) || (sending > 0 && self.form.is_same_content(&there.metadata));
        there.stage() == Stage::Success && is_same
    }

    /// Returns the document in R2R when nothing works on it any more, or when it counts as left behind. While
    /// it only waits, the job gives its permit back, so that documents which R2R forgot do not block others.
    async fn look(
        &self,
        upload: &mut Option<SemaphorePermit<'_>>,
        left_behind: LeftBehind,
    ) -> Result<Option<R2rDocument>, Failure> {
        let longest = if self.is_awaited { LONGEST_LOOK } else { LONGEST_UNWATCHED };
        let (mut pause, mut status, mut since) = (FIRST_PAUSE, String::new(), Instant::now());
        loop {
            let document = self.insist(|| self.remote.document(self.form.id)).await?;
            let Some(there) = document.as_ref().filter(|there| there.stage() == Stage::Pending) else {
                return Ok(document);
            };
            if there.ingestion_status != status {
                (status, since) = (there.ingestion_status.clone(), Instant::now());
            }
            let is_left_behind = match left_behind {
                LeftBehind::Old => there.age() > ABANDONED,
                LeftBehind::Still => since.elapsed() >= STILL,
                LeftBehind::Never => false,
            };
            if is_left_behind {
                return Ok(document);
            }
            *upload = None;
            self.worked(there);
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Sends the document. An error in `Ok` means that the result is unknown; the caller then looks.
    async fn send(&self, sending: u32) -> Result<Option<Error>, Failure> {
        self.step(0.05, "uploading");
        let mut tries = 0;
        loop {
            let error = match self.sent().await? {
                Ok(()) => return Ok(None),
                Err(error) => error,
            };
            tracing::debug!(document = %self.form.id, sending, %error, "a document was not taken at once");
            match what_next(&error) {
                // R2R may have the document, or may be making it.
                ErrorAction::Look => {
                    sleep(pause(sending, &error)).await;
                    return Ok(Some(error));
                }
                ErrorAction::Again if !self.is_awaited || tries + 1 < TRIES => {
                    sleep(pause(tries, &error)).await;
                }
                _ => return Err(error.into()),
            }
            tries += 1;
        }
    }

    /// Sends the document once, and waits until R2R answers or is seen to have finished.
    async fn sent(&self) -> Result<Result<(), Error>, Failure> {
        let (faults, sent) = (Faults::default(), Arc::new(AtomicU64::new(0)));
        let form = || {
            let sent = Arc::clone(&sent);
            let sent = Box::new(move |bytes| sent.store(bytes, Ordering::Relaxed));
            self.form.form(&self.source, &faults, sent)
        };
        let answer = tokio::select! {
            answer = self.remote.create(Box::new(form)) => answer,
            () = self.watch(&sent) => Ok(()),
        };
        match faults.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(fault) => Err(refusal(self.path, &fault.words()).into()),
            None => Ok(answer),
        }
    }

    /// Adds the document to its collection, unless it is in there.
    async fn join(&self, document: &R2rDocument) -> Result<(), Failure> {
        let (collection, id) = (self.form.collection, self.form.id);
        if !document.collection_ids.contains(&Id(collection)) {
            self.step(0.97, "joining its collection");
            self.insist(|| self.remote.join(collection, id)).await?;
        }
        Ok(())
    }

    /// Repeats a request until it is answered. Only for reading, removing and joining, which may be repeated.
    async fn insist<T, F: Future<Output = Result<T, Error>>>(
        &self,
        ask: impl Fn() -> F,
    ) -> Result<T, Failure> {
        let mut tries = 0;
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) if self.is_awaited && tries + 1 >= TRIES => return Err(error.into()),
                Err(error) => match what_next(&error) {
                    ErrorAction::Stop => return Err(error.into()),
                    ErrorAction::Again | ErrorAction::Look => sleep(pause(tries, &error)).await,
                },
            }
            tries += 1;
        }
    }

    /// Reports the progress of R2R while its answer is pending. Returns some time after R2R has finished the
    /// document, because the answer may be lost.
    async fn watch(&self, sent: &AtomicU64) {
        let mut pause = FIRST_PAUSE;
        loop {
            sleep(pause).await;
            let sent = sent.load(Ordering::Relaxed);
            if sent < self.source.len {
                #[allow(clippy::cast_precision_loss)] // a share to show
                let share = sent as f64 / self.source.len as f64;
                self.step(0.05 + 0.45 * share, "uploading");
                continue;
            }
            pause = (pause * 2).min(if self.is_watched { LONGEST_LOOK } else { LONGEST_PAUSE });
            match self.remote.document(self.form.id).await {
                Ok(Some(there)) if there.stage() == Stage::Pending => self.worked(&there),
                Ok(Some(_)) => return sleep(LONGEST_LOOK).await,
                _ => {}
            }
        }
    }

    fn worked(&self, document: &R2rDocument) {
        self.step(0.5 + 0.5 * document.progress(), &document.ingestion_status);
    }

    fn step(&self, share: f64, message: &str) {
        self.steps.send_if_modified(|step| {
            // Progress never decreases, even if steps are repeated.
            let goes_on = share > step.share;
            if goes_on {
                (step.share, step.message) = (share, message.to_owned());
            }
            goes_on
        });
    }
}

fn failed(reason: &str) -> Failure {
    let detail = format!("the document could not be ingested: {reason}");
    // The document cannot be ingested, but R2R itself works.
    Failure::Failed(Error::backend(422, detail))
}

/// Refuses a file that cannot be read in its current state.
pub(super) fn refusal(path: &str, because: &str) -> Refusal {
    Refusal::new("invalid_path", "file_path", path)
        .because(because)
        .valid("a readable file that nobody writes to at the moment")
        .suggest("Ingest it again when it is complete.")
}

/// The next step after an error.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ErrorAction {
    /// Give up: a repetition would fail too.
    Stop,
    /// Repeat the request: it had no effect.
    Again,
    /// Look whether the request had an effect.
    Look,
}

pub(super) fn what_next(error: &Error) -> ErrorAction {
    match error {
        // R2R is unavailable, or asks the client to wait.
        Error::Connect { .. }
        | Error::NotSent { .. }
        | Error::Backend { status: 429 | 503, .. }
        | Error::Status { status: 429 | 503, .. } => ErrorAction::Again,
        // 409: R2R has the document already, or works on it.
        Error::Backend { status: 408 | 409, .. } => ErrorAction::Look,
        Error::Backend { status: ..500, .. }
        | Error::Status { status: ..500, .. }
        | Error::AuthFailed { .. }
        | Error::Unavailable { .. } => ErrorAction::Stop,
        _ => ErrorAction::Look,
    }
}

/// Returns the pause that R2R asks for, up to a limit. Otherwise the pause doubles each time.
pub(super) fn pause(tries: u32, error: &Error) -> Duration {
    let asked = match error {
        Error::Backend { retry_after, .. } | Error::Status { retry_after, .. } => *retry_after,
        _ => None,
    };
    let own = FIRST_PAUSE * 2_u32.saturating_pow(tries.min(16));
    let own = own.mul_f64(rand::random_range(0.5..1.0));
    asked.unwrap_or(own).clamp(FIRST_PAUSE / 2, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_done_is_looked_for_and_what_is_refused_is_not_repeated() {
        let status = |status| Error::backend(status, "");
        for refused in [400, 401, 403, 404, 413, 415, 422] {
            assert_eq!(what_next(&status(refused)), ErrorAction::Stop, "{refused}");
        }
        for again in [429, 503] {
            assert_eq!(what_next(&status(again)), ErrorAction::Again, "{again}");
        }
        for unknown in [408, 409, 500, 502, 504] {
            assert_eq!(what_next(&status(unknown)), ErrorAction::Look, "{unknown}");
        }
        let reason = String::new;
        assert_eq!(what_next(&Error::Connect { reason: reason() }), ErrorAction::Again);
        for lost in [Error::Lost { reason: reason() }, Error::Cut { reason: reason() }] {
            assert_eq!(what_next(&lost), ErrorAction::Look);
        }
    }

    #[test]
    fn pauses_grow_and_end_at_half_a_minute_whatever_is_asked_for() {
        let away = Error::Connect { reason: String::new() };
        assert!(pause(0, &away) <= FIRST_PAUSE && pause(100, &away) <= LONGEST_PAUSE);
        let retry_after = Some(Duration::from_secs(9999));
        let patient = Error::Backend { status: 429, detail: String::new(), retry_after, facts: None };
        assert_eq!(pause(0, &patient), LONGEST_PAUSE);
    }
}
