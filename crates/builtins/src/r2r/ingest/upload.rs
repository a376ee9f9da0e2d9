//! Upload of one document: from its file to its collection in R2R.
//!
//! ```text
//!  look ── the same ─────────────────────────────► join ──► done
//!   │  ├── another, or failed: remove ──┐            ▲
//!   │  └── R2R works on it: look again  │            │
//!   └── none ───────────────────────────┴► send ──► follow ── failed: the reason
//! ```
//!
//! Invariants: an earlier version is removed only after the new file was read to its end. Between `remove` and
//! `send` the document is missing, because R2R cannot replace one. After a request whose answer was lost,
//! Switchyard looks for the document before it sends the document again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde::de::IgnoredAny;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::form::DocumentForm;
use super::source::{Faults, SourceFile};
use crate::answer::Failure;
use crate::r2r::client::Client;
use crate::r2r::model::{Id, R2rDocument, Stage};
use crate::refusal::Refusal;
use upstream::api::Error;

/// First pause before a request is repeated, and between two looks at a document.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause between two looks if a client waits.
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// Longest pause between two looks if no client waits.
const LONGEST_UNAWAITED: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Longest wait for the answer to a request other than the upload, which R2R may answer after the whole ingestion.
const LONGEST_ANSWER: Duration = Duration::from_mins(1);
/// Most attempts of a request if a client waits for it, and of one file of a folder.
pub(super) const TRIES: u32 = 3;
/// How long R2R may work on a document. It never resumes a document that it was stopped in the middle of, so
/// an older one counts as left behind and is replaced.
const LONGEST_WORK: Duration = Duration::from_hours(1);
/// How long a document may be missing after R2R has accepted it for a queue.
const LONGEST_MISSING: Duration = Duration::from_secs(10);

/// Progress of an upload.
#[derive(Debug, Default)]
pub(super) struct UploadProgress {
    /// Share of the work that is done, from 0 to 1.
    pub(super) share: f64,
    pub(super) message: String,
    /// Whether R2R has the document.
    pub(super) is_accepted: bool,
    pub(super) outcome: Option<Outcome>,
}

pub(super) type Outcome = Result<Change, Failure>;

/// Change that an upload made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// None: the document was there already, made of an identical file.
    None,
    /// The document is new, or replaces another version.
    Ingested,
}

/// One document and everything that its upload needs.
pub(super) struct Upload<'a> {
    pub(super) client: &'a Client,
    pub(super) path: &'a str,
    pub(super) source: &'a SourceFile,
    pub(super) form: &'a DocumentForm,
    pub(super) progress: &'a watch::Sender<UploadProgress>,
    /// A client waits for the end of the ingestion.
    pub(super) is_awaited: bool,
}

impl Upload<'_> {
    /// Ingests the document. An upload that was dropped at any point can be run again.
    pub(super) async fn run(&self) -> Outcome {
        let mut removed = None;
        let is_this = |there: &R2rDocument| self.form.is_same(&there.metadata);
        if let Some(there) = self.ended(is_this, |there| there.age() < LONGEST_WORK).await? {
            if there.stage() == Stage::Success && is_this(&there) {
                self.join(&there).await?;
                return Ok(Change::None);
            }
            self.step(0.04, "removing the earlier version");
            self.insist(|| self.client.remove(self.form.id)).await?;
            if there.stage() == Stage::Success {
                removed = Some("the earlier version was removed before");
            }
        }
        self.send_and_follow().await.map_err(|failure| with_note(failure, removed))
    }

    async fn send_and_follow(&self) -> Outcome {
        self.step(0.05, "uploading");
        self.send().await?;
        self.accepted();
        let since = Instant::now();
        let there = loop {
            match self.ended(|_| true, |_| since.elapsed() < LONGEST_WORK).await? {
                None if since.elapsed() < LONGEST_MISSING => sleep(FIRST_PAUSE * 5).await,
                there => break there,
            }
        };
        match there {
            // R2R may print other metadata differently, such as a number, so the content is enough.
            Some(there) if there.stage() == Stage::Success && self.form.is_same_content(&there.metadata) => {
                self.join(&there).await?;
                Ok(Change::Ingested)
            }
            Some(there) if there.stage() == Stage::Failed => {
                let reason = there.reason();
                Err(failed(reason.as_deref().unwrap_or("no reason was given")))
            }
            Some(there) if there.stage() == Stage::Pending => {
                Err(failed(&format!("R2R has worked on it for {} minutes", LONGEST_WORK.as_secs() / 60)))
            }
            Some(_) => Err(failed("another program sent a document with its id")),
            None => Err(failed("it is not there although R2R accepted it")),
        }
    }

    /// Returns the document in R2R when R2R does not work on it any more, or when it `may_go_on` no longer. The
    /// client is answered meanwhile if `is_this` document is the requested one.
    async fn ended(
        &self,
        is_this: impl Fn(&R2rDocument) -> bool,
        may_go_on: impl Fn(&R2rDocument) -> bool,
    ) -> Result<Option<R2rDocument>, Failure> {
        let mut pause = FIRST_PAUSE;
        loop {
            let document = self.insist(|| self.client.document(self.form.id)).await?;
            let is_under_way = |there: &&R2rDocument| there.stage() == Stage::Pending && may_go_on(there);
            let Some(there) = document.as_ref().filter(is_under_way) else { return Ok(document) };
            if is_this(there) {
                self.accepted();
            }
            self.worked(there);
            sleep(pause).await;
            pause = (pause * 2).min(self.longest_look());
        }
    }

    /// Sends the document. After an answer that does not say so, looks whether R2R has it. The caller repeats the upload.
    async fn send(&self) -> Result<(), Failure> {
        let Err(error) = self.sent().await? else { return Ok(()) };
        tracing::debug!(document = %self.form.id, %error, "a document was not accepted at once");
        let is_there = next_step(&error) == NextStep::Look
            && self.insist(|| self.client.document(self.form.id)).await?.is_some();
        if is_there { Ok(()) } else { Err(error.into()) }
    }

    /// Sends the document once, and waits until R2R answers or is seen to have finished.
    async fn sent(&self) -> Result<Result<(), Error>, Failure> {
        let (faults, sent) = (Faults::default(), Arc::new(AtomicU64::new(0)));
        let form = || {
            let sent = Arc::clone(&sent);
            let sent = Box::new(move |bytes| sent.store(bytes, Ordering::Relaxed));
            self.form.form(self.source, &faults, sent)
        };
        let answer = tokio::select! {
            answer = self.client.upload::<IgnoredAny>(&["documents"], form) => answer.map(drop),
            () = self.watch(&sent) => Ok(()),
        };
        match faults.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(fault) => Err(refusal(self.path, &fault.words()).into()),
            None => Ok(answer),
        }
    }

    /// Reports the progress of R2R while its answer is pending: R2R may answer only after the whole ingestion.
    /// Returns some time after R2R has finished the document, because the answer may be lost.
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
            pause = (pause * 2).min(self.longest_look());
            let document = timeout(LONGEST_ANSWER, self.client.document(self.form.id)).await;
            if let Ok(Ok(Some(there))) = document {
                match there.stage() {
                    Stage::Pending => self.accepted(),
                    _ => return sleep(LONGEST_LOOK).await,
                }
                self.worked(&there);
            }
        }
    }

    /// Adds the document to its collection, unless it is in there.
    async fn join(&self, document: &R2rDocument) -> Result<(), Failure> {
        let (collection, id) = (self.form.collection, self.form.id);
        if !document.collection_ids.contains(&Id(collection)) {
            self.step(0.97, "joining its collection");
            self.insist(|| self.client.join(collection, id)).await?;
        }
        Ok(())
    }

    /// Repeats a request until it is answered, a few times if a client waits. Before R2R has the document, nothing is
    /// repeated, because the caller repeats the upload. Only for reading, removing and joining, which may be repeated.
    async fn insist<T, F: Future<Output = Result<T, Error>>>(
        &self,
        ask: impl Fn() -> F,
    ) -> Result<T, Failure> {
        let mut tries = 0;
        loop {
            let error = match timeout(LONGEST_ANSWER, ask()).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_) => Error::TimedOut { after: LONGEST_ANSWER },
            };
            tries += 1;
            let is_last = !self.progress.borrow().is_accepted || self.is_awaited && tries == TRIES;
            if is_last || next_step(&error) == NextStep::Stop {
                return Err(error.into());
            }
            sleep(pause(tries, &error)).await;
        }
    }

    const fn longest_look(&self) -> Duration {
        if self.is_awaited { LONGEST_LOOK } else { LONGEST_UNAWAITED }
    }

    fn accepted(&self) {
        self.progress.send_if_modified(|step| !std::mem::replace(&mut step.is_accepted, true));
    }

    fn worked(&self, document: &R2rDocument) {
        self.step(0.5 + 0.5 * document.progress(), &document.ingestion_status);
    }

    fn step(&self, share: f64, message: &str) {
        self.progress.send_if_modified(|step| {
            // Progress never decreases, even if steps are repeated.
            let goes_on = share > step.share;
            if goes_on {
                (step.share, step.message) = (share, message.to_owned());
            }
            goes_on
        });
    }
}

/// Adds `note` to the text of `failure`.
fn with_note(failure: Failure, note: Option<&str>) -> Failure {
    let Some(note) = note else { return failure };
    let noted = |text: &str| format!("{text} ({note})");
    match failure {
        Failure::Refused(refusal) => {
            let text = noted(refusal.message());
            Failure::Refused(refusal.because(&text))
        }
        // This error has no text of its own.
        Failure::Failed(error @ Error::TimedOut { .. }) => {
            Failure::Failed(Error::Lost { reason: noted(&error.to_string()) })
        }
        Failure::Failed(error) => Failure::Failed(error.reworded(|text| noted(&text))),
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
pub(super) enum NextStep {
    /// Give up: a repetition would fail too.
    Stop,
    /// Repeat the request: it had no effect.
    Again,
    /// Look whether the request had an effect.
    Look,
}

pub(super) fn next_step(error: &Error) -> NextStep {
    match error {
        // R2R is unavailable, or asks the client to wait.
        Error::Connect { .. }
        | Error::NotSent { .. }
        | Error::Backend { status: 429 | 503, .. }
        | Error::Status { status: 429 | 503, .. } => NextStep::Again,
        // 409: R2R has the document already, or works on it.
        Error::Backend { status: 408 | 409, .. } => NextStep::Look,
        Error::Backend { status: ..500, .. }
        | Error::Status { status: ..500, .. }
        | Error::AuthFailed { .. }
        | Error::Unavailable { .. } => NextStep::Stop,
        _ => NextStep::Look,
    }
}

/// Returns the pause that R2R asks for, up to a limit. Otherwise the pause doubles each time.
pub(super) fn pause(tries: u32, error: &Error) -> Duration {
    let requested = match error {
        Error::Backend { retry_after, .. } | Error::Status { retry_after, .. } => *retry_after,
        _ => None,
    };
    let own = FIRST_PAUSE * 2_u32.saturating_pow(tries.min(16));
    let own = own.mul_f64(rand::random_range(0.5..1.0));
    requested.unwrap_or(own).clamp(FIRST_PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_upload_is_not_repeated_and_lost_answer_is_looked_up() {
        let status = |status| Error::backend(status, "");
        for refused in [400, 401, 403, 404, 413, 415, 422] {
            assert_eq!(next_step(&status(refused)), NextStep::Stop, "{refused}");
        }
        for again in [429, 503] {
            assert_eq!(next_step(&status(again)), NextStep::Again, "{again}");
        }
        for unknown in [408, 409, 500, 502, 504] {
            assert_eq!(next_step(&status(unknown)), NextStep::Look, "{unknown}");
        }
        let reason = String::new;
        assert_eq!(next_step(&Error::Connect { reason: reason() }), NextStep::Again);
        for lost in [Error::Lost { reason: reason() }, Error::Cut { reason: reason() }] {
            assert_eq!(next_step(&lost), NextStep::Look);
        }
    }

    #[test]
    fn pause_grows_up_to_half_a_minute_even_if_r2r_asks_for_more() {
        let away = Error::Connect { reason: String::new() };
        assert!(pause(0, &away) <= FIRST_PAUSE && pause(100, &away) <= LONGEST_PAUSE);
        let retry_after = Some(Duration::from_secs(9999));
        let patient = Error::Backend { status: 429, detail: String::new(), retry_after, facts: None };
        assert_eq!(pause(0, &patient), LONGEST_PAUSE);
    }
}
