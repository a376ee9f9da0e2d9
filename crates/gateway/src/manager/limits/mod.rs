//! Limits of callers: requests in a minute and calls at a time, for a principal, a role or a view, and for all servers, one
//! of them or one tool. Beside them, the changes of their secrets.
//!
//! Invariants: a request that reaches a server is counted once, by all limits that are about it, or by none if one of them
//! is reached. It counts before anything is sent. A call has its place from then on until the last byte of its response,
//! and the place is free when the call is dropped. Each gateway keeps its own counts; with a store that gateways share, a
//! request that this gateway would take is taken there too. Names that the caller does not see are unknown before they
//! are counted. Without limits a request costs one load.
//!
//! Not here: where requests are counted (`manager::routed_request`), requests that a server may get (`upstream::rate_limit`), slots
//! of a server (`upstream::bulkhead`).

mod counts;
mod rule;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use auth::Principal;
use counts::{Counts, Taken};
use runtime::store::{CallsAtATime, Group, Key, LimitKind, SharedLimitReached, SharedTake, Store};
use runtime::worker::now;
use upstream::ResponseBody;

pub(super) use rule::{CountedRequest, read};
pub use rule::{Limit, LimitTargets, Per, without_effect};

/// The retry hint if too many calls run. The end of the running ones is not known.
const CALLS_RETRY_IN: Duration = Duration::from_secs(1);
/// The kind of the keys in a store that gateways share.
const AREA: &str = "limits";

/// The limits of callers, and their counts.
pub(super) struct CallerLimits {
    /// Whether there are limits. Read for every request.
    is_on: AtomicBool,
    active: ArcSwap<Vec<ActiveLimit>>,
    store: Store,
}

/// A limit with its counts, which stay when its numbers change.
#[derive(Clone)]
struct ActiveLimit {
    limit: Arc<Limit>,
    counts: Arc<Counts>,
}

/// The parts that one request of a client took of the limits of its caller. Clones are the same, so further requests to servers for
/// it are not counted again. The places are free when the last clone is dropped.
#[derive(Clone, Default)]
pub struct Admission(Option<Arc<Mutex<Vec<LimitGuard>>>>);

/// The part that a request took of one limit. Dropping it frees the place of the call.
struct LimitGuard {
    counts: Arc<Counts>,
    taken: Taken,
    /// The count that gateways share, if they do.
    shared: Option<(Store, Key)>,
    /// Whether the request was admitted. Otherwise it is as if it had not come.
    is_admitted: bool,
}

/// How often a limit was reached.
#[derive(Debug, Clone)]
pub struct LimitUsage {
    /// Its name.
    pub name: Arc<str>,
    /// Requests beyond those of a minute.
    pub requests: u64,
    /// Requests beyond the calls at a time.
    pub calls: u64,
}

/// A request that a limit of its caller refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    /// The name of the limit.
    pub limit: Arc<str>,
    /// The kind of number that is reached.
    pub kind: LimitKind,
    /// The number that is reached.
    pub most: u32,
    /// When it is worth trying again.
    pub retry_in: Duration,
    /// The server that the request was for.
    pub server: Arc<str>,
    /// The tool, if a tool was called.
    pub tool: Option<String>,
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            LimitKind::Requests => "requests in a minute",
            LimitKind::Calls => "calls at a time",
        };
        write!(f, "the limit {:?} of this caller is reached: {} {what}", self.limit, self.most)
    }
}

impl CallerLimits {
    pub(super) fn new(limits: &[Arc<Limit>], store: Store) -> Self {
        let made = Self { is_on: AtomicBool::new(false), active: ArcSwap::default(), store };
        made.configure(limits);
        made
    }

    /// Limits later requests by `limits`. The counts of those that stay are kept.
    pub(super) fn configure(&self, limits: &[Arc<Limit>]) {
        let before = self.active.load();
        let active = limits.iter().map(|limit| {
            let same = before.iter().find(|old| old.limit.counts_like(limit));
            let counts = same.map(|old| Arc::clone(&old.counts)).unwrap_or_default();
            ActiveLimit { limit: Arc::clone(limit), counts }
        });
        self.active.store(Arc::new(active.collect()));
        self.is_on.store(!limits.is_empty(), Ordering::Release);
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// The limits of requests through `view` to `tool` of `server`, of any caller.
    pub(super) fn about(&self, view: Option<&Arc<str>>, server: &str, tool: &str) -> Vec<Arc<Limit>> {
        let active = self.active.load();
        let about = active.iter().filter(|active| active.limit.is_about(view, server, Some(tool)));
        about.map(|active| Arc::clone(&active.limit)).collect()
    }

    pub(super) fn usage(&self) -> Vec<LimitUsage> {
        let usage = |active: &ActiveLimit| {
            let [requests, calls] = active.counts.refusals();
            LimitUsage { name: Arc::clone(&active.limit.name), requests, calls }
        };
        self.active.load().iter().map(usage).collect()
    }

    /// Counts `request`, unless it was counted before, as `routed_request` says.
    pub(super) async fn admit(
        &self,
        request: CountedRequest<'_>,
        admission: &mut Admission,
    ) -> Result<(), Limited> {
        let active = self.active.load_full();
        let about: Vec<&ActiveLimit> = active
            .iter()
            .filter(|active| active.limit.counts(request))
            .filter(|active| !admission.has(&active.counts))
            .collect();
        let limited = |active: &ActiveLimit, kind: LimitKind, retry_in: Option<Duration>| {
            active.counts.refused(kind);
            Limited {
                limit: Arc::clone(&active.limit.name),
                kind,
                most: active.limit.most(kind).unwrap_or_default(),
                retry_in: retry_in.unwrap_or(CALLS_RETRY_IN),
                server: Arc::clone(request.server),
                tool: request.tool.map(str::to_owned),
            }
        };
        let mut guards = Vec::with_capacity(about.len());
        for active in &about {
            let taken = active.take(request.principal, &self.store);
            guards.push(taken.map_err(|(kind, wait)| limited(active, kind, wait))?);
        }
        if self.store.is_shared() {
            self.take_shared(&about, &guards)
                .await
                .map_err(|reached| limited(about[reached.index], reached.kind, reached.retry_in))?;
        }
        for guard in &mut guards {
            guard.is_admitted = true;
        }
        admission.add(guards);
        Ok(())
    }

    /// Takes the request of the limits at all gateways. The error names a limit by its place in `about`.
    async fn take_shared(
        &self,
        about: &[&ActiveLimit],
        guards: &[LimitGuard],
    ) -> Result<(), SharedLimitReached> {
        let (mut places, mut takes) = (Vec::new(), Vec::new());
        for (place, (active, guard)) in about.iter().zip(guards).enumerate() {
            let Some((_, key)) = &guard.shared else { continue };
            let calls = active.limit.calls_at_a_time().zip(guard.taken.running);
            places.push(place);
            takes.push(SharedTake {
                key: key.clone(),
                requests_per_minute: active.limit.requests_per_minute(),
                calls: calls.map(|(most, own)| CallsAtATime { most, own }),
            });
        }
        // Without the others, the limits hold for this gateway.
        let decision = if takes.is_empty() { None } else { self.store.take(&takes).await };
        decision.unwrap_or(Ok(())).map_err(|reached| {
            let index = places.get(reached.index).copied().unwrap_or_default();
            SharedLimitReached { index, ..reached }
        })
    }
}

impl ActiveLimit {
    /// Takes a request of `principal` at this gateway.
    fn take(
        &self,
        principal: &Principal,
        store: &Store,
    ) -> Result<LimitGuard, (LimitKind, Option<Duration>)> {
        let caller: &str = match self.limit.per() {
            Per::Principal => principal.id(),
            Per::All => "",
        };
        let most = (self.limit.requests_per_minute(), self.limit.calls_at_a_time());
        let key = store.is_shared().then(|| Key::new(&Group::new(&[AREA, &self.limit.name]), caller));
        let taken = self.counts.take(caller, most, now(), |taken| {
            if let (Some(key), Some(running), true) = (&key, taken.running, taken.is_own()) {
                store.calls_started(key, running);
            }
        })?;
        let shared = key.filter(|_| taken.is_own()).map(|key| (store.clone(), key));
        Ok(LimitGuard { counts: Arc::clone(&self.counts), taken, shared, is_admitted: false })
    }
}

impl Drop for LimitGuard {
    fn drop(&mut self) {
        let time = self.taken.time.filter(|_| !self.is_admitted);
        self.counts.give_back(&self.taken, time, |running| {
            if let (Some((store, key)), Some(_)) = (&self.shared, self.taken.running) {
                store.calls_ended(key, running);
            }
        });
    }
}

impl Admission {
    /// An admission that several requests to servers share, because they are for one request of a client.
    pub(super) fn shared() -> Self {
        Self(Some(Arc::default()))
    }

    /// Whether the request was counted in `counts`.
    fn has(&self, counts: &Arc<Counts>) -> bool {
        let Some(guards) = &self.0 else { return false };
        let guards = guards.lock().unwrap_or_else(PoisonError::into_inner);
        guards.iter().any(|guard| Arc::ptr_eq(&guard.counts, counts))
    }

    fn add(&mut self, more: Vec<LimitGuard>) {
        let guards = self.0.get_or_insert_default();
        guards.lock().unwrap_or_else(PoisonError::into_inner).extend(more);
    }

    /// Keeps the places of the call until the end of `body`, if its result is still arriving.
    pub(crate) fn keep_with(self, body: &mut ResponseBody) {
        if let (Some(guards), ResponseBody::Streaming(stream)) = (self.0, body) {
            stream.hold(guards);
        }
    }
}

/// Changes of one caller in a minute, and at a time.
const OF_ONE: (Option<u32>, Option<u32>) = (Some(20), Some(1));
/// Changes of all callers at a time.
const AT_A_TIME: usize = 4;

/// The counts of changes.
///
/// Invariants: a caller has [`OF_ONE`], whatever others do. At most [`AT_A_TIME`] changes of all callers wait for the
/// vault, so a renewed login waits for no more of them. A refused change counts as none.
#[derive(Debug)]
pub(super) struct OwnChanges {
    counts: Arc<Counts>,
    places: Arc<Semaphore>,
}

/// The place of a change that runs.
#[must_use = "the change has its place as long as this lives"]
pub struct OwnChange {
    _counted: LimitGuard,
    _place: OwnedSemaphorePermit,
}

impl Default for OwnChanges {
    fn default() -> Self {
        Self { counts: Arc::default(), places: Arc::new(Semaphore::new(AT_A_TIME)) }
    }
}

impl OwnChanges {
    /// Admits a change by `caller`. The error says when to try again.
    pub(super) fn admit(&self, caller: &str) -> Result<OwnChange, Duration> {
        let counts = Arc::clone(&self.counts);
        let taken = counts.take(caller, OF_ONE, now(), |_| ());
        let taken = taken.map_err(|(_, wait)| wait.unwrap_or(CALLS_RETRY_IN))?;
        let mut counted = LimitGuard { counts, taken, shared: None, is_admitted: false };
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| CALLS_RETRY_IN)?;
        counted.is_admitted = true;
        Ok(OwnChange { _counted: counted, _place: place })
    }
}

#[cfg(test)]
mod own_changes_tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn caller_has_its_own_changes_and_all_together_few_at_a_time() {
        let changes = OwnChanges::default();
        let running: Vec<_> =
            (0..4).map(|caller| changes.admit(&caller.to_string()).expect("free")).collect();
        assert_eq!(changes.admit("0").err(), Some(CALLS_RETRY_IN), "one at a time");
        for _ in 0..20 {
            assert_eq!(changes.admit("later").err(), Some(CALLS_RETRY_IN), "four at a time");
        }
        drop(running);
        for _ in 0..20 {
            drop(changes.admit("later").expect("refused changes were not counted"));
        }
        assert_eq!(changes.admit("later").err(), Some(Duration::from_secs(3)));
        assert!(changes.admit("another").is_ok());
    }
}
