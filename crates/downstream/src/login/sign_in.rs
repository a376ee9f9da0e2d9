//! `/oauth/sign-in` and `/oauth/sign-out`: begins and ends the session of a browser.
//!
//! Invariants: the credential goes through the same check as the one of a request, with its limits for wrong keys. The
//! form has a token that a cookie repeats, so another site cannot sign a visitor in as somebody else. A sign-in has an audit
//! line; a bad credential, which belongs to no principal, has a line of the log. After the sign-in
//! the visitor comes to the page where it began (`destination`).

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode};
use secrecy::SecretString;

use super::context::{Pages, SESSION, Visit};
use super::destination::{Destination, is_token};
use super::messages;
use crate::browser::form;
use crate::browser::html::{HtmlForm, Page};
use crate::browser::sessions::{NewSession, SameSite, random};
use crate::refusal::Refusal;
use auth::Denied;
use runtime::telemetry::audit::{self, Actor, Full};
use runtime::telemetry::limit::Limit;
use runtime::telemetry::{RequestId, pace};

/// The purpose of the cookie that repeats the token of the form.
const FORM: &str = "sign-in";
/// The length of its token.
const TOKEN_LENGTH: usize = 43;

/// Shows the form, or who has signed in.
pub(super) async fn show(pages: &Pages, visit: Visit) -> Result<Page, Page> {
    if let Some(session) = &visit.session {
        let form = HtmlForm::to("sign-out").hidden("csrf", session.csrf()).button("Sign out");
        let page = Page::new(StatusCode::OK, "You are signed in");
        let facts = [("You", session.principal().shown()), ("Role", session.principal().role().as_str())];
        return Ok(page.facts(&facts).form(form));
    }
    if !pages.asks_for_credentials() {
        return Err(messages::no_sign_in_needed());
    }
    let destination = Destination::of(&visit, pages);
    Ok(with_form(Page::new(StatusCode::OK, "Sign in"), pages, &visit, &destination))
}

/// Adds the form to `page`. The visitor goes to `destination` then.
pub(crate) fn with_form(page: Page, pages: &Pages, visit: &Visit, destination: &Destination) -> Page {
    // A second tab uses the token of the first one.
    let known = visit.cookies.read(FORM, &visit.headers).filter(|token| is_form_token(token));
    let token = known.map_or_else(random, str::to_owned);
    let cookie = visit.cookies.set(FORM, &token, SameSite::Strict);
    let form = |action| destination.carried_in(HtmlForm::to(action).hidden("csrf", &token), pages);
    let mut page = page.cookie(cookie);
    if let Some(people) = &pages.people {
        page = people.offered_on(page, form("login"));
    }
    let is_of_client = matches!(destination, Destination::Authorization(_));
    if pages.people.as_ref().is_none_or(|people| people.takes_keys || !is_of_client) {
        page = page
            .text("Enter the API key or the token that your MCP client uses for this gateway.")
            .form(form("sign-in").secret("credential", "Key or token").button("Sign in"));
    }
    match destination.form_target() {
        Some(target) => page.leading_to(&target),
        None => page,
    }
}

/// Signs the visitor in.
pub(super) async fn send(pages: &Pages, visit: Visit) -> Result<Response, Page> {
    check_form(&visit)?;
    let destination = Destination::of(&visit, pages);
    let credential = visit.form.get("credential").unwrap_or_default().trim();
    let credential = credential.strip_prefix("Bearer ").unwrap_or(credential);
    let new = match pages.sessions.sign_in(SecretString::from(credential)).await {
        Ok(new) => new,
        Err(denied) => {
            return Ok(with_form(refused(denied, &visit), pages, &visit, &destination).into_response());
        }
    };
    let principal = new.session.principal();
    if record_sign_in(principal.id(), principal.role().as_str(), audit::DONE, &visit).is_err() {
        pages.sessions.end(&new.session);
        return Err(messages::busy());
    }
    Ok(destination.redirect(signed_in(pages, &visit, &new)))
}

/// Writes the audit line of a sign-in of `principal`.
pub(super) fn record_sign_in(
    principal: &str,
    role: &'static str,
    outcome: &'static str,
    visit: &Visit,
) -> Result<(), Full> {
    let record = audit::operation(Actor { principal, role, request: Some(visit.id) }, "sign_in", None)?;
    if let Some(record) = record {
        record.ended(outcome);
    }
    Ok(())
}

/// Checks that the form of `visit` is one that [`with_form`] made for this browser.
pub(super) fn check_form(visit: &Visit) -> Result<(), Page> {
    let expected = visit.cookies.read(FORM, &visit.headers).unwrap_or_default();
    let sent = visit.form.get("csrf").unwrap_or_default();
    let is_own = is_form_token(expected) && form::is_equal(sent, expected);
    if is_own { Ok(()) } else { Err(messages::bad_csrf()) }
}

/// The cookies of a browser in which somebody has signed in with `new`. Ends the session before.
pub(super) fn signed_in(pages: &Pages, visit: &Visit, new: &NewSession) -> impl Iterator<Item = HeaderValue> {
    if let Some(before) = &visit.session {
        pages.sessions.end(before);
    }
    [visit.session_cookie(new), visit.cookies.delete(FORM)].into_iter().flatten()
}

/// Ends the session of the visitor. The authorization request of a client is shown again, for somebody else.
pub(super) async fn sign_out(pages: &Pages, visit: Visit) -> Result<Response, Page> {
    pages.sessions.end(visit.session_of_form()?);
    let cookie = visit.cookies.delete(SESSION);
    match Destination::of(&visit, pages) {
        destination @ Destination::Authorization(_) => Ok(destination.redirect(cookie)),
        _ => Ok(messages::signed_out().cookie(cookie).into_response()),
    }
}

/// The page for a sign-in that was refused.
fn refused(denied: Denied, visit: &Visit) -> Page {
    log_refused(denied, visit.id);
    match denied {
        Denied::Busy | Denied::KeysUnavailable { .. } => messages::busy(),
        Denied::NoRole => messages::no_role(),
        Denied::Missing | Denied::Credential(_) | Denied::Unchecked => messages::wrong_credential(),
    }
}

/// Logs a refused sign-in, unless too many were logged. Any visitor can cause this line, so it is rate-limited.
fn log_refused(denied: Denied, id: RequestId) {
    if denied == Denied::Busy {
        Limit::KeyChecks.met(());
    }
    let code = Refusal::Denied(denied).code().as_str();
    if let Some(suppressed) = pace::refusal(code) {
        let suppressed = (suppressed > 0).then_some(suppressed);
        tracing::info!(request_id = %id, code, reason = %denied, suppressed, "sign-in refused");
    }
}

pub(super) fn is_form_token(text: &str) -> bool {
    is_token(text, TOKEN_LENGTH..=TOKEN_LENGTH)
}
