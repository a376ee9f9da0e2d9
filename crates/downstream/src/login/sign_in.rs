//! `/oauth/sign-in` and `/oauth/sign-out`: begins and ends the session of a browser.
//!
//! Invariants: the credential goes through the same check as the one of a request, with its limits for wrong keys. The
//! form has a token that a cookie repeats, so another site cannot sign a visitor in as somebody else. After the sign-in
//! the visitor comes to the page of the link, to the dashboard, or stays here; no other address can be named.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use secrecy::SecretString;

use super::context::{Pages, SESSION, Visit};
use super::messages;
use crate::browser::cookie::SameSite;
use crate::browser::form;
use crate::browser::html::{HtmlForm, Page, see_other};
use crate::browser::sessions::random;
use crate::refusal::Refusal;
use auth::Denied;
use runtime::telemetry::limit::Limit;
use runtime::telemetry::{RequestId, pace};

/// The purpose of the cookie that repeats the token of the form.
const FORM: &str = "sign-in";
/// The value of the field `to` that leads to the dashboard after the sign-in.
const DASHBOARD: &str = "ui";
/// The most characters of a ticket.
const MAX_TICKET: usize = 2_048;

/// Shows the form, or who has signed in.
pub(super) async fn show(pages: &Pages, visit: Visit) -> Result<Page, Page> {
    if let Some(session) = &visit.session {
        let form = HtmlForm::to("sign-out").hidden("csrf", session.csrf()).button("Sign out");
        let page = Page::new(StatusCode::OK, "You are signed in");
        let facts = [("You", &**session.principal().id()), ("Role", session.principal().role().as_str())];
        return Ok(page.facts(&facts).form(form));
    }
    if pages.sessions.is_of_host() || pages.sessions.without_sign_in(None).is_some() {
        return Err(messages::no_sign_in_needed());
    }
    Ok(with_form(Page::new(StatusCode::OK, "Sign in"), &visit, visit.query.get("login")))
}

/// Whether the visitor comes to the dashboard after the sign-in.
fn leads_to_dashboard(visit: &Visit) -> bool {
    [&visit.query, &visit.form].into_iter().any(|fields| fields.get("to") == Some(DASHBOARD))
}

/// Adds the form to `page`. `ticket` is that of the link that the visitor follows.
pub(super) fn with_form(page: Page, visit: &Visit, ticket: Option<&str>) -> Page {
    // A second tab uses the token of the first one.
    let known = visit.cookies.read(FORM, &visit.headers).filter(|token| is_token(token, 43));
    let token = known.map_or_else(random, str::to_owned);
    let cookie = visit.cookies.set(FORM, &token, SameSite::Strict);
    let form = HtmlForm::to("sign-in").hidden("csrf", &token);
    let form = if leads_to_dashboard(visit) { form.hidden("to", DASHBOARD) } else { form };
    let form = match ticket.filter(|ticket| is_ticket(ticket)) {
        Some(ticket) => form.hidden("login", ticket),
        None => form,
    };
    page.text("Enter the API key or the token that your MCP client uses for this gateway.")
        .form(form.secret("credential", "Key or token").button("Sign in"))
        .cookie(cookie)
}

/// Signs the visitor in.
pub(super) async fn send(pages: &Pages, visit: Visit) -> Result<Response, Page> {
    let expected = visit.cookies.read(FORM, &visit.headers).unwrap_or_default();
    let sent = visit.form.get("csrf").unwrap_or_default();
    if !is_token(expected, 43) || !form::is_equal(sent, expected) {
        return Err(messages::bad_csrf());
    }
    let ticket = visit.form.get("login").filter(|ticket| is_ticket(ticket));
    let credential = visit.form.get("credential").unwrap_or_default().trim();
    let credential = credential.strip_prefix("Bearer ").unwrap_or(credential);
    let new = match pages.sessions.sign_in(SecretString::from(credential)).await {
        Ok(new) => new,
        Err(denied) => return Ok(refused(denied, &visit, ticket).into_response()),
    };
    if let Some(before) = &visit.session {
        pages.sessions.end(before);
    }
    let cookies = [visit.session_cookie(&new), visit.cookies.delete(FORM)];
    let location = match ticket {
        Some(ticket) => format!("start?login={ticket}"),
        None if leads_to_dashboard(&visit) => "../ui/".to_owned(),
        None => "sign-in".to_owned(),
    };
    Ok(see_other(&location, cookies.into_iter().flatten()))
}

/// Ends the session of the visitor.
pub(super) async fn sign_out(pages: &Pages, visit: Visit) -> Result<Page, Page> {
    pages.sessions.end(visit.session_of_form()?);
    Ok(messages::signed_out().cookie(visit.cookies.delete(SESSION)))
}

fn refused(denied: Denied, visit: &Visit, ticket: Option<&str>) -> Page {
    log_refused(denied, visit.id);
    let page = match denied {
        Denied::Busy | Denied::KeysUnavailable { .. } => messages::busy(),
        Denied::NoRole => messages::no_role(),
        Denied::Missing | Denied::Credential(_) | Denied::Unchecked => messages::wrong_credential(),
    };
    with_form(page, visit, ticket)
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

fn is_ticket(text: &str) -> bool {
    (1..=MAX_TICKET).contains(&text.len()) && is_token(text, text.len())
}

/// Whether `text` has `length` letters, digits, `-` and `_`.
fn is_token(text: &str, length: usize) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    text.len() == length && text.bytes().all(is_plain)
}
