//! Authenticates Switchyard at R2R: with a token that is renewed in time, with a key, or without credentials.
//!
//! ```text
//!   log in ──► valid ── five minutes before its end ──► valid, being renewed ──► valid
//!     │          │                                           ▲    │ refused: log in
//!     │          └── refused by R2R (401) ──► being renewed ─┘    │ unreachable: as before
//!     └── refused ──► ( refused: nothing is tried any more ) ◄────┘ login refused
//! ```
//!
//! Invariants: at most one renewal runs at a time, and all callers that need it wait for it. A caller that is
//! cancelled does not end it for the others. Refused credentials are never sent again. A network failure does
//! not count as a refusal. No log line and no error contains a secret. The lifetime of a token is read from
//! the token itself, by the clock of R2R. It is counted by Switchyard's clock from before the token was
//! requested.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Method;
use serde::de::IgnoredAny;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::model::VERSION;
use super::token::{self, TokenPair};
use crate::r2r::config::Credentials;
use crate::rest::{Rest, RestRequest};
use runtime::secret::SecretString;
use runtime::shutdown::Shutdown;
use upstream::api::{Closing, Error};

/// Maximum time of a login or a renewal.
const LIMIT: Duration = Duration::from_secs(20);
/// Maximum time to find out whether R2R accepts requests without credentials.
const LOOK_LIMIT: Duration = Duration::from_secs(2);
/// Pause after a failed renewal, as long as the token is still valid.
const QUIET: Duration = Duration::from_secs(5);

/// The authentication of Switchyard at one R2R.
pub(super) struct Session {
    rest: Rest,
    credentials: Credentials,
    shutdown: Shutdown,
    state: Mutex<State>,
    /// Why R2R refused the credentials, once it did.
    refusal: Closing,
}

struct State {
    pass: SessionCredential,
    renewal: Option<Renewal>,
    /// No renewal ahead of time begins before this, because one has just failed.
    quiet_until: Instant,
}

/// Resolves to the result of the renewal.
type Renewal = watch::Receiver<Option<Result<(), Error>>>;

/// The credential that a request carries.
#[derive(Clone)]
pub(super) struct SessionCredential {
    /// Counts renewals, so that one that is already done is not repeated.
    number: u64,
    shown: CredentialKind,
}

#[derive(Clone)]
enum CredentialKind {
    Nothing,
    Key(SecretString),
    Token(Arc<TokenPair>),
}

impl SessionCredential {
    /// Adds the credential to `request`.
    pub(super) fn on(&self, request: RestRequest) -> RestRequest {
        match &self.shown {
            CredentialKind::Nothing => request,
            CredentialKind::Key(key) => request.bearer(key),
            CredentialKind::Token(token) => request.bearer(&token.access),
        }
    }
}

/// How to get a credential: take the current one, or wait for a renewal.
enum CredentialChoice {
    Take(SessionCredential),
    Wait(Renewal),
}

impl Session {
    /// Authenticates for the first time.
    pub(super) async fn open(
        rest: Rest,
        credentials: Credentials,
        shutdown: &Shutdown,
    ) -> Result<Arc<Self>, Error> {
        let opening = first(&rest, &credentials);
        let shown = timeout(LIMIT, opening).await.unwrap_or_else(|_| Err(late()))?;
        if !matches!(shown, CredentialKind::Nothing) {
            warn_if_open(&rest).await;
        }
        let state = State {
            pass: SessionCredential { number: 0, shown },
            renewal: None,
            quiet_until: Instant::now(),
        };
        Ok(Arc::new(Self {
            rest,
            credentials,
            shutdown: shutdown.clone(),
            state: Mutex::new(state),
            refusal: Closing::default(),
        }))
    }

    /// Returns the credential to send now. Waits only if the current one has expired.
    pub(super) async fn pass(self: &Arc<Self>) -> Result<SessionCredential, Error> {
        self.taken(Self::choose).await
    }

    /// Returns the credential to send after R2R refused `pass` with `error`.
    pub(super) async fn renewed(
        self: &Arc<Self>,
        pass: &SessionCredential,
        error: Error,
    ) -> Result<SessionCredential, Error> {
        let renewed = self.taken(|session| session.choose_instead(pass)).await?;
        // The renewal has confirmed the same credential: it is valid, but does not permit this request.
        if renewed.number == pass.number { Err(error) } else { Ok(renewed) }
    }

    /// Resolves with the reason once R2R has refused the credentials.
    pub(super) async fn refused(&self) -> String {
        self.refusal.wait().await
    }

    async fn taken(
        self: &Arc<Self>,
        choose: impl Fn(&Arc<Self>) -> CredentialChoice,
    ) -> Result<SessionCredential, Error> {
        self.check()?;
        let mut renewal = match choose(self) {
            CredentialChoice::Take(pass) => return Ok(pass),
            CredentialChoice::Wait(renewal) => renewal,
        };
        let done = renewal.wait_for(Option::is_some).await.ok().and_then(|done| done.clone());
        done.unwrap_or(Err(Error::Unavailable { state: "shutting down" }))?;
        Ok(self.lock().pass.clone())
    }

    fn choose(self: &Arc<Self>) -> CredentialChoice {
        let mut state = self.lock();
        let CredentialKind::Token(token) = &state.pass.shown else {
            return CredentialChoice::Take(state.pass.clone());
        };
        let now = Instant::now();
        let has_ended = token.has_ended(now);
        if !has_ended && (!token.is_due(now) || now < state.quiet_until) {
            return CredentialChoice::Take(state.pass.clone());
        }
        let renewal = self.renewal(&mut state);
        if has_ended { CredentialChoice::Wait(renewal) } else { CredentialChoice::Take(state.pass.clone()) }
    }

    fn choose_instead(self: &Arc<Self>, refused: &SessionCredential) -> CredentialChoice {
        let mut state = self.lock();
        if state.pass.number != refused.number {
            return CredentialChoice::Take(state.pass.clone());
        }
        CredentialChoice::Wait(self.renewal(&mut state))
    }

    /// Returns the running renewal, or starts one. It runs in a task of its own, so that no waiting caller
    /// owns it.
    fn renewal(self: &Arc<Self>, state: &mut State) -> Renewal {
        if let Some(renewal) = &state.renewal {
            return renewal.clone();
        }
        // A caller that checked before the credentials were refused must not start another renewal.
        let refused = self.check().err();
        let is_refused = refused.is_some();
        let (done, renewal) = watch::channel(refused.map(Err));
        if is_refused {
            return renewal;
        }
        state.renewal = Some(renewal.clone());
        let (session, shown) = (Arc::clone(self), state.pass.shown.clone());
        self.shutdown.spawn_until_end(async move {
            let renewing = renew(&session.rest, &session.credentials, &shown);
            let renewed = timeout(LIMIT, renewing).await.unwrap_or_else(|_| Err(late()));
            done.send_replace(Some(session.conclude(renewed)));
        });
        renewal
    }

    fn conclude(&self, renewed: Result<Option<CredentialKind>, Error>) -> Result<(), Error> {
        let mut state = self.lock();
        state.renewal = None;
        match renewed {
            Ok(Some(shown)) => state.pass = SessionCredential { number: state.pass.number + 1, shown },
            Ok(None) => {}
            Err(error) => {
                state.quiet_until = Instant::now() + QUIET;
                // This happens under the lock, so that every caller finds either the renewal or the refusal.
                if let Error::AuthFailed { reason } = &error {
                    self.refusal.close(reason.clone());
                }
                drop(state);
                tracing::warn!(%error, "R2R did not renew our session");
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns [`Error::AuthFailed`] once R2R has refused the credentials.
    fn check(&self) -> Result<(), Error> {
        if !self.refusal.is_closed() {
            return Ok(());
        }
        Err(Error::AuthFailed { reason: self.refusal.reason() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn late() -> Error {
    Error::TimedOut { after: LIMIT }
}

/// Returns the first credential to send.
async fn first(rest: &Rest, credentials: &Credentials) -> Result<CredentialKind, Error> {
    let shown = match credentials {
        Credentials::Account { email, password } => {
            let token = token::log_in(rest, email, password).await?;
            return Ok(CredentialKind::Token(Arc::new(token)));
        }
        Credentials::ApiKey(key) => CredentialKind::Key(key.clone()),
        Credentials::None => CredentialKind::Nothing,
    };
    look(rest, &shown).await?;
    Ok(shown)
}

/// Checks whether R2R accepts the credential.
async fn look(rest: &Rest, shown: &CredentialKind) -> Result<(), Error> {
    let pass = SessionCredential { number: 0, shown: shown.clone() };
    let request = rest.request(Method::GET, &[VERSION, "users", "me"]);
    let answer = pass.on(request).send().await.map_err(|error| match error {
        Error::Backend { status: 400 | 401 | 403, detail, .. } => {
            Error::AuthFailed { reason: refused(shown, &detail) }
        }
        other => other,
    })?;
    // The answer contains the hash of the password, so none of it is stored.
    answer.json::<IgnoredAny>().await.map(drop)
}

/// Logs a warning if R2R accepts callers without credentials, which is its default. If there is no answer in
/// time, it logs nothing.
async fn warn_if_open(rest: &Rest) {
    if is_open_to_all(rest).await {
        tracing::warn!(
            "R2R answers callers without credentials, and takes each for its administrator: set \
             require_authentication = true in its r2r.toml"
        );
    }
}

pub(super) async fn is_open_to_all(rest: &Rest) -> bool {
    matches!(timeout(LOOK_LIMIT, look(rest, &CredentialKind::Nothing)).await, Ok(Ok(())))
}

fn refused(shown: &CredentialKind, detail: &str) -> String {
    match shown {
        CredentialKind::Nothing => "R2R wants credentials; give `email` and `password`, or `api_key`".into(),
        CredentialKind::Key(_) => format!("R2R does not take the key ({detail}); check `api_key`"),
        CredentialKind::Token(_) => format!("R2R does not take its own token ({detail})"),
    }
}

/// Returns the credential to send instead of `shown`, or none if `shown` is still valid.
async fn renew(
    rest: &Rest,
    credentials: &Credentials,
    shown: &CredentialKind,
) -> Result<Option<CredentialKind>, Error> {
    let (Credentials::Account { email, password }, CredentialKind::Token(token)) = (credentials, shown)
    else {
        return look(rest, shown).await.map(|()| None);
    };
    let token = match token::refresh(rest, token).await {
        // The refresh token may expire before the access token, and becomes invalid when R2R is installed
        // again.
        Err(Error::Backend { status: 400..=499, .. }) => token::log_in(rest, email, password).await,
        refreshed => refreshed,
    }?;
    Ok(Some(CredentialKind::Token(Arc::new(token))))
}
