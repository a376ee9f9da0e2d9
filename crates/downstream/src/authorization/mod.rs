//! The endpoints of the authorization server: documents, registrations and tokens for clients, and the consent page.
//!
//! ```text
//! /oauth/authorize ──(no session)──▶ sign-in ──▶ consent ── POST, CSRF token, sealed request ──▶ client: code
//! client ── code ──▶ /oauth/token ──▶ access token, refresh token
//! ```
//!
//! Invariants: a client gets a code only for a person with a browser session, who clicked on a page of this session.
//! Clients send no cookie, so a page of any origin may be one (CORS); the consent page is for people, and for no other site.
//! Nothing that a form or a link names is redirected to, except the redirect URI of a client that is known. No log line has a
//! code, a token or a text that a stranger chose.
//!
//! Not here: what is granted (`authorization`), sessions and HTML (`browser`), the sign-in (`login`), which requests come
//! here (`guard`).

mod answer;
mod consent;
mod documents;
mod registrations;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};

use crate::client_address::AddressRate;
use crate::guard::Guard;
use crate::login::{self, Pages};
use authorization::{AUTHORIZE, AuthorizationServer, KEY_SET, REGISTER, REVOKE, TOKEN};

/// Requests to the authorization page that one address may send at once, and the time in which one more may come.
const AUTHORIZE_RATE: (u32, Duration) = (100, Duration::from_millis(100));
/// Requests with tokens: 10,000 clients behind one proxy that is not trusted send 17 in a second, and more after it was away.
const TOKEN_RATE: (u32, Duration) = (1_200, Duration::from_millis(10));
/// Registrations: a small part of those that all addresses may send together, so that no address shuts out the others.
const REGISTER_RATE: (u32, Duration) = (15, Duration::from_secs(4));

/// The endpoints of one gateway.
pub struct Endpoints {
    server: Arc<AuthorizationServer>,
    pages: Arc<Pages>,
    authorize_rate: AddressRate,
    token_rate: AddressRate,
    register_rate: AddressRate,
}

impl Endpoints {
    /// The endpoints of `server`, whose clients `guard` accepts from now on. People sign in at `pages`.
    pub fn new(server: Arc<AuthorizationServer>, guard: &mut Guard, pages: &Arc<Pages>) -> Arc<Self> {
        guard.serve_authorization();
        let [authorize_rate, token_rate, register_rate] =
            [AUTHORIZE_RATE, TOKEN_RATE, REGISTER_RATE].map(|(burst, pause)| AddressRate::new(burst, pause));
        Arc::new(Self { server, pages: Arc::clone(pages), authorize_rate, token_rate, register_rate })
    }

    /// Returns the routes.
    pub fn router(self: Arc<Self>) -> Router {
        let mut clients = Router::new()
            .route(KEY_SET, get(documents::key_set))
            .route(TOKEN, post(tokens::token))
            .route(REVOKE, post(tokens::revoke))
            .route(REGISTER, post(registrations::register))
            .route(&format!("{REGISTER}/{{id}}"), get(registrations::show).delete(registrations::remove));
        for path in documents::METADATA_PATHS {
            clients = clients.route(path, get(documents::metadata));
        }
        let people = Router::new().route(AUTHORIZE, get(consent::show).post(consent::send));
        let people = people.method_not_allowed_fallback(login::method_not_allowed);
        clients.method_not_allowed_fallback(answer::method_not_allowed).merge(people).with_state(self)
    }
}

#[cfg(test)]
mod attack_tests;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod flow_tests;
