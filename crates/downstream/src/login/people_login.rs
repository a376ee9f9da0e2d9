//! The login service at which people sign in, as the pages use it, and the logins in progress.
//!
//! Invariants: a login is redeemed once, as long as its `state` is valid. The memory for that is bounded; only a browser that
//! began a login can add to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;

use crate::authority::form_source;
use crate::browser::html::{HtmlForm, Page};
use crate::client_address::{AddressRate, ClientAddress};
use oauth::Provider;

/// Limit of redeemed logins that are remembered.
const MAX_REDEEMED: usize = 8_192;
/// Logins that one address may begin at once, and the time in which one more may begin. Each is answered at most once.
/// Behind a reverse proxy that is not trusted, all people have one address.
const LOGINS_AT_ONCE: u32 = 60;
const LOGIN_PAUSE: Duration = Duration::from_millis(250);

/// The login service, and the logins at it that have ended.
pub(super) struct PeopleLogin {
    pub(super) provider: Arc<Provider>,
    /// Whether the holder of a key may answer the authorization request of a client.
    pub(super) takes_keys: bool,
    /// The requests to the service that run, by address.
    pub(super) in_progress: InProgress,
    /// The logins that one address may begin.
    pub(super) rate: AddressRate,
    /// The marks of redeemed logins. [`Self::redeem`] keeps its bound: a capacity would be allocated at once.
    redeemed: Mutex<LruCache<String, ()>>,
}

impl PeopleLogin {
    pub(super) fn new(provider: Arc<Provider>, takes_keys: bool) -> Self {
        let rate = AddressRate::new(LOGINS_AT_ONCE, LOGIN_PAUSE);
        let redeemed = Mutex::new(LruCache::unbounded());
        Self { provider, takes_keys, in_progress: InProgress::by_address(), rate, redeemed }
    }

    /// Adds the button that leads to the login service. Its pages may redirect to any HTTPS address.
    pub(super) fn offered_on(&self, page: Page, form: HtmlForm) -> Page {
        let target = form_source(self.provider.issuer()).unwrap_or_default();
        let text = format!("Sign in with {}", self.provider.host());
        page.form(form.button(&text)).leading_to(&target)
    }

    /// Redeems `mark`. False if it was redeemed before.
    pub(super) fn redeem(&self, mark: &str) -> bool {
        let mut redeemed = self.redeemed.lock().unwrap_or_else(PoisonError::into_inner);
        if redeemed.contains(mark) {
            return false;
        }
        redeemed.put(mark.to_owned(), ());
        if redeemed.len() > MAX_REDEEMED {
            redeemed.pop_lru();
        }
        true
    }
}

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
    fn by_address() -> Self {
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
