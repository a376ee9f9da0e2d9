//! `/oauth/callback`: the browser comes back from the login service.
//!
//! Invariants: a code is used only in the browser session that began the login, and once. Otherwise an attacker could
//! put an own account under the principal of a victim (login CSRF), or use a code that was stolen. The state is checked
//! before anything else of the query is read. Each end of a login has an audit line.
//!
//! Source: RFC 6749, sections 4.1.2, 10.12; RFC 9207.

use std::time::SystemTime;

use http::StatusCode;

use super::context::{Pages, Visit, who};
use super::sealed::{self, Rejected, State};
use super::{context, messages, start};
use crate::browser::html::Page;
use crate::browser::sessions::BrowserSession;
use gateway::logins::{CodeResponse, ErrorResponse, LoginError, LoginStatus};
use runtime::telemetry::audit;

/// Finishes the login, and shows how it ended.
pub(super) async fn show(pages: &Pages, visit: Visit) -> Result<Page, Page> {
    let session = visit.session.as_ref().ok_or_else(messages::no_session_at_callback)?;
    let state = checked_state(pages, &visit, session)?;
    let per = pages.logins.service.per(&state.server).ok_or_else(|| messages::no_login(&state.server))?;
    context::check(per, session, &visit)?;
    let record = audit::operation(who(session, visit.id), per.log_in().as_str(), Some(&state.server));
    let record = record.map_err(|_| messages::busy())?;
    let finished = finish(pages, &visit, session, &state).await;
    if let Some(record) = record {
        record.ended(match &finished {
            Ok(_) => audit::DONE,
            Err(CallbackError::ByService) => "refused_by_login_service",
            Err(CallbackError::Page(_) | CallbackError::Error(_)) => "login_failed",
        });
    }
    match finished {
        Ok(status) => Ok(logged_in(&state.server, &status)),
        Err(CallbackError::ByService) => Err(refused_by_service(&visit, &state.server)),
        Err(CallbackError::Page(page)) => Err(page),
        Err(CallbackError::Error(error)) => Err(start::failed(&state.server, &error)),
    }
}

/// Returns the state of the query, which is redeemed by that.
fn checked_state(pages: &Pages, visit: &Visit, session: &BrowserSession) -> Result<State, Page> {
    let text = visit.query.get("state").ok_or_else(messages::no_state)?;
    let state = sealed::open::<State>(&pages.logins.links, session, text, SystemTime::now());
    let state = state.map_err(|rejected| match rejected {
        Rejected::Foreign => messages::foreign_state(),
        Rejected::OtherSession => messages::other_session(),
        Rejected::Expired => messages::took_too_long(),
    })?;
    if pages.sessions.redeem(session, &state.mark) { Ok(state) } else { Err(messages::replayed()) }
}

/// Why a login with a valid state did not end well.
enum CallbackError {
    /// The login service, or the person at it, refused.
    ByService,
    Page(Page),
    Error(LoginError),
}

async fn finish(
    pages: &Pages,
    visit: &Visit,
    session: &BrowserSession,
    state: &State,
) -> Result<LoginStatus, CallbackError> {
    let (service, principal) = (&pages.logins.service, session.principal());
    let iss = visit.query.get("iss");
    if let Some(error) = visit.query.get("error") {
        let response = ErrorResponse { error, description: visit.query.get("error_description"), iss };
        // Without this check, anybody who can open a link in the browser could speak for the login service.
        service.abandon(&state.server, principal, &state.pending, response).map_err(CallbackError::Error)?;
        return Err(CallbackError::ByService);
    }
    let code = visit.query.get("code").ok_or_else(|| CallbackError::Page(messages::no_code()))?;
    let _place = pages
        .in_progress
        .enter(principal.id())
        .ok_or_else(|| CallbackError::Page(messages::busy_at_callback()))?;
    let response = CodeResponse { code, iss };
    let finished = service.finish(&state.server, principal, &state.pending, response).await;
    finished.map_err(CallbackError::Error)
}

/// The page for an `error` in the query. Known errors have their own texts.
fn refused_by_service(visit: &Visit, server: &str) -> Page {
    let error = visit.query.get("error").unwrap_or_default();
    let page = match error {
        "access_denied" => messages::access_denied(server),
        "temporarily_unavailable" | "server_error" => messages::service_unavailable(server),
        "invalid_scope" => messages::invalid_scope(server),
        _ => messages::service_error(server),
    };
    let description = visit.query.get("error_description").unwrap_or_default();
    let facts = [("Error", error), ("Description", description)];
    let details: Vec<_> = facts.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    page.text("The login service gave these details:").facts(&details)
}

fn logged_in(server: &str, status: &LoginStatus) -> Page {
    let account = status.account.as_deref().unwrap_or("not named by the login service");
    let scopes = status.scopes.join(" ");
    let scopes = if scopes.is_empty() { "not named by the login service" } else { &scopes };
    Page::new(StatusCode::OK, &format!("Logged in to {server}"))
        .facts(&[("Server", server), ("Account", account), ("Permissions", scopes)])
        .text("You can close this page. Your MCP client can call the tools of this server now.")
}
