//! `/ui/session`: tells the dashboard who its visitor is, and the CSRF token of the browser session.
//!
//! Invariants: the token is sent to the session that owns it, in a request that no other site caused. The answer is not
//! cached. Without a credential it says only that there is none.
//!
//! Not here: the files of the dashboard (`admin`), requests with the token (`browser::access`).

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, VARY, X_CONTENT_TYPE_OPTIONS};
use serde::Serialize;

use super::context::Pages;
use auth::Principal;

/// The visitor of the dashboard.
#[derive(Serialize)]
struct Visitor {
    /// The id of the principal. None: the visitor must sign in.
    principal: Option<Arc<str>>,
    role: Option<&'static str>,
    /// The token for requests that change something. None if there is no browser session, so none is needed.
    csrf: Option<Arc<str>>,
    /// Whether the visitor can sign in with a key or a token.
    can_sign_in: bool,
}

/// Answers with the visitor of the dashboard.
pub(super) async fn show(State(pages): State<Arc<Pages>>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let principal = head.extensions.get::<Principal>();
    let session =
        if pages.browser.may_have_session(&head) { pages.browser.session(&head).await } else { None };
    let own = session.filter(|session| principal == Some(session.principal()));
    let visitor = Visitor {
        principal: principal.map(|principal| Arc::clone(principal.id())),
        role: principal.map(|principal| principal.role().as_str()),
        csrf: own.map(|session| Arc::from(session.csrf())),
        can_sign_in: pages.asks_for_credentials() && pages.browser.base(&head).is_some(),
    };
    let mut response = Json(visitor).into_response();
    for (name, value) in [(CACHE_CONTROL, "no-store"), (VARY, "cookie"), (X_CONTENT_TYPE_OPTIONS, "nosniff")]
    {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
