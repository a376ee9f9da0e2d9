//! Clients: who they are, where their answers may go, and how they prove who they are.
//!
//! Invariants: no client has a shared secret. A client is public, or signs assertions with a key whose public half is in its
//! metadata. Names are for people only: they are shortened, and invisible characters are removed. An assertion is about its
//! sender, for this server alone, and ends within five minutes. Its algorithm is one for public keys, and fits the key.
//! Assertions come with a code or a refresh token, which work once, so there is no table of assertions that were used.
//!
//! Source: RFC 7591, section 2; RFC 7523, sections 2.2 and 3; RFC 7519, section 4.1.3;
//! draft-ietf-oauth-client-id-metadata-document-02, section 4.

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Validation, decode, decode_header};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::{Code, Error};
use crate::redirect_uri::RedirectUri;
use json::Raw;
use protocol::visible::is_visible;

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

/// The value of `client_assertion_type`.
pub(crate) const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// The algorithms that are accepted, for metadata.
pub(crate) const ALGORITHMS: [&str; 5] = ["ES256", "ES384", "EdDSA", "RS256", "PS256"];

/// Limit of the length of an assertion in bytes.
const MAX_BYTES: usize = 8 << 10;
/// Seconds until an assertion has to end.
const LONGEST: u64 = 300;
/// Seconds by which the clocks may differ.
const LEEWAY: u64 = 30;
/// The shortest RSA modulus, 2048 bits, in Base64.
const MIN_MODULUS: usize = 2_048 / 6;

#[derive(Deserialize)]
struct AssertionClaims {
    sub: String,
    exp: u64,
    jti: String,
    aud: Audience,
}

/// An audience that is a list could have other servers in it, which could use the assertion here.
#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    List([String; 1]),
}

/// Verifies `assertion` of `client` for one of `audiences`. The error is for the developer of the client.
pub(crate) fn verify(
    assertion: &str,
    client: &str,
    keys: &JwkSet,
    audiences: [&str; 2],
    now: u64,
) -> Result<(), &'static str> {
    if assertion.len() > MAX_BYTES {
        return Err("the assertion is longer than 8 KiB");
    }
    let header = decode_header(assertion).map_err(|_| "the assertion is not a signed JWT")?;
    let is_candidate = |jwk: &&Jwk| header.kid.is_none() || jwk.common.key_id == header.kid;
    let validation = validation(client, header.alg);
    let is_signed_by = |jwk: &Jwk| {
        let key = key_of(jwk, header.alg)?;
        decode::<AssertionClaims>(assertion, &key, &validation).ok()
    };
    let verified = keys.keys.iter().filter(is_candidate).find_map(is_signed_by);
    let claims = verified
        .ok_or("the assertion is not signed by a key of the client, or its `iss` is another client")?
        .claims;
    let (Audience::One(audience) | Audience::List([audience])) = &claims.aud;
    if !audiences.contains(&audience.as_str()) {
        return Err("the `aud` of the assertion is not the issuer");
    }
    if claims.sub != client {
        return Err("the `sub` of the assertion is not the client");
    }
    if claims.exp.saturating_add(LEEWAY) <= now || claims.exp > now + LONGEST + LEEWAY {
        return Err("the assertion has expired, or is valid for more than five minutes");
    }
    if claims.jti.is_empty() { Err("the assertion has no `jti`") } else { Ok(()) }
}

/// The clock is compared elsewhere, with the one of the caller.
fn validation(client: &str, algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.set_required_spec_claims(&["exp", "iss", "sub", "aud"]);
    validation.set_issuer(&[client]);
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation
}

/// Returns the key of `jwk` if an assertion may be signed with it by `algorithm`.
fn key_of(jwk: &Jwk, algorithm: Algorithm) -> Option<DecodingKey> {
    let family = match &jwk.algorithm {
        AlgorithmParameters::RSA(rsa) if rsa.n.len() >= MIN_MODULUS => AlgorithmFamily::Rsa,
        AlgorithmParameters::EllipticCurve(_) => AlgorithmFamily::Ec,
        AlgorithmParameters::OctetKeyPair(_) => AlgorithmFamily::Ed,
        _ => return None,
    };
    let is_accepted = ALGORITHMS.iter().any(|name| name.parse() == Ok(algorithm));
    let only = jwk.common.key_algorithm.and_then(|named| Algorithm::try_from(named).ok());
    let fits = is_accepted && algorithm.family() == family && only.is_none_or(|only| only == algorithm);
    fits.then(|| DecodingKey::from_jwk(jwk).ok())?
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use bytes::Bytes;
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::{Value, json};

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

    const CLIENT: &str = "https://app.example/client.json";
    const AUDIENCES: [&str; 2] = ["https://gw.example", "https://gw.example/oauth/token"];

    fn pair() -> (EncodingKey, JwkSet) {
        let pair = Ed25519KeyPair::generate().expect("a key");
        let x = URL_SAFE_NO_PAD.encode(pair.public_key());
        let set = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x }] });
        let private = pair.to_pkcs8v1().expect("a document");
        (EncodingKey::from_ed_der(private.as_ref()), serde_json::from_value(set).expect("a set"))
    }

    fn claims() -> Value {
        json!({ "iss": CLIENT, "sub": CLIENT, "aud": AUDIENCES[0], "exp": 1_060, "jti": "1" })
    }

    #[test]
    fn assertion_is_of_its_client_for_this_server_and_short() {
        let (key, set) = pair();
        let header = Header { kid: Some("k".into()), ..Header::new(Algorithm::EdDSA) };
        let judge = |claims: &Value| {
            let assertion = encode(&header, claims, &key).expect("signed");
            verify(&assertion, CLIENT, &set, AUDIENCES, 1_000)
        };
        assert_eq!(judge(&claims()), Ok(()));
        for (name, value, expected) in [
            ("aud", json!(AUDIENCES[1]), true),
            ("aud", json!([AUDIENCES[0]]), true),
            ("aud", json!([AUDIENCES[0], "https://other.example"]), false),
            ("aud", json!("https://other.example"), false),
            ("aud", Value::Null, false),
            ("iss", json!("https://other.example/client.json"), false),
            ("sub", json!("https://other.example/client.json"), false),
            ("exp", json!(970), false),
            ("exp", json!(971), true),
            ("exp", json!(1_331), false),
            ("exp", json!(1_330), true),
            ("exp", json!(u64::MAX), false),
            ("exp", Value::Null, false),
            ("jti", json!(""), false),
            ("jti", Value::Null, false),
        ] {
            let mut changed = claims();
            changed[name] = value.clone();
            assert_eq!(judge(&changed).is_ok(), expected, "{name} {value}");
        }
    }

    #[test]
    fn assertion_of_another_key_or_algorithm_is_refused() {
        let ((key, set), (foreign, _)) = (pair(), pair());
        let sign = |header: &Header, key: &EncodingKey| encode(header, &claims(), key).expect("signed");
        let judge = |assertion: &str, set: &JwkSet| verify(assertion, CLIENT, set, AUDIENCES, 1_000).is_ok();
        let plain = Header::new(Algorithm::EdDSA);
        assert!(judge(&sign(&plain, &key), &set), "without a `kid`, every key is tried");
        assert!(!judge(&sign(&plain, &foreign), &set));
        let other_kid = Header { kid: Some("other".into()), ..plain.clone() };
        assert!(!judge(&sign(&other_kid, &key), &set));
        // The public key as a shared secret.
        let AlgorithmParameters::OctetKeyPair(public) = &set.keys[0].algorithm else { panic!("another key") };
        let shared = EncodingKey::from_secret(public.x.as_bytes());
        assert!(!judge(&sign(&Header::new(Algorithm::HS256), &shared), &set));
        let signed = sign(&plain, &key);
        let none = format!("eyJhbGciOiJub25lIn0.{}.", signed.split('.').nth(1).expect("claims"));
        assert!(!judge(&none, &set));
        assert!(!judge("", &set) && !judge(&"a".repeat(MAX_BYTES + 1), &set));
        let mut with_other_algorithm = set.clone();
        with_other_algorithm.keys[0].common.key_algorithm = Some(jsonwebtoken::jwk::KeyAlgorithm::ES256);
        assert!(!judge(&signed, &with_other_algorithm));
    }
}
