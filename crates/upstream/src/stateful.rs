//! Servers that keep state for each client: how Switchyard detects and reports that, and how it reads their lists.
//!
//! Invariant: each server is named in the log once, with the setting that helps.
//!
//! Not here: the effect on connections (`pool`, `state_signs`) and on cached results (`manager::response_cache`).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::Upstream;
use super::config::{Sharing, Transport};
use super::connection::Connection;
use super::discover::Discovery;
use super::error::Error;
use super::offer::Offer;
use super::state_signs::{self, StateSign, StateSigns};
use super::work::Work;

/// A call that ended this recently may have caused a change.
const JUST_AFTER: Duration = Duration::from_secs(1);

impl Upstream {
    /// The signs that the server keeps state for each client.
    pub(super) fn signs(&self) -> &StateSigns {
        &self.pool.signs
    }

    /// Whether the server showed a sign that it keeps state for each client.
    pub fn keeps_state(&self) -> bool {
        self.signs().any()
    }

    /// Records the configured sharing before the first call.
    pub(super) fn note_sharing(&self) {
        if self.config.sharing == Sharing::PerSession {
            state_signs::has_private();
        }
    }

    /// Records a sign that the server keeps state for each client, and logs it once.
    pub(super) fn note_sign(&self, sign: StateSign) {
        let sharing = self.config.sharing;
        let is_first = self.signs().note(sign, sharing == Sharing::Auto);
        if let Some(hint) = sharing.hint(&[sign]).filter(|_| is_first) {
            let (server, sign) = (&self.config.name, sign.as_str());
            tracing::warn!(%server, sign, hint, "the server keeps state for each client");
        }
    }

    /// How many client calls run; one if none runs and one has just ended. `calls` had ended before Switchyard's last
    /// request.
    pub(super) fn callers(&self, calls: u64) -> usize {
        let facts = &self.facts;
        let has_ended =
            || facts.counters().calls > calls && facts.seen_ago().is_some_and(|ago| ago <= JUST_AFTER);
        match self.bulkhead.running() {
            0 => usize::from(has_ended()),
            running => running,
        }
    }

    /// Handles a change of the lists that was announced with a call of one client. If the lists are unchanged, other
    /// shared connections may have different ones.
    pub(super) fn changed_by_call(&self, is_changed: bool) {
        if self.has_no_sessions() {
            return;
        }
        if is_changed {
            return self.note_sign(StateSign::ListChangedByCall);
        }
        let others = self.pool.other_connections();
        if let Some(upstream) = self.me.upgrade().filter(|_| !others.is_empty() && !self.keeps_state()) {
            self.group.spawn_until_end(async move { upstream.compare(others).await });
        }
    }

    /// Whether nothing at the server belongs to a connection. Over HTTP, each request of 2026-07-28 is independent, and
    /// a built-in server is one for all clients.
    fn has_no_sessions(&self) -> bool {
        let is_modern = || self.offer().is_some_and(|offer| offer.peer.version.is_modern());
        match self.config.transport {
            Transport::Builtin(_) => true,
            Transport::Http(_) => is_modern(),
            Transport::Sse(_) | Transport::Stdio(_) => false,
        }
    }

    async fn compare(&self, others: Vec<Arc<dyn Connection>>) {
        for other in others {
            let discovery = self.discovery(Instant::now() + self.config.timeout, mpsc::channel(1).0);
            let read = timeout(self.config.timeout, discovery.on(other.as_ref())).await;
            if let Ok(Ok(Ok(offer))) = read
                && self.offer().is_some_and(|shared| !shared.names_the_same(&offer))
            {
                return self.note_sign(StateSign::ListChangedByCall);
            }
        }
    }

    /// The work of reading its lists by `deadline`; `early` receives the tools if other lists take long.
    pub(super) fn discovery(&self, deadline: Instant, early: mpsc::Sender<Offer>) -> Discovery {
        Discovery {
            deadline,
            early,
            limit: self.config.list_limit(),
            mirrors_parameters: matches!(self.config.transport, Transport::Http(_)),
            server: Arc::clone(&self.config.name),
            before: self.offer(),
        }
    }

    /// Adds the misfits of the configuration to the offer, and redacts the secrets.
    pub(super) fn covered(&self, mut read: Result<Offer, Error>) -> Result<Arc<Offer>, Error> {
        if let Ok(offer) = &mut read {
            let names: Vec<&str> = offer.tools.iter().map(|tool| tool.name.as_str()).collect();
            let unmatched = self.config.tools.unmatched(&names);
            offer.problems.extend(unmatched);
        }
        self.secrets.redact_offer(read).map(Arc::new)
    }
}
