//! REST requests of the dashboard, authenticated by the session of its browser.
//!
//! Invariants: a session counts only where the headers have no credential, so no other request pays for this check. It
//! counts only for REST, and not if another site caused the request. A request that may change something must come from
//! a page of Switchyard, and must repeat the CSRF token of the session in a header. No site can set this header without
//! permission, and no site gets it (`http_service`).
//!
//! Not here: sessions and their ends (`sessions`), the page that tells the token to the dashboard (`login`).

use std::sync::Arc;

use http::header::{COOKIE, ORIGIN};
use http::{Method, request};

use super::form;
use super::sessions::{BrowserSession, BrowserSessions, Cookies};
use crate::Config;
use crate::authority::host_of;
use crate::refusal::{AnswerFormat, Refusal};
use auth::Principal;
use gateway::login_links::base_url;

/// The purpose of the cookie of a session.
pub(crate) const SESSION: &str = "session";
/// Header that repeats the CSRF token of the session.
const CSRF: &str = "x-switchyard-csrf";

/// Finds the session of a browser among the headers of a request.
#[derive(Debug)]
pub(crate) struct BrowserAccess {
    sessions: Arc<BrowserSessions>,
    public_url: Option<String>,
    scheme: &'static str,
}

impl BrowserAccess {
    pub(crate) fn new(sessions: Arc<BrowserSessions>, config: &Config) -> Self {
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        Self { sessions, public_url: config.public_url.clone(), scheme }
    }

    /// Returns the sessions of all browsers.
    pub(crate) fn sessions(&self) -> Arc<BrowserSessions> {
        Arc::clone(&self.sessions)
    }

    /// Whether the request may have a session that counts here. This is cheap.
    pub(crate) fn may_have_session(&self, head: &request::Parts) -> bool {
        head.headers.contains_key(COOKIE)
            && AnswerFormat::of(head.uri.path()) == AnswerFormat::Rest
            && !self.sessions.is_of_host()
    }

    /// Returns the URL at which the browser reaches Switchyard.
    pub(crate) fn base(&self, head: &request::Parts) -> Option<String> {
        base_url(self.public_url.as_deref(), self.scheme, host_of(&head.headers, &head.uri))
    }

    /// Whether a browser sent the request for a page that is not one of Switchyard. Programs name no page.
    pub(crate) fn is_of_other_page(&self, head: &request::Parts) -> bool {
        if !form::names_page(&head.headers) {
            return false;
        }
        let is_safe = matches!(head.method, Method::GET | Method::HEAD);
        if is_safe && !head.headers.contains_key(ORIGIN) {
            return !form::is_not_of_other_site(&head.headers);
        }
        // A page can also be open under another name than the public one, and behind a proxy that speaks TLS.
        let host = host_of(&head.headers, &head.uri).unwrap_or_default();
        let bases = self
            .public_url
            .clone()
            .into_iter()
            .chain(["http", "https"].map(|scheme| format!("{scheme}://{host}")));
        !bases.into_iter().any(|base| form::is_of_own_page(&head.headers, &base))
    }

    /// Returns the valid session of the request, unless another site caused it.
    pub(crate) async fn session(&self, head: &request::Parts) -> Option<BrowserSession> {
        let base = self.base(head)?;
        let cookies = Cookies::of(&base);
        let cookie = cookies.read(SESSION, &head.headers)?;
        if form::is_not_of_other_site(&head.headers) { self.sessions.find(cookie, None).await } else { None }
    }

    /// Returns the principal of the session of the request.
    pub(crate) async fn principal(&self, head: &request::Parts) -> Result<Option<Principal>, Refusal> {
        let Some(session) = self.session(head).await else { return Ok(None) };
        let is_safe = matches!(head.method, Method::GET | Method::HEAD);
        if is_safe || self.is_from_dashboard(head, &session) {
            return Ok(Some(session.principal().clone()));
        }
        Err(Refusal::Csrf)
    }

    /// Whether a page of Switchyard caused the request and repeats the token of `session`.
    fn is_from_dashboard(&self, head: &request::Parts, session: &BrowserSession) -> bool {
        let mut tokens = head.headers.get_all(CSRF).iter();
        let sent = tokens.next().and_then(|token| token.to_str().ok()).unwrap_or_default();
        let is_once = tokens.next().is_none();
        let is_own = self.base(head).is_some_and(|base| form::is_of_own_page(&head.headers, &base));
        is_once && is_own && form::is_equal(sent, session.csrf())
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
