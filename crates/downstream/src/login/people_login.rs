//! The login service at which people sign in, as the pages use it.
//!
//! Invariant: a login is redeemed once, as long as its `state` is valid. The memory for that is bounded; only a browser that
//! began a login can add to it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;

use super::in_progress::InProgress;
use crate::address_rate::AddressRate;
use crate::authority::form_source;
use crate::browser::html::{HtmlForm, Page};
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
