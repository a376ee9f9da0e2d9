//! Who we are at R2R: a token that is renewed in time, a key, or nobody.
//!
//! ```text
//!   log in ──► valid ── five minutes before its end ──► valid, being renewed ──► valid
//!     │          │                                           ▲    │ refused: log in
//!     │          └── refused by R2R (401) ──► being renewed ─┘    │ unreachable: as before
//!     └── refused ──► ( refused: nothing is tried any more ) ◄────┘ login refused
//! ```
//!
//! Invariants: one renewal at a time, for everybody who waits, and whoever leaves does not end it for
//! the others; refused credentials are never sent again; a fault of the network is no refusal; a
//! secret is in no log and no error. Times come from the token itself: how long it lives, by R2R's
//! clock, counted by ours from before it was asked for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Method;
use serde::de::IgnoredAny;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::client::VERSION;
use super::token::{self, Token};
use crate::r2r::config::Credentials;
use crate::rest::{Request, Rest};
use runtime::secret::SecretString;
use runtime::shutdown::Shutdown;
use upstream::api::{Closing, Error};

/// Time to log in or to renew.
const LIMIT: Duration = Duration::from_secs(20);
/// Time to find out whether R2R takes whoever comes.
const LOOK_LIMIT: Duration = Duration::from_secs(2);
/// Time after a renewal that failed in which none is tried, as long as the token is still good.
const QUIET: Duration = Duration::from_secs(5);

/// Who we are at one R2R.
pub(super) struct Session {
    rest: Rest,
    credentials: Credentials,
    shutdown: Shutdown,
    state: Mutex<State>,
    /// Why R2R refuses us, once it did.
    refusal: Closing,
}

struct State {
    pass: Pass,
    renewal: Option<Renewal>,
    /// No renewal ahead of time before this: one has just failed.
    quiet_until: Instant,
}

/// Ends with what came of it.
type Renewal = watch::Receiver<Option<Result<(), Error>>>;

/// What a request shows of who we are.
#[derive(Clone)]
pub(super) struct Pass {
    /// Counts renewals, so that one that is already done is not done again.
    number: u64,
    shown: Shown,
}

#[derive(Clone)]
enum Shown {
    Nothing,
    Key(SecretString),
    Token(Arc<Token>),
}

impl Pass {
    /// The request with it.
    pub(super) fn on(&self, request: Request) -> Request {
        match &self.shown {
            Shown::Nothing => request,
            Shown::Key(key) => request.bearer(key),
            Shown::Token(token) => request.bearer(&token.access),
        }
    }
}

/// What to do about a pass.
enum Choice {
    Take(Pass),
    Wait(Renewal),
}

impl Session {
    /// Shows who we are for the first time.
    pub(super) async fn open(
        rest: Rest,
        credentials: Credentials,
        shutdown: &Shutdown,
    ) -> Result<Arc<Self>, Error> {
        let opening = first(&rest, &credentials);
        let shown = timeout(LIMIT, opening).await.unwrap_or_else(|_| Err(late()))?;
        if !matches!(shown, Shown::Nothing) {
            warn_if_open(&rest).await;
        }
        let state = State { pass: Pass { number: 0, shown }, renewal: None, quiet_until: Instant::now() };
        Ok(Arc::new(Self {
            rest,
            credentials,
            shutdown: shutdown.clone(),
            state: Mutex::new(state),
            refusal: Closing::default(),
        }))
    }

    /// What to show now. Waits only when what we have has ended.
    pub(super) async fn pass(self: &Arc<Self>) -> Result<Pass, Error> {
        self.taken(Self::choose).await
    }

    /// What to show after R2R refused `pass` with `error`.
    pub(super) async fn renewed(self: &Arc<Self>, pass: &Pass, error: Error) -> Result<Pass, Error> {
        let renewed = self.taken(|session| session.choose_instead(pass)).await?;
        // It is what was refused: we are who we say, and may not do this.
        if renewed.number == pass.number { Err(error) } else { Ok(renewed) }
    }

    /// Resolves when our credentials have been refused, with the reason.
    pub(super) async fn refused(&self) -> String {
        self.refusal.wait().await
    }

    async fn taken(self: &Arc<Self>, choose: impl Fn(&Arc<Self>) -> Choice) -> Result<Pass, Error> {
        self.check()?;
        let mut renewal = match choose(self) {
            Choice::Take(pass) => return Ok(pass),
            Choice::Wait(renewal) => renewal,
        };
        let done = renewal.wait_for(Option::is_some).await.ok().and_then(|done| done.clone());
        done.unwrap_or(Err(Error::Unavailable { state: "shutting down" }))?;
        Ok(self.lock().pass.clone())
    }

    fn choose(self: &Arc<Self>) -> Choice {
        let mut state = self.lock();
        let Shown::Token(token) = &state.pass.shown else { return Choice::Take(state.pass.clone()) };
        let now = Instant::now();
        let has_ended = token.has_ended(now);
        if !has_ended && (!token.is_due(now) || now < state.quiet_until) {
            return Choice::Take(state.pass.clone());
        }
        let renewal = self.renewal(&mut state);
        if has_ended { Choice::Wait(renewal) } else { Choice::Take(state.pass.clone()) }
    }

    fn choose_instead(self: &Arc<Self>, refused: &Pass) -> Choice {
        let mut state = self.lock();
        if state.pass.number != refused.number {
            return Choice::Take(state.pass.clone());
        }
        Choice::Wait(self.renewal(&mut state))
    }

    /// The renewal under way, or a new one: a task of its own, so that it belongs to nobody who waits.
    fn renewal(self: &Arc<Self>, state: &mut State) -> Renewal {
        if let Some(renewal) = &state.renewal {
            return renewal.clone();
        }
        // Who looked before we were refused and comes after it begins nothing anew.
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

    fn conclude(&self, renewed: Result<Option<Shown>, Error>) -> Result<(), Error> {
        let mut state = self.lock();
        state.renewal = None;
        match renewed {
            Ok(Some(shown)) => state.pass = Pass { number: state.pass.number + 1, shown },
            Ok(None) => {}
            Err(error) => {
                state.quiet_until = Instant::now() + QUIET;
                // Before the lock is given back: nobody finds neither a renewal nor the refusal.
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

    /// [`Error::AuthFailed`] once we were refused.
    fn check(&self) -> Result<(), Error> {
        if !self.refusal.is_closed() {
            return Ok(());
        }
        Err(Error::AuthFailed { reason: self.refusal.reason() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn late() -> Error {
    Error::TimedOut { after: LIMIT }
}

/// What to show first.
async fn first(rest: &Rest, credentials: &Credentials) -> Result<Shown, Error> {
    let shown = match credentials {
        Credentials::Account { email, password } => {
            let token = token::log_in(rest, email, password).await?;
            return Ok(Shown::Token(Arc::new(token)));
        }
        Credentials::ApiKey(key) => Shown::Key(key.clone()),
        Credentials::None => Shown::Nothing,
    };
    look(rest, &shown).await?;
    Ok(shown)
}

/// Whether R2R takes what we show.
async fn look(rest: &Rest, shown: &Shown) -> Result<(), Error> {
    let pass = Pass { number: 0, shown: shown.clone() };
    let request = rest.request(Method::GET, &[VERSION, "users", "me"]);
    let answer = pass.on(request).send().await.map_err(|error| match error {
        Error::Backend { status: 400 | 401 | 403, detail, .. } => {
            Error::AuthFailed { reason: refused(shown, &detail) }
        }
        other => other,
    })?;
    // It has the hash of the password: nothing of it is kept.
    answer.json::<IgnoredAny>().await.map(drop)
}

/// Says so if R2R takes whoever comes, as it is shipped. No answer in time is no harm.
async fn warn_if_open(rest: &Rest) {
    if is_open_to_all(rest).await {
        tracing::warn!(
            "R2R answers callers without credentials, and takes each for its administrator: set \
             require_authentication = true in its r2r.toml"
        );
    }
}

pub(super) async fn is_open_to_all(rest: &Rest) -> bool {
    matches!(timeout(LOOK_LIMIT, look(rest, &Shown::Nothing)).await, Ok(Ok(())))
}

fn refused(shown: &Shown, detail: &str) -> String {
    match shown {
        Shown::Nothing => "R2R wants credentials; give `email` and `password`, or `api_key`".into(),
        Shown::Key(_) => format!("R2R does not take the key ({detail}); check `api_key`"),
        Shown::Token(_) => format!("R2R does not take its own token ({detail})"),
    }
}

/// What to show instead of `shown`; none when that is as good as ever.
async fn renew(rest: &Rest, credentials: &Credentials, shown: &Shown) -> Result<Option<Shown>, Error> {
    let (Credentials::Account { email, password }, Shown::Token(token)) = (credentials, shown) else {
        return look(rest, shown).await.map(|()| None);
    };
    let token = match token::refresh(rest, token).await {
        // The refresh token may end before the access token, and ends when R2R is set up anew.
        Err(Error::Backend { status: 400..=499, .. }) => token::log_in(rest, email, password).await,
        refreshed => refreshed,
    }?;
    Ok(Some(Shown::Token(Arc::new(token))))
}
