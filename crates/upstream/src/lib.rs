//! One server: everything that is needed to call it well, and nothing about who calls.
//!
//! [`Upstream`] is the way in. Invariants: a call ends by its deadline; what it held is free again
//! when its future is dropped; a disabled server is never contacted.
//!
//! Not here: which servers there are and what their tools are called for clients (`manager`).

mod absence;
pub mod api;
mod attempt;
mod attendant;
mod backoff;
pub mod breaker;
mod bulkhead;
mod call_events;
pub mod close_reason;
pub mod config;
pub mod connection;
pub mod credential;
mod deadline;
mod dialect;
pub mod discover;
pub mod error;
#[cfg(any(test, feature = "testing"))]
#[allow(missing_docs, clippy::missing_panics_doc)] // only tests see it
pub mod fake;
mod flap_backoff;
mod frame;
mod health_check;
mod inflight_guard;
mod listen;
mod liveness;
mod phase;
mod pool;
pub mod rate_limit;
mod refresh;
mod response_stream;
pub mod retry;
pub mod secrets;
pub mod session_affinity;
mod signs;
mod stateful;
pub mod status;
mod subscription_task;
mod supervise;
mod supervisor_messages;
pub mod token_file;
pub mod transport;
mod verbosity;
mod watches;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

pub use config::Config;
pub use connection::{
    Answered, Call, CallEvent, Connection, Connector, Dialect, Event, Events, Inlet, Outlet, Owner, Question,
    Sockets,
};
pub use deadline::Deadline;
pub use discover::Offer;
pub use error::{Delivery, Error};
#[cfg(any(test, feature = "testing"))]
pub use response_stream::testing::{Pen, flow as arriving};
pub use response_stream::{ResponseBody, ResponseStream};
pub use session_affinity::{ClientSession, Home, Loan};
pub use signs::Sign;
pub use signs::{any_logins, any_private};
pub use status::{State, Status};
pub use supervisor_messages::{Change, Update};
pub use watches::{Refusal, Subject, Watching};

use breaker::Breaker;
use bulkhead::Bulkhead;
use liveness::{Patience, Silence};
use oauth::Logins;
use pool::Pool;
use protocol::{Era, Version};
use rate_limit::RateLimit;
use retry::Retries;
use runtime::shutdown::Shutdown;
use runtime::store::Store;
use secrets::Secrets;
use status::Facts;
use supervise::Supervisor;
use supervisor_messages::Command;
use watches::Watches;

/// Commands of operators that may wait.
const COMMANDS: usize = 16;
/// What a command is told that finds no room.
const COMMAND_RETRY_IN: Duration = Duration::from_secs(1);
/// Time the supervisor has after a deadline to say itself what went wrong.
const REPORT_MARGIN: Duration = Duration::from_millis(500);
/// A health check takes no longer, whatever a call may.
const HEALTH_LIMIT: Duration = Duration::from_secs(10);

/// What servers are given of the program they run in.
#[derive(Clone)]
pub struct Means {
    /// The group of all their tasks.
    pub shutdown: Shutdown,
    /// The cache that all of them share.
    pub store: Store,
    /// Whether they are only to be looked at: a built-in server then goes on with nothing that was under
    /// way, and keeps nothing.
    pub only_looks: bool,
    /// The vault for tokens; without one they end with the process.
    pub vault: Option<Arc<auth::vault::Vault>>,
}

#[cfg(any(test, feature = "testing"))]
impl Means {
    /// Those of a server in a test: a cache of its own, and no vault.
    pub fn alone(shutdown: &Shutdown) -> Self {
        let store = Store::open(&runtime::store::Config::default());
        Self { shutdown: shutdown.clone(), store, only_looks: false, vault: None }
    }
}

/// One server and the way to it: pool, breaker, retries, bulkhead, and the task that keeps it up.
pub struct Upstream {
    /// For answers that outlive the call that they are of.
    me: Weak<Self>,
    id: u64,
    config: Config,
    breaker: Breaker,
    bulkhead: Bulkhead,
    rate: Option<RateLimit>,
    retries: Retries,
    pool: Arc<Pool>,
    facts: Facts,
    /// Its offer before it was reached, if that is known.
    declared: Option<Arc<Offer>>,
    secrets: Secrets,
    silence: Arc<Silence>,
    watches: Arc<Watches>,
    commands: mpsc::Sender<Command>,
    updates: mpsc::Sender<Update>,
    /// Ends the supervisor and every connection.
    group: Shutdown,
}

impl Upstream {
    /// Starts to connect in the background and returns at once; what the server offers, and how it
    /// fares, goes to `updates`. It lives until [`Upstream::stop`] or the end of `shutdown`.
    pub fn start(
        config: Config,
        connector: Arc<dyn Connector>,
        updates: mpsc::Sender<Update>,
        shutdown: &Shutdown,
    ) -> Arc<Self> {
        Self::start_with(Watches::new(), config, connector, updates, shutdown)
    }

    /// The same in the place of `self`, which is still to be stopped: what clients want to be told of
    /// the server, they are told by its successor.
    pub fn succeed(
        &self,
        config: Config,
        connector: Arc<dyn Connector>,
        updates: mpsc::Sender<Update>,
        shutdown: &Shutdown,
    ) -> Arc<Self> {
        Self::start_with(Arc::clone(&self.watches), config, connector, updates, shutdown)
    }

    fn start_with(
        watches: Arc<Watches>,
        config: Config,
        connector: Arc<dyn Connector>,
        updates: mpsc::Sender<Update>,
        shutdown: &Shutdown,
    ) -> Arc<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let group = shutdown.child();
        let silence = Arc::<Silence>::default();
        let (events, notices) = Events::that_break(Arc::clone(&silence));
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let secrets = Secrets::of(&config, connector.logins());
        let limits = (pool_limits(&config), secrets.clone());
        let declared = if config.enabled { connector.declared().map(Arc::new) } else { None };
        let upstream = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            breaker: Breaker::new(config.breaker),
            bulkhead: Bulkhead::new(&config.limits),
            rate: config.limits.requests_per_minute.map(RateLimit::new),
            retries: Retries::new(config.retry),
            pool: Pool::new(connector, events.clone(), limits, group.clone()),
            facts: Facts::new(if config.enabled { State::Connecting } else { State::Disabled }, &secrets),
            declared,
            secrets,
            silence,
            watches,
            commands,
            updates: updates.clone(),
            group: group.clone(),
            config,
        });
        if upstream.config.enabled {
            upstream.note_sharing();
            let supervisor = Supervisor::new(Arc::clone(&upstream), updates, notices, inbox);
            group.spawn(supervisor.run());
            group.spawn_until_end(upstream.carrier(&upstream.watches, events).run());
            // Whoever waits for `shutdown` waits for this server too.
            shutdown.include(&group, pool::CLOSE_LIMIT);
        } else {
            upstream.pool.shut(State::Disabled.as_str());
        }
        upstream
    }

    /// Takes a disconnected server into use again, or finishes connecting one that is down; its
    /// offer.
    pub async fn connect(&self, deadline: Instant) -> Result<Arc<Offer>, Error> {
        self.command(deadline, |reply| Command::Connect { deadline, reply }).await
    }

    /// Drops and rebuilds its connections, and reads its offer again. Closes the breaker first: it
    /// judged the connections that are dropped. Calls that are running are lost.
    pub async fn reconnect(&self, deadline: Instant) -> Result<Arc<Offer>, Error> {
        self.command(deadline, |reply| Command::Reconnect { deadline, reply }).await
    }

    /// Ends its connections and makes no new ones until [`Upstream::connect`] or
    /// [`Upstream::reconnect`]; calls are refused meanwhile, and calls that are running are lost.
    pub async fn disconnect(&self) -> Result<(), Error> {
        let deadline = Instant::now() + pool::CLOSE_LIMIT + REPORT_MARGIN;
        self.command(deadline, |reply| Command::Disconnect { reply }).await
    }

    async fn command<T>(
        &self,
        deadline: Instant,
        command: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Command,
    ) -> Result<T, Error> {
        let unavailable = || Error::Unavailable { state: State::Disabled.as_str() };
        if !self.config.enabled {
            return Err(unavailable());
        }
        let (begun, (reply, answer)) = (Instant::now(), oneshot::channel());
        let sent = self.commands.try_send(command(reply));
        match sent {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                return Err(Error::Overloaded { retry_in: COMMAND_RETRY_IN });
            }
            Err(mpsc::error::TrySendError::Closed(_)) => {
                return Err(Error::Unavailable { state: pool::SHUTTING_DOWN });
            }
        }
        match timeout_at(deadline + REPORT_MARGIN, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Error::Unavailable { state: pool::SHUTTING_DOWN }),
            Err(_) => Err(Error::TimedOut { after: begun.elapsed() }),
        }
    }

    /// Lets calls that are running end, for at most `limit`, then closes every connection. Calls
    /// that come meanwhile are still taken, from those who have not yet heard that it goes.
    pub async fn stop(&self, limit: Duration) {
        let _ = timeout(limit, self.bulkhead.idle()).await;
        self.group.begin();
        self.group.wait(pool::CLOSE_LIMIT).await;
    }

    /// Whether it takes calls: not when it is disabled or disconnected.
    pub fn check_open(&self) -> Result<(), Error> {
        self.pool.check_open()
    }

    /// Closes the breaker now.
    pub fn reset_breaker(&self) {
        self.breaker.reset();
    }

    /// The breaker now.
    pub fn breaker(&self) -> breaker::Snapshot {
        self.breaker.snapshot()
    }

    /// Everything known of it now.
    pub fn status(&self) -> Status {
        let told = self.facts.told();
        let (last_error, failed_at) = told.error.unzip();
        let offer = told.offer.as_deref();
        Status {
            server: Arc::clone(&self.config.name),
            state: told.state,
            last_error,
            last_error_ago: failed_at.map(|at| at.elapsed()),
            answers_errors: self.facts.answers_errors(),
            seen_ago: self.facts.seen_ago(),
            latency: told.latency,
            version: offer.map(|offer| offer.peer.version),
            info: offer.map(|offer| offer.peer.info.clone()),
            breaker: self.breaker.snapshot(),
            connections: self.pool.live(),
            sockets: self.pool.connector.sockets(),
            running: self.bulkhead.running(),
            waiting: self.bulkhead.waiting(),
            tools: offer.map_or(0, |offer| offer.tools.len()),
            problems: self.problems(offer),
            signs: self.signs().all(),
            counters: self.facts.counters(),
        }
    }

    /// Different for every `Upstream` of the program, so that a late [`Update`] of one that was
    /// replaced is known as such.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The logins to it, if it needs one.
    pub fn logins(&self) -> Option<Arc<Logins>> {
        self.pool.connector.logins()
    }

    /// Ends the connections that use the credential of `principal`.
    pub fn end_connections_of(&self, principal: &Arc<str>) {
        self.pool.end_connections_of(principal);
    }

    /// What the operator says of it.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Its last known offer; it stays while the server is away.
    pub fn offer(&self) -> Option<Arc<Offer>> {
        self.facts.told().offer
    }

    /// The revision spoken with it, as of its last offer.
    pub fn version(&self) -> Option<Version> {
        self.offer().map(|offer| offer.peer.version)
    }

    /// The family of that revision.
    pub fn era(&self) -> Option<Era> {
        self.version().map(Version::era)
    }
}

/// The longest that a first attempt to connect to the server of `config` and to read its offer may take.
pub fn first_attempt_limit(config: &Config) -> Duration {
    config.connect_limit() + config.timeout
}

fn pool_limits(config: &Config) -> pool::Limits {
    pool::Limits {
        connections: config.limits.connections,
        connect: config.connect_limit(),
        is_private: config.sharing == config::Sharing::PerSession || config.is_per_principal(),
        is_per_principal: config.is_per_principal(),
        patience: Patience::of(config),
    }
}
