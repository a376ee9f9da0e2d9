//! Values that leave Switchyard in a form or a URL during a login: the agreed redirect, `state`, and the request of a client
//! that a person is asked about.
//!
//! Invariants: each is sealed for its purpose and for one principal, names one browser session, and expires after ten
//! minutes. Before somebody has signed in, a cookie stands for the session. With the same `seal_keys`, another instance opens them too.

use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::destination::{Destination, nobody};
use crate::browser::form::is_equal;
use crate::browser::sessions::BrowserSession;
use auth::Principal;
use authorization::AuthorizationRequest;
use gateway::login_links::{LIFETIME, LoginLinks, is_past, seconds};

/// A value that is sealed.
pub(crate) trait Sealed: Serialize + DeserializeOwned {
    /// The purpose for which alone it can be opened.
    const PURPOSE: &str;
}

impl Sealed for State {
    const PURPOSE: &str = "login state";
}

impl Sealed for ConfirmedRedirect {
    const PURPOSE: &str = "login agreement";
}

impl Sealed for AuthorizationRequest {
    const PURPOSE: &str = "authorization request";
}

impl Sealed for SignInState {
    const PURPOSE: &str = "sign-in state";
}

/// Why a sealed value is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// Changed, invented, or made for another principal.
    Foreign,
    /// Made in another browser session of the principal.
    OtherSession,
    /// Its time is over.
    Expired,
}

/// A content with its session and expiry.
#[derive(Serialize, Deserialize)]
struct Bound<T> {
    session: String,
    expires_at: u64,
    content: T,
}

/// The content of `state`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// Can be redeemed once in the session.
    pub(super) mark: String,
    pub(super) server: String,
    /// The state of the login, which only the login service of the gateway reads.
    pub(super) pending: String,
}

/// The content of `state` while a person signs in at the login service behind the authorization server.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SignInState {
    /// Can be redeemed once.
    pub(super) mark: String,
    /// Its state, which the login service of the gateway needs to finish.
    pub(super) started: String,
    pub(super) destination: Destination,
}

/// The redirect that a person was asked about.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ConfirmedRedirect {
    pub(super) server: String,
    pub(super) url: String,
}

/// Seals `content` for `session`.
pub(crate) fn seal<T: Sealed>(
    links: &LoginLinks,
    session: &BrowserSession,
    content: &T,
    now: SystemTime,
) -> String {
    seal_for(links, (session.principal(), session.name()), content, now)
}

/// Opens `text` if it was sealed for `session`.
pub(crate) fn open<T: Sealed>(
    links: &LoginLinks,
    session: &BrowserSession,
    text: &str,
    now: SystemTime,
) -> Result<T, Rejected> {
    open_for(links, (session.principal(), session.name()), text, now)
}

/// Seals `state` for the browser with the cookie `browser`, in which nobody has signed in yet.
pub(super) fn seal_sign_in(
    links: &LoginLinks,
    browser: &str,
    state: &SignInState,
    now: SystemTime,
) -> String {
    seal_for(links, (&nobody(), name_of(browser)), state, now)
}

/// Opens `text` if it was sealed for the browser with the cookie `browser`.
pub(super) fn open_sign_in(
    links: &LoginLinks,
    browser: &str,
    text: &str,
    now: SystemTime,
) -> Result<SignInState, Rejected> {
    open_for(links, (&nobody(), name_of(browser)), text, now)
}

/// The name of the browser with the cookie `cookie`.
fn name_of(cookie: &str) -> String {
    hex::encode(Sha256::digest(cookie))
}

fn seal_for<T: Sealed>(
    links: &LoginLinks,
    (principal, session): (&Principal, String),
    content: &T,
    now: SystemTime,
) -> String {
    let bound = Bound { session, expires_at: seconds(now + LIFETIME), content };
    // Strings and numbers can always be written as JSON; an empty payload would be refused when it is opened.
    let payload = serde_json::to_vec(&bound).unwrap_or_default();
    links.sealer().seal(T::PURPOSE, principal, &payload)
}

fn open_for<T: Sealed>(
    links: &LoginLinks,
    (principal, session): (&Principal, String),
    text: &str,
    now: SystemTime,
) -> Result<T, Rejected> {
    let payload = links.sealer().open(T::PURPOSE, principal, text).ok_or(Rejected::Foreign)?;
    let bound: Bound<T> = serde_json::from_slice(&payload).map_err(|_| Rejected::Foreign)?;
    if !is_equal(&bound.session, &session) {
        return Err(Rejected::OtherSession);
    }
    if is_past(bound.expires_at, now) { Err(Rejected::Expired) } else { Ok(bound.content) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::browser::sessions::{BrowserSessions, Visitors};
    use auth::{Role, Sealer};

    #[test]
    fn a_state_belongs_to_one_session_of_one_principal_for_ten_minutes() {
        let links = LoginLinks::new(Arc::new(Sealer::random()), None);
        let sessions = BrowserSessions::new(Visitors::Host);
        let session = |id: &str| sessions.begin(Principal::new(id, Role::Caller)).session;
        let [mine, again, other] = [session("alice"), session("alice"), session("bob")];
        let state = || State { mark: "m".into(), server: "notes".into(), pending: "{}".into() };
        let now = SystemTime::now();
        let sealed = seal(&links, &mine, &state(), now);
        assert_eq!(open(&links, &mine, &sealed, now), Ok(state()));
        assert_eq!(open::<State>(&links, &again, &sealed, now), Err(Rejected::OtherSession));
        assert_eq!(open::<State>(&links, &other, &sealed, now), Err(Rejected::Foreign));
        assert_eq!(open::<State>(&links, &mine, &sealed, now + LIFETIME), Err(Rejected::Expired));
        let nearly = now + Duration::from_secs(599);
        assert_eq!(open(&links, &mine, &sealed, nearly), Ok(state()));
        let agreement = open::<ConfirmedRedirect>(&links, &mine, &sealed, now);
        assert_eq!(agreement, Err(Rejected::Foreign), "another purpose");
        assert_eq!(open::<State>(&links, &mine, "", now), Err(Rejected::Foreign));
    }
}
