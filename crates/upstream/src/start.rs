//! Starting a server: its parts, and what it inherits from a predecessor or from an earlier run.
//!
//! Invariant: a server that is disabled gets no task and no connection.
//!
//! Not here: connecting (`supervise`, `pool`).

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::breaker::Breaker;
use super::bulkhead::Bulkhead;
use super::connection::{Connector, EventSender, Events, Starting};
use super::liveness::Liveness;
use super::pool::{self, Pool};
use super::principal_offers::PrincipalOffers;
use super::rate_limit::RateLimit;
use super::remembered::Remembered;
use super::retry::Retries;
use super::secrets::Secrets;
use super::status::{State, Stats};
use super::supervise::Supervisor;
use super::supervisor_messages::{Change, Update};
use super::watches::Watches;
use super::{COMMANDS, Config, Upstream};
use json::Raw;
use protocol::{Notification, method};
use runtime::shutdown::Shutdown;

/// State that a server has from before its start.
struct Inherited<'a> {
    watches: Arc<Watches>,
    is_switched: bool,
    remembered: Option<&'a Remembered>,
    principal_offers: Arc<PrincipalOffers>,
}

impl<'a> Inherited<'a> {
    /// The state that is `remembered` from an earlier run, or from a predecessor with other settings.
    fn of_run(watches: Arc<Watches>, remembered: Option<&'a Remembered>) -> Self {
        let principal_offers = remembered.map(|remembered| Arc::clone(&remembered.principals));
        Self {
            watches,
            is_switched: false,
            remembered,
            principal_offers: principal_offers.unwrap_or_default(),
        }
    }
}

impl Upstream {
    /// Starts to connect in the background and returns at once. The offer and the state of the server are
    /// sent to `updates`. It lives until [`Upstream::stop`] or the end of `shutdown`.
    pub fn start(
        config: Config,
        connector: Arc<dyn Connector>,
        updates: mpsc::Sender<Update>,
        shutdown: &Shutdown,
    ) -> Arc<Self> {
        Self::start_remembered(config, connector, None, updates, shutdown)
    }

    /// Starts like [`Upstream::start`], with what is remembered from an earlier run. A child process that is started
    /// on demand waits until it is needed.
    pub fn start_remembered(
        config: Config,
        connector: Arc<dyn Connector>,
        remembered: Option<&Remembered>,
        updates: mpsc::Sender<Update>,
        shutdown: &Shutdown,
    ) -> Arc<Self> {
        let inherited = Inherited::of_run(Watches::new(), remembered);
        Self::start_with(inherited, config, connector, updates, shutdown)
    }

    /// Starts a successor for `self`, which still has to be stopped. The successor inherits the subscriptions
    /// of clients.
    pub fn succeed(
        &self,
        config: Config,
        connector: Arc<dyn Connector>,
        remembered: Option<&Remembered>,
        updates: mpsc::Sender<Update>,
        shutdown: &Shutdown,
    ) -> Arc<Self> {
        let inherited = Inherited::of_run(Arc::clone(&self.watches), remembered);
        Self::start_with(inherited, config, connector, updates, shutdown)
    }

    /// Starts a successor that is enabled if this server is not, and the other way around. It keeps the logins.
    pub fn switch(&self, updates: mpsc::Sender<Update>, shutdown: &Shutdown) -> Arc<Self> {
        let config = Config { enabled: !self.config.enabled, ..self.config.clone() };
        let (watches, is_switched) = (Arc::clone(&self.watches), !self.is_switched);
        let principal_offers = Arc::clone(&self.principal_offers);
        let inherited = Inherited { watches, is_switched, remembered: None, principal_offers };
        Self::start_with(inherited, config, Arc::clone(&self.pool.connector), updates, shutdown)
    }

    /// Starts a successor that knows nothing of what this server offered and showed. It keeps the logins.
    pub fn start_afresh(&self, updates: mpsc::Sender<Update>, shutdown: &Shutdown) -> Arc<Self> {
        let (watches, is_switched) = (Arc::clone(&self.watches), self.is_switched);
        let principal_offers = Arc::default();
        let inherited = Inherited { watches, is_switched, remembered: None, principal_offers };
        Self::start_with(inherited, self.config.clone(), Arc::clone(&self.pool.connector), updates, shutdown)
    }

    /// Whether an operator enabled or disabled it, against the configuration file.
    pub const fn is_switched(&self) -> bool {
        self.is_switched
    }

    fn start_with(
        Inherited { watches, is_switched, remembered, principal_offers }: Inherited<'_>,
        config: Config,
        connector: Arc<dyn Connector>,
        updates: mpsc::Sender<Update>,
        shutdown: &Shutdown,
    ) -> Arc<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let group = shutdown.child();
        let liveness = Arc::<Liveness>::default();
        let (events, notices) = Events::of_server(Arc::clone(&liveness), Arc::default());
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let principal_secrets = connector.principal_secrets();
        let secrets = Secrets::of(&config, connector.logins(), principal_secrets.clone());
        let limits = (pool_limits(&config), secrets.clone());
        let declared = if config.enabled { connector.declared().map(Arc::new) } else { None };
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let (server, news) = (Arc::clone(&config.name), updates.clone());
        let on_change = move |changed| {
            // Only watchers hear of it, so a full channel loses it.
            let _ =
                news.try_send(Update { server: Arc::clone(&server), id, change: Change::Breaker(changed) });
        };
        let upstream = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            id,
            breaker: Breaker::telling(config.breaker, on_change),
            bulkhead: Bulkhead::new(&config.limits),
            rate: config.limits.requests_per_minute.map(RateLimit::new),
            retries: Retries::new(config.retry),
            pool: Pool::new(connector, events.clone(), limits, group.clone()),
            stats: Stats::new(if config.enabled { State::Connecting } else { State::Disabled }, &secrets),
            declared,
            secrets,
            liveness,
            watches,
            last_reading: watch::Sender::default(),
            principal_offers,
            principal_secrets,
            commands,
            updates: updates.clone(),
            group: group.clone(),
            config,
            is_switched,
        });
        if upstream.config.enabled {
            if let Some(remembered) = remembered {
                upstream.restore(remembered);
            }
            let supervisor = Supervisor::new(Arc::clone(&upstream), updates, notices, inbox);
            group.spawn(supervisor.run());
            group.spawn_until_end(upstream.subscription_task(&upstream.watches, events).run());
            // The shutdown of the program also waits for this server.
            shutdown.include(&group, pool::CLOSE_LIMIT);
        } else {
            upstream.pool.shut(State::Disabled.as_str());
        }
        upstream
    }
}

fn pool_limits(config: &Config) -> pool::PoolLimits {
    pool::PoolLimits {
        connections: config.limits.connections,
        connect: config.connect_limit(),
        sharing: config.sharing,
        is_per_principal: config.is_per_principal(),
        silence_limits: config.silence_limits(),
    }
}

// The start of a child process, as operators and waiting callers see it.
//
// Invariants: a caller that waits gets at most one message a second, and only when there is something new. Messages
// extend the deadline of its call like those of a running server. Their progress values are below zero and grow, so
// that they never exceed those that the server sends later.

/// The shortest time between two messages to a caller.
const PACE: Duration = Duration::from_secs(1);

impl Upstream {
    /// The start that is under way, if the server is a child process.
    pub(super) fn starting(&self) -> Option<Starting> {
        self.pool.connector.starting()?.borrow().clone()
    }

    /// Reports the start of the process as progress of a call, without end.
    pub(super) async fn report_start(&self, event_sender: &EventSender) -> Infallible {
        let Some(mut starting) = self.pool.connector.starting() else { return pending().await };
        let mut count = 0_i32;
        loop {
            let now = starting.borrow_and_update().clone();
            if let Some(now) = now {
                count += 1;
                event_sender.offer(self.progress(count, &now));
                sleep(PACE).await;
            }
            if starting.changed().await.is_err() {
                return pending().await;
            }
        }
    }

    fn progress(&self, count: i32, starting: &Starting) -> Notification {
        let server = &self.config.name;
        let line = starting.last_line.as_ref().map_or(String::new(), |line| format!(": {line}"));
        let message = format!("starting {server}{line}");
        // The token is replaced by that of the client.
        let params = json!({"progressToken": 0, "progress": -1.0 / f64::from(count), "message": message});
        Notification { method: method::PROGRESS.into(), params: Some(Raw::of(&params)) }
    }
}
