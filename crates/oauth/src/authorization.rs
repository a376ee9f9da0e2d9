//! The part of a login that a browser does: the authorization request and its response.
//!
//! Invariants: every request has a PKCE challenge and a `state` of its own. A response is used only if its
//! `iss` is right, and before that not even its error is believed.
//!
//! Source: RFC 6749, section 4.1; RFC 7636; RFC 8707; RFC 9207, section 2.4.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use settings::one_line;
use url::Url;

use crate::discovery::Discovered;
use crate::error::{Error, foreign_text};
use crate::limits::{self, MAX_CODE};
use crate::registration::Registration;
use crate::secret_json;

/// The proof that who redeems a code also began the login.
#[derive(Debug)]
pub struct Pkce {
    verifier: SecretString,
    challenge: String,
}

impl Pkce {
    /// Makes a new proof.
    pub fn new() -> Self {
        let random: Zeroizing<[u8; 32]> = Zeroizing::new(rand::random());
        Self::from_verifier(SecretString::from(URL_SAFE_NO_PAD.encode(*random)))
    }

    fn from_verifier(verifier: SecretString) -> Self {
        let hash = digest(&SHA256, verifier.expose_secret().as_bytes());
        Self { challenge: URL_SAFE_NO_PAD.encode(hash), verifier }
    }

    /// The secret, which is sent with the code.
    pub const fn verifier(&self) -> &SecretString {
        &self.verifier
    }

    /// Its hash, which is sent with the authorization request.
    pub fn challenge(&self) -> &str {
        &self.challenge
    }
}

impl Default for Pkce {
    fn default() -> Self {
        Self::new()
    }
}

/// The parameters of one authorization request.
#[derive(Debug)]
pub struct AuthorizationRequest<'a> {
    /// The scopes; if empty, none is sent.
    pub scopes: &'a [String],
    /// The value that comes back with the response.
    pub state: &'a str,
    /// The hash of the verifier.
    pub challenge: &'a str,
    /// The server that the token is for; `None` if the authorization server refuses the parameter.
    pub resource: Option<&'a str>,
}

/// Returns the URL that a person opens to log in.
pub fn authorization_url(
    discovered: &Discovered,
    registration: &Registration,
    request: &AuthorizationRequest<'_>,
) -> Result<Url, Error> {
    let missing = || Error::refused("the authorization server names no authorization endpoint");
    let mut url = discovered.server.authorization_endpoint.clone().ok_or_else(missing)?;
    // A browser opens it: other schemes could run a program or a script.
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Error::refused("the authorization endpoint is no URL of HTTP"));
    }
    url.set_fragment(None);
    let scope = request.scopes.join(" ");
    let mut query = url.query_pairs_mut();
    query.append_pair("response_type", "code");
    query.append_pair("client_id", &registration.client_id);
    query.append_pair("redirect_uri", &registration.redirect_uri);
    query.append_pair("state", request.state);
    query.append_pair("code_challenge", request.challenge);
    query.append_pair("code_challenge_method", "S256");
    if let Some(resource) = request.resource {
        query.append_pair("resource", resource);
    }
    if !scope.is_empty() {
        query.append_pair("scope", &scope);
    }
    // OpenID Connect Core 1.0, section 11: without consent there is no refresh token.
    if request.scopes.iter().any(|scope| scope == "offline_access") {
        query.append_pair("prompt", "consent");
    }
    drop(query);
    Ok(url)
}

/// The query of the redirect that ends an authorization request.
#[derive(Debug, Default, Deserialize)]
pub struct AuthorizationResponse {
    /// The code, which is exchanged for tokens.
    #[serde(with = "secret_json::option", default)]
    pub code: Option<SecretString>,
    /// The state of the request.
    pub state: Option<String>,
    /// The issuer that answers.
    pub iss: Option<String>,
    /// The error code.
    pub error: Option<String>,
    /// The words of the authorization server about the error.
    pub error_description: Option<String>,
}

impl AuthorizationResponse {
    /// Checks that `issuer` answered, and returns its code. `iss_is_promised` says that its metadata promises `iss`.
    pub fn check(&self, issuer: &str, iss_is_promised: bool) -> Result<&SecretString, Error> {
        check_issuer(self.iss.as_deref(), issuer, iss_is_promised)?;
        if let Some(error) = &self.error {
            return Err(self.failed(error));
        }
        let code = self.code.as_ref().filter(|code| !code.expose_secret().is_empty());
        let missing = || Error::refused("the answer to the login has neither a code nor an error");
        let code = code.ok_or_else(missing)?;
        limits::check("an authorization code", code.expose_secret(), MAX_CODE).map(|()| code)
    }

    pub(crate) fn failed(&self, error: &str) -> Error {
        let description = foreign_text(self.error_description.as_deref().unwrap_or_default(), &[]);
        let text = format!("{} {description}", foreign_text(error, &[]));
        let text = text.trim_end();
        match error {
            "access_denied" => Error::login_required(format!("the login was declined ({text})")),
            "login_required" | "consent_required" | "interaction_required" => {
                Error::login_required(format!("the login was not completed ({text})"))
            }
            "server_error" | "temporarily_unavailable" => Error::later(text),
            "invalid_scope" => Error::refused(format!("the login was refused; check `scopes` ({text})")),
            "invalid_target" => Error::refused(format!("the login was refused; check `resource` ({text})")),
            "unauthorized_client" | "invalid_client" => {
                Error::refused(format!("the login was refused; check `client_id` ({text})"))
            }
            _ => Error::refused(format!("the login was refused ({text})")),
        }
    }
}

/// Checks that the answer which names `iss` is from `issuer`. `is_promised` says that its metadata promises `iss`
/// (RFC 9207, section 2.4).
pub(crate) fn check_issuer(iss: Option<&str>, issuer: &str, is_promised: bool) -> Result<(), Error> {
    match iss {
        Some(iss) if iss != issuer => {
            let (iss, issuer) = (one_line(iss), one_line(issuer));
            Err(Error::refused(format!(
                "the login was answered by `{iss}` and not by `{issuer}`; nothing was sent to either"
            )))
        }
        None if is_promised => Err(Error::refused(
            "the answer to the login does not name its issuer, which the authorization server promises",
        )),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClientAuthentication;
    use crate::metadata::AuthorizationServer;

    const ISSUER: &str = "https://login.example.org";

    fn response(iss: Option<&str>) -> AuthorizationResponse {
        AuthorizationResponse {
            code: Some("c0de".into()),
            iss: iss.map(str::to_owned),
            ..AuthorizationResponse::default()
        }
    }

    #[test]
    fn every_row_of_the_table_of_issuers_holds() {
        for (iss, is_promised, is_accepted) in [
            (Some(ISSUER), true, true),
            (Some("https://attacker.example"), true, false),
            (None, true, false),
            (Some(ISSUER), false, true),
            (Some("https://attacker.example"), false, false),
            (None, false, true),
            (Some("https://login.example.org/"), true, false),
            (Some("https://LOGIN.example.org"), true, false),
            (Some("https://login.example.org:443"), false, false),
            (Some(""), false, false),
        ] {
            let response = response(iss);
            let checked = response.check(ISSUER, is_promised);
            assert_eq!(checked.is_ok(), is_accepted, "{iss:?} {is_promised}");
            if let Err(error) = checked {
                assert!(matches!(error, Error::Refused { .. }) && !error.to_string().contains("c0de"));
            }
        }
    }

    #[test]
    fn an_error_of_another_issuer_is_not_believed() {
        let mut response = response(Some("https://attacker.example"));
        response.error = Some("access_denied".into());
        assert!(response.check(ISSUER, false).is_err_and(|error| error.to_string().contains("attacker")));
        response.iss = None;
        assert!(matches!(response.check(ISSUER, false), Err(Error::LoginRequired { .. })));
        response.error = Some("temporarily_unavailable".into());
        assert!(matches!(response.check(ISSUER, false), Err(Error::Later { .. })));
        response.error = Some("invalid_scope".into());
        assert!(response.check(ISSUER, false).is_err_and(|error| error.to_string().contains("`scopes`")));
        let nothing = AuthorizationResponse::default();
        assert!(nothing.check(ISSUER, false).is_err());
    }

    #[test]
    fn a_challenge_is_the_hash_of_its_verifier() {
        // RFC 7636, appendix B.
        let pkce = Pkce::from_verifier("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".into());
        assert_eq!(pkce.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        let (one, other) = (Pkce::new(), Pkce::new());
        assert_ne!(one.challenge(), other.challenge());
        assert!((43..=128).contains(&one.verifier().expose_secret().len()));
        assert!(!format!("{one:?}").contains(one.verifier().expose_secret()));
    }

    fn url(endpoint: &str, scopes: &[String]) -> Result<Url, Error> {
        let mut server = AuthorizationServer::with_default_endpoints(&Url::parse(ISSUER).expect("a URL"));
        server.authorization_endpoint = Some(Url::parse(endpoint).expect("a URL"));
        let resource = "https://mcp.example.com".to_owned();
        let discovered = Discovered { resource, scopes: vec![], server };
        let registration = Registration {
            scopes: Vec::new(),
            issuer: ISSUER.into(),
            client_id: "a b&c".into(),
            client_secret: None,
            authentication: ClientAuthentication::None,
            redirect_uri: "http://127.0.0.1:1/oauth/callback".into(),
            expires_at: None,
        };
        let request = AuthorizationRequest {
            scopes,
            state: "st",
            challenge: "ch",
            resource: Some("https://mcp.example.com"),
        };
        authorization_url(&discovered, &registration, &request)
    }

    #[test]
    fn an_authorization_request_has_everything_that_is_demanded() {
        let opened =
            url("https://login.example.org/authorize?tenant=7#x", &["a".into(), "offline_access".into()]);
        assert_eq!(
            opened.expect("a URL").as_str(),
            "https://login.example.org/authorize?tenant=7&response_type=code&client_id=a+b%26c\
             &redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Foauth%2Fcallback&state=st&code_challenge=ch\
             &code_challenge_method=S256&resource=https%3A%2F%2Fmcp.example.com&scope=a+offline_access&prompt=consent"
        );
        let opened = url("https://login.example.org/authorize", &[]).expect("a URL");
        assert!(!opened.as_str().contains("scope") && !opened.as_str().contains("prompt"));
        for endpoint in ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x"] {
            assert!(url(endpoint, &[]).is_err(), "{endpoint}");
        }
    }
}
