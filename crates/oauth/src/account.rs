//! The login of one principal, or of all, to one server: its token, renewals, and what a refusal means.
//!
//! ```text
//!            nobody logged in ── 401 ──► login required ◄── invalid_grant, or a new token is refused ──┐
//!                    │                        │                                                        │
//!                    └───────── login ────────┴──────────► logged in ── due, expired or refused ► renewal
//!                                                              ▲                                       │
//!                                                              └── new token, or the old one is kept ◄─┘
//! ```
//!
//! Invariants: one renewal runs at a time, also among processes that share the vault. It continues when its caller leaves:
//! a rotated refresh token works once (RFC 9700, section 4.14.2). A renewal is saved only in the place of the login that it
//! renews. A failure that time can cure keeps the token, and the next renewal waits. While a login is required, no request is
//! sent. A request is repeated at most once, with another token.
//!
//! Not here: how a person logs in (`logins`), the requests themselves (`token`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http::{HeaderMap, HeaderValue, StatusCode};
use secrecy::SecretString;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, oneshot, watch};
use tokio::time::{Instant, timeout};

use crate::held::ActiveLogin;
use crate::limits::bounded_scopes;
use crate::saved::SavedLogin;
use crate::shared::{NO_LOGIN, Shared, lock};
use crate::{Challenge, Error, Grant, Per, union};
use runtime::worker::now;

/// The first and the longest pause after a renewal that failed for a while.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Limit of scopes that are asked for beside the usual ones.
const MAX_SCOPES: usize = 64;

/// How often the vault is looked at for a login that another process has made.
const LOOK_EVERY: Duration = Duration::from_secs(5);

const OWN_LOGIN: &str = "each principal logs in for itself (`per: principal`)";

/// One login to one server. It is shared by all connections that use it.
pub struct Account {
    shared: Arc<Shared>,
    principal: Option<Arc<str>>,
    held: ArcSwapOption<ActiveLogin>,
    /// The token before, which running requests may carry.
    before: ArcSwapOption<ActiveLogin>,
    /// Why a login is required; `None` while none is.
    required: watch::Sender<Option<Arc<str>>>,
    /// Counts the tokens. A token can be equal to the one before.
    generation: AtomicU64,
    /// The last token that the server refused.
    refused: AtomicU64,
    /// Taken for a renewal.
    turn: Arc<AsyncMutex<()>>,
    pause: Mutex<Option<Pause>>,
    /// Whether the credential of the principal may have another holder. Then no login is saved any more.
    has_ended: AtomicBool,
    /// Scopes that calls lacked.
    missing: Mutex<Vec<String>>,
}

/// The time after a failed renewal in which none is tried.
struct Pause {
    until: Instant,
    next: Duration,
    error: Error,
}

impl Account {
    pub(crate) fn new(shared: Arc<Shared>, principal: Option<Arc<str>>) -> Arc<Self> {
        let login = shared.shelf.login(principal.as_deref());
        Arc::new(Self {
            held: ArcSwapOption::new(login.and_then(ActiveLogin::saved).map(Arc::new)),
            before: ArcSwapOption::empty(),
            required: watch::Sender::new(None),
            generation: AtomicU64::new(1),
            refused: AtomicU64::new(0),
            turn: Arc::default(),
            pause: Mutex::default(),
            has_ended: AtomicBool::new(false),
            missing: Mutex::default(),
            shared,
            principal,
        })
    }

    /// The value of `Authorization` for a request that is sent now. `None`: the server was not seen to demand a token.
    pub async fn header(self: &Arc<Self>) -> Result<Option<HeaderValue>, Error> {
        let is_usable = |held: &&Arc<ActiveLogin>| !held.is_due() && self.required.borrow().is_none();
        if let Some(held) = self.held.load().as_ref().filter(is_usable) {
            return Ok(Some(held.header.clone()));
        }
        Box::pin(self.header_after_renewal()).await
    }

    async fn header_after_renewal(self: &Arc<Self>) -> Result<Option<HeaderValue>, Error> {
        if let Some(reason) = self.required()
            && !self.finds_login()
        {
            return Err(Error::LoginRequired { reason: reason.to_string() });
        }
        let Some(held) = self.held.load_full() else {
            let has_to_log_in = self.shared.was_challenged() && !self.is_machine();
            return if has_to_log_in { Err(Error::login_required(NO_LOGIN)) } else { Ok(None) };
        };
        if self.is_machine() && !self.shared.was_challenged() {
            // Only the challenge may say where the metadata is, so a server is asked for it before a renewal.
            return Ok(held.is_valid().then(|| held.header.clone()));
        }
        if held.is_valid() {
            // The token is still good: nobody waits for the renewal.
            if let Ok(turn) = Arc::clone(&self.turn).try_lock_owned() {
                drop(self.renewal(turn, Some(held.header.clone())));
            }
            return Ok(Some(held.header.clone()));
        }
        let turn = Arc::clone(&self.turn).lock_owned().await;
        self.renewed_by(turn, Some(&held.header)).await.map(Some)
    }

    /// Whether to repeat a request that the server answered with 401 or 403. `sent` is the header that it had.
    pub async fn refused(
        self: &Arc<Self>,
        sent: Option<&HeaderValue>,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<bool, Error> {
        if self.held.load().as_ref().map(|held| &held.header) == sent {
            self.refused.store(self.generation.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let challenge = Challenge::of(headers);
        if status == StatusCode::FORBIDDEN {
            return match challenge.filter(Challenge::is_insufficient_scope) {
                Some(challenge) => self.lacks_scope(sent, &challenge).await,
                None => Ok(false),
            };
        }
        self.shared.record(challenge);
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let held = self.held.load_full();
        match (&held, sent) {
            (Some(held), sent) if sent != Some(&held.header) => return Ok(true),
            (Some(held), _) if held.is_fresh() => {
                return Err(self.require("the server refuses the token of the login"));
            }
            (None, _) if !self.is_machine() => return Err(self.require(NO_LOGIN)),
            _ => {}
        }
        self.renewed_by(turn, sent).await.map(|_| true)
    }

    /// Resolves when a login is there that the server has not refused, whichever process has made it.
    pub async fn renewed(&self) {
        let mut required = self.required.subscribe();
        let is_there = |reason: &Option<Arc<str>>| {
            let is_new = self.generation.load(Ordering::Relaxed) != self.refused.load(Ordering::Relaxed);
            reason.is_none() && is_new && self.held.load().is_some()
        };
        loop {
            // The sender lives as long as this account.
            match timeout(LOOK_EVERY, required.wait_for(is_there)).await {
                Ok(_) => return,
                Err(_) => self.finds_login(),
            };
        }
    }

    /// Begins to use the login that another process has put into the vault since this one required it.
    fn finds_login(&self) -> bool {
        let is_known = |saved: &ActiveLogin| {
            let known = [&self.held, &self.before].map(ArcSwapOption::load_full);
            known.iter().flatten().any(|known| known.header == saved.header)
        };
        if self.required.borrow().is_none() {
            return false;
        }
        let found = self.saved().filter(|saved| !is_known(saved));
        found.map(|saved| self.adopt(saved)).is_some()
    }

    /// The token, the one before, and the secrets of the registration.
    pub(crate) fn secrets(&self) -> Vec<SecretString> {
        let all = [&self.held, &self.before].map(ArcSwapOption::load_full);
        all.iter().flatten().flat_map(|held| held.secrets()).collect()
    }

    pub(crate) fn required(&self) -> Option<Arc<str>> {
        if self.principal.is_none()
            && self.shared.settings.per == Per::Principal
            && self.shared.was_challenged()
        {
            return Some(OWN_LOGIN.into());
        }
        self.required.borrow().clone()
    }

    pub(crate) fn held(&self) -> Option<Arc<ActiveLogin>> {
        self.held.load_full()
    }

    /// The scopes that calls lacked, and those that the token had.
    pub(crate) fn missing_scopes(&self) -> Vec<String> {
        lock(&self.missing).clone()
    }

    /// Begins to use `held`. Returns its header.
    fn adopt(&self, held: ActiveLogin) -> HeaderValue {
        let header = held.header.clone();
        self.before.store(self.held.swap(Some(Arc::new(held))));
        self.shared.changed();
        *lock(&self.pause) = None;
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.required.send_replace(None);
        header
    }

    /// Saves `login` and begins to use it.
    pub(crate) async fn log_in(&self, login: SavedLogin) -> Result<(), Error> {
        let _turn = self.turn.lock().await;
        // A renewal by another process would replace the new login. If it hangs, the login is saved all the same.
        let _lease = self.shared.shelf.lease(self.principal.as_deref()).await.ok();
        let held = self.received(login).await?;
        lock(&self.missing).clear();
        self.adopt(held);
        Ok(())
    }

    /// Forgets the login. Returns the last one.
    pub(crate) async fn forget(&self, reason: &str) -> Result<Option<Arc<ActiveLogin>>, auth::vault::Error> {
        let _turn = self.turn.lock().await;
        let _lease = self.shared.shelf.lease(self.principal.as_deref()).await.ok();
        self.shared.shelf.remove_login(self.principal.as_deref()).await?;
        let held = self.held.swap(None);
        self.before.store(held.clone());
        self.shared.changed();
        self.required.send_replace(Some(reason.into()));
        Ok(held)
    }

    /// Records that a login is required.
    fn require(&self, reason: &str) -> Error {
        self.required.send_replace(Some(reason.into()));
        Error::login_required(reason)
    }

    /// Ends it, because the credential of the principal may have another holder.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    fn is_machine(&self) -> bool {
        self.shared.settings.grant != Grant::AuthorizationCode
    }

    async fn lacks_scope(
        self: &Arc<Self>,
        sent: Option<&HeaderValue>,
        challenge: &Challenge,
    ) -> Result<bool, Error> {
        let requested: Vec<String> =
            challenge.scope.iter().flat_map(|scope| scope.split_whitespace()).map(str::to_owned).collect();
        let requested = bounded_scopes(requested);
        let granted = self.held.load_full().map(|held| held.login.tokens.scopes.clone()).unwrap_or_default();
        if requested.iter().all(|scope| granted.contains(scope)) {
            // Another login would not give more: the caller gets the refusal.
            return Ok(false);
        }
        let is_new = {
            let mut missing = lock(&self.missing);
            let before = std::mem::take(&mut *missing);
            *missing = union(&union(&before, &granted), &requested);
            missing.truncate(MAX_SCOPES);
            *missing != before
        };
        if self.is_machine() && !self.shared.settings.takes_server_scopes {
            return Ok(false);
        }
        if self.is_machine() {
            // The machine asks for the scopes once; refused again, they are not to be had.
            if !is_new {
                return Ok(false);
            }
            let turn = Arc::clone(&self.turn).lock_owned().await;
            return self.renewed_by(turn, sent).await.map(|_| true);
        }
        let shown = settings::one_line(&requested.join(" "));
        Err(Error::ScopeRequired { reason: format!("the call needs a login with the scopes: {shown}") })
    }

    /// Returns a header other than `refused`, renewed if need be.
    async fn renewed_by(
        self: &Arc<Self>,
        turn: OwnedMutexGuard<()>,
        refused: Option<&HeaderValue>,
    ) -> Result<HeaderValue, Error> {
        if let Some(held) =
            self.held.load_full().filter(|held| Some(&held.header) != refused && held.is_valid())
        {
            return Ok(held.header.clone());
        }
        let done = self.renewal(turn, refused.cloned());
        done.await.unwrap_or_else(|_| Err(Error::later("the gateway is shutting down")))
    }

    /// Renews the token in a task of its own.
    fn renewal(
        self: &Arc<Self>,
        turn: OwnedMutexGuard<()>,
        refused: Option<HeaderValue>,
    ) -> oneshot::Receiver<Result<HeaderValue, Error>> {
        let (done, result) = oneshot::channel();
        let account = Arc::clone(self);
        self.shared.shutdown.spawn(async move {
            let result = account.renew(refused.as_ref()).await;
            drop(turn);
            let _ = done.send(result); // the caller may have left
        });
        result
    }

    async fn renew(&self, refused: Option<&HeaderValue>) -> Result<HeaderValue, Error> {
        let _lease = self.shared.shelf.lease(self.principal.as_deref()).await?;
        let saved = self.saved();
        let is_another = |saved: &ActiveLogin| Some(&saved.header) != refused && saved.is_valid();
        let held = match saved {
            Some(saved) if is_another(&saved) => return Ok(self.adopt(saved)),
            Some(saved) => Some(Arc::new(saved)),
            None => self.held.load_full(),
        };
        if let Some(reason) =
            held.as_ref().filter(|_| !self.is_machine()).and_then(|held| self.shared.foreign(&held.login))
        {
            return Err(self.require(&reason));
        }
        self.check_pause()?;
        match self.shared.renewed(held.as_deref(), &self.missing_scopes()).await {
            Ok(login) => {
                let of_saved = held.filter(|held| !self.is_machine() && held.is_saved);
                let received = match of_saved {
                    Some(renewed) => self.renewed_in_place(login, &renewed.login).await?,
                    None => Some(self.received(login).await?),
                };
                let gone = || self.end_login("the login was removed");
                received.map(|held| self.adopt(held)).ok_or_else(gone)
            }
            Err(Error::LoginRequired { reason }) => {
                if let Err(error) = self.shared.shelf.remove_login(self.principal.as_deref()).await {
                    tracing::error!(server = %self.shared.shelf.server, %error, "a login could not be removed");
                }
                Err(self.end_login(&reason))
            }
            Err(error) => Err(self.wait_after(error)),
        }
    }

    /// Ends the login in memory, because of `reason`.
    fn end_login(&self, reason: &str) -> Error {
        self.before.store(self.held.swap(None));
        self.shared.changed();
        self.require(reason)
    }

    /// Saves `login` in the place of `renewed`, which the vault has. `None` if somebody removed that meanwhile: a command of the
    /// operator revoked the key of the principal, or another process logged out, and may have logged in again.
    async fn renewed_in_place(
        &self,
        login: SavedLogin,
        renewed: &SavedLogin,
    ) -> Result<Option<ActiveLogin>, Error> {
        let (store, principal) = (&self.shared.shelf, self.principal.as_deref());
        let mut held = self.accepted(login)?;
        if let Some(is_saved) = store.replace_login(principal, &held.login, renewed).await {
            held.is_saved = is_saved;
            return Ok(Some(held));
        }
        // Some services end all logins of a person with one token, so another login keeps this one from being revoked.
        if store.login(principal).is_none() {
            self.shared.revoke_deleted(&held.login).await;
        }
        Ok(None)
    }

    fn accepted(&self, login: SavedLogin) -> Result<ActiveLogin, Error> {
        if self.has_ended.load(Ordering::Relaxed) {
            return Err(self.require("the credential of the principal changed"));
        }
        ActiveLogin::received(login)
    }

    /// Saves a login that the authorization server gave just now.
    async fn received(&self, login: SavedLogin) -> Result<ActiveLogin, Error> {
        let mut held = self.accepted(login)?;
        held.is_saved = self.shared.shelf.save_login(self.principal.as_deref(), &held.login).await;
        Ok(held)
    }

    /// The login of the vault, which another process may have renewed. `None` if the vault has an older one than this
    /// process, which could not save it.
    fn saved(&self) -> Option<ActiveLogin> {
        let is_behind = self.held.load().as_ref().is_some_and(|held| !held.is_saved);
        if is_behind {
            None
        } else {
            self.shared.shelf.login(self.principal.as_deref()).and_then(ActiveLogin::saved)
        }
    }

    fn check_pause(&self) -> Result<(), Error> {
        match &*lock(&self.pause) {
            Some(pause) if now() < pause.until => Err(pause.error.clone()),
            _ => Ok(()),
        }
    }

    /// Delays the next renewal after `error`.
    fn wait_after(&self, error: Error) -> Error {
        let has_ended = self.held.load().as_ref().is_some_and(|held| !held.is_valid());
        if has_ended && !matches!(error, Error::Later { .. }) {
            // A connection that waits for another login must not take this one for it.
            self.refused.store(self.generation.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let delay = if let Error::Later { retry_after, .. } = &error { *retry_after } else { None };
        let mut pause = lock(&self.pause);
        let (first, longest) = PAUSES;
        let next = pause.as_ref().map_or(first, |pause| pause.next);
        let jittered = next.mul_f64(0.5 + rand::random::<f64>() / 2.0);
        let until = now() + delay.unwrap_or(jittered).min(longest);
        *pause = Some(Pause { until, next: (next * 2).min(longest), error: error.clone() });
        tracing::warn!(server = %self.shared.shelf.server, %error, "the token could not be renewed and is kept");
        error
    }
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").finish_non_exhaustive()
    }
}
