//! Lists as they are printed, and those of tools that clients are reading.
//!
//! Invariants: room for a list is found before it is printed, and printing lets other tasks run in between. Equal lists that
//! are unread at the same time are one text in memory. Nothing is kept for later requests.
//!
//! Not here: which lists are printed (`catalog`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use serde::Serialize;

use super::entity_tag::Tagged;
use gateway::manager::catalog::CatalogEntry;
use gateway::manager::{Scope, Snapshot};
use json::Raw;
use runtime::memory::{Account, Charge, ChargeKind, Exhausted, SMALL};
use runtime::worker::WorkBudget;

/// The list of one scope, of the snapshot that it was printed from. Neither is kept for later requests.
type Listed = (Weak<Snapshot>, Weak<Tagged>);

/// Approximate size of an item beside its definition and its names.
const ITEM: usize = 192;

/// Prints `entries` as the member `name`, each in the form that `show` gives it, charged to `principal` until the answer was
/// written.
pub(super) async fn printed<T: Serialize>(
    name: &str,
    (entries, next_cursor): (Vec<&CatalogEntry>, Option<String>),
    principal: &Arc<str>,
    show: impl Fn(&CatalogEntry) -> T,
) -> Result<Bytes, Exhausted> {
    let size = |entry: &&CatalogEntry| entry.definition.bytes().len() + 3 * entry.exposed.len() + ITEM;
    let size: usize = entries.iter().map(size).sum();
    let mut charge = Charge::open(Account::Principal(Arc::clone(principal)), ChargeKind::Answer);
    charge.cover(size)?;
    let (mut out, mut work) = (Vec::with_capacity(size), WorkBudget::new());
    out.extend_from_slice(format!("{{\"{name}\":[").as_bytes());
    for (at, entry) in entries.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let before = out.len();
        out.extend_from_slice(Raw::of(&show(entry)).bytes());
        charge.cover(out.len())?;
        work.charge(out.len() - before);
        work.yield_if_spent().await;
    }
    out.push(b']');
    if let Some(cursor) = next_cursor {
        out.extend_from_slice(b",\"next_cursor\":");
        out.extend_from_slice(Raw::of(&cursor).bytes());
    }
    out.push(b'}');
    if out.len() < SMALL { Ok(out.into()) } else { charge.hold(out.into()) }
}

/// Printed lists that clients are reading.
#[derive(Debug, Clone, Default)]
pub(super) struct Lists {
    read: Arc<Mutex<HashMap<Scope, Listed>>>,
    /// Held while one is printed, so that others wait for its text.
    printing: Arc<tokio::sync::Mutex<()>>,
}

impl Lists {
    /// Returns the list of `scope` in `snapshot`: the one that is being read, or else a new one of `print`.
    pub(super) async fn of(
        &self,
        (snapshot, scope): (&Arc<Snapshot>, Scope),
        print: impl Future<Output = Result<Bytes, Exhausted>>,
    ) -> Result<Tagged, Exhausted> {
        let _turn = self.printing.lock().await;
        if let Some(printed) = self.read_now(snapshot, &scope) {
            return Ok(shared(printed));
        }
        let printed = Arc::new(Tagged::of(print.await?));
        let mut lists = self.lock();
        lists.retain(|_, (_, printed)| printed.strong_count() > 0);
        lists.insert(scope, (Arc::downgrade(snapshot), Arc::downgrade(&printed)));
        drop(lists);
        Ok(shared(printed))
    }

    fn read_now(&self, snapshot: &Arc<Snapshot>, scope: &Scope) -> Option<Arc<Tagged>> {
        let lists = self.lock();
        let (of, printed) = lists.get(scope)?;
        std::ptr::eq(of.as_ptr(), Arc::as_ptr(snapshot)).then(|| printed.upgrade())?
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Scope, Listed>> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the owners of a printed list.
struct Shared(Arc<Tagged>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.body
    }
}

/// The list with `printed` as its body, which lives as long as the last body.
fn shared(printed: Arc<Tagged>) -> Tagged {
    let tag = printed.tag.clone();
    Tagged { body: Bytes::from_owner(Shared(printed)), tag }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::Gateway;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_being_read_is_not_printed_again() {
        let gateway = Gateway::of(vec![]).await;
        let lists = Lists::default();
        let snapshot = gateway.manager.snapshot();
        let of = async |scope, text: &'static str| {
            let print = async { Ok(Bytes::from_static(text.as_bytes())) };
            lists.of((&snapshot, scope), print).await.expect("there is room").body
        };
        let first = of(Scope::ALL, "first").await;
        assert_eq!(of(Scope::ALL, "second").await, "first");
        assert_eq!(of(Scope::of_server("s"), "third").await, "third");
        drop(first);
        assert_eq!(of(Scope::ALL, "fourth").await, "fourth", "nobody read the first one any more");
        assert_eq!(lists.lock().len(), 1, "lists that nobody reads are forgotten");
    }
}
