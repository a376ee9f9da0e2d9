//! Limit of the logins that contact a login service at a time.
//!
//! Invariant: one principal cannot use all places, so it does not keep others from their logins. Before somebody has signed in, the
//! address stands for the principal, and has a larger share: behind a reverse proxy that is not trusted it is the one of all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::client_address::ClientAddress;

/// Most logins that are in progress.
const MAX: usize = 64;
/// Most of them for one principal.
const MAX_PER_PRINCIPAL: usize = 4;
/// Most of them for one address.
const MAX_PER_ADDRESS: usize = MAX / 2;

/// Counts the logins in progress.
#[derive(Debug, Clone)]
pub(crate) struct InProgress {
    counts: Arc<Mutex<HashMap<Arc<str>, usize>>>,
    /// Most of one principal or address.
    share: usize,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct LoginSlot {
    all: InProgress,
    principal: Arc<str>,
}

impl InProgress {
    /// Counts logins by principal.
    pub(crate) fn by_principal() -> Self {
        Self { counts: Arc::default(), share: MAX_PER_PRINCIPAL }
    }

    /// Counts logins by address.
    pub(crate) fn by_address() -> Self {
        Self { counts: Arc::default(), share: MAX_PER_ADDRESS }
    }

    /// Takes a place for a visitor from `address`. A program that embeds Switchyard does not tell it.
    pub(crate) fn enter_from(&self, address: Option<ClientAddress>) -> Option<LoginSlot> {
        self.enter(&address.map(|address| address.to_string()).unwrap_or_default().into())
    }

    /// Takes a place for `principal`. None if there is none.
    pub(crate) fn enter(&self, principal: &Arc<str>) -> Option<LoginSlot> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let own = counts.get(principal).copied().unwrap_or_default();
        if own >= self.share || counts.values().sum::<usize>() >= MAX {
            return None;
        }
        counts.insert(Arc::clone(principal), own + 1);
        Some(LoginSlot { all: self.clone(), principal: Arc::clone(principal) })
    }
}

impl Drop for LoginSlot {
    fn drop(&mut self) {
        let mut counts = self.all.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(&self.principal) {
            Some(own) if *own > 1 => *own -= 1,
            _ => _ = counts.remove(&self.principal),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn one_principal_leaves_places_to_others_and_all_are_given_back() {
        let places = InProgress::by_principal();
        let (alice, bob) = (Arc::from("alice"), Arc::from("bob"));
        let held: Vec<_> = std::iter::from_fn(|| places.enter(&alice)).collect();
        assert_eq!(held.len(), MAX_PER_PRINCIPAL);
        assert!(places.enter(&bob).is_some());
        drop(held);
        let many: Vec<_> = (0..1_000).filter_map(|n| places.enter(&Arc::from(format!("p{n}")))).collect();
        assert_eq!(many.len(), MAX);
        assert!(places.enter(&bob).is_none());
        drop(many);
        assert!(places.counts.lock().expect("no panic").is_empty());
        let (places, stranger) = (InProgress::by_address(), IpAddr::from([192, 0, 2, 1]).into());
        let held: Vec<_> = std::iter::from_fn(|| places.enter_from(Some(stranger))).collect();
        assert_eq!(held.len(), MAX_PER_ADDRESS);
        assert!(places.enter_from(Some(IpAddr::from([192, 0, 2, 2]).into())).is_some());
    }
}
