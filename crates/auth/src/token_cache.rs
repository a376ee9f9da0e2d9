//! Cache of recently verified tokens, so that a signature is not verified in every call.
//!
//! Verifying an RSA signature takes longer than the rest of a call. Invariants: only tokens that passed
//! every check are cached, under the SHA-256 of the whole token. An entry is not used after the `exp`
//! of its token, nor [`AT_MOST`] after its check, nor if the clock was set to a time before its check.
//! At most [`MOST`] tokens are cached, the most recently used ones. A cache belongs to one set of keys:
//! other keys begin with an empty cache.
//!
//! Not here: the checks (`jwt`).

use std::cell::OnceCell;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use lru::LruCache;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::principal::Principal;

/// How long a result is cached.
const AT_MOST: Duration = Duration::from_mins(1);
/// Limit of cached tokens: some 400 bytes each.
const MOST: NonZeroUsize = NonZeroUsize::new(1_024).expect("not zero");

/// The cached tokens with their principals.
pub(super) struct CachedTokens(Mutex<LruCache<TokenDigest, Checked>>);

/// The SHA-256 of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TokenDigest([u8; 32]);

/// The digest of the token of one request, which is computed at most once for all caches.
#[derive(Debug, Default)]
pub(super) struct LazyDigest(OnceCell<TokenDigest>);

impl LazyDigest {
    /// Returns the digest of `token`, the only one of its request.
    pub(super) fn of(&self, token: &str) -> TokenDigest {
        *self.0.get_or_init(|| TokenDigest::of(token))
    }
}

/// The current time on two clocks: the wall clock, which tokens use, and a monotonic one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    wall: SystemTime,
    steady: Instant,
}

struct Checked {
    principal: Principal,
    at: Now,
    expires: SystemTime,
}

impl TokenDigest {
    pub(super) fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }
}

impl Now {
    pub(super) fn read() -> Self {
        Self { wall: SystemTime::now(), steady: Instant::now() }
    }

    /// The time that has passed since `earlier`.
    pub(super) fn since(self, earlier: Self) -> Duration {
        self.steady.saturating_duration_since(earlier.steady)
    }
}

impl Checked {
    fn holds(&self, now: Now) -> bool {
        (self.at.wall..self.expires).contains(&now.wall) && now.since(self.at) < AT_MOST
    }
}

impl CachedTokens {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LruCache::new(MOST)))
    }

    /// Returns the principal of a token, if it is cached and still valid.
    pub(super) fn find(&self, name: &TokenDigest, now: Now) -> Option<Principal> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = known.get(name)?;
        if checked.holds(now) {
            return Some(checked.principal.clone());
        }
        known.pop(name);
        None
    }

    /// Caches a token that passed every check. The check began at `at`, and the token expires at `exp`,
    /// in seconds since 1970.
    pub(super) fn keep(&self, name: TokenDigest, principal: &Principal, at: Now, exp: u64) {
        let Some(expires) = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(exp)) else { return };
        let checked = Checked { principal: principal.clone(), at, expires };
        if checked.holds(at) {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.put(name, checked);
        }
    }
}

impl fmt::Debug for CachedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Known(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    fn bob() -> Principal {
        Principal::of_token("bob", Role::Reader)
    }

    fn after(now: Now, wall: i64, steady: u64) -> Now {
        let (back, on) = (
            Duration::from_secs(wall.min(0).unsigned_abs()),
            Duration::from_secs(wall.max(0).unsigned_abs()),
        );
        Now { wall: now.wall - back + on, steady: now.steady + Duration::from_secs(steady) }
    }

    fn seconds(time: SystemTime) -> u64 {
        time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs()
    }

    // RULES R27
    #[test]
    fn it_holds_for_a_minute_and_not_beyond_exp_nor_before_the_check() {
        let (now, name) = (Now::read(), TokenDigest::of("token"));
        for (exp_in, wall, steady, holds) in [
            (600, 0, 0, true),
            (600, 59, 59, true),
            (600, 60, 60, false),
            (600, 5, 60, false),  // the wall clock was set back, the monotonic one was not
            (600, -1, 5, false),  // `nbf` may be in the future again
            (600, 600, 5, false), // the wall clock was set forward
            (10, 8, 8, true),
            (10, 10, 10, false),
            (0, 0, 0, false),
        ] {
            let known = CachedTokens::new();
            known.keep(name, &bob(), now, seconds(now.wall) + exp_in);
            let found = known.find(&name, after(now, wall, steady));
            assert_eq!(found, holds.then(bob), "exp in {exp_in}, {wall} and {steady} s later");
            assert_eq!(known.find(&name, now), found.map(|_| bob()), "what does not hold is gone");
        }
    }

    #[test]
    fn the_least_used_makes_room() {
        let (known, now) = (CachedTokens::new(), Now::read());
        let name = |number: usize| TokenDigest::of(&number.to_string());
        for number in 0..MOST.get() {
            known.keep(name(number), &bob(), now, seconds(now.wall) + 600);
        }
        assert!(known.find(&name(0), now).is_some());
        known.keep(name(MOST.get()), &bob(), now, seconds(now.wall) + 600);
        assert_eq!(known.find(&name(1), now), None);
        assert!(known.find(&name(0), now).is_some() && known.find(&name(MOST.get()), now).is_some());
    }

    #[test]
    fn an_exp_beyond_all_time_is_not_kept() {
        let (known, now, name) = (CachedTokens::new(), Now::read(), TokenDigest::of("token"));
        known.keep(name, &bob(), now, u64::MAX);
        assert_eq!(known.find(&name, now), None);
    }
}
