//! `/oauth/client.json`: describes Switchyard to login services that fetch the description of a client by its id.
//!
//! Invariants: the document has configured values only. There is none unless `server.public_url` is HTTPS, because a
//! login service fetches it over HTTPS and compares its URL with `client_id`.
//!
//! Source: the draft OAuth Client ID Metadata Document, sections 3 and 4.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use super::context::Pages;
use super::messages;
use json::Raw;

/// How long a login service may cache the document: a restart may change `public_url`.
const LASTS: HeaderValue = HeaderValue::from_static("public, max-age=300");

/// Shows the document.
pub(super) async fn show(State(pages): State<Arc<Pages>>) -> Response {
    let links = &pages.logins.links;
    let own = links.own_client(None).filter(|_| links.has_client_metadata()).zip(links.base(None));
    let Some((own, base)) = own else { return messages::no_client_metadata().into_response() };
    let Some(client_id) = &own.client_metadata_url else {
        return messages::no_client_metadata().into_response();
    };
    let mut document = own.document(client_id);
    document["client_uri"] = base.into();
    let kind = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, LASTS)], Raw::of(&document).bytes().clone()).into_response()
}
