//! Calls of modern clients that wait for the client's input while no request of the client is open.
//!
//! Each call has a `requestState`, sealed for one principal and one request. It is valid once, as long as its
//! call is in the table, and for ten minutes at most. Changes of the system time do not matter. Invariants: at
//! most 1,024 calls are suspended, and at most 16 of one principal, whose oldest one is dropped for a further
//! one. A call is dropped, and cancelled at its server, if it is not resumed in time or if the credential of
//! its client is revoked. Shutdown drops all calls. If a state is wrong, foreign, used or expired, the client
//! learns only that it is not valid.
//!
//! Not here: requests to the client, and resuming the call (`modern_client`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;
use uuid::Uuid;

use crate::bridge::modern_client::SuspendedRequest;
use auth::{Principal, Sealer};
use runtime::shutdown::Shutdown;
use runtime::telemetry::limit::Limit;

/// Limit of suspended calls.
const MAX_PARKED: usize = 1024;
/// Limit of suspended calls of one principal: a part of the slots of one server.
const MAX_OF_ONE: usize = 16;
/// How long a call waits for its client.
const LIMIT: Duration = Duration::from_mins(10);

/// All suspended calls.
pub(crate) struct SuspendedCalls {
    sealer: Arc<Sealer>,
    tasks: Shutdown,
    table: Mutex<HashMap<Uuid, SuspendedCall>>,
    numbers: AtomicU64,
}

/// A suspended call in the table. Its task waits at the other end of the channel.
struct SuspendedCall {
    principal: Arc<str>,
    /// Number of the call, unique in the process.
    number: u64,
    /// The number of pages that the user visits before the call is made again; `None` if it waits.
    pages: Option<usize>,
    back: oneshot::Sender<oneshot::Sender<SuspendedRequest>>,
}

/// Why a call was not suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// The limit for all clients is reached.
    #[error("too many calls already wait for answers; answer or drop some of them first")]
    TooMany,
    /// Shutdown has begun.
    #[error("the gateway is shutting down")]
    ShuttingDown,
}

impl SuspendedCalls {
    /// An empty table. Suspended calls run in `tasks`.
    pub(crate) fn new(sealer: Arc<Sealer>, tasks: Shutdown) -> Arc<Self> {
        Arc::new(Self { sealer, tasks, table: Mutex::default(), numbers: AtomicU64::new(0) })
    }

    /// Keeps a call running until it is resumed with the state that is returned. `purpose` names the request
    /// that it belongs to.
    pub(super) fn suspend(
        self: &Arc<Self>,
        principal: &Principal,
        purpose: &str,
        waiting: SuspendedRequest,
    ) -> Result<String, Refused> {
        if self.tasks.is_begun() {
            return Err(Refused::ShuttingDown);
        }
        let (id, (back, resumed)) = (Uuid::new_v4(), oneshot::channel());
        {
            let mut table = self.lock();
            let of_one = || table.iter().filter(|(_, entry)| entry.principal == *principal.id());
            // The client of the oldest call may be gone. Without authentication, all clients are one
            // principal.
            let oldest = (of_one().count() >= MAX_OF_ONE)
                .then(|| of_one().min_by_key(|(_, entry)| entry.number).map(|(id, _)| *id))
                .flatten();
            if let Some(oldest) = oldest {
                // Dropping the entry ends the task of that call.
                Limit::SuspendedCalls.met(table.remove(&oldest));
            } else if table.len() >= MAX_PARKED {
                return Err(Limit::SuspendedCalls.met(Refused::TooMany));
            }
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            let (principal, pages) = (Arc::clone(principal.id()), waiting.pages());
            table.insert(id, SuspendedCall { principal, number, pages, back });
        }
        let place = EntryGuard { suspended: Arc::clone(self), id };
        self.tasks.spawn_until_end(keep(place, waiting, resumed, principal.clone()));
        Ok(self.sealer.seal(purpose, principal, id.as_bytes()))
    }

    /// Removes and returns the call of `state`; none, without a reason, if the state is not valid.
    pub(super) async fn take(
        &self,
        principal: &Principal,
        purpose: &str,
        state: &str,
    ) -> Option<SuspendedRequest> {
        let id = self.id(principal, purpose, state)?;
        let entry = self.lock().remove(&id)?;
        let (to, waiting) = oneshot::channel();
        entry.back.send(to).ok()?;
        waiting.await.ok()
    }

    /// The number of pages that the user visits before the call of `state` is made again. `None` if a call waits, or if the
    /// state is not valid.
    pub(super) fn pages(&self, principal: &Principal, purpose: &str, state: &str) -> Option<usize> {
        let id = self.id(principal, purpose, state)?;
        self.lock().get(&id)?.pages
    }

    fn id(&self, principal: &Principal, purpose: &str, state: &str) -> Option<Uuid> {
        Uuid::from_slice(&self.sealer.open(purpose, principal, state)?).ok()
    }

    /// The number of suspended calls.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, SuspendedCall>> {
        // No code panics while it holds the lock, and every change is one call.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An entry of the table; it is removed when the call's task ends.
struct EntryGuard {
    suspended: Arc<SuspendedCalls>,
    id: Uuid,
}

impl Drop for EntryGuard {
    fn drop(&mut self) {
        self.suspended.lock().remove(&self.id);
    }
}

/// Keeps a call running until it is resumed, or until the time limit.
async fn keep(
    _place: EntryGuard,
    mut waiting: SuspendedRequest,
    resumed: oneshot::Receiver<oneshot::Sender<SuspendedRequest>>,
    principal: Principal,
) {
    let to = tokio::select! {
        biased;
        to = resumed => to.ok(),
        never = waiting.go_on() => match never {},
        () = sleep(LIMIT) => None,
        () = principal.revoked() => None,
    };
    if let Some(to) = to {
        // The client may have disconnected just now; then the call ends here.
        let _ = to.send(waiting);
    }
}
