//! People who sign in at a login service behind the authorization server, from outside. A remote client gets tokens for a
//! person without a key, as long as the rules of the operator allow it.

use http::Method;
use serde_json::json;
use testkit::login_service::{CLIENT, LoginService, SECRET};

use crate::support::browser::{Browser, Page};
use crate::support::remote_client::{CALLBACK, Proof, RemoteClient, Tokens, free_address};
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Client, Gateway, Registry, Running, api_keys};

const OPS: &str = "swy_ops_00112233445566778899aabbccddeeff0011223344556677";
const ANN: &str = "swy_ann_0123456789abcdef0123456789abcdef0123456789abcdef";

/// A gateway whose public URL is its own address, with a login service.
struct Site {
    address: &'static str,
    service: LoginService,
    server: Server,
}

impl Site {
    fn new() -> Self {
        let server = Scripted::modern().tool(Tool::named("one")).start();
        Self { address: free_address(), service: LoginService::start(), server }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The configuration with the settings `own` of the authorization server and `rules` of the login service.
    fn registry(&self, own: &str, rules: &str) -> Registry {
        let issuer = self.service.issuer();
        let login = format!(
            "{{issuer: '{issuer}', client_id: {CLIENT}, client_secret: \"${{LOGIN_SECRET}}\", {rules}}}"
        );
        let server = format!(
            "server: {{{}, public_url: 'http://{}', state_dir: state, authorization_server: {{{own}login: {login}}}}}",
            api_keys(&[(ANN, "role: caller"), (OPS, "role: superuser")]),
            self.address
        );
        Registry::new().http("one", &self.server.url()).setting(&server)
    }

    async fn started(&self, own: &str, rules: &str) -> Running {
        let gateway = Gateway::of(&self.registry(own, rules)).env("LOGIN_SECRET", SECRET);
        let gateway = gateway.listening_on(self.address).start().await;
        gateway.offers_to("one", &format!("Bearer {ANN}")).await;
        gateway
    }

    async fn client(&self) -> RemoteClient {
        RemoteClient::refused_at(&self.url("/mcp")).await.registered(CALLBACK).await
    }

    /// Opens the request of `client` in `browser`, and signs in with the button of the login service.
    async fn signed_in(&self, client: &RemoteClient, browser: &Browser, proof: &Proof) -> Page {
        let page = browser.open(&client.authorization_url(proof, &[])).await;
        assert!(page.text.contains("Sign in with 127.0.0.1"), "{}", page.text);
        browser.submit(&page, &[]).await
    }

    /// Logs the person of the login service in at `client`.
    async fn tokens(&self, client: &RemoteClient) -> Tokens {
        let (browser, proof) = (Browser::new(), Proof::new());
        let page = self.signed_in(client, &browser, &proof).await;
        let page = browser.send(&page, &[("decision", "allow")]).await;
        let target = page.target.unwrap_or_else(|| panic!("no redirect: {}", page.text));
        client.redeem(&client.code(&target), &proof, None).await.tokens()
    }

    async fn status(&self, tokens: &Tokens) -> u16 {
        let client =
            Client::at(&self.url("/api/v1/mcp/servers")).with_header("authorization", &tokens.bearer());
        client.bare(Method::GET, &[]).await.status
    }
}

#[tokio::test]
async fn person_without_a_key_lets_a_client_in_until_the_rules_change() {
    let site = Site::new();
    let gateway = site.started("", "allow: {emails: [ann@example.org]}").await;
    let client = site.client().await;
    let (browser, proof) = (Browser::new(), Proof::new());
    let consent = site.signed_in(&client, &browser, &proof).await;
    assert!(
        consent.text.contains("ann@example.org") && consent.text.contains("Test client"),
        "{}",
        consent.text
    );
    assert!(!consent.text.contains("credential"), "without `keys`, a key lets no client in");
    let tokens = site.tokens(&client).await;
    let mcp = Client::at(&site.url("/mcp")).with_header("authorization", &tokens.bearer());
    assert_eq!(mcp.call("one", json!({})).await.status, 200);
    let next = client.refresh(&tokens).await.tokens();
    assert_eq!(site.status(&next).await, 200);
    let is_sign_in =
        |line: &serde_json::Value| line["target"] == "switchyard::audit" && line["action"] == "sign_in";
    let line = gateway.logs("the sign-in", is_sign_in).await.pop().expect("a line");
    let principal = format!("login:{}#subject-1", site.service.issuer());
    assert_eq!((&line["principal"], &line["outcome"]), (&json!(principal), &json!("done")));
    let log = gateway.log();
    assert!(!format!("{log:?}").contains("canary"), "no secret of the login service is in the log");
    // The operator takes the person off the list: at the restart the grant ends.
    let stopped = gateway.kill();
    std::fs::write(
        stopped.folder().join("mcp_servers.yaml"),
        site.registry("", "allow: {emails: [bob@example.org]}").yaml(),
    )
    .expect("written");
    let gateway = stopped.start().await;
    gateway.offers_to("one", &format!("Bearer {ANN}")).await;
    assert_eq!(site.status(&next).await, 401);
    assert_eq!(client.refresh(&next).await.json["error"], "invalid_grant");
    let page = site.signed_in(&client, &Browser::new(), &Proof::new()).await;
    assert!(page.status == 403 && page.text.contains("You may not sign in here"), "{}", page.text);
    let is_refused = |line: &serde_json::Value| is_sign_in(line) && line["outcome"] == "sign_in_not_allowed";
    let line = gateway.logs("the refused sign-in", is_refused).await.pop().expect("a line");
    assert_eq!((&line["principal"], &line["role"]), (&json!(principal), &json!("none")), "{line}");
}

#[tokio::test]
async fn person_whose_grants_an_operator_ends_has_to_sign_in_again() {
    let site = Site::new();
    let _gateway = site.started("", "allow: {emails: [ann@example.org]}").await;
    let client = site.client().await;
    let (browser, proof) = (Browser::new(), Proof::new());
    site.signed_in(&client, &browser, &proof).await;
    let tokens = site.tokens(&client).await;
    let is_signed_in =
        async || browser.open(&site.url("/oauth/sign-in")).await.text.contains("You are signed in");
    let end = async |person: &str| {
        let query = format!("login:{}%23{person}", site.service.issuer());
        let url = site.url(&format!("/api/v1/mcp/grants?principal={query}"));
        let operator = Client::at(&url).with_header("authorization", &format!("Bearer {OPS}"));
        operator.bare(Method::DELETE, &[]).await.status
    };
    assert_eq!(end("somebody-else").await, 200);
    assert!(is_signed_in().await && site.status(&tokens).await == 200);
    assert_eq!(end("subject-1").await, 200);
    assert!(!is_signed_in().await);
    assert_eq!(site.status(&tokens).await, 401);
    let page = browser.open(&client.authorization_url(&proof, &[])).await;
    assert!(page.text.contains("Sign in with 127.0.0.1"), "no grant without a sign-in: {}", page.text);
}

#[tokio::test]
async fn login_service_that_is_down_says_so_and_a_key_still_signs_in() {
    let mut site = Site::new();
    let _gateway = site.started("keys: true, ", "role_map: {ops: caller}, roles_claim: groups").await;
    let client = site.client().await;
    let page = site.signed_in(&client, &Browser::new(), &Proof::new()).await;
    assert!(page.status == 403 && page.text.contains("no role that is known here"), "{}", page.text);
    site.service.script(|script| script.claims = json!({"groups": ["ops"]}));
    assert_eq!(site.status(&site.tokens(&client).await).await, 200);
    site.service.script(|script| script.status = Some(503));
    let page = site.signed_in(&client, &Browser::new(), &Proof::new()).await;
    assert!(page.status == 503 && page.text.contains("does not answer at present"), "{}", page.text);
    site.service.kill();
    assert!(page.text.contains("Key or token"), "{}", page.text);
}
