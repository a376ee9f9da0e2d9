//! Authorization requests: what a client wants of a person, and the answer that it gets.
//!
//! Invariants: nothing is redirected before the client and its redirect URI are known. Every answer names this server
//! (`iss`), and has the `state` of the client as it was sent. A request is not stored: the page that asks the person carries
//! it, sealed by its caller.
//!
//! Source: RFC 6749, sections 4.1.1 and 4.1.2; RFC 7636, section 4.4.1; RFC 9207, section 2; RFC 9700, section 4.11;
//! `OpenID` Connect Core 1.0, section 3.1.2.1 (`prompt`).

use serde::{Deserialize, Serialize};

use crate::access::{Endpoint, Host, RequestedAccess};
use crate::client::{Client, ClientSource};
use crate::error::{Code, Error};
use crate::grant::Challenge;
use crate::redirect_uri::{Receiver, RedirectUri, with_parameters};
use crate::resource;
use crate::token_request::Fields;

/// Why a request gets no code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthorizationError {
    /// The page shows the error, and the browser stays here: nothing is known about where the answer would go.
    Shown(Error),
    /// The page shows the error and where the client would get it; the person decides whether to go there. Anybody can
    /// register a client, so a redirect at once could lead from this gateway to any site.
    Offered {
        /// Where the link of the page leads.
        location: String,
        /// The receiver of the error there.
        receiver: Receiver,
        /// The error.
        error: Error,
    },
    /// The client gets the error, by a redirect of the browser.
    Redirected {
        /// Where the browser goes.
        location: String,
        /// The error, for the log.
        error: Error,
    },
}

impl AuthorizationError {
    /// The error.
    pub const fn error(&self) -> &Error {
        match self {
            Self::Shown(error) | Self::Offered { error, .. } | Self::Redirected { error, .. } => error,
        }
    }

    /// Returns the error without a redirect at once, which would lead to `receiver`.
    pub(crate) fn offered(self, receiver: Receiver) -> Self {
        match self {
            Self::Redirected { location, error } => Self::Offered { location, receiver, error },
            shown => shown,
        }
    }
}

/// A request that is valid, and waits for a person to agree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationRequest {
    pub(crate) client: String,
    pub(crate) source: ClientSource,
    pub(crate) client_name: Option<String>,
    pub(crate) redirect_uri: String,
    pub(crate) receiver: Receiver,
    pub(crate) state: Option<String>,
    pub(crate) challenge: Challenge,
    pub(crate) resource: String,
    pub(crate) requested: RequestedAccess,
    pub(crate) refreshes: bool,
    pub(crate) authenticates: bool,
    /// Whether the client wants the whole page, also if a grant covers the request.
    pub(crate) asks_again: bool,
}

impl AuthorizationRequest {
    /// Reads the request of `client` for the gateway at `issuer`.
    pub(crate) fn read(
        fields: &Fields,
        client: &Client,
        issuer: &str,
        host: &dyn Host,
    ) -> Result<Self, AuthorizationError> {
        let uri = fields.require("redirect_uri").map_err(AuthorizationError::Shown)?;
        let Some(registered) = client.metadata.allows_redirect_to(uri) else {
            // A client may have registered it, and it was left out then.
            let left_out =
                RedirectUri::parse(uri).err().filter(|_| client.source != ClientSource::Configured);
            let reason = left_out.unwrap_or("`redirect_uri` is none of those that the client has registered");
            return Err(AuthorizationError::Shown(Error::new(Code::InvalidRequest, reason)));
        };
        let read = || {
            check_kind(fields)?;
            let resource = resource::find(fields.get("resource")?, issuer, host)?;
            let requested =
                RequestedAccess::parse(fields.get("scope")?)?.in_view(resource.view.as_deref())?;
            if requested.view().is_some_and(|view| host.endpoint(view) != Some(Endpoint::View)) {
                return Err(Error::new(Code::InvalidScope, "`scope` names a view that does not exist"));
            }
            Ok(Self {
                client: client.id.clone(),
                source: client.source,
                client_name: client.metadata.name.clone(),
                redirect_uri: uri.to_owned(),
                receiver: registered.receiver(),
                state: fields.get("state")?.map(str::to_owned),
                challenge: challenge(fields)?,
                resource: resource.identifier,
                requested,
                refreshes: client.metadata.refreshes,
                authenticates: client.metadata.authentication.needs_key(),
                asks_again: asks_again(fields.get("prompt")?)?,
            })
        };
        read().map_err(|error| {
            let state = fields.get("state").ok().flatten();
            let location = error_location(uri, state, issuer, &error);
            AuthorizationError::Redirected { location, error }
        })
    }

    /// The id of the client.
    pub fn client(&self) -> &str {
        &self.client
    }

    /// Returns the redirect with `code`.
    pub(crate) fn granted(&self, code: &str, issuer: &str) -> String {
        with_parameters(&self.redirect_uri, &answer(&[("code", code)], self.state.as_deref(), issuer))
    }

    /// Returns the redirect with `error`.
    pub(crate) fn refused(&self, error: Error, issuer: &str) -> AuthorizationError {
        let location = error_location(&self.redirect_uri, self.state.as_deref(), issuer, &error);
        AuthorizationError::Redirected { location, error }
    }
}

fn error_location(uri: &str, state: Option<&str>, issuer: &str, error: &Error) -> String {
    let facts = [("error", error.code.as_str()), ("error_description", &*error.description)];
    with_parameters(uri, &answer(&facts, state, issuer))
}

fn answer<'a>(
    facts: &[(&'a str, &'a str)],
    state: Option<&'a str>,
    issuer: &'a str,
) -> Vec<(&'a str, &'a str)> {
    let state = state.map(|state| ("state", state));
    facts.iter().copied().chain(state).chain([("iss", issuer)]).collect()
}

fn check_kind(fields: &Fields) -> Result<(), Error> {
    if fields.require("response_type")? != "code" {
        return Err(Error::new(Code::UnsupportedResponseType, "`response_type` is not `code`"));
    }
    if fields.get("request")?.is_some() || fields.get("request_uri")?.is_some() {
        return Err(Error::new(Code::RequestNotSupported, "`request` and `request_uri` are not supported"));
    }
    match fields.get("response_mode")? {
        None | Some("query") => Ok(()),
        Some(_) => Err(Error::new(Code::InvalidRequest, "`response_mode` is not `query`")),
    }
}

/// Whether `prompt` asks for the whole page. `none` forbids each page, and no code is given without one. The page also serves
/// `login` and `select_account`: it names the person, and has a button to sign in as somebody else.
fn asks_again(prompt: Option<&str>) -> Result<bool, Error> {
    let mut words = prompt.into_iter().flat_map(|prompt| prompt.split(' '));
    if words.clone().any(|word| word == "none") {
        let is_alone = words.all(|word| word == "none");
        let alone =
            || Error::new(Code::InteractionRequired, "a person has to continue on a page of this gateway");
        let other = || Error::new(Code::InvalidRequest, "`prompt` has another word beside `none`");
        return Err(if is_alone { alone() } else { other() });
    }
    Ok(prompt.is_some())
}

fn challenge(fields: &Fields) -> Result<Challenge, Error> {
    let refused = |reason: &'static str| Error::new(Code::InvalidRequest, reason);
    let challenge = fields.get("code_challenge")?;
    let challenge = challenge.ok_or_else(|| refused("`code_challenge` is missing; PKCE is required"))?;
    if fields.get("code_challenge_method")? != Some("S256") {
        return Err(refused("`code_challenge_method` is not `S256`"));
    }
    Challenge::parse(challenge).ok_or_else(|| refused("`code_challenge` is not a SHA-256 in Base64 for URLs"))
}
