//! The task that owns the servers. It receives their offers, configurations and approvals, and publishes the
//! catalog.
//!
//! All other code reads [`Snapshot`]s through an atomic pointer; only this task writes them. Invariants: snapshots
//! are built on a blocking thread, because large lists of servers take long and must not block a thread that serves
//! clients. They are built one after another, in the order of the updates. If the audit log has no room for a line
//! about a changed definition, the line is retried until it is written, at the latest when the task ends.
//!
//! Not here: connecting and health (each server's supervisor).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;

use super::client_snapshots::{ClientSnapshots, OwnOffers};
use super::config::Config;
use super::error::Error;
use super::history::CallHistory;
use super::known::KnownServers;
use super::live_events::{EventContent, LiveEvents};
use super::recorded_call::Recorder;
use super::snapshot::{Server, Snapshot};
use super::trust::Approval;
use super::view_warnings::ViewWarning;
use protocol::Notification;
use upstream::{Affinity, Change, Offer, State, Update, Upstream, breaker};

/// Limit of queued notifications for a slow receiver. A receiver that falls behind learns that it missed some.
const NOTICES: usize = 1_024;
/// Pause before audit lines are retried.
const RETRY_AUDIT: Duration = Duration::from_secs(1);

/// A notification of a server, for the clients that subscribed to it.
#[derive(Debug, Clone)]
pub struct ServerNotice {
    /// The server's name.
    pub server: Arc<str>,
    /// The notification; none: some were missed, so any may have been sent.
    pub notice: Option<Notification>,
    /// The client whose private connection it came on; none: a connection that clients share.
    pub affinity: Option<Affinity>,
}

/// Commands to the task.
pub(super) enum Order {
    /// Replace the servers.
    Apply(Apply),
    /// Trust changed definitions of tools.
    Approve(Approve),
    /// Have clients compare their lists again.
    Announce,
    /// Answer once all earlier updates are published.
    CatchUp(oneshot::Sender<()>),
}

/// Command: trust changed definitions from now on.
pub(super) struct Approve {
    /// The server of the tools.
    pub(super) server: String,
    /// One tool; none: all changed tools.
    pub(super) tool: Option<String>,
    /// The approved definition by its hash; none: the current one.
    pub(super) sha256: Option<String>,
    /// The server from which the name of the tool moves, if the definition is given by its hash.
    pub(super) previous_owner: Option<String>,
    /// Receives the result.
    pub(super) done: oneshot::Sender<Result<(), Error>>,
}

/// Command: replace the servers.
pub(super) struct Apply {
    /// The complete configuration; none: the settings stay, and so do the names of the servers.
    pub(super) config: Option<Arc<Config>>,
    /// One for each configured server, in the configured order.
    pub(super) upstreams: Vec<Arc<Upstream>>,
    /// Remembered facts about new servers.
    pub(super) known: KnownServers,
    /// The server about which nothing is kept.
    pub(super) forgotten: Option<Arc<str>>,
    /// Notified when it is done.
    pub(super) done: oneshot::Sender<()>,
}

/// Publishes snapshots, their number, and notifications of servers.
#[derive(Clone)]
pub(super) struct Published {
    pub(super) snapshot: Arc<ArcSwap<Snapshot>>,
    pub(super) count: watch::Receiver<u64>,
    pub(super) notices: broadcast::Sender<ServerNotice>,
    pub(super) clients: ClientSnapshots,
    pub(super) live: Arc<LiveEvents>,
    pub(super) recorder: Arc<Recorder>,
    /// Whether a server may need a login, or could before. Read for every request.
    pub(super) has_logins: Arc<AtomicBool>,
    /// Whether a server gets headers of clients, or did before. Read for every request.
    pub(super) forwards_headers: Arc<AtomicBool>,
}

/// The state of the task.
pub(super) struct Registry {
    config: Arc<Config>,
    snapshot: Arc<ArcSwap<Snapshot>>,
    count: watch::Sender<u64>,
    notices: broadcast::Sender<ServerNotice>,
    clients: ClientSnapshots,
    live: Arc<LiveEvents>,
    recorder: Arc<Recorder>,
    has_logins: Arc<AtomicBool>,
    forwards_headers: Arc<AtomicBool>,
    /// Offers that servers make to single clients.
    own: OwnOffers,
    /// Servers whose changed tools must still be logged, because the audit log was full.
    deferred: HashSet<Arc<str>>,
    /// Whether names that stay with their first server must still be logged, for the same reason.
    has_untold_names: bool,
    /// The warnings about views that were logged.
    view_warnings: HashSet<ViewWarning>,
}

impl Registry {
    pub(super) fn new(config: Arc<Config>, first: Snapshot, history: &Arc<CallHistory>) -> (Self, Published) {
        let has_logins = Arc::new(AtomicBool::new(first.has_logins()));
        let forwards_headers = Arc::new(AtomicBool::new(first.forwards_headers()));
        let snapshot = Arc::new(ArcSwap::from_pointee(first));
        let (sender, count) = watch::channel(0);
        let (notices, clients) = (broadcast::Sender::new(NOTICES), ClientSnapshots::default());
        let live = LiveEvents::new();
        let recorder = Recorder::new(Arc::clone(&live), Arc::clone(history));
        recorder.configure(&config);
        let registry = Self {
            config,
            snapshot: snapshot.clone(),
            count: sender,
            notices: notices.clone(),
            clients: clients.clone(),
            live: Arc::clone(&live),
            recorder: Arc::clone(&recorder),
            has_logins: Arc::clone(&has_logins),
            forwards_headers: Arc::clone(&forwards_headers),
            own: OwnOffers::default(),
            deferred: HashSet::new(),
            has_untold_names: false,
            view_warnings: HashSet::new(),
        };
        let published =
            Published { snapshot, count, notices, clients, live, recorder, has_logins, forwards_headers };
        (registry, published)
    }

    /// Publishes updates of servers and runs commands, until the manager is dropped.
    pub(super) async fn run(
        mut self,
        mut updates: mpsc::Receiver<Update>,
        mut orders: mpsc::Receiver<Order>,
    ) {
        let mut retry = tokio::time::interval(RETRY_AUDIT);
        retry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(update) = updates.recv() => self.hear(update).await,
                Some(order) = orders.recv() => match order {
                    Order::Apply(order) => self.apply(order).await,
                    Order::Approve(order) => self.approve(order).await,
                    Order::Announce => self.count.send_modify(|count| *count += 1),
                    Order::CatchUp(done) => {
                        while let Ok(update) = updates.try_recv() {
                            self.hear(update).await;
                        }
                        let _ = done.send(()); // the operator may have left
                    }
                },
                _ = retry.tick(), if self.has_deferred() => self.log_deferred(),
                else => return,
            }
        }
    }

    /// Tells watchers the new state of a server or of its breaker.
    fn show(&self, update: &Update) {
        let snapshot = self.snapshot.load();
        let server = snapshot.server(&update.server).ok();
        let Some(server) = server.filter(|server| server.upstream.id() == update.id) else { return };
        let last_error = || server.upstream.status().last_error;
        let what = match &update.change {
            Change::State(state) => {
                let is_usable = matches!(state, State::Connecting | State::Ready | State::Idle);
                EventContent::Server {
                    state: state.as_str(),
                    reason: if is_usable { None } else { last_error() },
                }
            }
            Change::Breaker(changed) => {
                let has_opened = changed.to == breaker::State::Open;
                EventContent::Breaker {
                    changed: *changed,
                    reason: if has_opened { last_error() } else { None },
                }
            }
            _ => return,
        };
        self.live.changed(&update.server, what);
    }

    async fn hear(&mut self, update: Update) {
        if self.live.is_watched() {
            self.show(&update);
        }
        let notification = match &update.change {
            Change::Told(notice) => Some((Some(notice.clone()), None)),
            Change::Missed => Some((None, None)),
            Change::ToldTo(affinity, notice) => Some((notice.clone(), Some(affinity.clone()))),
            Change::Private(affinity, offered, published) => {
                let now = self.snapshot.load_full();
                if now.server(&update.server).is_ok_and(|server| server.upstream.id() == update.id) {
                    self.publish_own((&update.server, affinity), offered.clone()).await;
                }
                published.send_replace(true);
                return;
            }
            Change::Offered(..) | Change::Announced(_) | Change::State(_) => None,
            Change::Breaker(_) => return,
        };
        if let Some((notice, affinity)) = notification {
            // Without a receiver, no client has subscribed.
            let _ = self.notices.send(ServerNotice { server: update.server, notice, affinity });
            return;
        }
        let (now, config) = (self.snapshot.load_full(), Arc::clone(&self.config));
        if let Some(Some(next)) = off_thread(move || choose(&now, &config, &update)).await {
            self.publish(next).await;
            self.publish_all_own().await;
        }
    }

    async fn apply(&mut self, order: Apply) {
        if let Some(config) = order.config {
            self.config = config;
            self.recorder.configure(&self.config);
        }
        let (now, config) = (self.snapshot.load_full(), Arc::clone(&self.config));
        let Apply { upstreams, known, forgotten, done, .. } = order;
        let build = move || now.applied(&config, upstreams, &known, forgotten.as_deref());
        if let Some(next) = off_thread(build).await {
            let before = self.snapshot.load_full();
            self.publish(next).await;
            self.forget_replaced(&before).await;
            self.publish_all_own().await;
            let _ = done.send(()); // the operator may have left
        }
    }

    async fn approve(&mut self, order: Approve) {
        let (now, config) = (self.snapshot.load_full(), Arc::clone(&self.config));
        let Approve { server, tool, sha256, previous_owner, done } = order;
        let build = move || {
            let approval = Approval {
                tool: tool.as_deref(),
                sha256: sha256.as_deref(),
                previous_owner: previous_owner.as_deref(),
            };
            now.approved(&config, &server, approval)
        };
        if let Some(next) = off_thread(build).await {
            let mut approved = Ok(());
            match next {
                Ok(next) => self.publish(next).await,
                Err(refusal) => approved = Err(refusal),
            }
            let _ = done.send(approved); // the operator may have left
            self.publish_all_own().await;
        }
    }

    /// Publishes `next`, and the snapshots of all views with it.
    async fn publish(&mut self, next: Snapshot) {
        let (before, config) = (self.snapshot.load_full(), Arc::clone(&self.config));
        let now = Arc::clone(&before);
        let build = move || {
            let next = next.with_projections(&config, Some(&now));
            let warnings = (!next.has_views_and_offers_of(&now)).then(|| next.view_warnings());
            (next, warnings)
        };
        let Some((next, warnings)) = off_thread(build).await else { return };
        if let Some(warnings) = warnings {
            self.warn(warnings);
        }
        for server in next.servers() {
            let name = &server.upstream.config().name;
            let known = before.server(name).ok().map(|before| &before.trust);
            let is_new = known.is_none_or(|known| !Arc::ptr_eq(known, &server.trust));
            // If the changes of a server must be logged again, all of them are logged then.
            if is_new
                && !self.deferred.contains(name)
                && server.trust.report(name, known.map(AsRef::as_ref)).is_err()
            {
                self.deferred.insert(Arc::clone(name));
            }
        }
        if self.live.is_watched() {
            self.live.published(&before, &next);
        }
        self.has_untold_names |= next.log_moved_names(Some(&before)).is_err();
        // It stays, because people may still come back from a login to a server that is gone.
        self.has_logins.fetch_or(next.has_logins(), Ordering::Relaxed);
        self.forwards_headers.fetch_or(next.forwards_headers(), Ordering::Relaxed);
        self.snapshot.store(Arc::new(next));
        self.count.send_modify(|count| *count += 1);
    }

    /// Logs what is wrong in the views and was not before.
    fn warn(&mut self, warnings: Vec<ViewWarning>) {
        for ViewWarning { view, text } in
            warnings.iter().filter(|warning| !self.view_warnings.contains(warning))
        {
            tracing::warn!(%view, reason = %text, "the view is not as its settings say");
        }
        self.view_warnings = warnings.into_iter().collect();
    }

    fn has_deferred(&self) -> bool {
        self.has_untold_names || !self.deferred.is_empty()
    }

    /// Retries the audit lines that found no room, in their current state.
    fn log_deferred(&mut self) {
        let now = self.snapshot.load();
        let is_full =
            |name: &Arc<str>| now.server(name).is_ok_and(|server| server.trust.report(name, None).is_err());
        self.deferred.retain(is_full);
        if self.has_untold_names {
            self.has_untold_names = now.log_moved_names(None).is_err();
        }
    }
}

impl Registry {
    /// Publishes the offer of a server to one client; `None` removes it.
    async fn publish_own(&mut self, (server, affinity): (&Arc<str>, &Affinity), offered: Option<Arc<Offer>>) {
        self.own.record(server, affinity, offered);
        self.see(affinity.clone()).await;
        self.count.send_modify(|count| *count += 1);
    }

    /// Drops offers to single clients of servers that are gone or were replaced. The lists are then read again for
    /// these clients.
    async fn forget_replaced(&mut self, before: &Snapshot) {
        let now = self.snapshot.load_full();
        for server in before.servers() {
            let name = &server.upstream.config().name;
            let is_same = |there: &Arc<Server>| there.upstream.id() == server.upstream.id();
            if !now.server(name).is_ok_and(is_same) {
                for affinity in self.own.forget(name) {
                    self.see(affinity).await;
                }
            }
        }
    }

    /// Rebuilds the snapshots of all clients with private offers, because the shared catalog changed.
    async fn publish_all_own(&mut self) {
        for affinity in self.own.affinities() {
            self.see(affinity).await;
        }
        if !self.own.is_empty() {
            self.count.send_modify(|count| *count += 1);
        }
    }

    /// Publishes the snapshot of a client, and what it adds to the state of its servers.
    async fn see(&mut self, affinity: Affinity) {
        let (shared, config) = (self.snapshot.load_full(), Arc::clone(&self.config));
        let (before, offers) = (self.clients.get(&affinity), self.own.of(&affinity));
        let view = affinity.view().cloned();
        let build = move || {
            let of_view = view.map_or_else(|| Arc::clone(&shared), |view| shared.through(&view));
            let own = of_view.seen_with(&config, before.as_deref(), &offers);
            let seen = (own.as_ref().unwrap_or(&of_view), before.as_deref());
            let learned = shared.learned_from(&config, seen, &offers);
            (own, learned)
        };
        if let Some((own, learned)) = off_thread(build).await {
            if let Some(learned) = learned {
                self.publish(learned).await;
            }
            self.clients.put(affinity, own);
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        if self.has_deferred() {
            self.log_deferred();
        }
    }
}

/// Runs `build` on a blocking thread; `None` if it panicked. The published snapshot then stays.
async fn off_thread<T: Send + 'static>(build: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(build).await.ok()
}

/// Returns the snapshot after an update; none if nothing visible changed.
fn choose(now: &Snapshot, config: &Config, update: &Update) -> Option<Snapshot> {
    let server = now.server(&update.server).ok().filter(|server| server.upstream.id() == update.id)?;
    match &update.change {
        Change::State(state)
            if *state != State::Connecting
                && let Some(next) = now.with_state(config, &update.server, *state) =>
        {
            Some(next)
        }
        Change::Offered(offer) if !server.is_heard || server.offer.as_ref() != Some(offer) => {
            Some(now.updated(config, &update.server, Some(offer.clone())))
        }
        Change::Announced(lists) => Some(now.announced(&update.server, *lists)),
        Change::State(State::Connecting)
        | Change::Breaker(_)
        | Change::Told(_)
        | Change::Missed
        | Change::Private(..)
        | Change::ToldTo(..) => None,
        _ if !server.settled => Some(now.updated(config, &update.server, None)),
        Change::Offered(..) | Change::State(_) => None,
    }
}
