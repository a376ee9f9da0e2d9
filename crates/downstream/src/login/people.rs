//! `/oauth/login` and `/oauth/login-callback`: a person signs in at the login service behind the authorization server.
//!
//! ```text
//! sign-in page ── POST, token of the form ──▶ /oauth/login ──▶ page of the login service
//!                                                                   │ code, state
//!      the page where the visitor began ◀── session ── /oauth/login-callback
//! ```
//!
//! Invariants: an answer is used in the browser that began the login, and once. A cookie of that browser is bound into
//! `state`, so a link that somebody else made or forwards signs nobody in (login CSRF). Nothing is asked of the login
//! service for a visitor who has not sent a form of this gateway, and only a few requests run at a time. The words of
//! the service are in the log and not on the page, because any visitor can see the page. A login has an audit line if the
//! service said who the person is, and else a line of the log, because any visitor can cause it.
//!
//! Source: RFC 6749, section 10.12; RFC 9207; RFC 9700, sections 2.1 and 4.7; `OpenID` Connect Core 1.0, section 3.1.2.

use std::time::SystemTime;

use axum::response::Response;
use secrecy::SecretString;
use url::Url;

use super::context::{Pages, Visit};
use super::destination::Destination;
use super::people_login::PeopleLogin;
use super::sealed::{self, Rejected, SignInState};
use super::{messages, sign_in};
use crate::browser::html::{Page, see_other};
use crate::browser::sessions::{SameSite, random};
use oauth::{AuthorizationResponse, Error, SignInError};
use runtime::telemetry::{audit, pace};

/// The path to which the login service sends the browser back.
pub(super) const CALLBACK: &str = "/oauth/login-callback";
/// The purpose of the cookie that stands for a browser while somebody signs in.
const BROWSER: &str = "login";

/// Leads to the login service.
pub(super) async fn begin(pages: &Pages, visit: Visit) -> Result<Response, Page> {
    let people = pages.people.as_ref().ok_or_else(messages::no_login_service)?;
    sign_in::check_form(&visit)?;
    people.rate.take_from(visit.address).map_err(messages::too_many_sign_ins)?;
    let destination = Destination::of(&visit, pages);
    // A second tab uses the cookie of the first one.
    let known = visit.cookies.read(BROWSER, &visit.headers).filter(|known| sign_in::is_form_token(known));
    let browser = known.map_or_else(random, str::to_owned);
    let _place = people.in_progress.enter_from(visit.address).ok_or_else(messages::busy)?;
    let base = pages.logins.links.base(visit.host.as_deref()).ok_or_else(messages::no_base)?;
    let callback = Url::parse(&format!("{base}{CALLBACK}")).map_err(|_| messages::no_base())?;
    let state = |started: &str| {
        let state =
            SignInState { mark: random(), started: started.to_owned(), destination: destination.clone() };
        sealed::seal_sign_in(&pages.logins.links, &browser, &state, SystemTime::now())
    };
    match people.provider.begin(&callback, state).await {
        Ok(url) => Ok(see_other(url.as_str(), visit.cookies.set(BROWSER, &browser, SameSite::Lax))),
        Err(error) => Err(failed(pages, people, &visit, &destination, &error.into())),
    }
}

/// Signs the visitor in, with the answer of the login service.
pub(super) async fn finish(pages: &Pages, visit: Visit) -> Result<Response, Page> {
    let people = pages.people.as_ref().ok_or_else(messages::no_login_service)?;
    let browser = visit.cookies.read(BROWSER, &visit.headers).ok_or_else(messages::sign_in_elsewhere)?;
    // The rate of the address was taken when this login began. Nothing is taken here, so nobody behind the same proxy uses up
    // the answers of others.
    let state = checked_state(pages, people, &visit, browser)?;
    let destination = &state.destination;
    let busy = || sign_in::with_form(messages::busy(), pages, &visit, destination);
    let _place = people.in_progress.enter_from(visit.address).ok_or_else(busy)?;
    match people.provider.finish(&state.started, &response(&visit)).await {
        Ok(principal) => {
            let recorded =
                sign_in::record_sign_in(principal.id(), principal.role().as_str(), audit::DONE, &visit);
            recorded.map_err(|_| busy())?;
            let new = pages.sessions.begin(principal);
            Ok(destination.redirect(sign_in::signed_in(pages, &visit, &new)))
        }
        Err(error) => {
            if let SignInError::NotAllowed { principal: Some(principal), .. } = &error {
                let recorded = sign_in::record_sign_in(principal, "none", outcome(&error), &visit);
                recorded.map_err(|_| busy())?;
            }
            Err(failed(pages, people, &visit, destination, &error))
        }
    }
}

/// The word for `error` in the log, and in the audit log.
const fn outcome(error: &SignInError) -> &'static str {
    match error {
        SignInError::NotAllowed { .. } => "sign_in_not_allowed",
        SignInError::Service(Error::LoginRequired { .. }) => "sign_in_declined",
        SignInError::Service(Error::Later { .. }) => "login_service_unavailable",
        SignInError::Service(_) => "sign_in_failed",
    }
}

/// Returns the state of the query, which is redeemed by that.
fn checked_state(
    pages: &Pages,
    people: &PeopleLogin,
    visit: &Visit,
    browser: &str,
) -> Result<SignInState, Page> {
    let text = visit.query.get("state").ok_or_else(messages::no_sign_in_state)?;
    let state = sealed::open_sign_in(&pages.logins.links, browser, text, SystemTime::now());
    let state = state.map_err(|rejected| match rejected {
        Rejected::Foreign => messages::no_sign_in_state(),
        Rejected::OtherSession => messages::sign_in_elsewhere(),
        Rejected::Expired => messages::sign_in_took_too_long(),
    })?;
    if people.redeem(&state.mark) { Ok(state) } else { Err(messages::sign_in_replayed()) }
}

/// The answer of the login service in the query.
fn response(visit: &Visit) -> AuthorizationResponse {
    let get = |name| visit.query.get(name).map(str::to_owned);
    AuthorizationResponse {
        code: get("code").map(SecretString::from),
        state: None,
        iss: get("iss"),
        error: get("error"),
        error_description: get("error_description"),
    }
}

/// The page for a visitor who is not signed in, with the form to try again.
fn failed(
    pages: &Pages,
    people: &PeopleLogin,
    visit: &Visit,
    destination: &Destination,
    error: &SignInError,
) -> Page {
    let host = people.provider.host();
    let page = match error {
        SignInError::NotAllowed { account, reason, .. } => messages::not_let_in(host, account, reason),
        SignInError::Service(Error::LoginRequired { .. }) => messages::sign_in_declined(host),
        SignInError::Service(Error::Later { retry_after, .. }) => {
            messages::login_service_unavailable(host, *retry_after)
        }
        SignInError::Service(_) => messages::sign_in_failed(host, &visit.id.to_string()),
    };
    let code = outcome(error);
    // Any visitor can cause this line, so it is rate-limited.
    if let Some(suppressed) = pace::refusal(code) {
        let suppressed = (suppressed > 0).then_some(suppressed);
        tracing::warn!(request_id = %visit.id, code, reason = %error, suppressed, "nobody was signed in by the login service");
    }
    sign_in::with_form(page, pages, visit, destination)
}
