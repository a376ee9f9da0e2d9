//! The task that looks after one client's private connection: it reads what the server offers on it, carries
//! the client's subscriptions, and passes on that the client's roots changed.
//!
//! Invariants: one task for each client of a server. Messages of the server on the connection reach this
//! client alone. A client's first request waits until the lists were read and the server has the answers to what it
//! asked at its start. It waits at most [`LIST_WAIT`] after the connect began, and at most half of its own time, because it
//! needs the rest for itself. A failed connect is not repeated for [`RETRY_AFTER`], unless Switchyard itself closed the
//! connection. When a connection closes, the offer stays published for [`LINGER`], for requests that look a name up at that
//! moment. It is withdrawn before a client can get another task, so a late withdrawal never removes a newer offer.
//!
//! Not here: which connection a call gets (`pool`), and the catalog a client sees (`manager::views`).

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::call_events::Deadline;
use super::connection::{Call, Connection, Event, EventSender};
use super::dialect::PoolRequest;
use super::error::Error;
use super::frame::Frame;
use super::offer::Offer;
use super::private_client_table::{LIST_WAIT, ListSource, PrivateClient, WaitFor};
use super::session_affinity::Affinity;
use super::state_signs::StateSign;
use super::supervisor_messages::{Change, Update};
use super::{Upstream, discover, refresh};
use json::Raw;
use protocol::feature::Lists;
use protocol::{LogLevel, Notification, method};

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
/// How long the offer of a closed connection stays published without a new request of its client.
const LINGER: Duration = Duration::from_secs(10);

impl Upstream {
    /// Whether the first request of `affinity`, whose client declares `capabilities`, has to wait
    /// ([`Upstream::open_session`]).
    pub fn needs_own_session(&self, affinity: &Affinity, capabilities: &Raw) -> bool {
        let is_settled = |client: Arc<PrivateClient>| client.outcome.borrow().is_some();
        self.config.enabled
            && self.pool.is_private_to(affinity, capabilities)
            && !self.pool.private_clients.get(affinity).is_some_and(is_settled)
    }

    /// Connects for the client that `call` describes, if it has connections of its own. Waits for what is `awaited`: a
    /// connection until its lists were read and the server has the answers to what it asked at its start. A failure shows
    /// with the next call.
    pub async fn open_session(&self, call: &Call, awaited: WaitFor) {
        let has_to = |affinity: &&Affinity| self.needs_own_session(affinity, &call.sender.capabilities);
        let Some(affinity) = call.affinity.as_ref().filter(has_to) else { return };
        let (client, new) = self.pool.private_clients.enter(affinity);
        if let Some((heard, upstream)) = new.zip(self.me.upgrade()) {
            let task = PrivateClientTask {
                upstream,
                client: Arc::clone(&client),
                call: Call {
                    sender: call.sender.detached(),
                    era: call.era,
                    affinity: Some(client.affinity.clone()),
                    principal: call.principal.clone(),
                    ..Call::of_gateway(method::TOOLS_LIST, None)
                },
                affinity: client.affinity.clone(),
                last_read: Instant::now(),
                offer: None,
                gap: Duration::ZERO,
                announced: Lists::NONE,
            };
            self.group.spawn_until_end(task.run(heard));
        }
        let mut outcome = client.outcome.subscribe();
        let started = client.demand.borrow().since.unwrap_or_else(Instant::now);
        let mut lists = client.lists.subscribe();
        let is_done = async {
            tokio::select! {
                _ = outcome.wait_for(Option::is_some) => {}
                _ = lists.wait_for(|lists| *lists != ListSource::Shared), if awaited == WaitFor::Lists => {}
            }
        };
        // After this time the task continues, but no request waits for it.
        let _ = timeout_at((started + LIST_WAIT).min(Instant::now() + self.list_wait()), is_done).await;
    }

    /// Requests log lines of `level` and above on the private connection of `affinity`, if there is one.
    pub async fn want_log(&self, affinity: &Affinity, level: LogLevel) {
        self.pool.want_private_log(affinity, level).await;
    }

    /// Returns the client of `call` if the server waits for an answer of the client that has to come first.
    /// The client has no session, so it gets the server request during a call.
    pub(super) fn has_to_answer(&self, call: &Call) -> Option<Arc<PrivateClient>> {
        let affinity = call.affinity.as_ref().filter(|affinity| affinity.ends_when_idle())?;
        let client = self.pool.private_clients.get(affinity)?;
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
        (call, event_sender): (&Call, &EventSender),
        deadline: Deadline,
    ) {
        let Some(mut requests) = client.affinity.requests() else { return };
        let _loan = client.affinity.lend_during_call(event_sender, call.owner, &call.sender.capabilities);
        let answered = pin!(async {
            // The channel stays open while the affinity is held.
            let _ = requests.wait_for(|(_, open)| *open == 0).await;
            self.apply(&client.affinity).await;
        });
        // If that takes too long, the call reports it.
        let _ = Frame::until(deadline).limit(event_sender, answered).await;
    }

    /// Gives the server of `affinity` time to apply the answers to its requests.
    async fn apply(&self, affinity: &Affinity) {
        let Some(connection) = self.pool.private_connection(affinity) else { return };
        // When this is answered, the server has read all earlier messages.
        let ping = Call::of_gateway(connection.peer().version.health_method(), None);
        let _ = timeout(LIST_WAIT, connection.request(&ping, &EventSender::none())).await;
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
    /// The lists as they were read last, and how long they are not read again after change notifications.
    offer: Option<Arc<Offer>>,
    gap: Duration,
    /// The lists whose change the server announced since they were read.
    announced: Lists,
}

impl PrivateClientTask {
    async fn run(mut self, mut heard: mpsc::Receiver<Event>) {
        let affinity = self.affinity.clone();
        tokio::select! {
            () = self.serve_client(&mut heard) => {}
            () = affinity.ended() => self.withdraw().await,
        }
        self.upstream.pool.private_clients.leave(&self.client);
        self.client.outcome.send_replace(Some(false)); // nobody waits for this task any more
    }

    /// Serves the client as long as it sends requests or has subscriptions. At the end its offer is withdrawn.
    async fn serve_client(&mut self, heard: &mut mpsc::Receiver<Event>) {
        loop {
            let closings = self.upstream.pool.closings();
            self.offer_remembered().await;
            match self.begin(heard).await {
                Ok(connection) => {
                    self.client.outcome.send_replace(Some(true));
                    self.serve(connection, heard).await;
                    self.keep_lists().await;
                }
                // It was closed by Switchyard, which says nothing about the server.
                Err(error) if self.upstream.pool.closings() != closings && !error.refuses_credentials() => {
                    tracing::debug!(server = %self.upstream.config.name, %error, "a private connection is opened again");
                    self.keep_lists().await;
                    continue;
                }
                Err(error) => {
                    tracing::debug!(server = %self.upstream.config.name, %error, "no connection for one client");
                    let is_private =
                        self.upstream.pool.is_private_to(&self.affinity, &self.call.sender.capabilities);
                    if error.refuses_credentials() || !is_private {
                        // Nothing was sent, and the next request may come after a login. Or the server turned out to have no
                        // sessions, and is shared.
                        return self.withdraw().await;
                    }
                    self.client.outcome.send_replace(Some(false));
                    sleep(RETRY_AFTER).await;
                }
            }
            if self.is_over().await {
                return;
            }
        }
    }

    /// Whether the client needs no new connection. Its offer is withdrawn then, and its next request gets another task.
    async fn is_over(&self) -> bool {
        let (client, pool) = (&self.client, &self.upstream.pool);
        let seen = client.demand.borrow().count;
        client.demand.send_modify(|demand| demand.since = None);
        client.outcome.send_replace(None);
        if client.watches.count() == 0 && self.is_quiet_after(seen).await {
            self.withdraw().await;
            return pool.private_clients.leave_unless_needed(client, seen);
        }
        client.demand.send_modify(|demand| _ = demand.since.get_or_insert_with(Instant::now));
        false
    }

    /// Withdraws the offer, and waits until that is published.
    async fn withdraw(&self) {
        let published = Arc::new(watch::Sender::new(false));
        let mut done = published.subscribe();
        self.publish(Change::Private(self.affinity.clone(), None, published)).await;
        let _ = done.wait_for(|done| *done).await; // an error says that the program ends
        self.client.lists.send_replace(ListSource::Shared);
    }

    /// Connects, reads the lists, and waits for the answers to what the server asked at its start.
    async fn begin(&mut self, heard: &mut mpsc::Receiver<Event>) -> Result<Arc<dyn Connection>, Error> {
        let requests_before = self.affinity.requests().map_or(0, |requests| requests.borrow().0);
        self.read().await?;
        self.settle(requests_before).await;
        let mut is_changed = false;
        while let Ok(event) = heard.try_recv() {
            is_changed |= self.hear(event).await;
        }
        if is_changed {
            self.read().await?;
        }
        let connection = self.upstream.pool.private_connection(&self.affinity);
        connection.ok_or(Error::Unavailable { state: "disconnected" })
    }

    /// If the client has roots, waits until it has answered the server requests that belong to no call.
    async fn settle(&self, requests_before: u64) {
        let Some(mut requests) = self.affinity.requests() else { return };
        if self.call.sender.capabilities.get("roots").is_none() {
            return;
        }
        let signs = self.upstream.signs();
        let grace = match (signs.has(StateSign::AsksForRoots), signs.is_quiet_at_start()) {
            (true, _) => KNOWN_GRACE,
            (false, false) => GRACE,
            (false, true) => Duration::ZERO,
        };
        // The channel stays open while the affinity is held. After this time the server itself waits for late
        // answers.
        let has_requested =
            timeout(grace, requests.wait_for(|(all, _)| *all > requests_before)).await.is_ok();
        if !has_requested {
            signs.record_quiet_start();
        }
        // A client without a session gets the server request during its first call. Programs answer none.
        if has_requested && self.affinity.reached().is_some() {
            let _ = timeout(LIST_WAIT, requests.wait_for(|(_, open)| *open == 0)).await;
            self.upstream.apply(&self.affinity).await;
        }
    }

    /// Reads the lists and publishes them.
    async fn read(&mut self) -> Result<(), Error> {
        let changes = self.client.events.changes();
        let read = self.read_lists().await;
        self.client.read.send_replace(changes);
        read
    }

    async fn read_lists(&mut self) -> Result<(), Error> {
        self.last_read = Instant::now();
        let upstream = Arc::clone(&self.upstream);
        let principal = self.call.principal.clone();
        let login = upstream.login_of(principal.as_ref()).await;
        let deadline = Instant::now() + super::first_attempt_limit(&upstream.config);
        let (early, mut tools) = mpsc::channel(1);
        let discovery = upstream.discovery(deadline, early);
        let mut reading = pin!(upstream.read_offer(&discovery, PoolRequest::Of(&self.call)));
        let read = loop {
            tokio::select! {
                read = &mut reading => break read,
                Some(offer) = tools.recv() => {
                    let offer = self.covered(offer).await?;
                    self.offer(offer, ListSource::Connection).await;
                    self.client.outcome.send_replace(Some(true)); // it can call tools
                }
            }
        };
        let offer = self.covered(read?).await?;
        let is_same = self.offer.as_ref() == Some(&offer);
        if self.offer.as_ref().is_some_and(|before| !before.names_the_same(&offer)) {
            self.upstream.note_sign(StateSign::ListChangedByCall);
        }
        self.gap = if is_same { refresh::longer(self.gap) } else { refresh::gap_after(offer.bytes) };
        self.upstream.learn_offer_to(principal.as_ref(), login.as_ref(), &offer).await;
        self.offer = Some(Arc::clone(&offer));
        self.offer(offer, ListSource::Connection).await;
        Ok(())
    }

    async fn covered(&self, read: Offer) -> Result<Arc<Offer>, Error> {
        let (bytes, upstream) = (read.bytes, Arc::clone(&self.upstream));
        discover::off_worker(bytes, move || upstream.covered(Ok(read))).await
    }

    /// Publishes what the server offers to the client.
    async fn offer(&self, offer: Arc<Offer>, source: ListSource) {
        let published = Arc::new(watch::Sender::new(false));
        let mut done = published.subscribe();
        self.publish(Change::Private(self.affinity.clone(), Some(offer), published)).await;
        let _ = done.wait_for(|done| *done).await; // an error says that the program ends
        self.client.lists.send_replace(source);
    }

    /// Serves the connection until it closes.
    async fn serve(&mut self, connection: Arc<dyn Connection>, heard: &mut mpsc::Receiver<Event>) {
        let subscription_task =
            self.upstream.subscription_task(&self.client.watches, self.client.events.clone());
        let mut subscribing = pin!(subscription_task.serve(Arc::clone(&connection)));
        let mut roots = self.affinity.roots();
        let mut due = None;
        loop {
            tokio::select! {
                () = &mut subscribing => return,
                Some(event) = heard.recv() => {
                    if self.hear(event).await && due.is_none() {
                        let earliest = (Instant::now() + DEBOUNCE).max(self.last_read + self.gap);
                        let cost = self.offer.as_ref().map_or(Duration::ZERO, |offer| refresh::cost(offer.bytes));
                        due = Some(self.upstream.pool.private_clients.read_at(earliest, cost));
                    }
                }
                () = self.client.hurry.notified() => due = Some(Instant::now()),
                () = at(due) => {
                    due = None;
                    let (announced, before) = (std::mem::take(&mut self.announced), self.offer.clone());
                    if let Err(error) = self.read().await {
                        tracing::debug!(server = %self.upstream.config.name, %error, "lists were not read again");
                    } else if before == self.offer {
                        self.pass_on(announced);
                    }
                }
                Ok(()) = next_change(&mut roots) => {
                    let changed = Notification { method: method::ROOTS_LIST_CHANGED.into(), params: None };
                    connection.notify(&changed).await;
                }
            }
        }
    }

    /// Tells the client of changes that the server announced without one that shows in the lists.
    fn pass_on(&self, announced: Lists) {
        for list in announced.iter() {
            self.affinity.notify(Notification { method: list.changed().into(), params: None });
        }
    }

    /// Passes on an event. Returns whether the lists have to be read again.
    async fn hear(&mut self, event: Event) -> bool {
        match event {
            Event::Changed(list) => {
                self.announced = self.announced.with(list);
                return true;
            }
            Event::Notice(notice) => self.publish(Change::ToldTo(self.affinity.clone(), Some(notice))).await,
            Event::Missed => {
                self.publish(Change::ToldTo(self.affinity.clone(), None)).await;
                return true;
            }
            Event::KeepsState(sign) => self.upstream.note_sign(sign),
        }
        false
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

// The last offer to the principal of a client: it is shown before the lists on the connection of the client were
// read, and while the server is down.

impl PrivateClientTask {
    /// Publishes the last offer to its principal, if the client sees no other one.
    async fn offer_remembered(&self) {
        if *self.client.lists.borrow() != ListSource::Shared {
            return;
        }
        let Some(stored) = self.upstream.last_offer_to(self.call.principal.as_ref()).await else { return };
        let (bytes, upstream) = (stored.bytes().len(), Arc::clone(&self.upstream));
        let restored = discover::off_worker(bytes, move || upstream.restored(&stored)).await;
        if let Some(offer) = restored {
            self.offer(offer, ListSource::Memory).await;
        }
    }

    /// Keeps what the client sees without its connection, unless its principal logged out, or may have another account now.
    async fn keep_lists(&self) {
        if *self.client.lists.borrow() == ListSource::Shared {
            return;
        }
        let upstream = &self.upstream;
        if upstream.config.is_per_principal()
            && upstream.last_offer_to(self.call.principal.as_ref()).await.is_none()
        {
            return self.withdraw().await;
        }
        self.client.lists.send_replace(ListSource::Memory);
    }

    /// Whether the client needs its connection no more: no request follows the `seen` ones for a while.
    async fn is_quiet_after(&self, seen: u64) -> bool {
        let pool = &self.upstream.pool;
        let mut demand = self.client.demand.subscribe();
        // A call that was on its way when the connection closed made another one.
        let is_open = || {
            let connection = pool.private_connection(&self.affinity);
            connection.is_some_and(|connection| connection.closed().now_or_never().is_none())
        };
        // The call that wakes it may be one of the `seen` ones, and wait for its lists.
        if is_open() {
            return false;
        }
        loop {
            let comes = demand.wait_for(|demand| demand.count > seen);
            let linger =
                if pool.private_clients.may_linger(pool.private_limit()) { LINGER } else { Duration::ZERO };
            if timeout(linger, comes).await.is_ok() || is_open() {
                return false;
            }
            if linger.is_zero() || !self.keeps_remembered().await {
                return true;
            }
        }
    }

    /// Whether what the client sees stays without a connection, because its session would see it again at once.
    async fn keeps_remembered(&self) -> bool {
        !self.affinity.ends_when_idle()
            && *self.client.lists.borrow() != ListSource::Shared
            && self.upstream.last_offer_to(self.call.principal.as_ref()).await.is_some()
    }
}
