//! Introspection of opaque tokens: the login service says whether a token is active, and for whom.
//!
//! ```text
//! token ── known by its whole hash? ──▶ principal or refusal
//!    └── not known ── at most ASKED_AT_ONCE, MOST_WAITING wait ──▶ POST ──▶ judged, known for a while
//! ```
//!
//! Invariants: a service that cannot be asked is an error and lets nobody in. An answer is known for at most [`ACTIVE`]
//! and never beyond `exp`; a refusal for [`REFUSED`]. At most [`MOST_KNOWN`] answers are known. After a failure the
//! service is not asked for [`PAUSE`]. URLs of login services have no user and no password, because URLs are logged.
//!
//! Not here: what the claims must be (`jwt`), which credentials are tokens (the crate root).
//!
//! Source: RFC 7662.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION};
use http::{Method, StatusCode};
use lru::LruCache;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use url::{Host, Url, form_urlencoded};

use super::principal::Principal;
use super::{Denied, Error};
use crate::revocation::RevocationState;
use crate::role_words::filled;
use crate::token_cache::TokenDigest;
use json::Raw;
use net::http::{Client, DialPolicy, Network, RequestBuilder, ResponseLimits};
use runtime::shutdown::Shutdown;
use runtime::telemetry::pace::Pace;
use settings::{Setting, settings};

/// Limits of one answer.
const LIMITS: ResponseLimits = ResponseLimits { bytes: 64 * 1024, time: Duration::from_secs(5) };
/// How long an active token is known. A token that the service revoked is accepted for at most this long.
const ACTIVE: Duration = Duration::from_mins(1);
/// How long a refusal is known.
const REFUSED: Duration = Duration::from_secs(10);
/// Pause after a failure of the service.
const PAUSE: Duration = Duration::from_secs(1);
/// Limit of known answers: some 400 bytes each.
const MOST_KNOWN: NonZeroUsize = NonZeroUsize::new(4_096).expect("not zero");
/// Limit of questions at the same time.
const ASKED_AT_ONCE: usize = 16;
/// Limit of requests that wait for an answer.
const MOST_WAITING: usize = 256;
/// Connections that are kept open.
const KEPT_OPEN: usize = 4;

settings! {
    /// The endpoint that says whether a token is active.
    #[derive(Debug, Clone)]
    pub struct Introspection {
        /// the introspection endpoint of the login service: HTTPS, or on this machine
        pub url: Url, required "the introspection endpoint of the login service", with read_url;
        /// the id of Switchyard at the login service
        pub client_id: String, required "the id of Switchyard at the login service", with filled;
        /// the secret of Switchyard at the login service
        pub client_secret: SecretString,
            required "the secret of Switchyard at the login service, as `${NAME}`";
    }
}

/// Reads the URL. The token of each client and the secret are sent there, so it needs HTTPS, unless it leads to this
/// machine.
fn read_url(setting: &Setting<'_>) -> Option<Url> {
    let hint = "write it as https://…; http is accepted for a loopback address";
    let is_one = |url: &Url| {
        let is_local = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        parse_url(url.as_str()).is_some() && (url.scheme() == "https" || is_local)
    };
    setting.url_that("an https URL without user, password and fragment", hint, is_one)
}

impl Introspection {
    fn is_of(&self, other: &Self) -> bool {
        let secrets = [self, other].map(|one| one.client_secret.expose_secret());
        self.url == other.url && self.client_id == other.client_id && secrets[0] == secrets[1]
    }
}

/// Asks a login service about tokens, and remembers its answers.
pub(super) struct Introspector {
    endpoint: Introspection,
    network: Network,
    client: Client,
    tasks: Shutdown,
    known: Mutex<LruCache<TokenDigest, Known>>,
    waiting: Semaphore,
    asking: Semaphore,
    left_alone_until: Mutex<Option<Instant>>,
    pace: Pace,
    revocation_state: RevocationState,
}

/// One answer, as it was judged.
struct Known {
    judged: Result<Principal, Denied>,
    until: Instant,
    /// The `exp` of the token.
    expires: Option<SystemTime>,
}

impl Introspector {
    pub(super) fn new(endpoint: &Introspection, network: &Network) -> Result<Self, Error> {
        let tasks = Shutdown::new();
        let client = Client::new(&endpoint.url, (DialPolicy::Anywhere, network), KEPT_OPEN, &tasks);
        Ok(Self {
            client: client.map_err(|_| Error::Key("`jwt.introspection.url` cannot be requested"))?,
            endpoint: endpoint.clone(),
            network: network.clone(),
            tasks,
            known: Mutex::new(LruCache::new(MOST_KNOWN)),
            waiting: Semaphore::new(MOST_WAITING),
            asking: Semaphore::new(ASKED_AT_ONCE),
            left_alone_until: Mutex::new(None),
            pace: Pace::new(),
            revocation_state: RevocationState::default(),
        })
    }

    /// Whether `other` asks the same service in the same way.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.endpoint.is_of(&other.endpoint) && self.network == other.network
    }

    /// The revocation state of all its tokens.
    pub(super) const fn revocation_state(&self) -> &RevocationState {
        &self.revocation_state
    }

    /// Returns what is known about the token with `digest`, or [`Denied::Unchecked`].
    pub(super) fn known(&self, digest: &TokenDigest) -> Result<Principal, Denied> {
        let mut known = lock(&self.known);
        let found = known.get(digest).ok_or(Denied::Unchecked)?;
        let is_over = found.expires.is_some_and(|expires| expires <= SystemTime::now());
        if Instant::now() < found.until && !is_over {
            return found.judged.clone();
        }
        known.pop(digest);
        Err(Denied::Unchecked)
    }

    /// Returns what the service says about `token`. `judge` reads the claims of an active token.
    pub(super) async fn ask(
        &self,
        token: &str,
        judge: impl Fn(&Raw) -> Result<Principal, Denied>,
    ) -> Result<Principal, Denied> {
        let _place = self.waiting.try_acquire().map_err(|_| Denied::Busy)?;
        let _turn = self.asking.acquire().await.map_err(|_| Denied::Busy)?;
        // Another request may have asked meanwhile.
        match self.known(&TokenDigest::of(token)) {
            Err(Denied::Unchecked) => {}
            known => return known,
        }
        if lock(&self.left_alone_until).is_some_and(|until| Instant::now() < until) {
            return Err(unavailable());
        }
        let claims = self.request(token).await.map_err(|reason| {
            *lock(&self.left_alone_until) = Some(Instant::now() + PAUSE);
            if let Some(suppressed) = self.pace.admit() {
                tracing::warn!(
                    reason,
                    suppressed,
                    "the login service cannot be asked about tokens, which are refused"
                );
            }
            unavailable()
        })?;
        let judged = judge(&claims);
        self.remember(token, &judged, claims.get_as::<u64>("exp"));
        judged
    }

    fn remember(&self, token: &str, judged: &Result<Principal, Denied>, exp: Option<u64>) {
        let life = if judged.is_ok() { ACTIVE } else { REFUSED };
        let expires = exp.and_then(|exp| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(exp)));
        let expires = expires.filter(|_| judged.is_ok());
        let known = Known { judged: judged.clone(), until: Instant::now() + life, expires };
        lock(&self.known).put(TokenDigest::of(token), known);
    }

    async fn request(&self, token: &str) -> Result<Raw, String> {
        let Introspection { url, client_id, client_secret } = &self.endpoint;
        let request = RequestBuilder::new(Method::POST, url.clone())
            .header(&ACCEPT, &SecretString::from("application/json"))
            .header(&AUTHORIZATION, &basic(client_id, client_secret))
            .form(&[("token", token), ("token_type_hint", "access_token"), ("client_id", client_id)]);
        let response = self.client.fetch(request, LIMITS).await.map_err(|error| error.to_string())?;
        if response.status != StatusCode::OK {
            return Err(format!("the status is {}", response.status.as_u16()));
        }
        let claims = Raw::parse(&response.body).ok();
        let claims = claims.filter(|claims| claims.is_object() && claims.duplicate_key().is_none());
        claims.ok_or_else(|| "the answer is not a JSON object".to_owned())
    }
}

impl Drop for Introspector {
    fn drop(&mut self) {
        self.tasks.begin();
    }
}

impl fmt::Debug for Introspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Introspector(..)")
    }
}

fn unavailable() -> Denied {
    Denied::KeysUnavailable { retry_after: 1 }
}

/// Returns the value of `Authorization` (RFC 6749, section 2.3.1).
fn basic(id: &str, secret: &SecretString) -> SecretString {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(id), encoded(secret.expose_secret()));
    SecretString::from(format!("Basic {}", STANDARD.encode(pair)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held, and every change is one call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Parses a URL of HTTP without a user, a password and a fragment.
pub(super) fn parse_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    (is_plain && url.has_host() && matches!(url.scheme(), "http" | "https")).then_some(url)
}

/// Parses the URL of an issuer, which has no query (RFC 8414, section 2).
pub(super) fn parse_issuer(text: &str) -> Option<Url> {
    parse_url(text).filter(|url| url.query().is_none())
}
