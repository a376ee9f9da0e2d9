//! The texts of the authorization page for everything that does not go well: what happened, and what to do.
//!
//! Invariant: a text has no part of a request.

use http::StatusCode;

use crate::browser::html::Page;
use authorization::Error;

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
pub(super) fn not_valid(error: &Error) -> Page {
    let text = "The client that sent you here made a request that this gateway does not accept. Nothing was allowed.";
    of_error(error, "The request of the client is not valid", text).text(
        "If you did not start a login, close this page. Otherwise, show this to the developer of the client.",
    )
}

/// A request that gets no code, of a client that nobody vouches for.
pub(super) fn not_granted(error: &Error) -> Page {
    let text = "The client that sent you here does not get access. Nothing was allowed.";
    of_error(error, "The client gets no access", text).text(
        "If you did not start a login, close this page: the link leads to a client that nobody has checked.",
    )
}

pub(super) fn too_long() -> Page {
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
