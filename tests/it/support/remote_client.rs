//! A remote client such as claude.ai: it knows the URL of an MCP endpoint, and logs a person in through a browser.
//!
//! It follows the documents of the gateway as the MCP specification says, so it knows no path but those two. The browser
//! never leaves the gateway: where it would go to the client, the test reads the URL.

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::pkce;
use url::Url;

use super::WAIT;
use super::browser::{Browser, Page};
use super::peers::free_port;

/// The redirect URI of claude.ai.
pub const CALLBACK: &str = "https://claude.ai/api/mcp/auth_callback";

/// A client, and what it has found out about the gateway.
#[derive(Debug, Clone)]
pub struct RemoteClient {
    http: reqwest::Client,
    /// The metadata of the protected resource.
    pub resource: Value,
    /// The metadata of the authorization server.
    pub server: Value,
    /// The scope of the challenge.
    pub scope: Option<String>,
    /// Its `client_id`.
    pub id: String,
    /// Where its answers go.
    pub redirect_uri: String,
}

/// The tokens of one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    pub access: String,
    pub refresh: Option<String>,
    pub scope: String,
}

/// The secret of one login, and its challenge (PKCE).
#[derive(Debug, Clone)]
pub struct Proof {
    pub verifier: String,
    pub challenge: String,
}

/// An answer of the token endpoint or another one for clients.
#[derive(Debug, Clone)]
pub struct OauthAnswer {
    pub status: u16,
    pub json: Value,
}

impl Proof {
    pub fn new() -> Self {
        let mut random = [0; 32];
        rand::fill(&mut random).expect("random bytes");
        let verifier = URL_SAFE_NO_PAD.encode(random);
        let challenge = pkce::challenge(&verifier);
        Self { verifier, challenge }
    }
}

impl Tokens {
    /// The value of `Authorization`.
    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.access)
    }
}

/// Refreshes `tokens` 1,000 times at once, by turns at both ends. Checks that the grant made one step and that all got its tokens,
/// which are returned.
pub async fn refreshed_at_once(clients: [&RemoteClient; 2], tokens: &Tokens) -> Tokens {
    let answers = join_all((0..1_000).map(|at| clients[at % 2].refresh(tokens))).await;
    let good: Vec<_> = answers.iter().map(OauthAnswer::tokens).collect();
    assert!(good.iter().all(|other| *other == good[0]));
    let refresh = good[0].refresh.as_deref().expect("a refresh token");
    assert_eq!(refresh.split('_').nth(2), Some("1"), "the grant made one step");
    good[0].clone()
}

impl RemoteClient {
    /// A client that was refused at `endpoint`, and has read the documents that the refusal leads to.
    pub async fn refused_at(endpoint: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(WAIT);
        let http = http.redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        let refused = http.post(endpoint).body("{}").send().await.expect("an answer");
        assert_eq!(refused.status(), 401);
        let challenge = refused.headers()["www-authenticate"].to_str().expect("ASCII").to_owned();
        let resource = read(&http, &parameter(&challenge, "resource_metadata").expect("a URL")).await;
        assert_eq!(resource["resource"], endpoint, "a client refuses metadata of another resource");
        let issuer = resource["authorization_servers"][0].as_str().expect("an issuer").to_owned();
        let (origin, path) =
            (Url::parse(&issuer).expect("a URL").origin(), Url::parse(&issuer).expect("a URL"));
        let path = path.path().trim_end_matches('/').to_owned();
        let place = format!("{}/.well-known/oauth-authorization-server{path}", origin.ascii_serialization());
        let server = read(&http, &place).await;
        assert_eq!(server["issuer"], issuer.as_str(), "a client refuses metadata of another issuer");
        let scope = parameter(&challenge, "scope");
        Self { http, resource, server, scope, id: String::new(), redirect_uri: CALLBACK.to_owned() }
    }

    /// Registers (RFC 7591) with `redirect_uri`.
    pub async fn registered(mut self, redirect_uri: &str) -> Self {
        let metadata = json!({
            "client_name": "Test client", "redirect_uris": [redirect_uri], "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
        });
        let answer = self.register(&metadata).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json["client_id"].as_str().expect("an id").clone_into(&mut self.id);
        self.redirect_uri = redirect_uri.to_owned();
        self
    }

    /// Sends a registration.
    pub async fn register(&self, metadata: &Value) -> OauthAnswer {
        OauthAnswer::of(self.http.post(self.endpoint("registration_endpoint")).json(metadata)).await
    }

    /// The URL of the authorization request, with `more` in the place of its own fields.
    pub fn authorization_url(&self, proof: &Proof, more: &[(&str, &str)]) -> String {
        let own = [
            ("response_type", "code"),
            ("client_id", &self.id),
            ("redirect_uri", &self.redirect_uri),
            ("state", "state of the client"),
            ("code_challenge", &proof.challenge),
            ("code_challenge_method", "S256"),
            ("resource", self.resource["resource"].as_str().expect("a URL")),
            ("scope", self.scope.as_deref().unwrap_or_default()),
        ];
        format!("{}?{}", self.endpoint("authorization_endpoint"), pkce::merged(&own, more))
    }

    /// Opens the authorization request in `browser`, signs in with `key` if the page asks for it, and returns the page that
    /// asks for consent, or the redirect to the client.
    pub async fn ask(&self, browser: &Browser, key: &str, proof: &Proof, more: &[(&str, &str)]) -> Page {
        let page = self.within(browser, browser.get(&self.authorization_url(proof, more)).await).await;
        if !page.text.contains("name=\"credential\"") {
            return page;
        }
        self.within(browser, browser.send(&page, &[("credential", key)]).await).await
    }

    /// Logs in the holder of `key` with `more` in the authorization request, and returns the redirect to the client.
    pub async fn allowed(&self, browser: &Browser, key: &str, proof: &Proof, more: &[(&str, &str)]) -> Url {
        let page = self.ask(browser, key, proof, more).await;
        assert_eq!(page.status, 200, "{}", page.text);
        let page = browser.send(&page, &[("decision", "allow")]).await;
        page.target.unwrap_or_else(|| panic!("no redirect: {}", page.text))
    }

    /// Logs in the holder of `key`, and returns the tokens.
    pub async fn logged_in(&self, key: &str, more: &[(&str, &str)]) -> Tokens {
        let (browser, proof) = (Browser::new(), Proof::new());
        let target = self.allowed(&browser, key, &proof, more).await;
        let resource = more.iter().find(|(name, _)| *name == "resource").map(|(_, value)| *value);
        self.redeem(&self.code(&target), &proof, resource).await.tokens()
    }

    /// The code in the redirect to the client, whose other fields are checked.
    pub fn code(&self, target: &Url) -> String {
        assert!(target.as_str().starts_with(&self.redirect_uri), "{target}");
        let field = |name: &str| {
            target.query_pairs().find(|(other, _)| other == name).map(|(_, value)| value.into_owned())
        };
        assert_eq!(field("state").as_deref(), Some("state of the client"), "{target}");
        assert_eq!(field("iss").as_deref(), self.server["issuer"].as_str(), "{target}");
        field("code").unwrap_or_else(|| panic!("no code: {target}"))
    }

    /// Redeems `code`.
    pub async fn redeem(&self, code: &str, proof: &Proof, resource: Option<&str>) -> OauthAnswer {
        let resource = resource.or_else(|| self.resource["resource"].as_str()).expect("a URL");
        self.token(&[
            ("grant_type", "authorization_code"),
            ("client_id", &self.id),
            ("code", code),
            ("code_verifier", &proof.verifier),
            ("redirect_uri", &self.redirect_uri),
            ("resource", resource),
        ])
        .await
    }

    /// Renews `tokens`.
    pub async fn refresh(&self, tokens: &Tokens) -> OauthAnswer {
        let refresh = tokens.refresh.as_deref().expect("a refresh token");
        self.token(&[("grant_type", "refresh_token"), ("client_id", &self.id), ("refresh_token", refresh)])
            .await
    }

    /// Sends `fields` to the token endpoint.
    pub async fn token(&self, fields: &[(&str, &str)]) -> OauthAnswer {
        OauthAnswer::of(self.http.post(self.endpoint("token_endpoint")).form(fields)).await
    }

    /// Revokes `token`, and returns the status.
    pub async fn revoke(&self, token: &str) -> u16 {
        let form = [("token", token), ("client_id", &self.id)];
        let request = self.http.post(self.endpoint("revocation_endpoint")).form(&form);
        request.send().await.expect("an answer").status().as_u16()
    }

    fn endpoint(&self, name: &str) -> &str {
        self.server[name].as_str().unwrap_or_else(|| panic!("no {name}"))
    }

    /// Follows redirects of `page` within the gateway.
    async fn within(&self, browser: &Browser, page: Page) -> Page {
        let own = Url::parse(self.server["issuer"].as_str().expect("an issuer")).expect("a URL").origin();
        browser.follow(page, |target| target.origin() == own).await
    }
}

impl OauthAnswer {
    async fn of(request: reqwest::RequestBuilder) -> Self {
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("a text");
        Self { status, json: serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}")) }
    }

    /// The tokens of a good answer.
    pub fn tokens(&self) -> Tokens {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(self.json["token_type"], "Bearer");
        let text = |name: &str| self.json[name].as_str().map(str::to_owned);
        let (access, scope) = (text("access_token").expect("a token"), text("scope").expect("scopes"));
        Tokens { access, refresh: text("refresh_token"), scope }
    }
}

/// The value of a parameter of a challenge.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    Some(challenge.split(&format!("{name}=\"")).nth(1)?.split('"').next()?.to_owned())
}

async fn read(http: &reqwest::Client, url: &str) -> Value {
    let answer = http.get(url).send().await.expect("an answer");
    assert_eq!(answer.status(), 200, "{url}");
    answer.json().await.expect("JSON")
}

/// An address that is free now, for a gateway whose public URL has to be known before it starts.
pub fn free_address() -> &'static str {
    Box::leak(format!("127.0.0.1:{}", free_port()).into_boxed_str())
}
