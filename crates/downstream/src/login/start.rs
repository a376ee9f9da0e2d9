//! `/oauth/start`: shows a person who logs in where, and leads to the login service after consent.
//!
//! Invariants: nothing is asked of a login service before the visitor has a session of the principal of the link and may
//! log in. The browser is sent to the URL that the person was shown, which was sealed into the form.

use std::time::SystemTime;

use axum::response::Response;
use http::{HeaderValue, StatusCode};

use super::context::{Pages, Visit};
use super::destination::Destination;
use super::sealed::{self, ConfirmedRedirect, Rejected, State};
use super::{context, messages, sign_in};
use crate::authority::form_source;
use crate::browser::html::{HtmlForm, Page, see_other};
use crate::browser::sessions::BrowserSession;
use gateway::login_links::Ticket;
use gateway::logins::{Consent, LoginError, Per};

/// Shows the consent page, or the sign-in form if the visitor has no session.
pub(super) async fn show(pages: &Pages, visit: Visit) -> Result<Page, Page> {
    let now = SystemTime::now();
    let text = visit.query.get("login").ok_or_else(messages::no_ticket)?;
    let ticket = pages.logins.links.open(text).ok_or_else(messages::bad_ticket)?;
    if ticket.is_expired(now) {
        return Err(messages::expired_link(&ticket.server));
    }
    let Some((session, cookie)) = visit.session(pages)? else {
        let page = Page::new(StatusCode::OK, "Sign in to log in to a server");
        return Ok(sign_in::with_form(page, pages, &visit, &Destination::Login(text.to_owned())));
    };
    if **session.principal().id() != *ticket.principal {
        return Err(messages::other_principal(session.principal().id(), session.csrf()));
    }
    let per = pages.logins.service.per(&ticket.server);
    let per = per.ok_or_else(|| messages::no_login(&ticket.server))?;
    context::check(per, &session, &visit)?;
    let consent = prepare(pages, &visit, &session, &ticket).await?;
    Ok(consent_page(pages, &session, (&ticket.server, per), &consent)?.cookie(cookie))
}

/// Finds the login service and makes the request to it.
async fn prepare(
    pages: &Pages,
    visit: &Visit,
    session: &BrowserSession,
    ticket: &Ticket,
) -> Result<Consent, Page> {
    let principal = session.principal();
    let _place = pages.in_progress.enter(principal.id()).ok_or_else(messages::busy)?;
    let own = pages.logins.links.own_client(visit.host.as_deref()).ok_or_else(messages::no_base)?;
    let mark = pages.sessions.mark(session).ok_or_else(messages::session_ended)?;
    let seal = |pending: &str| {
        let state = State { mark, server: ticket.server.clone(), pending: pending.to_owned() };
        sealed::seal(&pages.logins.links, session, &state, SystemTime::now())
    };
    let started = pages.logins.service.start(&ticket.server, principal, &own, Box::new(seal)).await;
    started.map_err(|error| failed(&ticket.server, &error))
}

/// The page for a login that `error` prevents.
pub(super) fn failed(server: &str, error: &LoginError) -> Page {
    match error {
        LoginError::NotOffered => messages::no_login(server),
        LoginError::Refused(reason) => messages::refused(server, reason),
        LoginError::Later { reason, retry_after } => messages::later(server, reason, *retry_after),
    }
}

fn consent_page(
    pages: &Pages,
    session: &BrowserSession,
    (server, per): (&str, Per),
    consent: &Consent,
) -> Result<Page, Page> {
    let target = form_source(&consent.authorization_url).ok_or_else(|| messages::bad_login_url(server))?;
    let agreement =
        ConfirmedRedirect { server: server.to_owned(), url: consent.authorization_url.to_string() };
    let agreement = sealed::seal(&pages.logins.links, session, &agreement, SystemTime::now());
    let scopes = match consent.scopes.join(" ") {
        none if none.is_empty() => "those that the login service chooses".to_owned(),
        scopes => scopes,
    };
    let users = match per {
        Per::Shared => "everybody who may call this server here",
        Per::Principal => "only you",
    };
    let form = HtmlForm::to("start")
        .hidden("csrf", session.csrf())
        .hidden("agreement", &agreement)
        .button("Continue to the login service");
    let facts = [
        ("Server", server),
        ("Login service", &consent.issuer),
        ("Permissions", &scopes),
        ("You", session.principal().id()),
        ("Used by", users),
    ];
    let page = Page::new(StatusCode::OK, &format!("Log in to {server}"))
        .text("Switchyard will keep an access token for this server, and send it with calls of its tools.")
        .facts(&facts)
        .text("If you did not ask for this login, close this page.");
    Ok(page.form(form).leading_to(&target))
}

/// Leads to the login service that the person agreed to.
pub(super) async fn send(pages: &Pages, visit: Visit) -> Result<Response, Page> {
    let session = visit.session_of_form()?;
    let sealed = visit.form.get("agreement").ok_or_else(messages::bad_fields)?;
    let agreement = sealed::open(&pages.logins.links, session, sealed, SystemTime::now());
    let ConfirmedRedirect { server, url } = agreement.map_err(|rejected| match rejected {
        Rejected::Expired => messages::took_too_long(),
        Rejected::Foreign | Rejected::OtherSession => messages::bad_fields(),
    })?;
    let per = pages.logins.service.per(&server).ok_or_else(|| messages::no_login(&server))?;
    context::check(per, session, &visit)?;
    Ok(see_other(&url, [] as [HeaderValue; 0]))
}
