//! Requests to the token endpoint, and the fields of a query or a form.
//!
//! Invariants: a field that is there with two values is an error, because two readers could take different ones. A field without
//! a value counts as absent, and an unknown one is ignored.
//!
//! Source: RFC 6749, sections 3.1, 3.2, 4.1.3 and 6; RFC 8707, section 2.2; RFC 7523, section 2.2.

use std::collections::HashMap;

use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use url::form_urlencoded;

use crate::client::ASSERTION_TYPE;
use crate::error::{Code, Error};
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

/// Limit of the length of a query or a form in bytes.
const MAX_BYTES: usize = 16 << 10;

/// The fields by name.
pub(crate) struct Fields {
    values: HashMap<String, String>,
    repeated: Vec<String>,
}

impl Fields {
    /// Reads the text of a query or a form.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, Error> {
        if text.len() > MAX_BYTES {
            return Err(Error::new(Code::InvalidRequest, "the request is longer than 16 KiB"));
        }
        let mut fields = Self { values: HashMap::new(), repeated: Vec::new() };
        for (name, value) in form_urlencoded::parse(text).filter(|(_, value)| !value.is_empty()) {
            let before = fields.values.insert(name.to_string(), value.to_string());
            if before.is_some_and(|before| before != value) {
                fields.repeated.push(name.into_owned());
            }
        }
        Ok(fields)
    }

    /// Returns the field `name`, if it is there once.
    pub(crate) fn get(&self, name: &'static str) -> Result<Option<&str>, Error> {
        if self.repeated.iter().any(|repeated| repeated == name) {
            return Err(Error::new(Code::InvalidRequest, format!("`{name}` is there with two values")));
        }
        Ok(self.values.get(name).map(String::as_str))
    }

    /// Returns the field `name`, which must be there.
    pub(crate) fn require(&self, name: &'static str) -> Result<&str, Error> {
        self.get(name)?.ok_or_else(|| Error::new(Code::InvalidRequest, format!("`{name}` is missing")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_field_is_an_error_only_for_its_reader() {
        let fields = Fields::parse(b"a=1&b=2&b=3&c=&d=x+y%26&a=%31").expect("fields");
        assert_eq!(fields.get("a"), Ok(Some("1")), "the same value twice");
        assert_eq!(fields.get("b").expect_err("twice").code, Code::InvalidRequest);
        assert_eq!(fields.get("c"), Ok(None), "empty");
        assert_eq!(fields.require("d"), Ok("x y&"));
        assert_eq!(fields.require("e").expect_err("absent").code, Code::InvalidRequest);
        assert!(Fields::parse(&vec![b'a'; MAX_BYTES + 1]).is_err());
    }
}
