//! The task that looks after one client's private connection: it reads what the server offers on it, carries
//! the client's subscriptions, and passes on that the client's roots changed.
//!
//! Invariants: one task for each client of a server. Messages of the server on the connection reach this
//! client alone. A client's first request waits until the lists were read and the server has the answers to what it
//! asked at its start. That takes at most [`PATIENCE`] after the connect began. A failed connect is not repeated
//! for [`RETRY_AFTER`].
//!
//! Not here: which connection a call gets (`pool`), and the catalog a client sees (`manager::views`).

use std::collections::HashMap;
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::Upstream;
use super::connection::{Call, Connection, Event, Events, Outlet};
use super::deadline::Deadline;
use super::dialect::PoolRequest;
use super::discover::{self, Discovery};
use super::error::Error;
use super::frame::Frame;
use super::offer::Offer;
use super::retry;
use super::state_signs::StateSign;
use super::watches::Watches;
use super::work::Work;
use crate::session_affinity::Affinity;
use crate::supervisor_messages::{Change, Update};
use protocol::feature::Lists;
use protocol::{ErrorObject, LogLevel, Notification, method};

/// How long the first request of a client waits for its connection.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a failed connect.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Change notifications within this time are combined.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How long a server may take, after its lists, to ask for the client's roots.
const GRACE: Duration = Duration::from_millis(300);
/// How long a server may take to apply the answers to what it asked at its start.
const APPLIES: Duration = Duration::from_millis(100);
/// How long a server that asked for roots before may take to ask again.
const KNOWN_GRACE: Duration = Duration::from_secs(1);

/// The clients with private connections to one server.
#[derive(Default)]
pub(super) struct PrivateClients(Mutex<HashMap<Affinity, Arc<PrivateClient>>>);

/// One client with a private connection, or with an attempt to make one.
pub(super) struct PrivateClient {
    affinity: Affinity,
    events: Events,
    pub(super) watches: Arc<Watches>,
    begun: Instant,
    outcome: watch::Sender<Option<bool>>,
}

impl PrivateClients {
    /// Returns where the private connections of `affinity` report events.
    pub(super) fn events(&self, affinity: &Affinity) -> Option<Events> {
        self.lock().get(affinity).map(|client| client.events.clone())
    }

    /// Returns the client of `affinity`, if it has a task.
    pub(super) fn get(&self, affinity: &Affinity) -> Option<Arc<PrivateClient>> {
        self.lock().get(affinity).cloned()
    }

    /// Whether the client of `affinity` has subscriptions.
    pub(super) fn watches(&self, affinity: &Affinity) -> bool {
        self.get(affinity).is_some_and(|client| client.watches.count() > 0)
    }

    /// Returns the client of `affinity`, with the receiver of its events if it is new.
    fn enter(&self, affinity: &Affinity) -> (Arc<PrivateClient>, Option<mpsc::Receiver<Event>>) {
        let mut clients = self.lock();
        if let Some(client) = clients.get(affinity) {
            return (Arc::clone(client), None);
        }
        let (events, heard) = Events::channel();
        let (watches, outcome) = (Watches::new(), watch::Sender::new(None));
        let (affinity, begun) = (affinity.attended(), Instant::now());
        let client = Arc::new(PrivateClient { affinity: affinity.clone(), events, watches, begun, outcome });
        clients.insert(affinity, Arc::clone(&client));
        (client, Some(heard))
    }

    fn leave(&self, affinity: &Affinity) {
        self.lock().remove(affinity);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Affinity, Arc<PrivateClient>>> {
        // Nothing panics while it is held, and every write leaves a valid table.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upstream {
    /// Whether the client of `affinity` has private connections.
    pub(crate) fn is_private_to(&self, affinity: &Affinity) -> bool {
        self.pool.is_private_to(affinity)
    }

    /// Whether the first request of `affinity` has to wait ([`Upstream::attend`]).
    pub fn has_to_attend(&self, affinity: &Affinity) -> bool {
        let is_settled = |client: Arc<PrivateClient>| client.outcome.borrow().is_some();
        self.config.enabled
            && self.is_private_to(affinity)
            && !self.pool.attended.get(affinity).is_some_and(is_settled)
    }

    /// Connects for the client that `call` describes, if it has connections of its own. Waits until its lists were
    /// read and the server has the answers to what it asked at its start. A failure shows with the next call.
    pub async fn attend(&self, call: &Call) {
        let Some(affinity) = call.affinity.as_ref().filter(|affinity| self.has_to_attend(affinity)) else {
            return;
        };
        let (client, new) = self.pool.attended.enter(affinity);
        if let Some((heard, upstream)) = new.zip(self.me.upgrade()) {
            let task = PrivateClientTask {
                upstream,
                client: Arc::clone(&client),
                call: Call {
                    affinity: Some(client.affinity.clone()),
                    sender: call.sender.detached(),
                    ..call.clone()
                },
                affinity: client.affinity.clone(),
                last_read: Instant::now(),
            };
            self.group.spawn_until_end(task.run(heard));
        }
        let mut outcome = client.outcome.subscribe();
        // After this time the task continues, but no request waits for it.
        let _ = timeout_at(client.begun + PATIENCE, outcome.wait_for(Option::is_some)).await;
    }

    /// Requests log lines of `level` and above on the private connection of `affinity`, if there is one.
    pub async fn want_log(&self, affinity: &Affinity, level: LogLevel) {
        self.pool.want_private_log(affinity, level).await;
    }

    /// Returns the client of `call` if the server waits for an answer of the client that has to come first.
    /// The client has no session, so it gets the server request during a call.
    pub(super) fn has_to_answer(&self, call: &Call) -> Option<Arc<PrivateClient>> {
        let affinity = call
            .affinity
            .as_ref()
            .filter(|affinity| affinity.ends_when_idle() && self.is_private_to(affinity))?;
        let client = self.pool.attended.get(affinity)?;
        let is_asked = client.affinity.requests()?.borrow().1 > 0;
        let can_ask =
            [method::TOOLS_CALL, method::PROMPTS_GET, method::RESOURCES_READ].contains(&&*call.method);
        let has_roots = || call.sender.capabilities.get("roots").is_some();
        (is_asked && can_ask && has_roots()).then_some(client)
    }

    /// Lets `client` answer these server requests during `call`.
    pub(super) async fn answer_first(
        &self,
        client: &PrivateClient,
        (call, outlet): (&Call, &Outlet),
        deadline: Deadline,
    ) {
        let Some(mut requests) = client.affinity.requests() else { return };
        let _loan = client.affinity.lend_during_call(outlet, call.owner, &call.sender.capabilities);
        let answered = pin!(requests.wait_for(|(_, open)| *open == 0));
        // The channel stays open while the affinity is held. If no answer comes in time, the call reports that.
        if Frame::until(deadline).limit(outlet, answered).await.is_some() {
            self.apply(&client.affinity).await;
        }
    }

    /// Gives the server of `affinity` time to apply the answers to its requests.
    async fn apply(&self, affinity: &Affinity) {
        let Some(connection) = self.pool.private_connection(affinity) else { return };
        // When this is answered, the server has read all earlier messages.
        let ping = Call::of_gateway(connection.peer().version.health_method(), None);
        let _ = timeout(PATIENCE, connection.request(&ping, &Outlet::none())).await;
        sleep(APPLIES).await;
    }
}

struct PrivateClientTask {
    upstream: Arc<Upstream>,
    client: Arc<PrivateClient>,
    /// A request of the gateway in the name of the client.
    call: Call,
    affinity: Affinity,
    last_read: Instant,
}

impl PrivateClientTask {
    async fn run(mut self, mut heard: mpsc::Receiver<Event>) {
        let affinity = self.affinity.clone();
        tokio::select! {
            () = self.attend(&mut heard) => {}
            () = affinity.ended() => {}
        }
        self.upstream.pool.attended.leave(&affinity);
        self.publish(Change::Private(affinity, None, Arc::default())).await;
    }

    /// Serves the client: with one connection, or with new ones as long as it has subscriptions.
    async fn attend(&mut self, heard: &mut mpsc::Receiver<Event>) {
        loop {
            match self.begin(heard).await {
                Ok(connection) => {
                    self.client.outcome.send_replace(Some(true));
                    self.serve(connection, heard).await;
                }
                Err(error) => {
                    tracing::debug!(server = %self.upstream.config.name, %error, "no connection for one client");
                    self.client.outcome.send_replace(Some(false));
                    if error.refuses_credentials() {
                        // Nothing was sent, and the next request may come after a login.
                        return;
                    }
                    sleep(RETRY_AFTER).await;
                }
            }
            if self.client.watches.count() == 0 {
                return;
            }
        }
    }

    /// Connects, reads the lists, and waits for the answers to what the server asked at its start.
    async fn begin(&mut self, heard: &mut mpsc::Receiver<Event>) -> Result<Arc<dyn Connection>, Error> {
        let asked_before = self.affinity.requests().map_or(0, |requests| requests.borrow().0);
        self.read(Lists::default()).await?;
        self.settle(asked_before).await;
        let mut changed = Lists::default();
        while let Ok(event) = heard.try_recv() {
            changed = changed.and(self.hear(event).await);
        }
        if !changed.is_none() {
            self.read(Lists::default()).await?;
        }
        let connection = self.upstream.pool.private_connection(&self.affinity);
        connection.ok_or(Error::Unavailable { state: "disconnected" })
    }

    /// If the client has roots, waits until it has answered the server requests that belong to no call.
    async fn settle(&self, asked_before: u64) {
        let Some(mut requests) = self.affinity.requests() else { return };
        if self.call.sender.capabilities.get("roots").is_none() {
            return;
        }
        let is_known = self.upstream.signs().has(StateSign::AsksRoots);
        let grace = if is_known { KNOWN_GRACE } else { GRACE };
        // The channel stays open while the affinity is held. After this time the server itself waits for late
        // answers.
        let asked = timeout(grace, requests.wait_for(|(all, _)| *all > asked_before)).await.is_ok();
        // A client without a session gets the server request during its first call. Programs answer none.
        if asked && self.affinity.reached().is_some() {
            let _ = timeout(PATIENCE, requests.wait_for(|(_, open)| *open == 0)).await;
            self.upstream.apply(&self.affinity).await;
        }
    }

    /// Reads the lists and publishes them. The `announced` ones count as changed in any case.
    async fn read(&mut self, announced: Lists) -> Result<(), Error> {
        self.last_read = Instant::now();
        let upstream = Arc::clone(&self.upstream);
        let deadline = Instant::now() + super::first_attempt_limit(&upstream.config);
        let (early, mut tools) = mpsc::channel(1);
        let work = Reading { discovery: upstream.discovery(deadline, early), call: &self.call };
        let mut reading = pin!(upstream.run_once(&work, deadline));
        let read = loop {
            tokio::select! {
                read = &mut reading => break read,
                Some(offer) = tools.recv() => {
                    self.offer(offer, Lists::default()).await?;
                    self.client.outcome.send_replace(Some(true)); // it can call tools
                }
            }
        };
        let read = read.and_then(|offer| offer.map_err(|refusal| discover::refused(&refusal)))?;
        self.offer(read, announced).await
    }

    /// Publishes what the server offers to the client.
    async fn offer(&self, read: Offer, announced: Lists) -> Result<(), Error> {
        let (bytes, covering) = (read.bytes, Arc::clone(&self.upstream));
        let offer = discover::off_worker(bytes, move || covering.covered(Ok(read))).await?;
        if self.upstream.offer().is_some_and(|shared| !shared.names_the_same(&offer)) {
            self.upstream.note_sign(StateSign::ListsDiffer);
        }
        let published = Arc::new(watch::Sender::new(false));
        let mut done = published.subscribe();
        self.publish(Change::Private(self.affinity.clone(), Some((offer, announced)), published)).await;
        let _ = done.wait_for(|done| *done).await; // an error says that the program ends
        Ok(())
    }

    /// Serves the connection until it closes.
    async fn serve(&mut self, connection: Arc<dyn Connection>, heard: &mut mpsc::Receiver<Event>) {
        let subscription_task =
            self.upstream.subscription_task(&self.client.watches, self.client.events.clone());
        let mut subscribing = pin!(subscription_task.serve(Arc::clone(&connection)));
        let mut roots = self.affinity.roots();
        let (mut changed, mut due) = (Lists::default(), None);
        loop {
            tokio::select! {
                () = &mut subscribing => return,
                Some(event) = heard.recv() => {
                    let more = self.hear(event).await;
                    if !more.is_none() {
                        changed = changed.and(more);
                        due = Some(due.unwrap_or(Instant::now() + DEBOUNCE));
                    }
                }
                () = at(due) => {
                    due = None;
                    if let Err(error) = self.read(std::mem::take(&mut changed)).await {
                        tracing::debug!(server = %self.upstream.config.name, %error, "lists were not read again");
                    }
                }
                Ok(()) = next_change(&mut roots) => {
                    let changed = Notification { method: method::ROOTS_LIST_CHANGED.into(), params: None };
                    connection.tell(&changed).await;
                }
            }
        }
    }

    /// Passes on an event. Returns the lists that have to be read again.
    async fn hear(&self, event: Event) -> Lists {
        match event {
            Event::Changed(list) => return Lists::default().with(list),
            Event::Notice(notice) => self.publish(Change::ToldTo(self.affinity.clone(), Some(notice))).await,
            Event::Missed => {
                self.publish(Change::ToldTo(self.affinity.clone(), None)).await;
                return Lists::ALL;
            }
            Event::AsksRoots => self.upstream.note_sign(StateSign::AsksRoots),
        }
        Lists::default()
    }

    async fn publish(&self, change: Change) {
        let Upstream { config, id, updates, .. } = &*self.upstream;
        let _ = updates.send(Update { server: Arc::clone(&config.name), id: *id, change }).await; // it may be gone
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}

async fn next_change(roots: &mut Option<watch::Receiver<u64>>) -> Result<(), watch::error::RecvError> {
    match roots {
        Some(roots) => roots.changed().await,
        None => pending().await,
    }
}

/// Reads the lists on the connection of one client.
struct Reading<'a> {
    discovery: Discovery,
    call: &'a Call,
}

impl Work for Reading<'_> {
    type Output = Result<Offer, ErrorObject>;

    fn name(&self) -> &'static str {
        "discovery"
    }

    fn kind(&self) -> retry::RetrySafety {
        retry::RetrySafety::Read
    }

    fn pool_request(&self) -> PoolRequest<'_> {
        PoolRequest::Of(self.call)
    }

    fn log_level(&self) -> Option<LogLevel> {
        self.call.sender.log_level
    }

    fn on<'a>(&'a self, connection: &'a dyn Connection) -> BoxFuture<'a, Result<Self::Output, Error>> {
        self.discovery.on(connection)
    }
}
