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
use super::config::Transport;
use super::connection::Connection;
use super::discover::Discovery;
use super::error::Error;
use super::offer::Offer;
use super::state_signs::{StateSign, StateSigns};

/// A call that ended this recently may have caused a change.
const JUST_AFTER: Duration = Duration::from_secs(1);

impl Upstream {
    /// The signs that the server keeps state for each client.
    pub(super) fn signs(&self) -> &StateSigns {
        &self.pool.signs
    }

    /// Whether the server showed a sign that its results depend on the client.
    pub fn keeps_state(&self) -> bool {
        self.signs().differ_by_client()
    }

    /// Records a sign that the server keeps state for each client, and logs it once.
    pub(super) fn note_sign(&self, sign: StateSign) {
        self.signs().record(sign);
        if let Some(hint) = self.hint(&[sign]).filter(|_| self.signs().has_to_tell()) {
            let (server, sign) = (&self.config.name, sign.as_str());
            tracing::warn!(%server, sign, hint, "the server keeps state for each client");
        }
    }

    /// The advice for a server that showed `signs`, for operators.
    pub fn hint(&self, signs: &[StateSign]) -> Option<&'static str> {
        self.config.hint(signs)
    }

    /// How many client calls run; one if none runs and one has just ended. `calls` had ended before Switchyard's last
    /// request.
    pub(super) fn callers(&self, calls: u64) -> usize {
        let stats = &self.stats;
        let has_ended =
            || stats.counters().calls > calls && stats.seen_ago().is_some_and(|ago| ago <= JUST_AFTER);
        match self.bulkhead.running() {
            0 => usize::from(has_ended()),
            running => running,
        }
    }

    /// Handles a change of the lists that was announced with a call of one client. If the lists are unchanged, those of
    /// the process of the other era may have changed.
    pub(super) fn changed_by_call(&self, is_changed: bool) {
        if !self.pool.connector.is_a_process() {
            return;
        }
        if is_changed {
            return self.note_sign(StateSign::ListChangedByCall);
        }
        let others = self.pool.other_connections();
        if let Some(upstream) = self
            .me
            .upgrade()
            .filter(|_| !others.is_empty() && !self.signs().has(StateSign::ListChangedByCall))
        {
            self.group.spawn_until_end(async move { upstream.compare(others).await });
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
