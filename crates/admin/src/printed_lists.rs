//! Printed lists of tools that clients are reading.
//!
//! Invariants: equal lists that are unread at the same time are one text in memory. Nothing is kept for later requests.
//!
//! Not here: which lists are printed (`catalog`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use super::charged::held;
use super::entity_tag::Tagged;
use gateway::manager::{Scope, Snapshot};
use runtime::memory::Exhausted;

/// The list of one scope, of the snapshot that it was printed from. Neither is kept for later requests.
type Listed = (Weak<Snapshot>, Weak<Tagged>);

/// Printed lists that clients are reading.
#[derive(Debug, Clone, Default)]
pub(super) struct Lists(Arc<Mutex<HashMap<Scope, Listed>>>);

impl Lists {
    /// Returns the list of `scope` in `snapshot`: the one that is being read, or else a new one of `print`, charged to
    /// `principal`.
    pub(super) fn of(
        &self,
        (snapshot, scope): (&Arc<Snapshot>, Scope),
        principal: &Arc<str>,
        print: impl FnOnce() -> Bytes,
    ) -> Result<Tagged, Exhausted> {
        if let Some(printed) = self.read_now(snapshot, &scope) {
            return Ok(shared(printed));
        }
        let printed = Arc::new(Tagged::of(held(print(), principal)?));
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (lists, principal) = (Lists::default(), Arc::from("p"));
        let snapshot = gateway.manager.snapshot();
        let text = |text: &'static str| move || Bytes::from_static(text.as_bytes());
        let of = |scope, print: &'static str| {
            lists.of((&snapshot, scope), &principal, text(print)).expect("there is room").body
        };
        let first = of(Scope::All, "first");
        assert_eq!(of(Scope::All, "second"), "first");
        assert_eq!(of(Scope::Server("s".into()), "third"), "third");
        drop(first);
        assert_eq!(of(Scope::All, "fourth"), "fourth", "nobody read the first one any more");
        assert_eq!(lists.lock().len(), 1, "lists that nobody reads are forgotten");
    }
}
