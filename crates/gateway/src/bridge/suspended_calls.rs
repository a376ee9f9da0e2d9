//! Calls of modern clients that wait for answers while no request of their client is open.
//!
//! Each has a `requestState`, sealed for one principal and one request, that is good once and for
//! ten minutes: as long as its call is in the table, whatever becomes of the time of day. Invariants: at most
//! 1,024 calls are parked, at most 16 of one principal, whose oldest makes room for a further one; a call that
//! is not taken back in time is dropped, and with it cancelled at its server, and so is one whose client
//! may not come any more; the shutdown drops all.
//! Whoever shows a wrong, foreign, used or old state learns only that it is of no use.
//!
//! Does not ask the client or resume a call (`modern_client`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;
use uuid::Uuid;

use crate::bridge::modern_client::Waiting;
use auth::{Principal, Sealer};
use runtime::shutdown::Shutdown;
use runtime::telemetry::limit::Limit;

/// Calls that may be parked at a time.
const MAX_PARKED: usize = 1024;
/// Calls of one principal that may be parked at a time: a part of the places that one server has.
const MAX_OF_ONE: usize = 16;
/// How long a call waits for its client.
const LIMIT: Duration = Duration::from_mins(10);

/// All parked calls.
pub(crate) struct Parked {
    sealer: Arc<Sealer>,
    tasks: Shutdown,
    table: Mutex<HashMap<Uuid, Entry>>,
    numbers: AtomicU64,
}

/// Where a parked call is asked for. Its task waits at the other end.
struct Entry {
    principal: Arc<str>,
    /// Which one it is, of all that were ever parked.
    number: u64,
    back: oneshot::Sender<oneshot::Sender<Waiting>>,
}

/// Why a call was not parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// The cap of all is reached.
    #[error("too many calls already wait for answers; answer or drop some of them first")]
    TooMany,
    /// The gateway ends.
    #[error("the gateway is shutting down")]
    ShuttingDown,
}

impl Parked {
    /// An empty table. Calls live in `tasks`.
    pub(crate) fn new(sealer: Arc<Sealer>, tasks: Shutdown) -> Arc<Self> {
        Arc::new(Self { sealer, tasks, table: Mutex::default(), numbers: AtomicU64::new(0) })
    }

    /// Keeps a call going until it is taken back with the state that is returned. `purpose` names
    /// the request that it belongs to.
    pub(super) fn park(
        self: &Arc<Self>,
        principal: &Principal,
        purpose: &str,
        waiting: Waiting,
    ) -> Result<String, Refused> {
        if self.tasks.is_begun() {
            return Err(Refused::ShuttingDown);
        }
        let (id, (back, asked)) = (Uuid::new_v4(), oneshot::channel());
        {
            let mut table = self.lock();
            let of_one = || table.iter().filter(|(_, entry)| entry.principal == *principal.id());
            // Nobody may come for it any more, and where nobody needs a credential all clients are one.
            let oldest = (of_one().count() >= MAX_OF_ONE)
                .then(|| of_one().min_by_key(|(_, entry)| entry.number).map(|(id, _)| *id))
                .flatten();
            if let Some(oldest) = oldest {
                // Its task finds that nobody can ask for it.
                Limit::ParkedCalls.met(table.remove(&oldest));
            } else if table.len() >= MAX_PARKED {
                return Err(Limit::ParkedCalls.met(Refused::TooMany));
            }
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            table.insert(id, Entry { principal: Arc::clone(principal.id()), number, back });
        }
        let place = Place { parked: Arc::clone(self), id };
        self.tasks.spawn_until_end(keep(place, waiting, asked, principal.clone()));
        Ok(self.sealer.seal(purpose, principal, id.as_bytes()))
    }

    /// The call that `state` was given for; none when there is none, whatever the reason.
    pub(super) async fn take(&self, principal: &Principal, purpose: &str, state: &str) -> Option<Waiting> {
        let id = self.sealer.open(purpose, principal, state)?;
        let entry = self.lock().remove(&Uuid::from_slice(&id).ok()?)?;
        let (to, waiting) = oneshot::channel();
        entry.back.send(to).ok()?;
        waiting.await.ok()
    }

    /// How many calls are parked now.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Entry>> {
        // Nothing panics while it is held, and every change is one call.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call's line in the table; it goes with the call's task.
struct Place {
    parked: Arc<Parked>,
    id: Uuid,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.parked.lock().remove(&self.id);
    }
}

/// Keeps a call going until somebody takes it back, or for too long.
async fn keep(
    _place: Place,
    mut waiting: Waiting,
    asked: oneshot::Receiver<oneshot::Sender<Waiting>>,
    principal: Principal,
) {
    let to = tokio::select! {
        biased;
        to = asked => to.ok(),
        never = waiting.go_on() => match never {},
        () = sleep(LIMIT) => None,
        () = principal.taken_back() => None,
    };
    if let Some(to) = to {
        // Whoever asked for it may have left just now; then the call ends here.
        let _ = to.send(waiting);
    }
}
