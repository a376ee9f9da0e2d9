//! `/oauth/authorize`: asks a person whether a client gets access, and leads the browser back to the client.
//!
//! Invariants: no code is given before a person clicks, also if the consent is remembered, because anybody may have begun the
//! request and sent its link around. A client is looked up only for a visitor with a session. The browser is redirected only to the redirect
//! URI of a client that is known. An error leads there only if the operator vouches for the client, or the person has decided
//! about it. Every other error is shown on a page. Agreement counts only in the session that was asked,
//! within ten minutes: the form has the CSRF token of the session, and the request sealed for it. Repeating the form gives the
//! same client another code and nothing else. Texts that a client chose are escaped, and the page says who chose them. Each
//! decision has an audit line. A text about a failure has no part of a request.
//!
//! Source: RFC 6749, sections 3.1, 4.1.1 and 10.12; RFC 9700, section 4.15 (clickjacking); MCP 2026-07-28
//! `basic/security_best_practices`, confused deputy.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode};

use super::{Endpoints, answer};
use crate::browser::html::{HtmlForm, Page, see_other};
use crate::browser::sessions::BrowserSession;
use crate::guard::MAX_FORM;
use crate::login::sealed::Rejected;
use crate::login::{Destination, Pages, Visit, form_target, sealed, who, with_form};
use auth::Role;
use authorization::{AuthorizationError, AuthorizationRequest, Code, Consent, Error, Receiver};
use runtime::telemetry::audit;
use runtime::telemetry::audit::Subject;

/// Limit of the length of a query in bytes, so that the form of a page can carry it.
const MAX_QUERY: usize = 8 * 1024;
/// Room in a form for its other fields, in bytes.
const OTHER_FIELDS: usize = 512;
/// The field of a decision, and its values.
const DECISION: &str = "decision";
const ALLOW: &str = "allow";
const DENY: &str = "deny";

/// Shows the consent page, or the sign-in form to a visitor without a session.
pub(super) async fn show(
    State(endpoints): State<Arc<Endpoints>>,
    request: Request,
) -> Result<Response, Page> {
    endpoints.authorize_rate.take(request.extensions()).map_err(too_many)?;
    let query = request.uri().query().unwrap_or_default().to_owned();
    if query.len() > MAX_QUERY {
        return Err(too_long());
    }
    let pages = &*endpoints.pages;
    let visit = Visit::without_query(pages, request).await?;
    let Some((session, cookie)) = visit.session(pages)? else {
        let page = Page::new(StatusCode::OK, "Sign in to let a client in")
            .text("After the sign-in you see which client asks, and decide whether it gets access.");
        return Ok(with_form(page, pages, &visit, &Destination::Authorization(query)).into_response());
    };
    let _slot = pages.in_progress.enter(session.principal().id()).ok_or_else(busy)?;
    let consent = endpoints.server.authorize(session.principal(), &query, SystemTime::now()).await;
    let consent = match consent {
        Ok(consent) => consent,
        Err(error) => return refused(error, &session, &visit, cookie),
    };
    let page = page(pages, &session, &consent, query)?;
    Ok(page.cookie(cookie).into_response())
}

/// Takes the decision of the person.
pub(super) async fn send(
    State(endpoints): State<Arc<Endpoints>>,
    request: Request,
) -> Result<Response, Page> {
    endpoints.authorize_rate.take(request.extensions()).map_err(too_many)?;
    let pages = &*endpoints.pages;
    let visit = Visit::without_query(pages, request).await?;
    let session = visit.session_of_form()?;
    let sealed = visit.form.get("request").ok_or_else(damaged)?;
    let request = sealed::open(&pages.logins.links, session, sealed, SystemTime::now());
    let request = request.map_err(|rejected| match rejected {
        Rejected::Expired => took_too_long(),
        Rejected::OtherSession => other_session(),
        Rejected::Foreign => damaged(),
    })?;
    let _slot = pages.in_progress.enter(session.principal().id()).ok_or_else(busy)?;
    match visit.form.get(DECISION) {
        Some(ALLOW) => approve(&endpoints, session, &visit, &request).await,
        Some(DENY) => {
            let record = audit::operation(who(session, visit.id), "deny_grant", None);
            if let Some(mut record) = record.map_err(|_| busy())? {
                record.about(Subject::client(request.client()));
                record.ended(audit::DONE);
            }
            lead(endpoints.server.deny(&request), None)
        }
        _ => Err(damaged()),
    }
}

/// Gives the client a code.
async fn approve(
    endpoints: &Endpoints,
    session: &BrowserSession,
    visit: &Visit,
    request: &AuthorizationRequest,
) -> Result<Response, Page> {
    let record = audit::operation(who(session, visit.id), "grant", None).map_err(|_| busy())?;
    let approved = endpoints.server.approve(session.principal(), request, SystemTime::now()).await;
    if let Some(mut record) = record {
        record.about(Subject::client(request.client()));
        record.ended(match &approved {
            Ok(_) => audit::DONE,
            Err(error) => code(error).as_str(),
        });
    }
    match approved {
        Ok(location) => Ok(see_other(&location, [] as [HeaderValue; 0])),
        Err(error) => lead(error, None),
    }
}

/// Answers a request that gets no code, and logs it.
fn refused(
    error: AuthorizationError,
    session: &BrowserSession,
    visit: &Visit,
    cookie: Option<HeaderValue>,
) -> Result<Response, Page> {
    answer::log_refused(error.error(), visit.id);
    if code(&error) == Code::AccessDenied {
        audit::refused(who(session, visit.id), "grant", &Subject::default()).map_err(|_| busy())?;
    }
    lead(error, cookie)
}

/// Leads the browser to the client with `error`, or shows it, with a link to a client that nobody vouches for.
fn lead(error: AuthorizationError, cookie: Option<HeaderValue>) -> Result<Response, Page> {
    match error {
        AuthorizationError::Redirected { location, .. } => Ok(see_other(&location, cookie)),
        AuthorizationError::Offered { location, receiver: to, error } => {
            let text = format!("Return to {}", receiver(&to));
            Err(not_granted(&error).link(&location, &text).cookie(cookie))
        }
        AuthorizationError::Shown(error) => Err(not_valid(&error).cookie(cookie)),
    }
}

const fn code(error: &AuthorizationError) -> Code {
    error.error().code
}

/// The page that asks the person: in short, if this was allowed before.
fn page(pages: &Pages, session: &BrowserSession, consent: &Consent, query: String) -> Result<Page, Page> {
    let sealed = sealed::seal(&pages.logins.links, session, &consent.request, SystemTime::now());
    if sealed.len() > MAX_FORM - OTHER_FIELDS {
        return Err(too_long());
    }
    let form = HtmlForm::to("authorize").hidden("csrf", session.csrf()).hidden("request", &sealed);
    let page = if consent.is_remembered {
        remembered(consent, session, form)
    } else {
        asking(consent, session, form)
    };
    let page = page.leading_to(&form_target(&consent.receiver));
    if !pages.asks_for_credentials() {
        return Ok(page);
    }
    let sign_out = HtmlForm::to("sign-out").hidden("csrf", session.csrf());
    let sign_out = Destination::Authorization(query).carried_in(sign_out, pages);
    Ok(page.form(sign_out.button("Not you? Sign out")))
}

/// The page of a client that the person has not allowed as much before.
fn asking(consent: &Consent, session: &BrowserSession, form: HtmlForm) -> Page {
    let mut page = Page::new(StatusCode::OK, "Allow a client to use this gateway?").facts(&[
        ("Name, chosen by the client", consent.client_name.as_deref().unwrap_or("none")),
        ("Vouched for by", &vouching(consent)),
        ("The answer goes to", &receiver(&consent.receiver)),
    ]);
    for warning in warnings(consent) {
        page = page.warning(&warning);
    }
    page.facts(&[
        ("You", session.principal().shown()),
        ("It may", permission(consent.access.role)),
        ("View", consent.access.view.as_deref().unwrap_or("all that you may use")),
        ("Scopes", &consent.access.scope()),
        ("At", &consent.resource),
    ])
    .text("If you did not ask for this, deny it. You or an operator can end the access at any time.")
    .form(form.choice(DECISION, ALLOW, "Allow").choice(DECISION, DENY, "Deny"))
}

/// The page of a client that the person allowed as much before.
fn remembered(consent: &Consent, session: &BrowserSession, form: HtmlForm) -> Page {
    Page::new(StatusCode::OK, &format!("Continue to {}?", receiver(&consent.receiver)))
        .facts(&[
            ("Name, chosen by the client", consent.client_name.as_deref().unwrap_or("none")),
            ("Vouched for by", &vouching(consent)),
            ("You", session.principal().shown()),
            ("It may, as before", permission(consent.access.role)),
        ])
        .text(
            "Continue only if you have just started a login there. If somebody sent you this link, deny it.",
        )
        .form(form.choice(DECISION, ALLOW, "Continue").choice(DECISION, DENY, "Deny"))
}

fn vouching(consent: &Consent) -> String {
    match &consent.client_host {
        Some(host) => host.clone(),
        None if consent.is_trusted => "the operator of this gateway".to_owned(),
        None => "nobody: the client registered itself".to_owned(),
    }
}

fn receiver(receiver: &Receiver) -> String {
    match receiver {
        Receiver::Site(host) => host.clone(),
        Receiver::Loopback => "a program on your computer".to_owned(),
        Receiver::Program(scheme) => format!("the program on your computer that opens {scheme}: links"),
    }
}

/// The warnings of a page.
fn warnings(consent: &Consent) -> Vec<String> {
    let of_receiver = match consent.receiver {
        Receiver::Site(_) => None,
        Receiver::Loopback | Receiver::Program(_) => Some(
            "Any program on your computer can ask like this. Allow it only if you have just started the login in \
             that program."
                .to_owned(),
        ),
    };
    let of_client = match &consent.client_host {
        _ if consent.is_trusted => None,
        Some(host) => {
            Some(format!("The operator of this gateway does not know {host}. Allow it only if you do."))
        }
        None => Some(
            "Nobody has checked this client: it can call itself as it likes. Look at where the answer goes."
                .to_owned(),
        ),
    };
    of_client.into_iter().chain(of_receiver).collect()
}

const fn permission(role: Role) -> &'static str {
    match role {
        Role::Reader => "see servers, tools and their state",
        Role::Caller => "see and call tools, and read resources and prompts",
        Role::Superuser => "call tools, and operate this gateway: its servers, keys and settings",
    }
}

/// How a person gets a new request.
const AGAIN: &str = "Start the login again in your MCP client.";
/// Seconds until a busy gateway is worth a retry.
const BUSY_RETRY_IN: u64 = 5;

fn failure(status: StatusCode, title: &str, text: &str) -> Page {
    Page::failure(status, title, text).text(AGAIN)
}

/// The page about `error`, which a client caused.
fn of_error(error: &Error, title: &str, text: &str) -> Page {
    Page::failure(error.status(), title, text)
        .facts(&[("Error", error.code.as_str()), ("Reason", &error.description)])
        .retry_after(error.retry_after)
}

/// A request whose client or redirect URI is not known, so that the answer can go nowhere else.
fn not_valid(error: &Error) -> Page {
    let text = "The client that sent you here made a request that this gateway does not accept. Nothing was allowed.";
    of_error(error, "The request of the client is not valid", text).text(
        "If you did not start a login, close this page. Otherwise, show this to the developer of the client.",
    )
}

/// A request that gets no code, of a client that nobody vouches for.
fn not_granted(error: &Error) -> Page {
    let text = "The client that sent you here does not get access. Nothing was allowed.";
    of_error(error, "The client gets no access", text).text(
        "If you did not start a login, close this page: the link leads to a client that nobody has checked.",
    )
}

fn too_long() -> Page {
    let text = "The request of the client is too long.";
    failure(StatusCode::URI_TOO_LONG, "The request of the client is not valid", text)
}

pub(super) fn damaged() -> Page {
    let text = "A field is missing or damaged, or the form was made for somebody else. Nothing was allowed.";
    failure(StatusCode::BAD_REQUEST, "The form is not valid", text)
}

pub(super) fn other_session() -> Page {
    let text = "You were asked in another session: in another browser, or before you signed in again. Nothing was \
                allowed.";
    failure(StatusCode::FORBIDDEN, "The form belongs to another session", text)
}

pub(super) fn took_too_long() -> Page {
    let text = "More than ten minutes have passed since the page was shown. Nothing was allowed.";
    failure(StatusCode::GONE, "The login took too long", text)
}

pub(super) fn busy() -> Page {
    let text = "The gateway is busy with other logins. Load this page again in a moment.";
    Page::failure(StatusCode::SERVICE_UNAVAILABLE, "Try again in a moment", text).retry_after(BUSY_RETRY_IN)
}

pub(super) fn too_many(seconds: u64) -> Page {
    let text = "Too many requests come from your address. Load this page again in a moment.";
    Page::failure(StatusCode::TOO_MANY_REQUESTS, "Try again in a moment", text).retry_after(seconds)
}
