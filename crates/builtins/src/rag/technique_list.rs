//! Keeps the list of techniques, and the task that reads it again.
//!
//! ```text
//!  read ──unchanged──▶ kept        read ──changed──▶ replaced, clients are notified
//!  read ──failed──▶ kept, with the reason        read ──key refused──▶ closed
//! ```
//!
//! Invariants: one read runs at a time and takes at most [`LIMIT`]. A failed read changes nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::bridge::Bridge;
use super::techniques::Offer;
use crate::rag::config;
use protocol::feature::List;
use protocol::sanitize;
use upstream::api::{Closing, Error, Event, Events};

/// Time limit of one read.
const LIMIT: Duration = Duration::from_secs(10);
/// Shortest time between two reads.
const GAP: Duration = Duration::from_millis(200);

/// The list, with all that is needed to read it again.
pub(super) struct TechniqueList {
    server: Arc<str>,
    bridge: Bridge,
    most: usize,
    events: Events,
    state: Mutex<State>,
    look: Notify,
    /// Closed when the bridge refuses the key.
    refusal: Closing,
}

struct State {
    offer: Arc<Offer>,
    read_at: Instant,
    /// Why the last read failed.
    failure: Option<String>,
}

/// Age of the list.
pub(super) struct Age {
    /// Time since it was read.
    pub since: Duration,
    /// Why it could not be read again.
    pub failure: Option<String>,
}

impl TechniqueList {
    /// Reads the list for the first time.
    pub(super) async fn open(
        server: &Arc<str>,
        bridge: &Bridge,
        options: &config::RagOptions,
        events: Events,
    ) -> Result<Self, Error> {
        let most = options.max_techniques;
        let offer = Arc::new(Offer::of(bridge.techniques().await?, most));
        let list = Self {
            server: Arc::clone(server),
            bridge: bridge.clone(),
            most,
            events,
            state: Mutex::new(State { offer: Arc::clone(&offer), read_at: Instant::now(), failure: None }),
            look: Notify::new(),
            refusal: Closing::default(),
        };
        list.tell_left_out(&Offer::default(), &offer);
        Ok(list)
    }

    /// Returns the current offer.
    pub(super) fn offer(&self) -> Arc<Offer> {
        Arc::clone(&self.lock().offer)
    }

    /// Returns the age of the list.
    pub(super) fn age(&self) -> Age {
        let state = self.lock();
        Age { since: state.read_at.elapsed(), failure: state.failure.clone() }
    }

    /// Requests a read before the next regular one.
    pub(super) fn look_soon(&self) {
        self.look.notify_one();
    }

    /// Resolves with the reason when the bridge has refused the key.
    pub(super) async fn refused(&self) -> String {
        self.refusal.wait().await
    }

    /// Reads the list on request, and otherwise at the interval `every`.
    pub(super) async fn follow(self: Arc<Self>, every: Duration) {
        loop {
            tokio::select! {
                () = self.look.notified() => {}
                () = sleep(every) => {}
            }
            self.read().await;
            sleep(GAP).await;
        }
    }

    async fn read(&self) {
        let late = |_| Err(Error::TimedOut { after: LIMIT });
        match timeout(LIMIT, self.bridge.techniques()).await.unwrap_or_else(late) {
            Ok(listed) => self.take(Offer::of(listed, self.most)),
            Err(error) => self.keep(&error),
        }
    }

    fn take(&self, offer: Offer) {
        let offer = Arc::new(offer);
        let before = {
            let mut state = self.lock();
            (state.read_at, state.failure) = (Instant::now(), None);
            std::mem::replace(&mut state.offer, Arc::clone(&offer))
        };
        self.tell_left_out(&before, &offer);
        if !before.names().eq(offer.names()) {
            tracing::info!(server = %self.server, techniques = offer.techniques.len(), "the techniques of the bridge changed");
            self.events.report(Event::Changed(List::Tools));
        }
    }

    fn keep(&self, error: &Error) {
        let reason = error.to_string();
        let before = self.lock().failure.replace(reason.clone());
        if before.as_ref() != Some(&reason) {
            tracing::warn!(server = %self.server, reason, "the list of techniques cannot be read, the last one stays");
        }
        if let Error::AuthFailed { reason } = error {
            self.refusal.close(reason.clone());
        }
    }

    /// Logs new names that are left out. Names that were logged before are not repeated.
    fn tell_left_out(&self, before: &Offer, now: &Offer) {
        let names = now.newly_left_out(before);
        if !names.is_empty() || now.more_left_out > before.more_left_out {
            let (names, more) = (sanitize::listed(&names), now.more_left_out);
            tracing::warn!(server = %self.server, names, more, "techniques are left out, rag_health says why");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
