//! Clients: who they are, where their answers may go, and how they prove who they are.
//!
//! Invariants: no client has a shared secret. A client is public, or signs with a key whose public half is in its
//! metadata. Names are for people only: they are shortened, and invisible characters are removed.
//!
//! Source: RFC 7591, section 2; RFC 7523, section 2.2; draft-ietf-oauth-client-id-metadata-document-02, section 4.

use json::Raw;
use jsonwebtoken::jwk::JwkSet;
use protocol::visible::is_visible;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::{Code, Error};
use crate::redirect_uri::RedirectUri;

/// Limit of the redirect URIs of one client.
const MAX_REDIRECT_URIS: usize = 16;
/// Limit of the keys of one client.
const MAX_KEYS: usize = 8;
/// Limit of the characters of a name that people see.
const MAX_NAME: usize = 60;

/// Where the metadata of a client comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientSource {
    /// The operator's file.
    Configured,
    /// The document at its id, so the host in the id has vouched for it.
    Document,
    /// A registration that anybody could make.
    Registered,
}

/// A client.
#[derive(Debug, Clone)]
pub struct Client {
    /// The id.
    pub id: String,
    /// Where its metadata comes from.
    pub source: ClientSource,
    /// Its metadata.
    pub metadata: ClientMetadata,
}

/// The metadata of a client that has a meaning here. Other members are not stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClientMetadata {
    /// A name for people, which the client chose.
    pub name: Option<String>,
    /// Where its answers may go.
    pub redirect_uris: Vec<RedirectUri>,
    /// How it proves who it is.
    pub authentication: ClientAuthentication,
    /// Whether it wants refresh tokens.
    pub refreshes: bool,
}

/// How a client proves who it is at the token endpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ClientAuthentication {
    /// Not at all: proof keys (PKCE) and rotation protect it.
    None,
    /// It signs with one of these keys.
    Keys(JwkSet),
    /// It signs with one of the keys at this https URL.
    KeysAt(String),
}

impl ClientAuthentication {
    /// The value of `token_endpoint_auth_method`.
    pub const fn method(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Keys(_) | Self::KeysAt(_) => "private_key_jwt",
        }
    }

    /// Whether the client has to prove who it is.
    pub(crate) const fn needs_key(&self) -> bool {
        !matches!(self, Self::None)
    }
}

/// The members of metadata that are read.
#[derive(Deserialize)]
struct Members {
    client_id: Option<String>,
    client_name: Option<String>,
    #[serde(default)]
    redirect_uris: Vec<String>,
    grant_types: Option<Vec<String>>,
    response_types: Option<Vec<String>>,
    token_endpoint_auth_method: Option<String>,
    client_secret: Option<serde::de::IgnoredAny>,
    jwks: Option<JwkSet>,
    jwks_uri: Option<String>,
}

impl ClientMetadata {
    /// Reads the document of the client `id`.
    pub(crate) fn of_document(json: &Raw, id: &str) -> Result<Self, Error> {
        let members = members(json)?;
        if members.client_id.as_deref() != Some(id) {
            return Err(invalid("the document is of another client: its `client_id` is not its URL"));
        }
        if members.client_secret.is_some() {
            return Err(invalid("the document has a secret, which everybody can read"));
        }
        let redirect_uris = accepted(&members.redirect_uris, "the document has no redirect URI")?;
        members.finish(redirect_uris, false)
    }

    /// Reads the request of a client that registers itself.
    pub(crate) fn of_registration(json: &Raw) -> Result<Self, Error> {
        let members = members(json)?;
        let expected = "expected 1 to 16 `redirect_uris`";
        if members.redirect_uris.len() > MAX_REDIRECT_URIS {
            return Err(Error::new(Code::InvalidRedirectUri, expected));
        }
        let redirect_uris = accepted(&members.redirect_uris, expected)?;
        members.finish(redirect_uris, true)
    }

    /// Whether an answer may go to `requested`.
    pub(crate) fn allows_redirect_to(&self, requested: &str) -> Option<&RedirectUri> {
        self.redirect_uris.iter().find(|uri| uri.matches(requested))
    }

    /// The grants that the client may use.
    pub(crate) fn grant_types(&self) -> Vec<&'static str> {
        let refresh = self.refreshes.then_some("refresh_token");
        ["authorization_code"].into_iter().chain(refresh).collect()
    }
}

impl Members {
    /// `replaces_secrets` says that a client which wanted a secret becomes a public one (RFC 7591, section 3.2.1).
    fn finish(
        self,
        redirect_uris: Vec<RedirectUri>,
        replaces_secrets: bool,
    ) -> Result<ClientMetadata, Error> {
        // Some clients write empty values for what they leave open.
        let has = |list: &Option<Vec<String>>, word: &str| {
            list.as_ref().is_none_or(|list| list.is_empty() || list.iter().any(|item| item == word))
        };
        if !has(&self.grant_types, "authorization_code") || !has(&self.response_types, "code") {
            return Err(invalid(
                "the client does not use authorization codes, and there is no other way to log in",
            ));
        }
        let refreshes = has(&self.grant_types, "refresh_token");
        let authentication = match self.token_endpoint_auth_method.as_deref() {
            None | Some("none" | "") => ClientAuthentication::None,
            Some("private_key_jwt") => keys(self.jwks, self.jwks_uri)?,
            Some("client_secret_basic" | "client_secret_post" | "client_secret_jwt") if replaces_secrets => {
                ClientAuthentication::None
            }
            Some(_) => {
                return Err(invalid("`token_endpoint_auth_method` is neither `none` nor `private_key_jwt`"));
            }
        };
        let name = self.client_name.map(|name| shown_name(&name)).filter(|name| !name.is_empty());
        Ok(ClientMetadata { name, redirect_uris, authentication, refreshes })
    }
}

/// Returns those of `uris` that are accepted. The others are left out, because clients describe themselves in the same way
/// to all authorization servers. The error is about the first one, or `none` if there is none.
fn accepted(uris: &[String], none: &'static str) -> Result<Vec<RedirectUri>, Error> {
    let (mut accepted, mut reason) = (Vec::new(), None);
    for uri in uris {
        match RedirectUri::parse(uri) {
            Ok(uri) => accepted.push(uri),
            Err(refused) => reason = reason.or(Some(refused)),
        }
    }
    let refused = || Error::new(Code::InvalidRedirectUri, reason.unwrap_or(none));
    if accepted.is_empty() { Err(refused()) } else { Ok(accepted) }
}

fn members(json: &Raw) -> Result<Members, Error> {
    if !json.is_object() || json.duplicate_key().is_some() {
        return Err(invalid("the metadata is not a JSON object, or has a member twice"));
    }
    json.read().map_err(|_| invalid("a member of the metadata has another type than it should have"))
}

fn keys(inline: Option<JwkSet>, url: Option<String>) -> Result<ClientAuthentication, Error> {
    match (inline, url) {
        (Some(set), None) if (1..=MAX_KEYS).contains(&set.keys.len()) => Ok(ClientAuthentication::Keys(set)),
        (None, Some(url)) => {
            let is_https =
                Url::parse(&url).is_ok_and(|url| url.scheme() == "https" && url.username().is_empty());
            let refused = || invalid("`jwks_uri` is not an https URL");
            is_https.then_some(ClientAuthentication::KeysAt(url)).ok_or_else(refused)
        }
        _ => Err(invalid("`private_key_jwt` needs either `jwks` with 1 to 8 keys, or `jwks_uri`")),
    }
}

/// A name as people see it: on one line, without characters that are invisible or change the direction.
fn shown_name(name: &str) -> String {
    let visible: String = name.chars().filter(|c| is_visible(*c) || c.is_whitespace()).collect();
    let words: Vec<&str> = visible.split_whitespace().collect();
    words.join(" ").chars().take(MAX_NAME).collect()
}

fn invalid(reason: &'static str) -> Error {
    Error::new(Code::InvalidClientMetadata, reason)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const ID: &str = "https://app.example/client.json";

    fn document(members: &str) -> Result<ClientMetadata, Error> {
        let text =
            format!(r#"{{"client_id": "{ID}", "redirect_uris": ["https://app.example/cb"]{members}}}"#);
        ClientMetadata::of_document(&raw(&text), ID)
    }

    fn registration(text: &str) -> Result<ClientMetadata, Error> {
        ClientMetadata::of_registration(&raw(text))
    }

    fn raw(text: &str) -> Raw {
        Raw::parse(&Bytes::copy_from_slice(text.as_bytes())).expect("JSON")
    }

    #[test]
    fn document_is_that_of_its_client_and_has_no_secret() {
        assert!(document("").is_ok());
        assert!(document(r#", "client_name": "App", "logo_uri": "x", "unknown": [1]"#).is_ok());
        for members in [
            r#", "client_secret": "s""#,
            r#", "client_secret": null, "client_secret_expires_at": 0, "token_endpoint_auth_method": "client_secret_post""#,
            r#", "token_endpoint_auth_method": "client_secret_basic""#,
            r#", "token_endpoint_auth_method": "client_secret_jwt""#,
            r#", "token_endpoint_auth_method": "tls_client_auth""#,
            r#", "token_endpoint_auth_method": 7"#,
            r#", "token_endpoint_auth_method": "private_key_jwt""#,
            r#", "token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": []}"#,
            r#", "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "http://app.example/keys""#,
            r#", "grant_types": ["client_credentials"]"#,
            r#", "response_types": ["token"]"#,
            r#", "client_id": "https://other.example/client.json""#,
        ] {
            assert_eq!(document(members).expect_err(members).code, Code::InvalidClientMetadata, "{members}");
        }
        let other =
            raw(r#"{"client_id": "https://other.example/c", "redirect_uris": ["https://other.example/cb"]}"#);
        assert!(ClientMetadata::of_document(&other, ID).is_err());
        let none = raw(r#"{"redirect_uris": ["https://app.example/cb"]}"#);
        assert!(ClientMetadata::of_document(&none, ID).is_err());
    }

    #[test]
    fn document_keeps_the_redirect_uris_that_are_accepted() {
        let text = format!(
            r#"{{"client_id": "{ID}", "redirect_uris": ["myapp://cb", "http://localhost/cb", "http://app.example/cb"]}}"#
        );
        let read = ClientMetadata::of_document(&raw(&text), ID).expect("metadata");
        assert_eq!(
            read.redirect_uris.iter().map(RedirectUri::as_str).collect::<Vec<_>>(),
            ["http://localhost/cb"]
        );
        for uris in ["[]", r#"["myapp://cb"]"#] {
            let text = format!(r#"{{"client_id": "{ID}", "redirect_uris": {uris}}}"#);
            let refused = ClientMetadata::of_document(&raw(&text), ID).expect_err(uris);
            assert_eq!(refused.code, Code::InvalidRedirectUri);
        }
    }

    #[test]
    fn registration_becomes_a_public_client_and_has_valid_redirect_uris() {
        let read = registration(
            r#"{"redirect_uris": ["https://claude.ai/api/mcp/auth_callback"], "client_name": "Claude",
               "token_endpoint_auth_method": "client_secret_post", "grant_types": ["authorization_code", "refresh_token"]}"#,
        );
        let read = read.expect("a client");
        assert!(matches!(read.authentication, ClientAuthentication::None));
        assert_eq!(read.grant_types(), ["authorization_code", "refresh_token"]);
        let plain = registration(
            r#"{"redirect_uris": ["http://localhost:1/cb"], "grant_types": ["authorization_code"]}"#,
        );
        assert!(!plain.expect("a client").refreshes);
        let many = format!(r#"{{"redirect_uris": [{}]}}"#, vec![r#""https://a.example/""#; 17].join(","));
        for text in
            ["{}", r#"{"redirect_uris": []}"#, &many, r#"{"redirect_uris": ["http://a.example/", "x"]}"#]
        {
            assert_eq!(registration(text).expect_err(text).code, Code::InvalidRedirectUri);
        }
        for text in
            ["[]", r#"{"redirect_uris": ["https://a.example/"], "redirect_uris": ["https://b.example/"]}"#]
        {
            assert_eq!(registration(text).expect_err(text).code, Code::InvalidClientMetadata);
        }
    }

    #[test]
    fn registration_keeps_the_redirect_uris_that_are_accepted() {
        let read = registration(
            r#"{"redirect_uris": ["myapp://cb", "", "http://localhost:1/cb", "http://a.example/"]}"#,
        );
        let read = read.expect("a client");
        assert_eq!(
            read.redirect_uris.iter().map(RedirectUri::as_str).collect::<Vec<_>>(),
            ["http://localhost:1/cb"]
        );
        let refused = registration(r#"{"redirect_uris": ["https://a.example/#x", "myapp://cb"]}"#)
            .expect_err("refused");
        assert_eq!(refused.description, "a redirect URI has a fragment", "the reason of the first");
    }

    #[test]
    fn empty_value_of_a_registration_counts_as_absent() {
        let read = registration(
            r#"{"redirect_uris": ["https://a.example/"], "grant_types": [], "response_types": [], "client_name": "",
               "token_endpoint_auth_method": "", "jwks_uri": "", "scope": "", "contacts": null, "jwks": null}"#,
        );
        let read = read.expect("a client");
        assert!(
            matches!(read.authentication, ClientAuthentication::None)
                && read.refreshes
                && read.name.is_none()
        );
        let with_secret =
            r#"{"redirect_uris": ["https://a.example/"], "token_endpoint_auth_method": "client_secret_jwt"}"#;
        assert!(matches!(
            registration(with_secret).expect("a client").authentication,
            ClientAuthentication::None
        ));
    }

    #[test]
    fn client_name_cannot_imitate_the_page_around_it() {
        let name = |text: &str| {
            let text = serde_json::json!({ "redirect_uris": ["https://a.example/"], "client_name": text });
            registration(&text.to_string()).expect("a client").name
        };
        assert_eq!(name("  Claude \n\n Code ").as_deref(), Some("Claude Code"));
        assert_eq!(name("\u{200b}\u{202e}\t"), None);
        let hidden = name("Cl\u{200b}au\u{202e}de").expect("a name");
        assert!(!hidden.contains(['\u{200b}', '\u{202e}']), "{hidden:?}");
        assert_eq!(name(&"x".repeat(500)).expect("a name").chars().count(), MAX_NAME);
    }
}
