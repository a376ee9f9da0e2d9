//! The task that writes what changed, soon after it changed and when Switchyard ends.
//!
//! Invariants: files are written on a blocking thread, one at a time, and only if their content changed or the offer was
//! read again much later. A server that an operator forgot is not written again by a write that was under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::Manager;
use super::config::Config;
use super::known::{KnownServers, OwnedNames};
use super::registry::Published;
use super::remembered::{self, Content, Folder};
use super::snapshot::{Server, Snapshot};
use super::trust::Trust;
use runtime::shutdown::Shutdown;
use settings::Fingerprint;
use upstream::{Offer, StateSign};

/// Changes within this time are written together.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// How often signs of state are looked at, which change without a new snapshot.
const LOOK: Duration = Duration::from_secs(30);
/// How much older a file may say that an offer is than it is.
const MAX_AGE_ERROR: Duration = Duration::from_mins(10);

/// Writes the files of one manager.
pub(super) struct Writer {
    folder: Arc<Folder>,
    saved: Mutex<HashMap<Arc<str>, Saved>>,
}

/// The content of the file of a server.
struct Saved {
    offer: Option<Arc<Offer>>,
    /// [`upstream::PrincipalOffers::changes`] of its offers to single principals.
    principals: u64,
    read_at: SystemTime,
    signs: Vec<StateSign>,
    trust: Arc<Trust>,
    names: OwnedNames,
}

impl Writer {
    pub(super) fn new(folder: Arc<Folder>) -> Arc<Self> {
        Arc::new(Self { folder, saved: Mutex::default() })
    }

    pub(super) const fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// Writes changes until `shutdown` begins, and a last time then.
    async fn run(
        self: Arc<Self>,
        snapshot: Arc<ArcSwap<Snapshot>>,
        mut changes: watch::Receiver<u64>,
        shutdown: Shutdown,
    ) {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_over = tokio::select! {
                () = shutdown.requested() => true,
                ended = changes.changed() => ended.is_err(),
                _ = look.tick() => false,
            };
            if !is_over {
                tokio::select! {
                    () = shutdown.requested() => {}
                    () = sleep(DEBOUNCE) => {}
                }
            }
            changes.mark_unchanged();
            self.save(&snapshot, if is_over { Duration::ZERO } else { MAX_AGE_ERROR }).await;
            if is_over {
                return;
            }
        }
    }

    async fn save(self: &Arc<Self>, snapshot: &Arc<ArcSwap<Snapshot>>, error: Duration) {
        let (writer, snapshot) = (Arc::clone(self), Arc::clone(snapshot));
        let write = move || {
            let mut saved = writer.lock();
            // Read under the lock, so that a server that was forgotten is not written again.
            let snapshot = snapshot.load_full();
            for server in snapshot.servers() {
                writer.save_one(&mut saved, &snapshot, server, error);
            }
        };
        // It fails only if the program ends.
        let _ = tokio::task::spawn_blocking(write).await;
    }

    fn save_one(
        &self,
        saved: &mut HashMap<Arc<str>, Saved>,
        snapshot: &Snapshot,
        server: &Server,
        error: Duration,
    ) {
        let config = server.upstream.config();
        let Some((offer, read_at, signs)) = server.upstream.to_remember() else { return };
        let names = snapshot.names_of(&config.name);
        let to_principals = server.upstream.principal_offers();
        if offer.is_none() && to_principals.is_empty() && !saved.contains_key(&config.name) {
            return; // what is in a file stays
        }
        let principals = to_principals.changes();
        let now = Saved { offer, principals, read_at, signs, trust: Arc::clone(&server.trust), names };
        if saved.get(&config.name).is_some_and(|saved| saved.covers(&now, error)) {
            return;
        }
        let content = Content {
            server: config.name.to_string(),
            identity: config.identity,
            offer: now.offer.as_ref().map(|offer| offer.to_stored()),
            principals: config.is_per_principal().then(|| to_principals.to_stored()),
            read_at,
            signs: now.signs.clone(),
            trusted: now.trust.to_bytes(),
            new: now.trust.new_to_bytes(),
            names: now.names.clone(),
        };
        if self.folder.write(content) {
            saved.insert(Arc::clone(&config.name), now);
        }
    }

    /// Removes the file of a server.
    pub(super) fn forget(&self, server: &str) {
        let mut saved = self.lock();
        saved.remove(server);
        if let Err(error) = self.folder.forget(server) {
            tracing::warn!(server, %error, "the remembered offer cannot be removed");
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Saved>> {
        // Every entry is written as a whole.
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Saved {
    /// Whether the file need not be written for `now`.
    fn covers(&self, now: &Self, error: Duration) -> bool {
        let is_fresh = now.read_at <= self.read_at + error;
        is_fresh
            && self.signs == now.signs
            && self.names == now.names
            && self.principals == now.principals
            && self.offer == now.offer
            && (Arc::ptr_eq(&self.trust, &now.trust) || self.trust.remembers_the_same(&now.trust))
    }
}

/// The writer for `config`, if it has a folder, and what the folder has.
pub(super) fn prepared(config: &Config) -> (Option<Arc<Writer>>, KnownServers) {
    let folder = config.remembered.as_ref();
    let servers = config.servers.iter().map(|server| (&server.name, server.identity));
    // The settings of the others are not known, so only their names and digests are read.
    let others = config.not_configured.iter().map(|wrong| (&wrong.name, Fingerprint::default()));
    let all: Vec<_> = servers.chain(others).collect();
    let known = remembered::of_all(folder.map(AsRef::as_ref), &all);
    (folder.cloned().map(Writer::new), known)
}

/// Writes what `published` has, as a task of `shutdown`.
pub(super) fn start(writer: Option<&Arc<Writer>>, published: &Published, shutdown: &Shutdown) {
    let Some(writer) = writer else { return };
    let (snapshot, changes) = (Arc::clone(&published.snapshot), published.count.clone());
    shutdown.spawn(Arc::clone(writer).run(snapshot, changes, shutdown.clone()));
}

impl Manager {
    /// Writes now what servers offered, if there is a folder for it.
    pub async fn remember(&self) {
        self.catch_up().await;
        if let Some(writer) = &self.writer {
            writer.save(&self.published.snapshot, Duration::ZERO).await;
        }
    }
}
