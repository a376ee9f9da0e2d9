//! Reading the offer: the tools are published as soon as they are known, and the whole offer when every list was read.
//!
//! Not here: the lists themselves (`discover`), and when they are read (`supervise`).

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Change, Error, Offer, Phase, State, Supervisor, TaskResult};
use crate::dialect::PoolRequest;
use crate::remembered::LastReading;
use crate::{discover, refresh};

impl Supervisor {
    /// Reads the offer, on a new connection if there is none.
    pub(super) fn discover(&mut self, deadline: Option<Instant>) {
        let there = self.occupancy.borrow_and_update();
        self.arrival = there.arrivals + u64::from(there.live == 0);
        drop(there);
        self.stale = false;
        self.upstream.stats.will_try(None);
        self.upstream.stats.set_resting(false);
        let upstream = Arc::clone(&self.upstream);
        let limit = crate::first_attempt_limit(&upstream.config);
        let deadline = deadline.unwrap_or(Instant::now() + limit);
        let (early, tools) = mpsc::channel(1);
        let discovery = upstream.discovery(deadline, early);
        (self.early, self.before) = (Some(tools), discovery.before.clone());
        self.task = Some(Box::pin(async move {
            let read = upstream.read_offer(&discovery, PoolRequest::Own).await;
            let bytes = read.as_ref().map_or(0, |offer| offer.bytes);
            let offer = discover::off_worker(bytes, move || upstream.covered(read)).await;
            TaskResult::Discovered(offer.map_err(Error::of_all_calls))
        }));
    }

    /// Publishes the tools while the other lists are read.
    pub(super) async fn on_tools(&mut self, offer: Offer) {
        let Ok(offer) = self.upstream.covered(Ok(offer)) else { return };
        self.come_up(&offer);
        self.upstream.stats.offered(&offer);
        self.publish(Change::Offered(offer)).await;
        self.publish(Change::State(State::Ready)).await;
    }

    /// Tells calls that wait for it that the offer of the current connection was read, or why not.
    pub(super) fn report_reading(&self, failure: Option<&Error>) {
        let reading = LastReading { arrival: self.arrival, failure: failure.cloned() };
        self.upstream.last_reading.send_replace(reading);
    }

    fn come_up(&mut self, offer: &Offer) {
        if !matches!(self.phase, Phase::Up { .. }) {
            let server = &self.upstream.config.name;
            tracing::info!(%server, version = %offer.peer.version, tools = offer.tools.len(), "server is ready");
            self.phase = Phase::Up { since: Instant::now() };
        }
    }

    pub(super) async fn on_discovered(&mut self, offer: Arc<Offer>) {
        let now = Instant::now();
        self.come_up(&offer);
        for problem in &offer.problems {
            // The server decides how often its lists change, so the lines are limited.
            if let Some(suppressed) = self.pace.admit() {
                let server = &self.upstream.config.name;
                tracing::warn!(%server, problem, suppressed, "something is wrong with its offer");
            }
        }
        self.failed_checks = 0;
        self.discovered_at = Some(now);
        self.due = self.next_tick();
        let before = self.before.take();
        let is_same = before.as_ref() == Some(&offer);
        let announced = std::mem::take(&mut self.announced_by_call);
        self.gap = if is_same && announced.is_none() {
            refresh::longer(self.gap)
        } else {
            refresh::gap_after(offer.bytes)
        };
        let is_changed = before.as_ref().is_some_and(|before| !before.names_the_same(&offer));
        if std::mem::take(&mut self.changed_by_call) {
            self.upstream.changed_by_call(is_changed);
        }
        self.refresh.was_read(&offer, before.as_deref());
        self.upstream.stats.offered(&offer);
        self.publish(Change::Offered(Arc::clone(&offer))).await;
        self.publish(Change::State(State::Ready)).await;
        self.report_reading(None);
        if is_same && !announced.is_none() {
            self.publish(Change::Announced(announced)).await;
        }
        self.notify_waiting(&Ok(offer));
        self.update_connections().await;
        if self.stale {
            self.expect_change();
        }
    }
}
