//! One MCP server: everything that is needed to call it, without knowledge of clients.
//!
//! [`Upstream`] is the entry point. Invariants: a call ends by its deadline. Dropping its future releases
//! everything that it held. A disabled server is never contacted.
//!
//! Not here: the set of servers, and the names of their tools for clients (`manager`).

pub mod api;
mod backoff;
pub mod breaker;
mod bulkhead;
mod call;
mod call_events;
pub mod config;
pub mod connection;
pub mod credential;
mod dialect;
pub mod discover;
pub mod error;
#[cfg(any(test, feature = "testing"))]
#[allow(missing_docs, clippy::missing_panics_doc)] // only tests see it
pub mod fake;
mod forwarded_headers;
mod frame;
mod inflight_guard;
mod layers;
mod liveness;
mod offer;
mod pool;
mod principal_offers;
mod principal_secrets;
mod private_client_table;
mod private_clients;
pub mod rate_limit;
mod refresh;
mod remembered;
mod request;
mod response_stream;
pub mod retry;
pub mod secrets;
pub mod session_affinity;
mod start;
mod state_signs;
mod stateful;
pub mod status;
mod subscription_task;
mod supervise;
mod supervisor_messages;
pub mod token_file;
pub mod transport;
#[cfg(test)]
mod unanswered_tests;
mod watches;

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};

pub use call::{Attempt, AttemptLog, CallSource, EndedAttempts};
pub use call_events::Deadline;
pub use config::Config;
pub use connection::{
    ANSWER_LIMIT, Call, CallEvent, Connection, Connector, Dialect, Event, EventReceiver, EventSender, Events,
    Owner, Question, ServerContext, ServerResponse, Sockets, Starting,
};
pub use error::{Delivery, Error};
pub use forwarded_headers::{ForwardedHeaders, MAX_FORWARDED_BYTES};
pub use offer::Offer;
pub use principal_offers::PrincipalOffers;
pub use principal_secrets::PrincipalSecrets;
pub use private_client_table::WaitFor;
pub use remembered::Remembered;
#[cfg(any(test, feature = "testing"))]
pub use response_stream::testing::{BodyWriter, flow as arriving};
pub use response_stream::{ResponseBody, ResponseStream};
pub use session_affinity::{Affinity, ClientSession, SenderLoan};
pub use state_signs::StateSign;
pub use status::{State, Status};
pub use supervisor_messages::{Change, Update};
pub use watches::{Subject, WatchRefusal, Watching};

use breaker::Breaker;
use bulkhead::Bulkhead;
use liveness::Liveness;
use oauth::Logins;
use pool::Pool;
use protocol::{Era, Version};
use rate_limit::RateLimit;
use remembered::LastReading;
use retry::Retries;
use runtime::shutdown::Shutdown;
use secrets::Secrets;
use status::Stats;
use supervisor_messages::Command;
use watches::Watches;

/// Most commands of operators that wait.
const COMMANDS: usize = 16;
/// The `retry_in` of a command that finds the queue full.
const COMMAND_RETRY_IN: Duration = Duration::from_secs(1);
/// Extra time for the supervisor to report an error of its own after a deadline.
const REPORT_MARGIN: Duration = Duration::from_millis(500);
/// Longest time of a health check, whatever the time limit of a call is.
const HEALTH_LIMIT: Duration = Duration::from_secs(10);

/// One server: pool, breaker, retries, bulkhead, and the task that keeps it connected.
pub struct Upstream {
    /// For responses that outlive their call.
    me: Weak<Self>,
    id: u64,
    config: Config,
    is_switched: bool,
    breaker: Breaker,
    bulkhead: Bulkhead,
    rate: Option<RateLimit>,
    retries: Retries,
    pool: Arc<Pool>,
    stats: Stats,
    /// The offer that is known before the server was reached.
    declared: Option<Arc<Offer>>,
    secrets: Secrets,
    liveness: Arc<Liveness>,
    watches: Arc<Watches>,
    last_reading: watch::Sender<LastReading>,
    principal_offers: Arc<PrincipalOffers>,
    principal_secrets: Option<Arc<PrincipalSecrets>>,
    commands: mpsc::Sender<Command>,
    updates: mpsc::Sender<Update>,
    /// Ends the supervisor and all connections.
    group: Shutdown,
}

impl Upstream {
    /// Enables a disconnected server again, or completes the connection of one that is down. Returns its
    /// offer.
    pub async fn connect(&self, deadline: Instant) -> Result<Arc<Offer>, Error> {
        self.command(deadline, |reply| Command::Connect { deadline, reply }).await
    }

    /// Drops its connections, connects again and reads its offer. Running calls are lost. The breaker is
    /// closed first, because it judged the dropped connections.
    pub async fn reconnect(&self, deadline: Instant) -> Result<Arc<Offer>, Error> {
        self.command(deadline, |reply| Command::Reconnect { deadline, reply }).await
    }

    /// Ends its connections and makes no new ones until [`Upstream::connect`] or [`Upstream::reconnect`]. New
    /// calls are refused meanwhile, and running calls are lost.
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
        let (started, (reply, answer)) = (Instant::now(), oneshot::channel());
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
            Err(_) => Err(Error::TimedOut { after: started.elapsed() }),
        }
    }

    /// Waits at most `limit` for running calls, then closes every connection. Calls of callers that still use
    /// the old snapshot are accepted meanwhile.
    pub async fn stop(&self, limit: Duration) {
        let _ = timeout(limit, self.bulkhead.idle()).await;
        self.group.begin();
        self.group.wait(pool::CLOSE_LIMIT).await;
    }

    /// Fails if the server is disabled or disconnected.
    pub fn check_open(&self) -> Result<(), Error> {
        self.pool.check_open()
    }

    /// Closes the breaker.
    pub fn reset_breaker(&self) {
        self.breaker.reset();
    }

    /// Returns a text with the secrets of this server redacted. In a text of the server, which may quote them, so are the
    /// headers of the client that it got, `forwarded`.
    pub fn redacted(&self, text: &str, forwarded: Option<&ForwardedHeaders>) -> String {
        let text = self.secrets.redact(text);
        match forwarded {
            Some(headers) => Secrets::new(&headers.values()).redact(&text),
            None => text,
        }
    }

    /// The last lines on standard error of its process, without secrets; `None` if it is no process.
    pub fn stderr(&self) -> Option<Vec<String>> {
        self.pool.connector.stderr()
    }

    /// Returns the state of the breaker.
    pub fn breaker(&self) -> breaker::Snapshot {
        self.breaker.snapshot()
    }

    /// Returns the status of the server.
    pub fn status(&self) -> Status {
        let reported = self.stats.reported();
        let (last_error, last_error_ago) = reported.error.map(|(text, at)| (text, at.elapsed())).unzip();
        let (offer, starting) = (reported.offer.as_deref(), self.starting());
        let connections = self.pool.live();
        let status = Status {
            server: Arc::clone(&self.config.name),
            is_well: matches!(reported.state, State::Ready | State::Idle),
            state: match reported.state {
                State::Connecting | State::Idle if starting.is_some() => State::Starting,
                // Sessions of clients use it, although the shared connection rests.
                State::Idle if connections > 0 => State::Ready,
                // Calls would be refused.
                State::Ready if self.breaker().state == breaker::State::Open => State::Failed,
                state => state,
            },
            starting,
            last_error,
            last_error_ago,
            answers_errors: self.stats.answers_errors(),
            remembered_ago: reported.remembered_at.map(remembered::age),
            seen_ago: self.stats.seen_ago(),
            latency: reported.latency,
            version: offer.map(|offer| offer.peer.version),
            info: offer.map(|offer| offer.peer.info.clone()),
            breaker: self.breaker.snapshot(),
            connections,
            sockets: self.pool.connector.sockets(),
            running: self.bulkhead.running(),
            waiting: self.bulkhead.waiting(),
            tools: offer.map_or(0, |offer| offer.tools.len()),
            problems: self.problems(offer),
            signs: self.signs().all(),
            counters: self.stats.counters(),
        };
        status.without_past_error(self.stats.answered_ago())
    }

    /// Returns the id of this `Upstream`, which no other in the program has. It shows that a late [`Update`]
    /// came from one that was replaced.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The logins to it, if it needs one.
    pub fn logins(&self) -> Option<Arc<Logins>> {
        self.pool.connector.logins()
    }

    /// Its settings in the configuration file.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns its last known offer, which stays while the server is unavailable.
    pub fn offer(&self) -> Option<Arc<Offer>> {
        self.stats.reported().offer
    }

    /// Returns the revision of its last offer.
    pub fn version(&self) -> Option<Version> {
        self.offer().map(|offer| offer.peer.version)
    }

    /// Whether the server speaks `era`, or none while that is unknown.
    pub fn speaks(&self, era: Era) -> Option<bool> {
        self.pool.connector.speaks(era)
    }

    /// Returns the era of that revision.
    pub fn era(&self) -> Option<Era> {
        self.version().map(Version::era)
    }
}

/// Returns the time limit of a first attempt to connect to the server of `config` and to read its offer.
pub fn first_attempt_limit(config: &Config) -> Duration {
    config.connect_limit() + config.timeout
}
