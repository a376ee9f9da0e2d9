//! The endpoints of the authorization server: documents, registrations and tokens for clients, and the consent page.
//!
//! ```text
//! /oauth/authorize ──(no session)──▶ sign-in ──▶ consent ── POST, CSRF token, sealed request ──▶ client: code
//! client ── code ──▶ /oauth/token ──▶ access token, refresh token
//! ```
//!
//! Invariants: a client gets a code only for a person with a browser session, who was asked in this session or remembered.
//! Clients send no cookie, so a page of any origin may be one (CORS); the consent page is for people, and for no other site.
//! Nothing that a form or a link names is redirected to, except the redirect URI of a client that is known. No log line has a
//! code, a token or a text that a stranger chose.
//!
//! Not here: what is granted (`authorization`), sessions and HTML (`browser`), the sign-in (`login`), which requests come
//! here (`guard`).

mod answer;
mod documents;

use std::sync::Arc;

use authorization::{AuthorizationServer, KEY_SET};
use axum::Router;
use axum::routing::get;

use crate::guard::Guard;
use crate::login::Pages;

/// The endpoints of one gateway.
pub struct Endpoints {
    server: Arc<AuthorizationServer>,
    pages: Arc<Pages>,
}

impl Endpoints {
    /// The endpoints of `server`, whose clients `guard` lets in from now on. People sign in at `pages`.
    pub fn new(server: Arc<AuthorizationServer>, guard: &mut Guard, pages: &Arc<Pages>) -> Arc<Self> {
        guard.serve_authorization();
        Arc::new(Self { server, pages: Arc::clone(pages) })
    }

    /// Returns the routes.
    pub fn router(self: Arc<Self>) -> Router {
        let mut routes = Router::new().route(KEY_SET, get(documents::key_set));
        for path in documents::METADATA_PATHS {
            routes = routes.route(path, get(documents::metadata));
        }
        routes.method_not_allowed_fallback(answer::method_not_allowed).with_state(self)
    }
}
