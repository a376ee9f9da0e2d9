//! The task that keeps the documents up to date.
//!
//! ```text
//!  Reading ──first snapshot──▶ Ready ──a change──▶ Ready (the next snapshot)
//!     └──the folder cannot be read──▶ Failed ──it can be read──▶ Ready
//! ```
//!
//! After the first snapshot there always is one. If the folder becomes unreadable, the last snapshot stays.
//! The folder is walked every two seconds, and less often if a walk takes long, so that walking costs at most
//! a fiftieth of one processor.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::corpus::Corpus;
use super::folder::Folder;
use super::git::Dates;
use super::resources::DocumentUris;
use super::snapshot::Snapshot;
use json::Raw;
use protocol::feature::List;
use runtime::shutdown::Shutdown;
use upstream::api::{Event, Events};

/// Shortest pause between two walks.
pub(super) const PAUSE: Duration = Duration::from_secs(2);
/// Longest pause between two walks.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// A pause is at least this many times as long as the walk before it.
const PAUSE_PER_WALK: u32 = 50;

/// State of the documents, as a call sees it.
pub(super) enum Phase {
    /// They are being read.
    Reading,
    /// The documents.
    Ready(Arc<Snapshot>),
    /// The reason why there are none.
    Failed(String),
}

impl Phase {
    /// Returns the documents as resources; none before they were read.
    pub(super) fn resources(&self) -> &[Raw] {
        match self {
            Self::Ready(snapshot) => &snapshot.resources,
            Self::Reading | Self::Failed(_) => &[],
        }
    }

    fn generation(&self) -> u64 {
        match self {
            Self::Ready(snapshot) => snapshot.generation,
            Self::Reading | Self::Failed(_) => 0,
        }
    }
}

/// The folder to follow, and what to notify of changes.
pub(super) struct Followed {
    /// The folder of the documents.
    pub folder: Folder,
    /// URIs of the documents as resources.
    pub naming: DocumentUris,
    /// Receives one event for all changes of the resource list that a walk finds.
    pub events: Events,
}

/// Starts the task that follows the folder until `tasks` end.
pub(super) fn start(followed: Followed, tasks: &Shutdown) -> watch::Receiver<Phase> {
    let (sender, receiver) = watch::channel(Phase::Reading);
    let task = Follower {
        followed,
        phase: sender,
        tasks: tasks.clone(),
        last_error: None,
        last_refusal: None,
        next_dating: Instant::now(),
        told: Vec::new(),
    };
    tasks.spawn(task.run());
    receiver
}

struct Follower {
    followed: Followed,
    phase: watch::Sender<Phase>,
    tasks: Shutdown,
    /// Last error, logged once instead of after every walk.
    last_error: Option<String>,
    /// Last reason why git failed, also logged once.
    last_refusal: Option<String>,
    /// When git may run again: it takes at most a fiftieth of the time.
    next_dating: Instant,
    /// The resources of the last event.
    told: Vec<Raw>,
}

impl Follower {
    async fn run(mut self) {
        let mut corpus = None;
        while !self.tasks.is_begun() {
            let started = Instant::now();
            corpus = self.refresh(corpus).await;
            let pause = (started.elapsed() * PAUSE_PER_WALK).clamp(PAUSE, LONGEST_PAUSE);
            if let Some(undated) = corpus.take() {
                corpus = self.date(undated).await;
            }
            tokio::select! {
                () = self.tasks.requested() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Makes a corpus without documents.
    fn begin(&self) -> Corpus {
        let (folder, naming) = (self.followed.folder.clone(), self.followed.naming.clone());
        let generation = self.phase.borrow().generation();
        Corpus::new(folder, naming, generation)
    }

    /// Brings the documents up to date. Without a corpus it starts from the beginning. Returns the corpus
    /// unless reading panicked.
    async fn refresh(&mut self, corpus: Option<Corpus>) -> Option<Corpus> {
        let started = Instant::now();
        let mut corpus = corpus.unwrap_or_else(|| self.begin());
        let tasks = self.tasks.clone();
        let should_continue = move |done, total| {
            log_progress(done, total);
            !tasks.is_begun()
        };
        let work = tokio::task::spawn_blocking(move || (corpus.refresh(&should_continue), corpus));
        match work.await {
            Ok((Ok(snapshot), corpus)) => {
                self.publish(snapshot, started.elapsed());
                Some(corpus)
            }
            Ok((Err(error), corpus)) => {
                self.fail(error.to_string());
                Some(corpus)
            }
            Err(error) => {
                self.fail(format!("reading the handbook failed: {error}"));
                None
            }
        }
    }

    /// Asks git when the documents were changed, if they are in a repository, but not too often.
    async fn date(&mut self, mut corpus: Corpus) -> Option<Corpus> {
        let due = Instant::now() >= self.next_dating;
        let Some(paths) = corpus.undated().filter(|_| due) else { return Some(corpus) };
        let Some(root) = self.followed.folder.root() else { return Some(corpus) };
        let started = Instant::now();
        let dates = tokio::select! {
            dates = Dates::read(root, paths) => dates,
            () = self.tasks.requested() => return None,
        };
        self.next_dating = Instant::now() + started.elapsed() * PAUSE_PER_WALK;
        let dates = dates.unwrap_or_else(|reason| {
            if self.last_refusal.as_ref() != Some(&reason) {
                tracing::warn!(
                    reason,
                    "git cannot be asked when documents changed; the modification times of the files are used"
                );
            }
            self.last_refusal = Some(reason);
            Dates::default()
        });
        let work = tokio::task::spawn_blocking(move || (corpus.date(dates), corpus));
        match work.await {
            Ok((snapshot, corpus)) => {
                if let Some(snapshot) = snapshot {
                    self.show(snapshot);
                }
                Some(corpus)
            }
            Err(error) => {
                self.fail(format!("dating the documents failed: {error}"));
                None
            }
        }
    }

    fn publish(&mut self, snapshot: Option<Snapshot>, took: Duration) {
        self.last_error = None;
        let Some(snapshot) = snapshot else { return };
        tracing::info!(
            documents = snapshot.documents.len(),
            sections = snapshot.sections,
            skipped = snapshot.left_out,
            milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "the handbook is up to date"
        );
        self.show(snapshot);
    }

    /// Publishes a snapshot. Documents can be searched at once. The event for resources waits for their
    /// dates, so that clients get one event per change and not a second one for the date.
    fn show(&mut self, snapshot: Snapshot) {
        let snapshot = Arc::new(snapshot);
        self.phase.send_replace(Phase::Ready(Arc::clone(&snapshot)));
        let is_news = snapshot.dates.is_some() && self.told != snapshot.resources;
        if is_news {
            self.told.clone_from(&snapshot.resources);
            self.followed.events.report(Event::Changed(List::Resources));
        }
    }

    fn fail(&mut self, reason: String) {
        if self.tasks.is_begun() || self.last_error.as_ref() == Some(&reason) {
            return;
        }
        tracing::warn!(reason, "the handbook could not be brought up to date");
        self.phase.send_if_modified(|phase| {
            let is_ready = matches!(phase, Phase::Ready(_));
            if !is_ready {
                *phase = Phase::Failed(reason.clone());
            }
            !is_ready
        });
        self.last_error = Some(reason);
    }
}

/// Logs how far the reading is, from time to time.
fn log_progress(done: usize, total: usize) {
    if done > 0 && done.is_multiple_of(1_000) {
        tracing::info!(done, total, "reading the handbook");
    }
}
