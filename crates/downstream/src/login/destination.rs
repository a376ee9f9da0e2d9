//! Where a visitor goes after the sign-in, and how the forms in between carry it.
//!
//! Invariants: only a page of these can be named. The query of an authorization request is sealed, so a form names none that
//! this gateway did not show. It conveys no authority: it is what the client put into its link.

use axum::response::Response;
use http::HeaderValue;
use serde::{Deserialize, Serialize};
use url::form_urlencoded;

use super::context::{Pages, Visit};
use crate::browser::html::{HtmlForm, see_other};
use auth::{Principal, Role};
use authorization::{AUTHORIZE, Receiver, RedirectUri};

/// The value of the field `to` that leads to the dashboard.
const DASHBOARD: &str = "ui";
/// Separates queries from other sealed values.
const PURPOSE: &str = "authorization query";
/// Limit of the characters of a ticket.
const MAX_TICKET: usize = 2_048;

/// The page to which a visitor goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Destination {
    /// The login to a server, with the ticket of its link.
    Login(String),
    /// The authorization request of a client, with its query.
    Authorization(String),
    /// The dashboard.
    Dashboard,
    /// The page that says who has signed in.
    SignIn,
}

impl Destination {
    /// Reads what `visit` carries.
    pub(super) fn of(visit: &Visit, pages: &Pages) -> Self {
        let get = |name| visit.form.get(name).or_else(|| visit.query.get(name));
        if let Some(ticket) = get("login").filter(|ticket| is_token(ticket, 1..=MAX_TICKET)) {
            return Self::Login(ticket.to_owned());
        }
        let open = |sealed| pages.logins.links.sealer().open(PURPOSE, &nobody(), sealed);
        let query = get("authorize").and_then(open).and_then(|query| String::from_utf8(query).ok());
        match query {
            Some(query) => Self::Authorization(query),
            None if get("to") == Some(DASHBOARD) => Self::Dashboard,
            None => Self::SignIn,
        }
    }

    /// Adds it to `form`.
    pub(crate) fn carried_in(&self, form: HtmlForm, pages: &Pages) -> HtmlForm {
        match self {
            Self::Login(ticket) => form.hidden("login", ticket),
            Self::Authorization(query) => {
                let sealed = pages.logins.links.sealer().seal(PURPOSE, &nobody(), query.as_bytes());
                form.hidden("authorize", &sealed)
            }
            Self::Dashboard => form.hidden("to", DASHBOARD),
            Self::SignIn => form,
        }
    }

    /// Leads there from a page below `/oauth/`.
    pub(super) fn redirect(&self, cookies: impl IntoIterator<Item = HeaderValue>) -> Response {
        see_other(&self.location(), cookies)
    }

    /// Its address from a page below `/oauth/`.
    pub(super) fn location(&self) -> String {
        match self {
            Self::Login(ticket) => format!("start?login={ticket}"),
            Self::Authorization(query) => format!("{}?{query}", AUTHORIZE.trim_start_matches("/oauth/")),
            Self::Dashboard => "../ui/".to_owned(),
            Self::SignIn => "sign-in".to_owned(),
        }
    }

    /// Returns the source of `form-action` of a form that leads there, if it may lead further. A client may get an error at
    /// once, and browsers apply the policy of a form to each redirect.
    pub(super) fn form_target(&self) -> Option<String> {
        let Self::Authorization(query) = self else { return None };
        let mut fields = form_urlencoded::parse(query.as_bytes());
        let uri = fields.find(|(name, _)| name == "redirect_uri")?.1;
        RedirectUri::of_operator(&uri).ok().map(|uri| form_target(&uri.receiver()))
    }
}

/// Returns the source of `form-action` for an answer to `receiver`, which may redirect further. A policy cannot name a
/// loopback address of IPv6.
pub(crate) fn form_target(receiver: &Receiver) -> String {
    match receiver {
        Receiver::Site(_) => "https:".to_owned(),
        Receiver::Loopback => "http:".to_owned(),
        Receiver::Program(scheme) => format!("{scheme}:"),
    }
}

/// The principal of a browser in which nobody has signed in yet. No credential gives an empty id.
pub(super) fn nobody() -> Principal {
    Principal::new("", Role::Reader)
}

/// Whether `text` has letters, digits, `-` and `_`, and one of the lengths of `lengths`.
pub(super) fn is_token(text: &str, lengths: std::ops::RangeInclusive<usize>) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    lengths.contains(&text.len()) && text.bytes().all(is_plain)
}
