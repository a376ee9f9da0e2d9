//! The key set that a login service publishes: when it is fetched, which tokens wait for that, and where it is.
//!
//! ```text
//!             REFRESH_EVERY, or a retry after a failure
//! fetched ──────────────────────────────────────────────▶ fetch
//!    └── token with an unknown `kid` ── at most once per ASK_EVERY, for all clients together ──▶ fetch
//! ```
//!
//! Invariants: unknown `kid`s of all clients together cause at most one fetch in [`ASK_EVERY`]. At most [`MOST_WAITING`]
//! requests wait for it, each at most [`WAIT`]. Keys that could not be fetched again for [`KEPT`] are dropped.
//! Requests whose key is known never come here.
//!
//! A response has at most [`LIMITS`], and a redirect is followed within its origin only. Metadata counts only if it names
//! exactly the configured issuer. The operator wrote the URLs of the issuer and of `jwks_url`, so they may have any address. A
//! key set on another host, which the metadata names, must have a public address and HTTPS.
//!
//! Not here: the keys themselves (`jwt_keys`), the task that fetches (`key_set_task`).
//!
//! Source: RFC 8414, sections 3 and 5; `OpenID` Connect Discovery 1.0, section 4.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use rand::RngExt;
use serde_json::Value;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};
use url::Url;

use super::token_config::KeySetLocation;
use super::{Denied, Reason};
use net::http::{Client, DialPolicy, Network, RequestBuilder, ResponseLimits};
use runtime::shutdown::Shutdown;

/// How often the keys are fetched. A key that the login service removed is accepted for at most this long.
const REFRESH_EVERY: Duration = Duration::from_mins(10);
/// The shortest time between two fetches that unknown `kid`s cause.
pub(super) const ASK_EVERY: Duration = Duration::from_mins(1);
/// How long keys are used after the last successful fetch.
const KEPT: Duration = Duration::from_hours(24);
/// Pause before the first retry of a failed fetch; it doubles up to [`ASK_EVERY`].
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// How long a request waits for a fetch.
const WAIT: Duration = Duration::from_secs(2);
/// Limit of requests that wait for a fetch.
const MOST_WAITING: usize = 256;
/// Limit of `kid`s that are known to be missing.
const MOST_MISSING: usize = 64;

/// The schedule of one key set.
#[derive(Debug)]
pub(super) struct KeySet {
    pub(super) location: KeySetLocation,
    /// The `iss` of the tokens, which the metadata must name too.
    pub(super) issuer: String,
    /// The way to the login service.
    pub(super) network: Network,
    state: Mutex<State>,
    /// Wakes the task that fetches.
    wake: Notify,
    /// Whether the last fetch for an unknown `kid` succeeded. It is sent after each of them.
    answered: watch::Sender<bool>,
    places: Semaphore,
    hasher: RandomState,
}

#[derive(Debug)]
struct State {
    /// When the keys are fetched next.
    due: Instant,
    /// The last successful fetch.
    fetched: Option<Instant>,
    /// Failures since then.
    failures: u32,
    /// When an unknown `kid` may cause the next fetch.
    may_ask: Instant,
    request: Request,
    /// Hashes of the `kid`s that requests wait for.
    requested: HashSet<u64>,
    /// Hashes of the `kid`s that the last fetch did not find.
    missing: HashSet<u64>,
}

/// The request for a fetch that an unknown `kid` caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    None,
    Waiting,
    Running,
}

/// Outcome of a fetch, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The first success at all, or after failures.
    Recovered,
    /// A success after a success.
    Usual,
    /// A failure; the number of them in a row.
    Failed(u32),
}

impl KeySet {
    pub(super) fn new(location: KeySetLocation, issuer: String, network: Network) -> Self {
        let now = Instant::now();
        let state = State {
            due: now,
            fetched: None,
            failures: 0,
            may_ask: now,
            request: Request::None,
            requested: HashSet::new(),
            missing: HashSet::new(),
        };
        Self {
            location,
            issuer,
            network,
            state: Mutex::new(state),
            wake: Notify::new(),
            answered: watch::channel(false).0,
            places: Semaphore::new(MOST_WAITING),
            hasher: RandomState::new(),
        }
    }

    /// Whether `other` has the same keys.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.location == other.location && self.issuer == other.issuer && self.network == other.network
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and the state would be valid even then.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the keys were fetched for a token with the unknown `kid`.
    pub(super) async fn fetched_for(&self, kid: Option<&str>) -> Result<(), Denied> {
        let _place = self.places.try_acquire().map_err(|_| self.unavailable())?;
        let mut answered = self.answered.subscribe();
        self.ask(kid)?;
        match timeout(WAIT, answered.changed()).await {
            Ok(Ok(())) if *answered.borrow() => Ok(()),
            _ => Err(self.unavailable()),
        }
    }

    /// Requests a fetch for `kid`, if the last one was long enough ago.
    fn ask(&self, kid: Option<&str>) -> Result<(), Denied> {
        let (hash, now, mut state) = (self.hasher.hash_one(kid), Instant::now(), self.state());
        if state.request == Request::None {
            if now < state.may_ask {
                let is_missing = state.missing.contains(&hash);
                drop(state);
                return Err(if is_missing {
                    Denied::Credential(Reason::UnknownKid)
                } else {
                    self.unavailable()
                });
            }
            state.may_ask = now + ASK_EVERY;
            state.request = Request::Waiting;
            self.wake.notify_one();
        }
        if state.requested.len() < MOST_MISSING {
            state.requested.insert(hash);
        }
        Ok(())
    }

    /// The refusal of a token whose key may become known with the next fetch.
    fn unavailable(&self) -> Denied {
        let left = self.state().may_ask.saturating_duration_since(Instant::now());
        Denied::KeysUnavailable { retry_after: u16::try_from(left.as_secs()).unwrap_or(u16::MAX).max(1) }
    }

    /// Resolves when the keys must be fetched.
    pub(super) async fn due(&self) {
        if self.state().request == Request::Waiting {
            return;
        }
        let due = self.state().due;
        tokio::select! {
            () = self.wake.notified() => {}
            () = sleep_until(due) => {}
        }
    }

    /// Whether the last successful fetch was so long ago that the keys must not be used any more. It returns true once.
    pub(super) fn expires(&self) -> bool {
        let mut state = self.state();
        let is_over = state.fetched.is_some_and(|fetched| fetched.elapsed() >= KEPT);
        if is_over {
            state.fetched = None;
        }
        is_over
    }

    /// Records that a fetch begins.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        if state.request == Request::Waiting {
            state.request = Request::Running;
        }
    }

    /// Records the end of a fetch whose keys, if any, are in use now.
    pub(super) fn end(&self, has_succeeded: bool) -> Outcome {
        let (mut state, now) = (self.state(), Instant::now());
        let outcome = match (has_succeeded, state.fetched, state.failures) {
            (true, Some(_), 0) => Outcome::Usual,
            (true, ..) => Outcome::Recovered,
            (false, _, failures) => Outcome::Failed(failures.saturating_add(1)),
        };
        if let Outcome::Failed(failures) = outcome {
            let pause = FIRST_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(6)).min(ASK_EVERY);
            let expiry = state.fetched.map(|fetched| fetched + KEPT);
            (state.failures, state.due) =
                (failures, expiry.map_or(now + pause, |expiry| expiry.min(now + pause)));
        } else {
            let pause = REFRESH_EVERY.mul_f64(rand::rng().random_range(0.9..1.0));
            (state.failures, state.fetched, state.due) = (0, Some(now), now + pause);
        }
        if state.request == Request::Running {
            state.request = Request::None;
            let requested = std::mem::take(&mut state.requested);
            if has_succeeded {
                state.missing = requested;
            }
            drop(state);
            self.answered.send_replace(has_succeeded);
        }
        outcome
    }
}

/// Limits of one response.
const LIMITS: ResponseLimits = ResponseLimits { bytes: 64 * 1024, time: Duration::from_secs(5) };

/// Fetches the key set. An error is for the log.
pub(super) async fn fetch(key_set: &KeySet, tasks: &Shutdown) -> Result<Bytes, String> {
    match &key_set.location {
        KeySetLocation::Url(url) => get(url, (DialPolicy::Anywhere, &key_set.network), tasks).await,
        KeySetLocation::Issuer(issuer) => {
            let url = discovered(issuer, key_set, tasks).await?;
            let dial_policy = dial_policy_of(&url, issuer).ok_or_else(|| {
                format!("the metadata of the issuer names {url}, which must be an HTTPS URL; set `jwks_url`")
            })?;
            get(&url, (dial_policy, &key_set.network), tasks).await
        }
    }
}

/// The addresses that a key set may have which the metadata of `issuer` names.
fn dial_policy_of(url: &Url, issuer: &Url) -> Option<DialPolicy> {
    let is_plain = url.username().is_empty() && url.password().is_none();
    let is_same_host = url.host() == issuer.host();
    let is_safe = url.scheme() == "https" || (is_same_host && url.scheme() == issuer.scheme());
    (is_plain && is_safe).then_some(if is_same_host { DialPolicy::Anywhere } else { DialPolicy::Public })
}

/// Returns the URL of the key set that the metadata of `issuer` names.
async fn discovered(issuer: &Url, key_set: &KeySet, tasks: &Shutdown) -> Result<Url, String> {
    let mut failures = Vec::new();
    for place in places(issuer) {
        let document = get(&place, (DialPolicy::Anywhere, &key_set.network), tasks).await;
        match document.and_then(|document| key_set_of(&document, &key_set.issuer)) {
            Ok(url) => return Ok(url),
            Err(failure) => failures.push(failure),
        }
    }
    Err(failures.join("; "))
}

/// The URLs of the metadata, the most common one first.
fn places(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("{path}/.well-known/openid-configuration"),
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if path.is_empty() {
        // Without a path, the first and the last place are one.
        paths.truncate(2);
    }
    let at = |path: String| {
        let mut url = issuer.clone();
        url.set_path(&path);
        url
    };
    paths.into_iter().map(at).collect()
}

fn key_set_of(document: &[u8], issuer: &str) -> Result<Url, String> {
    let document: Value =
        serde_json::from_slice(document).map_err(|_| "the metadata of the issuer is not JSON".to_owned())?;
    if document["issuer"] != issuer {
        return Err(
            "the metadata is of another issuer than `jwt.issuer`; compare the slash at the end".into()
        );
    }
    let url = document["jwks_uri"].as_str().and_then(|url| Url::parse(url).ok());
    url.filter(Url::has_host).ok_or_else(|| "the metadata of the issuer names no `jwks_uri`".into())
}

async fn get(url: &Url, way: (DialPolicy, &Network), tasks: &Shutdown) -> Result<Bytes, String> {
    let failed = |error: net::http::Error| format!("{url}: {error}");
    let client = Client::new(url, way, 0, tasks).map_err(failed)?;
    let response = client.fetch(RequestBuilder::new(Method::GET, url.clone()), LIMITS).await;
    let response = response.map_err(failed)?;
    match response.status {
        StatusCode::OK => Ok(response.body),
        status => Err(format!("{url}: the status is {status}")),
    }
}

#[cfg(test)]
#[path = "key_set_tests.rs"]
mod tests;
