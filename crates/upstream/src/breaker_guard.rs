//! One attempt under judgement: leave of the breaker to make it, and what its end says of the server.
//!
//! Invariants: whatever ends the attempt, the permit is settled and the call no longer counts as one
//! that runs; an attempt that its caller ended, by leaving or by a deadline that gave the server less
//! than its patience, counts as nothing, unless the server is known to be hung (`liveness`); then it
//! counts as the silence that it was. Where that is not known it is a reason to ask the server.

use std::time::Duration;

use tokio::time::Instant;

use super::Upstream;
use super::breaker::{Pass, Permit};
use super::error::Error;
use crate::liveness::Round;
use runtime::worker::now;

/// A server that was silent for so long is at fault, whatever its own `timeout` would allow.
const PATIENCE: Duration = Duration::from_secs(5);
/// What was given up sooner says nothing, not even of a server that is hung: nobody had waited.
const GLANCE: Duration = Duration::from_secs(1);

/// An attempt that is under way.
pub(super) struct Trial<'a> {
    upstream: &'a Upstream,
    /// None when it was settled.
    permit: Option<Permit<'a>>,
    /// None for what we ask for ourselves.
    round: Option<Round>,
    begun: Instant,
    had_a_chance: bool,
    /// Whether its failure says something of the server.
    counts: bool,
}

/// What is left to settle of an attempt that goes on by itself.
#[must_use = "the breaker and the silence wait for its end"]
pub(super) struct Kept {
    /// Leave of the breaker.
    pub pass: Pass,
    /// That it runs.
    pub round: Option<Round>,
    /// Whether silence counts against the server.
    pub had_a_chance: bool,
}

impl<'a> Trial<'a> {
    /// Begins an attempt that has `left` of time, for a client if it `is_a_call`.
    pub(super) fn begin(
        upstream: &'a Upstream,
        is_a_call: bool,
        (begun, left): (Instant, Duration),
    ) -> Result<Self, Error> {
        let permit = Some(upstream.breaker.admit()?);
        let round = is_a_call.then(|| upstream.silence.begins());
        Ok(Self { upstream, permit, round, begun, had_a_chance: left >= upstream.patience(), counts: true })
    }

    /// Its failure says nothing of the server: it is one client's affair, or was counted already.
    pub(super) const fn excuse(&mut self) {
        self.counts = false;
    }

    /// Whether silence counts against the server, however the attempt ends.
    pub(super) const fn had_a_chance(&self) -> bool {
        self.had_a_chance
    }

    /// Whether others wait for what it says of the server.
    pub(super) fn is_probe(&self) -> bool {
        self.permit.as_ref().is_some_and(Permit::is_probe)
    }

    /// It came to this.
    pub(super) fn ended<T>(mut self, result: &Result<T, Error>) {
        self.leave();
        if let Some(permit) = self.permit.take().filter(|_| self.counts) {
            permit.record(result);
        }
    }

    /// It says nothing of the server.
    pub(super) fn forgotten(mut self) {
        self.leave();
        self.permit = None;
    }

    /// It goes on by itself.
    pub(super) fn keep(mut self) -> Option<Kept> {
        let (pass, round) = (self.permit.take()?.keep(), self.round.take());
        Some(Kept { pass, round, had_a_chance: self.had_a_chance })
    }

    /// It no longer runs; whether it was a client's.
    fn leave(&mut self) -> bool {
        let round = self.round.take();
        self.upstream.over(round);
        round.is_some()
    }
}

/// Its caller ended it.
impl Drop for Trial<'_> {
    fn drop(&mut self) {
        let is_a_call = self.leave();
        let Some(permit) = self.permit.take() else { return };
        let (upstream, lasted) = (self.upstream, now().saturating_duration_since(self.begun));
        if !self.counts || !is_a_call || lasted < GLANCE.min(upstream.patience()) {
            return;
        }
        if upstream.silence.is_hung(upstream.health_limit()) {
            permit.record::<()>(&Err(Error::TimedOut { after: lasted }));
        } else if upstream.is_in_doubt() {
            upstream.silence.doubt();
        }
    }
}

impl Upstream {
    /// The time an attempt must have had before silence counts against the server. A tenth less
    /// than a call gets from the configuration, because some of that is gone when an attempt begins.
    fn patience(&self) -> Duration {
        self.config.timeout.min(PATIENCE) * 9 / 10
    }

    /// A call of `round` no longer runs.
    pub(super) fn over(&self, round: Option<Round>) {
        if let Some(round) = round {
            self.silence.ended(round);
        }
    }

    /// Whether nothing was heard of the server for a while and it was not asked why.
    pub(super) fn is_in_doubt(&self) -> bool {
        let heard = self.facts.seen_ago();
        self.silence.open_for().is_none() && heard.is_none_or(|ago| ago >= self.patience())
    }
}
