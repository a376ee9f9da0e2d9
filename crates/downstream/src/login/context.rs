//! The state that the login pages share, what they know of one request, and who may log in to a server.
//!
//! Invariants: the body of a request is a small form of a page of Switchyard, or the request is refused. With
//! `auth_mode: none`, a visitor gets a session without sign-in on this machine only: the listener is bound to loopback,
//! and `Host` is a loopback name. A page of another site cannot have such a name (DNS rebinding). A login that all principals
//! share needs a superuser, and a login of one principal a caller. The decision is `auth`'s, and a refusal is in the audit log.
//!
//! Not here: what the pages say (`messages`).

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::Request;
use http::{HeaderMap, HeaderValue, Method};
use secrecy::ExposeSecret;

use super::messages;
use super::people_login::{InProgress, PeopleLogin};
use crate::Config;
use crate::authority::host_of;
use crate::browser::access::BrowserAccess;
pub(super) use crate::browser::access::SESSION;
use crate::browser::form::{self, Fields};
use crate::browser::html::Page;
use crate::browser::sessions::{BrowserSession, BrowserSessions, Cookies, NewSession, SameSite};
use crate::client_address::ClientAddress;
use crate::guard::{Guard, MAX_FORM};
use auth::Principal;
use gateway::login_links::{LoginContext, is_loopback};
use gateway::logins::Per;
use runtime::telemetry::audit::{Actor, Subject};
use runtime::telemetry::{RequestId, audit};

/// The login pages. They share the sessions of browsers with other pages.
pub struct Pages {
    pub(crate) sessions: Arc<BrowserSessions>,
    pub(super) browser: Arc<BrowserAccess>,
    pub(crate) logins: LoginContext,
    pub(crate) in_progress: InProgress,
    /// The login service behind the authorization server.
    pub(super) people: Option<PeopleLogin>,
    /// Whether the listener accepts connections of this machine only.
    is_local: bool,
}

impl Pages {
    /// The pages of the instance that `guard` and `config` describe.
    pub fn new(guard: &Guard, config: &Config, logins: LoginContext) -> Self {
        let browser = guard.browser();
        Self {
            sessions: browser.sessions(),
            browser,
            logins,
            in_progress: InProgress::by_principal(),
            people: None,
            is_local: config.listen.ip().is_loopback(),
        }
    }

    /// Lets people sign in at `provider`. `takes_keys` says whether a key is enough for the authorization request of a client.
    pub fn with_provider(mut self, provider: Arc<oauth::Provider>, takes_keys: bool) -> Self {
        self.people = Some(PeopleLogin::new(provider, takes_keys));
        self
    }

    /// Whether visitors have to sign in with a credential.
    pub(crate) fn asks_for_credentials(&self) -> bool {
        !self.sessions.is_of_host() && self.sessions.without_sign_in(None).is_none()
    }
}

/// One request to a login page.
pub(crate) struct Visit {
    pub(crate) headers: HeaderMap,
    pub(crate) query: Fields,
    pub(crate) form: Fields,
    /// The `Host` of the request.
    pub(crate) host: Option<String>,
    pub(crate) cookies: Cookies,
    pub(crate) session: Option<BrowserSession>,
    pub(crate) from_host: Option<Principal>,
    /// Where it comes from, if that is known.
    pub(crate) address: Option<ClientAddress>,
    pub(crate) id: RequestId,
}

impl Visit {
    /// Reads `request`, whose form must come from a page of Switchyard.
    pub(crate) async fn of(pages: &Pages, request: Request) -> Result<Self, Page> {
        let query = Fields::parse(request.uri().query().unwrap_or_default().as_bytes());
        Self::with(pages, request, query.ok_or_else(messages::bad_fields)?).await
    }

    /// Reads `request` except its query, which the page reads itself.
    pub(crate) async fn without_query(pages: &Pages, request: Request) -> Result<Self, Page> {
        Self::with(pages, request, Fields::default()).await
    }

    async fn with(pages: &Pages, request: Request, query: Fields) -> Result<Self, Page> {
        let (head, body) = request.into_parts();
        let host = host_of(&head.headers, &head.uri).map(str::to_owned);
        let base = pages.logins.links.base(host.as_deref()).ok_or_else(messages::no_base)?;
        let form = if head.method == Method::POST {
            if !form::is_own(&head.headers, &base) {
                return Err(messages::foreign_form(&base));
            }
            let body = to_bytes(body, MAX_FORM).await.map_err(|_| messages::bad_fields())?;
            Fields::parse(&body).ok_or_else(messages::bad_fields)?
        } else {
            Fields::default()
        };
        let cookies = Cookies::of(&base);
        let from_host = head.extensions.get::<Principal>().filter(|_| pages.sessions.is_of_host()).cloned();
        let session = match cookies.read(SESSION, &head.headers) {
            Some(cookie) => pages.sessions.find(cookie, from_host.as_ref()).await,
            None => None,
        };
        let id = head.extensions.get().copied().unwrap_or_else(RequestId::new);
        let address = head.extensions.get().copied();
        Ok(Self { headers: head.headers, query, form, host, cookies, session, from_host, address, id })
    }

    /// Returns the session of the visitor, and the header that sets its cookie if it is new. None if the visitor must
    /// sign in.
    pub(crate) fn session(
        &self,
        pages: &Pages,
    ) -> Result<Option<(BrowserSession, Option<HeaderValue>)>, Page> {
        if let Some(session) = &self.session {
            return Ok(Some((session.clone(), None)));
        }
        let Some(principal) = pages.sessions.without_sign_in(self.from_host.as_ref()) else {
            return if pages.sessions.is_of_host() { Err(messages::host_must_sign_in()) } else { Ok(None) };
        };
        let is_here = pages.is_local && self.host.as_deref().is_some_and(is_loopback);
        if !is_here && !pages.sessions.is_of_host() {
            return Err(messages::not_on_this_machine());
        }
        let new = pages.sessions.begin(principal);
        let cookie = self.session_cookie(&new);
        Ok(Some((new.session, cookie)))
    }

    /// Returns the header that sets the cookie of `new`.
    pub(crate) fn session_cookie(&self, new: &NewSession) -> Option<HeaderValue> {
        self.cookies.set(SESSION, new.cookie.expose_secret(), SameSite::Lax)
    }

    /// Returns the session whose CSRF token the form has.
    pub(crate) fn session_of_form(&self) -> Result<&BrowserSession, Page> {
        let session = self.session.as_ref().ok_or_else(messages::session_ended)?;
        let sent = self.form.get("csrf").unwrap_or_default();
        if form::is_equal(sent, session.csrf()) { Ok(session) } else { Err(messages::bad_csrf()) }
    }
}

/// Checks that the principal of `session` may log in to a server whose login is used as `per` says.
pub(super) fn check(per: Per, session: &BrowserSession, visit: &Visit) -> Result<(), Page> {
    let (principal, action) = (session.principal(), per.log_in());
    if principal.may(action) {
        return Ok(());
    }
    audit::refused(who(session, visit.id), action.as_str(), &Subject::default())
        .map_err(|_| messages::busy())?;
    Err(messages::not_allowed(per, principal.role()))
}

/// The principal of `session` as the audit log shows it.
pub(crate) fn who(session: &BrowserSession, id: RequestId) -> Actor<'_> {
    let principal = session.principal();
    Actor { principal: principal.id(), role: principal.role().as_str(), request: Some(id) }
}
