//! The supervisor of one server: a task that connects, reads the offer, checks the health, and starts again when the
//! server is lost.
//!
//! Invariants: only the supervisor connects without a caller, on the schedule of `backoff`, and never while the breaker
//! refuses. It does one thing at a time, and a command interrupts that. The manager receives its updates in order. One
//! loop: choose the next event, then apply it.
//!
//! Not here: calls, which connect by themselves if they come first.

mod health;
mod rest;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, OptionFuture};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::backoff::Backoff;
use super::connection::Event;
use super::dialect::PoolRequest;
use super::error::{Delivery, Error};
use super::offer::Offer;
use super::pool::Occupancy;
use super::refresh::{self, Refresh};
use super::remembered::LastReading;
use super::status::{Phase, STABLE, State};
use super::supervisor_messages::{Change, Command, OfferReply, Update};
use super::{COMMAND_RETRY_IN, Upstream, discover};
use protocol::feature::Lists;
use runtime::telemetry::pace::Pace;

/// Change notifications within this time count as one.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// The most operators that wait for one connect.
const MAX_WAITING: usize = 16;

/// The events of a supervisor.
enum SupervisorEvent {
    End,
    Command(Command),
    /// The tools were read, and other lists take longer.
    Tools(Box<Offer>),
    Done(TaskResult),
    Occupancy,
    Event(Event),
    Doubt,
    Renewed,
    Due,
}

/// The result of the current task.
enum TaskResult {
    Discovered(Result<Arc<Offer>, Error>),
    Checked(Result<Duration, Error>),
}

/// Keeps one server up.
pub(super) struct Supervisor {
    upstream: Arc<Upstream>,
    updates: mpsc::Sender<Update>,
    events: mpsc::Receiver<Event>,
    commands: mpsc::Receiver<Command>,
    occupancy: watch::Receiver<Occupancy>,
    phase: Phase,
    task: Option<BoxFuture<'static, TaskResult>>,
    /// The offer with the tools alone, of the current discovery.
    early: Option<mpsc::Receiver<Offer>>,
    /// The offer before the current discovery.
    before: Option<Arc<Offer>>,
    /// The time of the next action if no event comes and no task runs.
    due: Instant,
    /// The time of the next health check. `due` may come before it.
    check_due: Instant,
    backoff: Backoff,
    /// Operators that wait for the pending discovery.
    waiting: Vec<OfferReply>,
    /// The offer may have changed since it was read.
    stale: bool,
    /// The lists whose change a server of 2026-07-28 announced during or just after a call.
    announced_by_call: Lists,
    /// Whether only one client called when one of these was announced.
    changed_by_call: bool,
    /// The number of client calls that had ended when Switchyard's last request to the server ended.
    calls: u64,
    refresh: Refresh,
    /// The arrival ([`Occupancy::arrivals`]) of the current discovery or offer. While down, the last one that was tried
    /// without success.
    arrival: u64,
    /// The connections when the server began to rest.
    rested: Occupancy,
    discovered_at: Option<Instant>,
    /// The time between two discoveries after change notifications.
    gap: Duration,
    failed_checks: u32,
    /// Limits the log lines about the offer.
    pace: Pace,
}

impl Supervisor {
    pub(super) fn new(
        upstream: Arc<Upstream>,
        updates: mpsc::Sender<Update>,
        events: mpsc::Receiver<Event>,
        commands: mpsc::Receiver<Command>,
    ) -> Self {
        let occupancy = upstream.pool.occupancy();
        Self {
            upstream,
            updates,
            events,
            commands,
            occupancy,
            phase: Phase::Down,
            task: None,
            early: None,
            before: None,
            due: Instant::now(),
            check_due: Instant::now(),
            backoff: Backoff::default(),
            waiting: Vec::new(),
            stale: false,
            announced_by_call: Lists::NONE,
            changed_by_call: false,
            calls: 0,
            refresh: Refresh::default(),
            arrival: 0,
            rested: Occupancy::default(),
            discovered_at: None,
            gap: refresh::LEAST_GAP,
            failed_checks: 0,
            pace: Pace::new(),
        }
    }

    pub(super) async fn run(mut self) {
        if self.upstream.is_idle() {
            self.become_idle(State::Idle).await;
        } else {
            self.publish(Change::State(State::Connecting)).await;
        }
        loop {
            match self.next().await {
                SupervisorEvent::End => break,
                SupervisorEvent::Command(command) => self.obey(command).await,
                SupervisorEvent::Tools(offer) => self.on_tools(*offer).await,
                SupervisorEvent::Done(done) => self.conclude(done).await,
                SupervisorEvent::Occupancy => self.update_connections().await,
                SupervisorEvent::Event(event) => self.heard(event).await,
                SupervisorEvent::Doubt => self.check_after_cancel(),
                SupervisorEvent::Renewed => {
                    self.upstream.login_succeeded();
                    self.begin_again(None).await;
                }
                SupervisorEvent::Due => self.act().await,
            }
        }
        self.task = None;
        self.upstream.pool.close_all().await;
    }

    async fn heard(&mut self, event: Event) {
        match event {
            Event::Notice(notice) => return self.publish(Change::Told(notice)).await,
            Event::Missed => self.publish(Change::Missed).await,
            Event::Changed(list) => {
                let callers = self.upstream.callers(self.calls);
                self.changed_by_call |= callers == 1;
                if callers > 0 && self.is_modern() {
                    self.announced_by_call = self.announced_by_call.with(list);
                }
            }
            Event::KeepsState(sign) => return self.upstream.note_sign(sign),
        }
        self.expect_change();
    }

    fn is_modern(&self) -> bool {
        self.upstream.offer().is_some_and(|offer| offer.peer.version.is_modern())
    }

    async fn next(&mut self) -> SupervisorEvent {
        let is_refused = self.phase == Phase::Refused;
        let early = self.early.as_mut().filter(|_| self.task.is_some()).map(mpsc::Receiver::recv);
        let may_act = self.task.is_none() && !matches!(self.phase, Phase::Off | Phase::Refused | Phase::Idle);
        tokio::select! {
            biased;
            () = self.upstream.group.requested() => SupervisorEvent::End,
            Some(command) = self.commands.recv() => SupervisorEvent::Command(command),
            Some(Some(offer)) = OptionFuture::from(early) => SupervisorEvent::Tools(Box::new(offer)),
            Some(done) = OptionFuture::from(self.task.as_mut()) => SupervisorEvent::Done(done),
            Ok(()) = self.occupancy.changed() => SupervisorEvent::Occupancy,
            Some(event) = self.events.recv() => SupervisorEvent::Event(event),
            () = self.upstream.liveness.check_requested(), if may_act => SupervisorEvent::Doubt,
            () = self.upstream.pool.connector.renewed(), if is_refused => SupervisorEvent::Renewed,
            () = sleep_until(self.due), if may_act => SupervisorEvent::Due,
        }
    }

    /// Does the action that is due in the current phase.
    async fn act(&mut self) {
        if self.rest().await {
            return;
        }
        match self.phase {
            Phase::Down => {
                self.backoff.tried();
                self.discover(None);
            }
            Phase::Up { .. } if self.stale => self.discover(None),
            Phase::Up { .. } if self.is_left_to_work() => self.due = self.next_tick(),
            Phase::Up { .. } if self.is_between_checks() => self.due = self.next_tick(),
            Phase::Up { .. } => self.check(),
            Phase::Off | Phase::Refused | Phase::Idle => {}
        }
    }

    async fn conclude(&mut self, done: TaskResult) {
        self.task = None;
        self.calls = self.upstream.stats.counters().calls;
        match done {
            TaskResult::Discovered(Ok(offer)) => self.on_discovered(offer).await,
            TaskResult::Discovered(Err(error)) => self.on_discovery_failed(error).await,
            TaskResult::Checked(Ok(_)) => self.check_succeeded().await,
            TaskResult::Checked(Err(error)) => self.check_failed(error).await,
        }
    }

    async fn on_discovery_failed(&mut self, error: Error) {
        if error.refuses_credentials() {
            return self.wait_for_operator(error).await;
        }
        tracing::warn!(server = %self.upstream.config.name, %error, "server is not ready");
        self.give_up_if_silent(&error).await;
        self.go_down(Some(&error));
        if self.upstream.is_left_until_needed() {
            self.upstream.stats.set_state(State::Connecting);
            self.become_idle(State::Failed).await;
        } else {
            self.publish(Change::State(State::Failed)).await;
        }
        self.report_reading(Some(&error));
        self.notify_waiting(&Err(error));
    }

    /// Stops contacting the server. The pool refuses all callers.
    async fn wait_for_operator(&mut self, error: Error) {
        let server = &self.upstream.config.name;
        if let Error::SecretRequired { .. } = &error {
            tracing::info!(%server, "server is contacted for callers that have set their secret");
        } else {
            tracing::error!(%server, %error, "server is not contacted until it has another credential");
        }
        (self.task, self.phase) = (None, Phase::Refused);
        if !self.upstream.config.is_per_principal() {
            self.upstream.pool.refuse(&error);
        }
        let (state, reason) = match &error {
            Error::LoginRequired { reason, .. } => (State::LoginRequired, reason.clone()),
            Error::SecretRequired { secret, .. } => {
                (State::LoginRequired, format!("each caller has a secret `{secret}` of its own for it"))
            }
            Error::AuthFailed { reason } => (State::AuthFailed, reason.clone()),
            other => (State::AuthFailed, other.to_string()),
        };
        // Without a pause between the two: a call must never see this reason as that of a failed connection.
        match state {
            State::LoginRequired => self.upstream.stats.awaits_login(&reason),
            _ => self.upstream.stats.failed(&reason),
        }
        self.publish(Change::State(state)).await;
        self.upstream.pool.close_all().await;
        self.notify_waiting(&Err(error));
    }

    /// Handles a change of the connections.
    async fn update_connections(&mut self) {
        let there = self.occupancy.borrow_and_update().clone();
        match self.phase {
            Phase::Down | Phase::Idle | Phase::Up { .. } if let Some(error) = self.refused_credentials() => {
                self.wait_for_operator(error).await;
            }
            Phase::Up { .. } if there.live == 0 => {
                let reason = there.lost.as_deref().unwrap_or("its last connection closed");
                tracing::warn!(server = %self.upstream.config.name, reason, "server went away");
                self.upstream.stats.failed(&format!("the connection closed: {reason}"));
                self.task = None;
                self.upstream.liveness.broken();
                self.go_down(None);
                self.publish(Change::State(State::Connecting)).await;
            }
            // A call connected first, so this is not the expected connection.
            Phase::Up { .. } if there.arrivals != self.arrival => self.expect_change(),
            // A call connected. An arrival of the supervisor's own failed attempt is no reason to hurry.
            Phase::Down if there.live > 0 && there.arrivals > self.arrival && self.task.is_none() => {
                self.due = Instant::now();
            }
            // A call ended the rest.
            Phase::Idle if self.is_woken(&there) => {
                (self.phase, self.due) = (Phase::Down, Instant::now());
            }
            Phase::Idle if there.failed_starts > self.rested.failed_starts => {
                self.rested.failed_starts = there.failed_starts;
                self.publish(Change::State(State::Failed)).await;
            }
            Phase::Up { .. } | Phase::Down | Phase::Idle | Phase::Off | Phase::Refused => {}
        }
    }

    /// The refusal of the credentials, if a connect or a call met it.
    fn refused_credentials(&self) -> Option<Error> {
        self.upstream.pool.check_open().err().filter(Error::refuses_credentials)
    }

    fn go_down(&mut self, error: Option<&Error>) {
        if let Phase::Up { since } = self.phase
            && since.elapsed() >= STABLE
        {
            self.backoff.reset();
        }
        if let Some(error) = error.filter(|error| error.delivery() != Delivery::Refused) {
            self.upstream.stats.failed(&error.to_string());
        }
        self.phase = Phase::Down;
        self.arrival = self.occupancy.borrow().arrivals;
        let refused_for = self.upstream.breaker.refuses_for(None).unwrap_or_default();
        let due = self.backoff.next().max(Instant::now() + refused_for);
        self.due = self.upstream.pool.held_until().map_or(due, |held| due.max(held));
        self.upstream.stats.will_try(Some(self.due));
    }

    /// Schedules another reading of the offer, with a delay, because notifications come in groups.
    fn expect_change(&mut self) {
        self.stale = true;
        let soon = Instant::now() + DEBOUNCE;
        let due = self.discovered_at.map_or(soon, |at| soon.max(at + self.gap));
        if matches!(self.phase, Phase::Up { .. }) {
            self.due = self.due.min(due);
        }
    }

    /// The next health check, or the time at which the server may rest, if that comes first.
    fn next_tick(&mut self) -> Instant {
        let check = self.next_check();
        self.check_due = check;
        self.next_rest().map_or(check, |rest| rest.min(check))
    }

    /// Whether the supervisor woke up only to see whether the server may rest.
    fn is_between_checks(&self) -> bool {
        self.check_due > Instant::now()
    }

    /// The next health check, up to a tenth early, so that servers are not all checked at the same moment.
    fn next_check(&self) -> Instant {
        let interval = self.upstream.config.health_check_interval;
        Instant::now() + interval - super::retry::full_jitter(interval / 10)
    }

    /// Sends the change to the manager, unless it is a state that the manager already has.
    async fn publish(&mut self, change: Change) {
        if let Change::State(state) = &change
            && !self.upstream.stats.set_state(*state)
            && *state != State::Connecting
        {
            return;
        }
        let update = Update { server: Arc::clone(&self.upstream.config.name), id: self.upstream.id, change };
        tokio::select! {
            // A manager that has ended needs no updates.
            _ = self.updates.send(update) => {}
            () = self.upstream.group.requested() => {}
        }
    }
}

// Commands of operators for one server: connect, reconnect, disconnect, or record a health check.
//
// Invariants: each command gets a reply, at the latest when the discovery that it began has ended. At most
// [`MAX_WAITING`] wait for one discovery.

impl Supervisor {
    async fn obey(&mut self, command: Command) {
        match command {
            Command::Connect { reply, .. } if matches!(self.phase, Phase::Up { .. }) => {
                let offer = self.upstream.offer().ok_or(Error::Unavailable { state: "connecting" });
                let _ = reply.send(offer); // the operator may have left
            }
            Command::Connect { deadline, reply } => self.start_over(deadline, reply).await,
            Command::Reconnect { deadline, reply } => {
                self.task = None;
                self.upstream.pool.close_all().await;
                self.start_over(deadline, reply).await;
            }
            Command::Disconnect { reply } => {
                self.switch_off().await;
                let _ = reply.send(Ok(())); // the operator may have left
            }
            Command::Checked { result, reply } => {
                // The next connect decides about a server that is down, and a running task about its own result.
                if matches!(self.phase, Phase::Up { .. }) && self.task.is_none() {
                    self.conclude(TaskResult::Checked(result)).await;
                }
                let _ = reply.send(Ok(())); // the operator may have left
            }
        }
    }

    async fn start_over(&mut self, deadline: Instant, reply: OfferReply) {
        if self.waiting.len() >= MAX_WAITING {
            let _ = reply.send(Err(Error::Overloaded { retry_in: COMMAND_RETRY_IN }));
            return;
        }
        self.waiting.push(reply);
        self.begin_again(Some(deadline)).await;
    }

    /// Accepts calls again and drops the record of earlier failures.
    async fn begin_again(&mut self, deadline: Option<Instant>) {
        self.phase = Phase::Down;
        self.upstream.pool.open();
        self.upstream.breaker.reset();
        self.upstream.liveness.broken();
        self.publish(Change::State(State::Connecting)).await;
        self.discover(deadline);
    }

    async fn switch_off(&mut self) {
        self.task = None;
        self.phase = Phase::Off;
        let state = State::Disconnected;
        self.upstream.pool.shut(state.as_str());
        self.upstream.pool.close_all().await;
        self.publish(Change::State(state)).await;
        self.notify_waiting(&Err(Error::Unavailable { state: state.as_str() }));
    }

    fn notify_waiting(&mut self, result: &Result<Arc<Offer>, Error>) {
        for reply in self.waiting.drain(..) {
            let _ = reply.send(result.clone()); // the operator may have left
        }
    }
}

// Reading the offer: the tools are published as soon as they are known, and the whole offer when every list was read.

impl Supervisor {
    /// Reads the offer, on a new connection if there is none.
    fn discover(&mut self, deadline: Option<Instant>) {
        let there = self.occupancy.borrow_and_update();
        self.arrival = there.arrivals + u64::from(there.live == 0);
        drop(there);
        self.stale = false;
        self.upstream.stats.will_try(None);
        self.upstream.stats.set_resting(false);
        let upstream = Arc::clone(&self.upstream);
        let limit = super::first_attempt_limit(&upstream.config);
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
    async fn on_tools(&mut self, offer: Offer) {
        let Ok(offer) = self.upstream.covered(Ok(offer)) else { return };
        self.come_up(&offer);
        self.upstream.stats.offered(&offer);
        self.publish(Change::Offered(offer)).await;
        self.publish(Change::State(State::Ready)).await;
    }

    /// Tells calls that wait for it that the offer of the current connection was read, or why not.
    fn report_reading(&self, failure: Option<&Error>) {
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

    async fn on_discovered(&mut self, offer: Arc<Offer>) {
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

#[cfg(test)]
#[path = "supervise_tests.rs"]
mod tests;
