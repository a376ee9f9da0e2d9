//! The texts of the login pages for everything that does not go well: what happened, and what to do.
//!
//! Invariant: a text has no part of a request, except the name of a server from a sealed value, and reasons from a login
//! service, which are escaped.

use std::time::Duration;

use http::StatusCode;

use crate::browser::html::{HtmlForm, Page};
use auth::Role;
use gateway::logins::Per;

/// How a person gets a new link.
const NEW_LINK: &str = "Ask your MCP client, or run `switchyard login`, for a new link.";
/// Seconds until a busy gateway is worth a retry.
const BUSY_RETRY_IN: u64 = 5;

fn bad(title: &str, text: &str) -> Page {
    Page::failure(StatusCode::BAD_REQUEST, title, text)
}

fn forbidden(title: &str, text: &str) -> Page {
    Page::failure(StatusCode::FORBIDDEN, title, text)
}

/// The page for a method that an address does not have.
pub(crate) async fn method_not_allowed() -> Page {
    let text = "This address has no such method. Open it in a browser.";
    Page::failure(StatusCode::METHOD_NOT_ALLOWED, "Not possible", text)
}

// The request as such.

pub(super) fn no_base() -> Page {
    let text = "The gateway does not know its public address, and this page was not opened under a loopback \
                address. The operator sets `public_url` under `server:` in the configuration file.";
    bad("The address of the gateway is not known", text)
}

pub(super) fn bad_fields() -> Page {
    bad("The request is not valid", "A field is missing, damaged or there twice.").text(NEW_LINK)
}

pub(super) fn foreign_form(base: &str) -> Page {
    let text = "The form did not come from a page of this gateway. Nothing was done.";
    forbidden("The form was refused", text).text(&format!("Open the link of the login again, under {base}."))
}

pub(super) fn bad_csrf() -> Page {
    let text = "The form does not belong to your session, or your browser refuses cookies. Nothing was done.";
    forbidden("The form was refused", text).text("Allow cookies for this gateway, and open the link again.")
}

pub(super) fn busy() -> Page {
    let text = "The gateway is busy with other logins. Try again in a moment.";
    Page::failure(StatusCode::SERVICE_UNAVAILABLE, "Try again in a moment", text).retry_after(BUSY_RETRY_IN)
}

pub(super) fn busy_at_callback() -> Page {
    busy().text("This login ended without a result.").text(NEW_LINK)
}

// Signing in.

pub(super) fn wrong_credential() -> Page {
    let text = "This key or token is not valid here, or has expired.";
    forbidden("The sign-in was refused", text)
}

pub(super) fn no_role() -> Page {
    forbidden("The sign-in was refused", "The token is valid, but gives no role on this gateway.")
}

pub(super) fn signed_out() -> Page {
    Page::new(StatusCode::OK, "You are signed out").text("You can close this page.")
}

pub(super) fn no_sign_in_needed() -> Page {
    Page::new(StatusCode::OK, "No sign-in is needed").text("Open the link of a login.")
}

pub(super) fn session_ended() -> Page {
    let text = "You are not signed in any more: the session was idle for too long, or its credential is not valid \
                any more.";
    forbidden("Your session has ended", text).text(NEW_LINK)
}

pub(super) fn not_on_this_machine() -> Page {
    let text = "This gateway asks for no credential, so only a browser on its own machine may log in, under a \
                loopback address such as 127.0.0.1.";
    let hint = "To log in from other machines, set `auth_mode` and `public_url` under `server:`.";
    forbidden("Open this page on the machine of the gateway", text).text(hint)
}

pub(super) fn host_must_sign_in() -> Page {
    let text = "The program that this gateway is a part of did not say who you are.";
    forbidden("You are not signed in", text).text("Sign in to that program, and open the link again.")
}

// Links.

pub(super) fn no_ticket() -> Page {
    bad("The link is not complete", "The part after `login=` is missing.").text(NEW_LINK)
}

pub(super) fn bad_ticket() -> Page {
    let text = "The link is damaged, or was made by another gateway or before a restart.";
    bad("The link is not valid", text).text(NEW_LINK)
}

pub(super) fn expired_link(server: &str) -> Page {
    let text = format!("This link for {server} was valid for ten minutes.");
    Page::failure(StatusCode::GONE, "The link has expired", &text).text(NEW_LINK)
}

pub(super) fn other_principal(own: &str, csrf: &str) -> Page {
    let text = "This link was made for somebody else. A link logs in only the one who asked for it.";
    let sign_out = HtmlForm::to("sign-out").hidden("csrf", csrf).button("Sign out");
    forbidden("The link is not yours", text)
        .facts(&[("You", own)])
        .text(
            "If it is yours under another key, sign out and open it again. Otherwise, ask for your own link.",
        )
        .form(sign_out)
}

pub(super) fn not_allowed(per: Per, role: Role) -> Page {
    let text = match per {
        Per::Shared => "All callers of this server share one login, so only a superuser may log in.",
        Per::Principal => "Only callers and superusers may log in to this server.",
    };
    let hint = "Ask an operator of the gateway to log in, or for a credential with that role.";
    forbidden("You may not log in to this server", text).facts(&[("Your role", role.as_str())]).text(hint)
}

pub(super) fn no_login(server: &str) -> Page {
    let text = format!("Nobody can log in to {server}: it is not configured with `auth: oauth`, or is gone.");
    Page::failure(StatusCode::NOT_FOUND, "There is no login", &text)
}

pub(super) fn no_client_metadata() -> Page {
    let text = "There is a client id metadata document only if `server.public_url` is an HTTPS URL.";
    Page::failure(StatusCode::NOT_FOUND, "There is no such document", text)
}

// The login service.

pub(super) fn bad_login_url(server: &str) -> Page {
    let text = format!("The login service of {server} names a page that is not a web address.");
    Page::failure(StatusCode::BAD_GATEWAY, "The login service is not usable", &text)
}

pub(super) fn refused(server: &str, reason: &str) -> Page {
    let text = format!("The login to {server} was refused.");
    Page::failure(StatusCode::BAD_GATEWAY, "The login failed", &text)
        .facts(&[("Reason", reason)])
        .text("Tell the operator of the gateway.")
}

pub(super) fn later(server: &str, reason: &str, retry_after: Option<Duration>) -> Page {
    let text = format!("The login service of {server} cannot be used at present.");
    let page = Page::failure(StatusCode::SERVICE_UNAVAILABLE, "Try again later", &text);
    let page = page.facts(&[("Reason", reason)]).text(NEW_LINK);
    page.retry_after(retry_after.map(|pause| pause.as_secs().max(1)))
}

// The callback.

pub(super) fn no_session_at_callback() -> Page {
    let text = "This browser did not begin a login here, or its session has ended. The answer of the login service \
                was not used.";
    let hint = "If you were sent here by somebody else, close this page. Otherwise, open the link of your login and \
                finish it in the same browser, under the same address.";
    forbidden("This login does not belong to this browser", text).text(hint)
}

pub(super) fn no_state() -> Page {
    bad("The answer is not complete", "The login service did not return the state of a login.").text(NEW_LINK)
}

pub(super) fn foreign_state() -> Page {
    let text = "This answer of a login service belongs to a login that you did not begin, or is damaged. It was not \
                used.";
    forbidden("This login is not yours", text)
        .text("If you were sent here by somebody else, close this page.")
        .text(NEW_LINK)
}

pub(super) fn other_session() -> Page {
    let text = "You began this login in another session: in another browser, or before you signed in again. The \
                answer was not used.";
    forbidden("This login was begun elsewhere", text).text(NEW_LINK)
}

pub(super) fn took_too_long() -> Page {
    let text = "More than ten minutes have passed since the login began.";
    Page::failure(StatusCode::GONE, "The login took too long", text).text(NEW_LINK)
}

pub(super) fn replayed() -> Page {
    let text = "This answer of the login service was used before, or newer logins have replaced it. It was not used \
                again.";
    let hint = "If you have loaded the page again, the first answer counts: see `switchyard login`.";
    Page::failure(StatusCode::CONFLICT, "This login has ended already", text).text(hint)
}

pub(super) fn no_code() -> Page {
    bad("The answer is not complete", "The login service returned neither a code nor an error.")
        .text(NEW_LINK)
}

pub(super) fn access_denied(server: &str) -> Page {
    let text = format!("You or the login service refused the access to {server}. Nothing has changed.");
    forbidden("The access was refused", &text).text(NEW_LINK)
}

pub(super) fn service_unavailable(server: &str) -> Page {
    let text = format!("The login service of {server} has a problem at present.");
    Page::failure(StatusCode::SERVICE_UNAVAILABLE, "Try again later", &text).text(NEW_LINK)
}

pub(super) fn invalid_scope(server: &str) -> Page {
    let text = format!("The login service does not know a scope that was requested for {server}.");
    let hint = "The operator corrects `scopes` in `auth: {oauth: …}` of this server.";
    Page::failure(StatusCode::BAD_GATEWAY, "The login failed", &text).text(hint)
}

pub(super) fn service_error(server: &str) -> Page {
    let text = format!("The login service of {server} did not accept the login.");
    Page::failure(StatusCode::BAD_GATEWAY, "The login failed", &text)
        .text("Tell the operator of the gateway.")
}

// The login service at which people sign in.

/// How a person begins a sign-in again.
const AGAIN: &str = "Begin again in your MCP client or on the dashboard.";

pub(super) fn no_login_service() -> Page {
    let text = "People do not sign in at a login service here. The operator can add `login` to \
                `server.authorization_server`.";
    Page::failure(StatusCode::NOT_FOUND, "There is no login service", text)
}

pub(super) fn too_many_sign_ins(retry_after: u64) -> Page {
    let text = "Too many people sign in from this address.";
    let page = Page::failure(StatusCode::TOO_MANY_REQUESTS, "Try again in a moment", text);
    page.retry_after(retry_after).text(AGAIN)
}

pub(super) fn no_sign_in_state() -> Page {
    let text = "The answer of the login service is damaged, or belongs to a login before a restart of the gateway. \
                Nobody was signed in.";
    bad("The answer is not valid", text).text(AGAIN)
}

pub(super) fn sign_in_elsewhere() -> Page {
    let text = "This browser did not begin the sign-in, or refuses cookies. Nobody was signed in.";
    let hint = "If you were sent here by somebody else, close this page. Otherwise, begin again in your MCP client or \
                on the dashboard, and finish in the same browser.";
    forbidden("This sign-in does not belong to this browser", text).text(hint)
}

pub(super) fn sign_in_took_too_long() -> Page {
    let text = "More than ten minutes have passed since the sign-in began.";
    Page::failure(StatusCode::GONE, "The sign-in took too long", text).text(AGAIN)
}

pub(super) fn sign_in_replayed() -> Page {
    let text = "This answer of the login service was used before. It was not used again.";
    Page::failure(StatusCode::CONFLICT, "This sign-in has ended already", text).text(AGAIN)
}

pub(super) fn not_let_in(host: &str, account: &str, reason: &str) -> Page {
    let text = "You are signed in at the login service, but may not sign in here.";
    forbidden("You may not sign in here", text)
        .facts(&[("Account", account), ("Reason", reason)])
        .text(&format!("Ask the operator of the gateway, or sign out at {host} to use another account."))
}

pub(super) fn sign_in_declined(host: &str) -> Page {
    let text = format!("You or {host} stopped the sign-in, or took too long for it. Nobody was signed in.");
    forbidden("The sign-in was not completed", &text)
}

pub(super) fn login_service_unavailable(host: &str, retry_after: Option<Duration>) -> Page {
    let text = format!("{host} does not answer at present, so nobody can sign in there.");
    let page = Page::failure(StatusCode::SERVICE_UNAVAILABLE, "The login service cannot be reached", &text);
    page.retry_after(retry_after.map_or(BUSY_RETRY_IN, |pause| pause.as_secs().max(1)))
        .text("Try again in a moment. If it lasts, tell the operator of the gateway.")
}

pub(super) fn sign_in_failed(host: &str, request: &str) -> Page {
    let text = format!(
        "{host} and this gateway do not fit together, or the answer was damaged. Nobody was signed in."
    );
    Page::failure(StatusCode::BAD_GATEWAY, "The sign-in failed", &text)
        .facts(&[("Request", request)])
        .text("Try again. If it lasts, tell the operator of the gateway: the log has the reason under this request.")
}
