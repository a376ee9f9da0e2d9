//! Facts about a server from an earlier run, and their effect on its start.
//!
//! Invariants: a remembered offer is used until the server was asked, and is checked and redacted like one that was
//! just read. It never makes a server less safe: with `on_change: block`, a call waits until the tools of the running
//! process were read ([`Upstream::read_first`]).
//!
//! Not here: the files (`manager::remembered`), and starting or stopping a process (`supervise`, `pool`).

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::select;
use tokio::time::timeout;

use super::call_events::Deadline;
use super::config::{Sharing, Start, Transport};
use super::connection::{Call, EventSender};
use super::dialect::PoolRequest;
use super::error::Error;
use super::frame::Frame;
use super::offer::Offer;
use super::principal_offers::PrincipalOffers;
use super::private_client_table::{Demand, ListSource, PrivateClient, WaitFor};
use super::state_signs::StateSign;
use super::status::State;
use super::{Upstream, pool};
use crate::session_affinity::Affinity;
use json::Raw;

/// The facts about one server.
#[derive(Debug, Clone)]
pub struct Remembered {
    /// Its last offer to all, as [`Offer::to_stored`] made it; `None` if it has offers to single principals only.
    pub offer: Option<Raw>,
    /// Its last offers to single principals.
    pub principals: Arc<PrincipalOffers>,
    /// When that was read.
    pub read_at: SystemTime,
    /// The signs that it keeps state for each client.
    pub signs: Vec<StateSign>,
}

/// The last reading of the offer, for calls that wait for it.
#[derive(Debug, Clone, Default)]
pub(super) struct LastReading {
    /// The arrival of the connection that it was read from ([`pool::Occupancy::arrivals`]).
    pub arrival: u64,
    /// Why it could not be read.
    pub failure: Option<Error>,
}

impl Upstream {
    /// Uses what is remembered of the server until it was asked.
    pub(super) fn restore(&self, remembered: &Remembered) {
        if !self.config.enabled || self.is_builtin() {
            return;
        }
        if let Some(stored) = &remembered.offer {
            let Some(offer) = self.restored(stored) else { return };
            self.stats.remembers(&offer, remembered.read_at);
        }
        self.signs().restore(&remembered.signs);
        if self.starts_on_demand() {
            self.stats.set_state(State::Idle);
            self.stats.set_resting(true);
        }
    }

    /// Returns a stored offer, checked and redacted like one that was just read.
    pub(super) fn restored(&self, stored: &Raw) -> Option<Arc<Offer>> {
        let mirrored = matches!(self.config.transport, Transport::Http(_));
        let offer = Offer::from_stored(stored, &self.config.name, mirrored)?;
        self.covered(Ok(offer)).ok()
    }

    fn is_builtin(&self) -> bool {
        matches!(self.config.transport, Transport::Builtin(_))
    }

    /// Whether it is a child process that is started when it is needed, and stopped when it is not.
    pub(super) fn starts_on_demand(&self) -> bool {
        matches!(self.config.transport, Transport::Stdio(_))
            && self.config.lifecycle.start == Start::OnDemand
            && self.offer().is_some()
    }

    /// Returns its offer to all, when that was read and the signs of state, to be remembered. `None` until all lists were
    /// read. A server where each principal logs in may have no such offer.
    pub fn to_remember(&self) -> Option<(Option<Arc<Offer>>, SystemTime, Vec<StateSign>)> {
        let (offer, signs) = (self.offer(), self.signs().all());
        match &offer {
            Some(read) if read.is_partial || self.is_builtin() => None,
            Some(_) => Some((offer, self.read_at()?, signs)),
            None => self.config.is_per_principal().then_some((None, UNIX_EPOCH, signs)),
        }
    }

    /// Its last offers to single principals.
    pub fn principal_offers(&self) -> &PrincipalOffers {
        &self.principal_offers
    }

    /// Returns the same as a later run gets it.
    pub fn remembered(&self) -> Option<Remembered> {
        let (offer, read_at, signs) = self.to_remember()?;
        let offer = offer.map(|offer| offer.to_stored());
        Some(Remembered { offer, principals: Arc::clone(&self.principal_offers), read_at, signs })
    }

    /// Whether its offer is that of an earlier run.
    pub fn is_remembered(&self) -> bool {
        self.stats.reported().remembered_at.is_some()
    }

    /// When its offer was read last, in this run or an earlier one.
    fn read_at(&self) -> Option<SystemTime> {
        let reported = self.stats.reported();
        reported.remembered_at.or(reported.read_at)
    }

    /// Whether the tools of the connection that the next call of `affinity` uses were not read yet.
    pub fn is_unread(&self, affinity: Option<&Affinity>) -> bool {
        if let Some(client) = affinity.and_then(|affinity| self.pool.private_clients.get(affinity)) {
            return *client.lists.borrow() != ListSource::Connection;
        }
        self.is_unread_by_all()
    }

    fn is_unread_by_all(&self) -> bool {
        if self.config.is_per_principal() || self.config.sharing == Sharing::PerSession || self.is_builtin() {
            return false;
        }
        let occupancy = self.pool.occupancy();
        let there = occupancy.borrow();
        there.live == 0 || self.last_reading.borrow().arrival != there.arrivals
    }

    /// Starts the server if it does not run, and waits until its offer to the client of `call` was read and published to the
    /// manager.
    pub async fn read_first(
        &self,
        call: &Call,
        deadline: Deadline,
        event_sender: &EventSender,
    ) -> Result<(), Error> {
        let mut frame = Frame::until(deadline);
        let read = pin!(async {
            tokio::select! {
                biased;
                read = self.read_for(call) => read,
                never = self.report_start(event_sender) => match never {},
            }
        });
        let result = frame.limit(event_sender, read).await.unwrap_or_else(|| {
            let reason =
                format!("its tools were not read within {:.1} s", frame.whole(event_sender).as_secs_f64());
            Err(Error::Connect { reason })
        });
        result.map_err(|error| self.secrets.redact_error(error))
    }

    /// Waits until the lists were read on the connection that `call` uses.
    async fn read_for(&self, call: &Call) -> Result<(), Error> {
        let client = || call.affinity.as_ref().and_then(|affinity| self.pool.private_clients.get(affinity));
        let Some(before) = client() else { return self.read_running().await };
        if self.read_own(&before, call).await? {
            return Ok(());
        }
        self.open_session(call, WaitFor::Connection).await;
        match client() {
            Some(next) if self.read_own(&next, call).await? => Ok(()),
            Some(_) => Err(Error::Unavailable { state: "disconnected" }),
            None => self.read_running().await,
        }
    }

    /// Waits until the lists on the connection of one client were read. Returns false if its task ended before that.
    async fn read_own(&self, client: &PrivateClient, call: &Call) -> Result<bool, Error> {
        // Its task reads the lists of each connection. A failed connect ends the wait.
        drop(self.pool.acquire(PoolRequest::Of(call)).await?);
        client.demand.send_modify(Demand::add);
        let (mut lists, mut outcome) = (client.lists.subscribe(), client.outcome.subscribe());
        loop {
            outcome.mark_unchanged();
            let (is_read, is_there) =
                (*lists.borrow_and_update() == ListSource::Connection, self.pool.private_clients.has(client));
            if is_read || !is_there {
                return Ok(is_read && is_there);
            }
            // Both are kept by `client`.
            let _ = select(pin!(lists.changed()), pin!(outcome.changed())).await;
        }
    }

    async fn read_running(&self) -> Result<(), Error> {
        let (mut reading, occupancy) = (self.last_reading.subscribe(), self.pool.occupancy());
        loop {
            self.pool.check_open()?;
            // The supervisor reads the offer of each new connection.
            let connection = self.pool.acquire(PoolRequest::Own).await?;
            let arrivals = occupancy.borrow().arrivals;
            let read = reading.wait_for(|last| last.arrival >= arrivals).await;
            let last = read.map_err(|_| Error::Unavailable { state: pool::SHUTTING_DOWN })?.clone();
            drop(connection);
            match last.failure {
                Some(failure) => return Err(failure),
                None if !self.is_unread_by_all() => return Ok(()),
                None => {}
            }
        }
    }

    /// Whether a remembered offer is used of a server that was not reached yet, so that nobody knows who shares it.
    pub fn has_to_decide(&self) -> bool {
        self.pool.is_undecided() && self.config.enabled && self.is_remembered() && self.is_expected()
    }

    /// Connects, if that is so: the next call needs a connection anyway.
    pub async fn decide(&self) {
        if self.has_to_decide() {
            let _ = timeout(self.list_wait(), self.pool.acquire(PoolRequest::Own)).await; // a failure shows with the call
        }
    }

    /// Whether it was not tried since it was needed, or the first attempt is under way.
    fn is_expected(&self) -> bool {
        matches!(self.stats.reported().state, State::Connecting | State::Idle)
    }

    /// Whether it is not started or connected, because nothing needs it.
    pub fn is_idle(&self) -> bool {
        self.stats.reported().state == State::Idle
    }
}

/// How long ago `at` was; zero if the clock was set back since.
pub(super) fn age(at: SystemTime) -> Duration {
    at.elapsed().unwrap_or_default()
}
