//! Requests to the token endpoint.
//!
//! Source: RFC 6749, sections 3.2, 4.1.3 and 6; RFC 8707, section 2.2; RFC 7523, section 2.2.

use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::client_assertion::ASSERTION_TYPE;
use crate::error::{Code, Error};
use crate::fields::Fields;
use crate::grant::Presented;

/// A credential that is exchanged for tokens.
#[derive(Debug)]
pub(crate) enum Credential {
    Code { code: Presented, verifier: String },
    Refresh(Presented),
}

/// A request, which is not judged yet.
#[derive(Debug)]
pub(crate) struct TokenRequest {
    pub(crate) credential: Credential,
    pub(crate) client: ClaimedClient,
    pub(crate) redirect_uri: Option<String>,
    pub(crate) resource: Option<String>,
    pub(crate) scope: Option<String>,
}

/// The client that a request claims to come from.
#[derive(Debug)]
pub(crate) struct ClaimedClient {
    pub(crate) id: Option<String>,
    pub(crate) assertion: Option<SecretString>,
}

/// Tokens for a client.
#[derive(Debug)]
pub struct TokenResponse {
    /// The access token.
    pub access_token: SecretString,
    /// The seconds for which it is valid.
    pub expires_in: u64,
    /// The refresh token, if the client gets one.
    pub refresh_token: Option<SecretString>,
    /// The scopes of the access token.
    pub scope: String,
}

impl TokenResponse {
    /// The body of the answer.
    pub fn json(&self) -> Zeroizing<String> {
        let mut answer = json!({
            "access_token": self.access_token.expose_secret(),
            "token_type": "Bearer",
            "expires_in": self.expires_in,
            "scope": self.scope,
        });
        if let Some(token) = &self.refresh_token {
            answer["refresh_token"] = Value::from(token.expose_secret());
        }
        Zeroizing::new(answer.to_string())
    }
}

impl TokenRequest {
    /// Reads a form.
    pub(crate) fn parse(form: &[u8]) -> Result<Self, Error> {
        let fields = Fields::parse(form)?;
        let invalid = |reason| Error::new(Code::InvalidGrant, reason);
        let credential = match fields.require("grant_type")? {
            "authorization_code" => Credential::Code {
                code: Presented::code(fields.require("code")?)
                    .ok_or_else(|| invalid("the code is not known"))?,
                verifier: fields.require("code_verifier")?.to_owned(),
            },
            "refresh_token" => {
                let token = Presented::refresh_token(fields.require("refresh_token")?);
                Credential::Refresh(token.ok_or_else(|| invalid("the refresh token is not known"))?)
            }
            _ => {
                let reason = "`grant_type` is neither `authorization_code` nor `refresh_token`";
                return Err(Error::new(Code::UnsupportedGrantType, reason));
            }
        };
        let text = |name| Ok::<_, Error>(fields.get(name)?.map(str::to_owned));
        Ok(Self {
            credential,
            client: ClaimedClient::read(&fields)?,
            redirect_uri: text("redirect_uri")?,
            resource: text("resource")?,
            scope: text("scope")?,
        })
    }

    /// The credential as it was sent.
    pub(crate) const fn presented(&self) -> &Presented {
        match &self.credential {
            Credential::Code { code, .. } => code,
            Credential::Refresh(token) => token,
        }
    }
}

impl ClaimedClient {
    pub(crate) fn read(fields: &Fields) -> Result<Self, Error> {
        let assertion = fields.get("client_assertion")?;
        if assertion.is_some() && fields.get("client_assertion_type")? != Some(ASSERTION_TYPE) {
            return Err(Error::new(Code::InvalidClient, "`client_assertion_type` is not that of a JWT"));
        }
        Ok(Self {
            id: fields.get("client_id")?.map(str::to_owned),
            assertion: assertion.map(SecretString::from),
        })
    }

    /// Returns the id, if a client has to name itself.
    pub(crate) fn id(&self) -> Result<Option<&str>, Error> {
        if self.id.is_none() && self.assertion.is_none() {
            return Err(Error::new(Code::InvalidRequest, "`client_id` is missing"));
        }
        Ok(self.id.as_deref())
    }
}
