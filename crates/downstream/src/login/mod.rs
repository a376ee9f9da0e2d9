//! The pages at which a person logs in to a server.
//!
//! ```text
//! link ──▶ /oauth/start ──(no session)──▶ /oauth/sign-in ──▶ /oauth/start: server, login service, scopes, "Continue"
//!                                                                 │ POST, with the CSRF token of the session
//!                                                                 ▼
//!          /oauth/callback ◀── code, state ── browser ◀── page of the login service
//! ```
//!
//! Invariants: a link carries no authority, and opens only in a session of its principal. `state` is sealed for the
//! principal, names the browser session that began the login, expires after ten minutes and is redeemed once. A browser
//! is redirected to a sealed URL or to a path of these pages, and to nothing that a request names. Pages name no reason
//! that they did not make or escape.
//!
//! Not here: OAuth itself (`gateway::logins`), sessions and HTML (`browser`).
//!
//! Source: RFC 6749, section 10.12; RFC 9700, sections 2.1 and 4.7; the pages "elicitation" and "authorization" of MCP.

mod callback;
mod client_metadata;
mod context;
mod dashboard_session;
mod destination;
mod messages;
mod people;
mod people_login;
pub(crate) mod sealed;
mod sign_in;
mod start;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

pub use self::context::Pages;
pub(crate) use self::context::{Visit, who};
pub(crate) use self::destination::{Destination, form_target};
pub(crate) use self::messages::method_not_allowed;
pub(crate) use self::sign_in::with_form;

impl Pages {
    /// Returns the routes. `guard` accepts them without a credential. All are below `/oauth/`, except the one that tells
    /// the dashboard about its session.
    pub fn router(self: Arc<Self>) -> Router {
        let pages = Router::new()
            .route("/oauth/start", get(show_start).post(send_start))
            .route("/oauth/callback", get(show_callback))
            .route("/oauth/sign-in", get(show_sign_in).post(send_sign_in))
            .route("/oauth/login", axum::routing::post(send_login))
            .route(people::CALLBACK, get(show_login_callback))
            .route("/oauth/sign-out", axum::routing::post(send_sign_out))
            .route("/oauth/client.json", get(client_metadata::show));
        let pages = pages.method_not_allowed_fallback(method_not_allowed);
        pages.route("/ui/session", get(dashboard_session::show)).with_state(self)
    }
}

/// Answers with the page that `answer` gives.
macro_rules! pages {
    ($($name:ident => $answer:path;)*) => {
        $(async fn $name(State(pages): State<Arc<Pages>>, request: Request) -> Response {
            match Visit::of(&pages, request).await {
                Ok(visit) => $answer(&pages, visit).await.into_response(),
                Err(page) => page.into_response(),
            }
        })*
    };
}

pages! {
    show_start => start::show;
    send_start => start::send;
    show_callback => callback::show;
    show_sign_in => sign_in::show;
    send_sign_in => sign_in::send;
    send_login => people::begin;
    show_login_callback => people::finish;
    send_sign_out => sign_in::sign_out;
}

#[cfg(test)]
mod attack_tests;
#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod login_tests;
#[cfg(test)]
mod people_tests;
