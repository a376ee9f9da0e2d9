//! Sessions of browsers: a cookie stands for a principal that has signed in.
//!
//! Invariants: a session is never worth more than its credential. The credential is checked again for every request of
//! the session, so an expired, revoked or changed one ends it. A session is ended after 30 minutes without use, and
//! after 8 hours in any case. The number of sessions is limited in sum and for each principal; the one that was not used
//! for the longest time makes room. The table has hashes of the cookies and not the cookies.
//!
//! The memory of all sessions is at most about 40 MiB: 4,096 sessions with a token of 8 KiB each. Only principals with
//! valid credentials take part.
//!
//! Scripts cannot read a cookie (`HttpOnly`). Over HTTPS it has the prefix `__Host-`, so neither another
//! host of the same domain nor a page over HTTP can set it. Over plain HTTP, which is for loopback, the name has the
//! port, because browsers send the cookies of all ports of a host. A name that occurs twice is not read.
//!
//! Not here: what a page shows to whom.
//!
//! Source: RFC 6265bis, sections 4.1.2 and 4.1.3.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue};
use rand::TryRng;
use rand::rngs::SysRng;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};
use url::Url;

use auth::{Authenticator, Denied, Principal, Reason};

/// Most sessions.
pub(crate) const MAX_SESSIONS: usize = 4_096;
/// Most sessions of one principal.
pub(crate) const MAX_PER_PRINCIPAL: usize = 16;
/// Most values that can be redeemed in one session.
const MAX_MARKS: usize = 8;
/// After this time without use, a session is ended.
const IDLE: Duration = Duration::from_mins(30);
/// After this time, a session is ended.
const LIFETIME: Duration = Duration::from_hours(8);
/// Between two searches for ended sessions.
const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// The part of the program that knows the visitors of pages.
#[derive(Debug)]
pub(crate) enum Visitors {
    /// Switchyard: a visitor signs in with a credential, or needs none if authentication is off.
    Credentials(Arc<Authenticator>),
    /// The program that embeds Switchyard, with a [`Principal`] among the extensions of each request.
    Host,
}

/// The sessions of all browsers.
#[derive(Debug)]
pub struct BrowserSessions {
    visitors: Visitors,
    table: Mutex<HashMap<Id, StoredSession>>,
}

/// The SHA-256 of a cookie.
type Id = [u8; 32];

#[derive(Debug)]
struct StoredSession {
    principal: Principal,
    /// None if the principal needed none, the host program authenticated it, or it is a person of a login service.
    credential: Option<Arc<SecretString>>,
    csrf: Arc<str>,
    started: Instant,
    used: Instant,
    marks: VecDeque<String>,
}

impl StoredSession {
    fn is_alive(&self, now: Instant) -> bool {
        now.duration_since(self.used) < IDLE && now.duration_since(self.started) < LIFETIME
    }
}

/// One session, as a page uses it.
#[derive(Clone)]
pub struct BrowserSession {
    id: Id,
    principal: Principal,
    csrf: Arc<str>,
}

impl BrowserSession {
    /// Returns a name of the session that is not its cookie.
    pub(crate) fn name(&self) -> String {
        hex::encode(self.id)
    }

    /// The principal that has signed in.
    pub(crate) const fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The token that each form of this session must have.
    pub(crate) fn csrf(&self) -> &str {
        &self.csrf
    }
}

/// A session that has just begun, and the value of its cookie.
pub(crate) struct NewSession {
    pub(crate) cookie: SecretString,
    pub(crate) session: BrowserSession,
}

impl BrowserSessions {
    pub(crate) fn new(visitors: Visitors) -> Self {
        Self { visitors, table: Mutex::default() }
    }

    /// Whether the host program authenticates the visitors.
    pub(crate) const fn is_of_host(&self) -> bool {
        matches!(self.visitors, Visitors::Host)
    }

    /// Returns the principal of a visitor without a credential. `from_host` is the one that the host program found.
    pub(crate) fn without_sign_in(&self, from_host: Option<&Principal>) -> Option<Principal> {
        match &self.visitors {
            Visitors::Host => from_host.cloned(),
            Visitors::Credentials(authenticator) => authenticator.authenticate(&HeaderMap::new()).ok(),
        }
    }

    /// Returns the session of `cookie`, if its credential is still valid. `from_host` as above.
    pub(crate) async fn find(&self, cookie: &str, from_host: Option<&Principal>) -> Option<BrowserSession> {
        let id: Id = Sha256::digest(cookie).into();
        let (session, credential) = self.used(id)?;
        let current = match (credential, session.principal.person()) {
            (Some(credential), _) => self.checked(&credential).await,
            (None, Some(person)) if person.until > SystemTime::now() => Ok(session.principal.clone()),
            (None, Some(_)) => Err(Denied::Credential(Reason::Expired)),
            (None, None) => self.without_sign_in(from_host).ok_or(Denied::Missing),
        };
        let is_same = current.as_ref().is_ok_and(|current| *current == session.principal);
        if is_same && !session.principal.is_revoked() {
            return Some(session);
        }
        // A check that was not made says nothing, and the host program may know another visitor with this cookie.
        let is_known = !matches!(current, Err(Denied::Busy | Denied::KeysUnavailable { .. }));
        if is_known && !self.is_of_host() {
            self.end(&session);
        }
        None
    }

    /// Begins a session for the holder of `credential`. A client cannot sign in as the person that it acts for: it would agree
    /// to more than it got.
    pub(crate) async fn sign_in(&self, credential: SecretString) -> Result<NewSession, Denied> {
        let principal = self.checked(&credential).await?;
        if principal.is_of_grant() {
            return Err(Denied::Credential(Reason::Audience));
        }
        Ok(self.insert(principal, Some(Arc::new(credential))))
    }

    /// Begins a session for a principal that needs no credential, or that the login service has named.
    pub(crate) fn begin(&self, principal: Principal) -> NewSession {
        self.insert(principal, None)
    }

    /// Ends a session.
    pub(crate) fn end(&self, session: &BrowserSession) {
        self.lock().remove(&session.id);
    }

    /// Ends all sessions of `principal`, an id, and the streams of a person of the login service.
    pub fn end_of(&self, principal: &str) {
        self.lock().retain(|_, entry| {
            let is_other = **entry.principal.id() != *principal;
            if !is_other {
                entry.principal.end_login();
            }
            is_other
        });
    }

    /// Makes a value that can be redeemed once in this session. The oldest of many is forgotten.
    pub(crate) fn mark(&self, session: &BrowserSession) -> Option<String> {
        let mark = random();
        let mut table = self.lock();
        let marks = &mut table.get_mut(&session.id)?.marks;
        if marks.len() == MAX_MARKS {
            marks.pop_front();
        }
        marks.push_back(mark.clone());
        Some(mark)
    }

    /// Redeems a value of [`Self::mark`]. False if it was redeemed before, or belongs to another session.
    pub(crate) fn redeem(&self, session: &BrowserSession, mark: &str) -> bool {
        let mut table = self.lock();
        let Some(entry) = table.get_mut(&session.id) else { return false };
        let before = entry.marks.len();
        entry.marks.retain(|known| known != mark);
        entry.marks.len() < before
    }

    /// Removes sessions whose time is over or whose credential was revoked.
    pub fn sweep(&self) {
        let now = Instant::now();
        self.lock().retain(|_, entry| entry.is_alive(now) && !entry.principal.is_revoked());
    }

    /// Sweeps regularly, so that credentials do not stay in memory.
    pub async fn sweep_forever(&self) {
        loop {
            sleep(SWEEP_EVERY).await;
            self.sweep();
        }
    }

    /// Returns the number of sessions.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    async fn checked(&self, credential: &SecretString) -> Result<Principal, Denied> {
        let Visitors::Credentials(authenticator) = &self.visitors else { return Err(Denied::Missing) };
        let text = SecretString::from(format!("Bearer {}", credential.expose_secret()));
        let mut value =
            HeaderValue::from_str(text.expose_secret()).map_err(|_| Denied::Credential(Reason::NotBearer))?;
        value.set_sensitive(true);
        authenticator.check(&HeaderMap::from_iter([(AUTHORIZATION, value)])).await
    }

    /// Returns the session `id` and notes its use.
    fn used(&self, id: Id) -> Option<(BrowserSession, Option<Arc<SecretString>>)> {
        let (now, mut table) = (Instant::now(), self.lock());
        let entry = table.get_mut(&id)?;
        if !entry.is_alive(now) {
            table.remove(&id);
            return None;
        }
        entry.used = now;
        let session =
            BrowserSession { id, principal: entry.principal.clone(), csrf: Arc::clone(&entry.csrf) };
        Some((session, entry.credential.clone()))
    }

    fn insert(&self, principal: Principal, credential: Option<Arc<SecretString>>) -> NewSession {
        let (cookie, csrf, now) = (SecretString::from(random()), Arc::from(random()), Instant::now());
        let id: Id = Sha256::digest(cookie.expose_secret()).into();
        let session = BrowserSession { id, principal: principal.clone(), csrf: Arc::clone(&csrf) };
        let mut table = self.lock();
        make_room(&mut table, &principal, now);
        let marks = VecDeque::new();
        table.insert(id, StoredSession { principal, credential, csrf, started: now, used: now, marks });
        NewSession { cookie, session }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, StoredSession>> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes sessions until `principal` may have one more.
fn make_room(table: &mut HashMap<Id, StoredSession>, principal: &Principal, now: Instant) {
    table.retain(|_, entry| entry.is_alive(now));
    let is_own = |entry: &StoredSession| entry.principal.id() == principal.id();
    if table.values().filter(|entry| is_own(entry)).count() >= MAX_PER_PRINCIPAL {
        remove_oldest(table, is_own);
    }
    if table.len() >= MAX_SESSIONS {
        remove_oldest(table, |_| true);
    }
}

/// Removes the session that was not used for the longest time among those that `fit`.
fn remove_oldest(table: &mut HashMap<Id, StoredSession>, fit: impl Fn(&StoredSession) -> bool) {
    let oldest = table.iter().filter(|(_, entry)| fit(entry)).min_by_key(|(_, entry)| entry.used);
    if let Some(id) = oldest.map(|(id, _)| *id) {
        table.remove(&id);
    }
}

/// Returns 256 random bits as text.
///
/// # Panics
/// If the system gives no random bytes, because cookies would not be safe without them.
pub(crate) fn random() -> String {
    let mut bytes = [0; 32];
    SysRng.try_fill_bytes(&mut bytes).expect("the system gives random bytes");
    URL_SAFE_NO_PAD.encode(bytes)
}

/// When a browser sends a cookie with requests that other sites cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SameSite {
    /// With links and redirects from other sites, but not with their forms and images. The login service sends the
    /// browser back by such a redirect, so the session needs this value.
    Lax,
    /// Never.
    Strict,
}

/// The form of cookies under one base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cookies {
    is_secure: bool,
    port: Option<u16>,
}

impl Cookies {
    /// Cookies of the pages below `base`.
    pub(crate) fn of(base: &str) -> Self {
        let port = Url::parse(base).ok().and_then(|url| url.port_or_known_default());
        Self { is_secure: base.starts_with("https://"), port }
    }

    fn name(&self, purpose: &str) -> String {
        match self.port {
            Some(port) if !self.is_secure => format!("switchyard-{purpose}-{port}"),
            _ if self.is_secure => format!("__Host-switchyard-{purpose}"),
            _ => format!("switchyard-{purpose}"),
        }
    }

    /// Returns the value of the only cookie for `purpose`.
    pub(crate) fn read<'h>(&self, purpose: &str, headers: &'h HeaderMap) -> Option<&'h str> {
        let name = self.name(purpose);
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut values = pairs.filter(|(found, _)| *found == name).map(|(_, value)| value);
        values.next().filter(|_| values.next().is_none())
    }

    /// Returns the header that sets the cookie for `purpose` until the browser is closed.
    pub(crate) fn set(&self, purpose: &str, value: &str, same_site: SameSite) -> Option<HeaderValue> {
        self.header(purpose, value, same_site, "")
    }

    /// Returns the header that deletes the cookie for `purpose`.
    pub(crate) fn delete(&self, purpose: &str) -> Option<HeaderValue> {
        self.header(purpose, "", SameSite::Lax, "; Max-Age=0")
    }

    fn header(&self, purpose: &str, value: &str, same_site: SameSite, end: &str) -> Option<HeaderValue> {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let name = self.name(purpose);
        let text = format!("{name}={value}; Path=/; HttpOnly; SameSite={same_site:?}{secure}{end}");
        let mut header = HeaderValue::try_from(text).ok()?;
        header.set_sensitive(true);
        Some(header)
    }
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
