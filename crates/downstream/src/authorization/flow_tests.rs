//! The way of a client from its first request to the end of its tokens, with the pages that its person sees.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::fixture::{
    CALLBACK, CONFIGURED, Site, authorize, bearer, decide, form, parameter, post_form, post_json, redeem,
    text,
};
use crate::login::fixture::{Browser, Shown};
use auth::Role;

/// Redeems the code of `answer`.
async fn redeem_at(site: &Site, client: &str, answer: &Shown) {
    let redeemed = redeem(&mut site.program(None), client, &parameter(answer.location(), "code")).await;
    assert_eq!(redeemed.status, StatusCode::OK, "{}", redeemed.text);
}

fn refresh(token: &str) -> String {
    form([("grant_type", "refresh_token"), ("client_id", CONFIGURED), ("refresh_token", token)])
}

#[tokio::test]
async fn client_gets_tokens_after_sign_in_and_consent_until_it_revokes_them() {
    let site = Site::new().await;
    let mut browser = site.browser();
    let link = authorize(CONFIGURED, CALLBACK, &[]);
    assert_eq!(browser.get(&link).await.heading(), (200, "Sign in to let a client in"));
    let back = site.sign_in(&mut browser, &link, &site.keys[0]).await;
    assert_eq!(back, link, "the same request");
    let page = browser.get(&back).await;
    assert_eq!(page.heading(), (200, "Allow a client to use this gateway?"));
    for fact in
        ["Configured", "the operator of this gateway", "claude.ai", "key:alice", "mcp:read mcp:call", "/mcp"]
    {
        assert!(
            page.text.contains(&format!("<bdi>{fact}")) || page.text.contains(&format!("{fact}</bdi>")),
            "{fact}"
        );
    }
    assert!(!page.text.contains("class=\"alert\""), "no warning: {}", page.text);
    let answer = decide(&mut browser, &page, "allow").await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
    assert!(answer.location().starts_with(&format!("{CALLBACK}?code=")));
    let of = |name| parameter(answer.location(), name);
    assert_eq!((of("state").as_str(), of("iss").as_str()), ("a state+&", "https://gw.example"));

    let mut program = site.program(None);
    let answer = redeem(&mut program, CONFIGURED, &of("code")).await;
    assert_eq!(
        (answer.status, answer.header("cache-control")),
        (StatusCode::OK, "no-store"),
        "{}",
        answer.text
    );
    assert_eq!(answer.header("pragma"), "no-cache");
    let tokens: Value = serde_json::from_str(&answer.text).expect("JSON");
    assert_eq!((text(&tokens, "token_type"), text(&tokens, "scope")), ("Bearer", "mcp:read mcp:call"));
    let answer = post_form(&mut program, "/oauth/token", refresh(text(&tokens, "refresh_token"))).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let newer: Value = serde_json::from_str(&answer.text).expect("JSON");
    assert_eq!(mcp(&site, &newer, "tools/list").await.status, StatusCode::OK);

    let newest = text(&newer, "refresh_token");
    let fields = [("token", newest), ("client_id", CONFIGURED)];
    let answer = post_form(&mut program, "/oauth/revoke", form(fields)).await;
    assert_eq!((answer.status, answer.header("cache-control")), (StatusCode::OK, "no-store"));
    assert_eq!(mcp(&site, &newer, "tools/list").await.status, StatusCode::UNAUTHORIZED);
    let answer = post_form(&mut program, "/oauth/token", refresh(newest)).await;
    assert_eq!((answer.status, error_of(&answer).as_str()), (StatusCode::BAD_REQUEST, "invalid_grant"));
}

#[tokio::test]
async fn remembered_consent_needs_one_click_and_prompt_chooses_the_page() {
    let site = Site::new().await;
    site.tokens("mcp:call").await;
    let link = authorize(CONFIGURED, CALLBACK, &[]);
    // Also after a sign-in. A browser applies the policy of the sign-in form to an error that follows.
    let mut browser = site.browser();
    let policy = browser.get(&link).await.header("content-security-policy").to_owned();
    assert!(policy.contains("form-action 'self' https:;"), "{policy}");
    let back = site.sign_in(&mut browser, &link, &site.keys[0]).await;
    let page = browser.get(&back).await;
    assert_eq!(page.heading(), (200, "Continue to claude.ai?"));
    for fact in ["Configured", "key:alice", ">Continue</button>", ">Deny</button>", "Not you? Sign out"] {
        assert!(page.text.contains(fact), "{fact}: {}", page.text);
    }
    let denied = decide(&mut browser, &page, "deny").await;
    assert_eq!(parameter(denied.location(), "error"), "access_denied");
    let answer = decide(&mut browser, &page, "allow").await;
    assert!(answer.location().starts_with(&format!("{CALLBACK}?code=")), "{}", answer.text);
    for prompt in ["consent", "login", "select_account", "login consent", "unknown"] {
        let page = browser.get(&authorize(CONFIGURED, CALLBACK, &[("prompt", prompt)])).await;
        assert_eq!(page.heading(), (200, "Allow a client to use this gateway?"), "{prompt}");
    }
    for (prompt, error) in [("none", "interaction_required"), ("none login", "invalid_request")] {
        let answer = browser.get(&authorize(CONFIGURED, CALLBACK, &[("prompt", prompt)])).await;
        assert_eq!(parameter(answer.location(), "error"), error, "{}", answer.text);
        assert!(!answer.location().contains("code="));
        // A client of which nobody has heard leads nobody away at once.
        let client = site.register("Claude", CALLBACK).await;
        let page = browser.get(&authorize(text(&client, "client_id"), CALLBACK, &[("prompt", prompt)])).await;
        assert_eq!(page.heading(), (400, "The client gets no access"));
    }
    let stranger = site.browser().get(&authorize(CONFIGURED, CALLBACK, &[("prompt", "none")])).await;
    assert_eq!(
        stranger.heading(),
        (200, "Sign in to let a client in"),
        "no client is looked up for a stranger"
    );
}

#[tokio::test]
async fn denied_client_gets_the_error_and_its_state() {
    let site = Site::new().await;
    let mut browser = site.alice().await;
    let page = browser.get(&authorize(CONFIGURED, CALLBACK, &[])).await;
    let answer = decide(&mut browser, &page, "deny").await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    let of = |name| parameter(answer.location(), name);
    assert_eq!((of("error").as_str(), of("state").as_str()), ("access_denied", "a state+&"));
    assert!(!answer.location().contains("code="));
    assert_eq!(decide(&mut browser, &page, "maybe").await.heading(), (400, "The form is not valid"));
}

#[tokio::test]
async fn person_who_signs_out_decides_as_somebody_else() {
    let site = Site::new().await;
    let mut browser = site.alice().await;
    let link = authorize(CONFIGURED, CALLBACK, &[]);
    let page = browser.get(&link).await;
    let fields = [("csrf", page.field("csrf")), ("authorize", page.field("authorize"))];
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    let answer = browser.post("/oauth/sign-out", &fields).await;
    assert_eq!(format!("/oauth/{}", answer.location()), link);
    let back = site.sign_in(&mut browser, &link, &site.keys[1]).await;
    let page = browser.get(&back).await;
    assert!(page.text.contains("<bdi>key:mallory</bdi>"), "{}", page.text);
}

#[tokio::test]
async fn page_warns_of_clients_and_receivers_that_nobody_vouches_for() {
    let site = Site::new().await;
    for (uri, requested, receiver, target) in [
        (CALLBACK, CALLBACK, "claude.ai", "https:"),
        ("http://localhost/cb", "http://localhost:51999/cb", "a program on your computer", "http:"),
        ("http://[::1]:9/cb", "http://[::1]:8/cb", "a program on your computer", "http:"),
        (
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "the program on your computer that opens cursor: links",
            "cursor:",
        ),
        ("com.example.app:/cb", "com.example.app:/cb", "opens com.example.app: links", "com.example.app:"),
    ] {
        let client = site.register("Claude", uri).await;
        let mut browser = site.alice().await;
        let page = browser.get(&authorize(text(&client, "client_id"), requested, &[])).await;
        assert!(page.text.contains(&format!("{receiver}</bdi>")), "{uri}: {}", page.text);
        assert!(page.text.contains("nobody: the client registered itself"));
        assert!(page.text.contains("class=\"alert\">Nobody has checked this client"));
        let is_local = page.text.contains("Any program on your computer can ask like this");
        assert_eq!(is_local, requested != CALLBACK, "{uri}");
        let policy = page.header("content-security-policy");
        assert!(policy.contains(&format!("form-action 'self' {target};")), "{policy}");
        let answer = decide(&mut browser, &page, "allow").await;
        assert!(answer.location().starts_with(&format!("{requested}?code=")), "{}", answer.location());
        redeem_at(&site, text(&client, "client_id"), &answer).await;
        let again = browser.get(&authorize(text(&client, "client_id"), requested, &[])).await;
        let heading = if requested == CALLBACK {
            "Continue to claude.ai?"
        } else {
            "Allow a client to use this gateway?"
        };
        assert_eq!(again.heading(), (200, heading), "only the answer to a site is remembered");
        assert_eq!(again.text.contains("class=\"alert\""), requested != CALLBACK, "{uri}");
    }
}

#[tokio::test]
async fn registration_is_read_and_removed_with_its_own_token() {
    let site = Site::new().await;
    let client = site.register("App", CALLBACK).await;
    let id = text(&client, "client_id");
    let path = text(&client, "registration_client_uri").strip_prefix("https://gw.example").expect("below");
    assert_eq!(path, format!("/oauth/register/{id}"));
    let token = format!("Bearer {}", text(&client, "registration_access_token"));
    let other = format!("Bearer {}", text(&site.register("B", CALLBACK).await, "registration_access_token"));
    let mut program = site.program(None);
    for method in [Method::GET, Method::DELETE] {
        for (sent, challenge) in [
            (None, "Bearer"),
            (Some("Basic YTpi"), "Bearer"),
            (Some("Bearer x"), "Bearer error=\"invalid_token\""),
            (Some(other.as_str()), "Bearer error=\"invalid_token\""),
        ] {
            let headers: Vec<_> = sent.map(|sent| ("authorization", sent)).into_iter().collect();
            let answer = program.send(method.clone(), path, &headers, String::new()).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{sent:?}: {}", answer.text);
            assert_eq!(answer.header("www-authenticate"), challenge, "{sent:?}");
        }
    }
    let own = [("authorization", token.as_str())];
    let shown = program.send(Method::GET, path, &own, String::new()).await;
    assert_eq!((shown.status, shown.header("cache-control")), (StatusCode::OK, "no-store"));
    assert_eq!(serde_json::from_str::<Value>(&shown.text).expect("JSON"), client);
    let put = program.send(Method::PUT, path, &own, "{}".to_owned()).await;
    assert_eq!((put.status, put.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, "GET,HEAD,DELETE"));
    let removed = program.send(Method::DELETE, path, &own, String::new()).await;
    assert_eq!((removed.status, removed.text.as_str()), (StatusCode::NO_CONTENT, ""));
    let gone = program.send(Method::GET, path, &own, String::new()).await;
    assert_eq!(gone.status, StatusCode::UNAUTHORIZED);
    let page = site.alice().await.get(&authorize(id, CALLBACK, &[])).await;
    assert_eq!(page.heading(), (401, "The request of the client is not valid"));
}

#[tokio::test]
async fn documents_are_at_every_path_that_clients_try() {
    let site = Site::new().await;
    let mut program = site.program(None);
    for path in [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/oauth-authorization-server/mcp/files",
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration/mcp",
        "/mcp/.well-known/openid-configuration",
        "/sse/.well-known/oauth-authorization-server",
    ] {
        for origin in [None, Some("https://inspector.example")] {
            let headers: Vec<_> = origin.map(|origin| ("origin", origin)).into_iter().collect();
            let answer = program.send(Method::GET, path, &headers, String::new()).await;
            assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
            let document: Value = serde_json::from_str(&answer.text).expect("JSON");
            assert_eq!(document["issuer"], "https://gw.example", "{path}");
            assert_eq!(answer.header("cache-control"), "public, max-age=300");
            assert_eq!(answer.header("pragma"), "");
            assert_eq!(answer.header("vary"), "origin");
            assert_eq!(answer.header("access-control-allow-origin"), if origin.is_some() { "*" } else { "" });
            assert_eq!(answer.header("access-control-allow-credentials"), "");
        }
    }
    for path in ["/.well-known/oauth-authorization-server/other", "/.well-known/openid-configuration/mcp/a/b"]
    {
        assert_eq!(program.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    let keys: Value = serde_json::from_str(&program.get("/oauth/jwks.json").await.text).expect("JSON");
    assert_eq!(keys["keys"][0]["crv"], "Ed25519");
    assert!(keys["keys"][0].get("d").is_none(), "no private key");
    let below = Site::at("https://gw.example/tools").await;
    let answer = below.program(None).get("/.well-known/oauth-authorization-server/tools").await;
    let document: Value = serde_json::from_str(&answer.text).expect("JSON");
    assert_eq!(document["token_endpoint"], "https://gw.example/tools/oauth/token");
}

#[tokio::test]
async fn web_page_of_any_origin_may_be_a_client_and_none_sees_the_consent_page() {
    let site = Site::new().await;
    let mut program = site.program(None);
    let preflight = |requested: &'static str| {
        [
            ("origin", "https://inspector.example"),
            ("access-control-request-method", requested),
            ("access-control-request-headers", "content-type,authorization,mcp-protocol-version"),
        ]
    };
    for (path, method) in [
        ("/oauth/token", "POST"),
        ("/oauth/revoke", "POST"),
        ("/oauth/register", "POST"),
        ("/oauth/register/x", "DELETE"),
        ("/oauth/jwks.json", "GET"),
        ("/.well-known/oauth-authorization-server", "GET"),
    ] {
        let answer = program.send(Method::OPTIONS, path, &preflight(method), String::new()).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), "*", "{path}");
        assert!(answer.header("access-control-allow-methods").contains(method));
        let allowed = answer.header("access-control-allow-headers");
        assert_eq!(allowed, "content-type, authorization, mcp-protocol-version");
        let headers = [("origin", "https://inspector.example")];
        let answer = program.send(Method::POST, path, &headers, String::new()).await;
        assert!(answer.status.is_client_error());
        assert_eq!(answer.header("access-control-allow-origin"), "*", "an error is readable too: {path}");
    }
    let path = authorize(CONFIGURED, CALLBACK, &[]);
    let answer = program.send(Method::OPTIONS, &path, &preflight("GET"), String::new()).await;
    assert_eq!(answer.header("access-control-allow-origin"), "");
    let answer = program.send(Method::GET, &path, &[("origin", "https://evil.example")], String::new()).await;
    assert_eq!(answer.header("access-control-allow-origin"), "");
}

#[tokio::test]
async fn invalid_requests_of_clients_are_named() {
    let site = Site::new().await;
    let mut program = site.program(None);
    let form_type = "application/x-www-form-urlencoded";
    let json_type = "application/json; charset=utf-8";
    let large = format!("{{\"client_name\": \"{}\"}}", "x".repeat(65_536));
    for (method, path, kind, body, status, error) in [
        (Method::POST, "/oauth/token", json_type, "{}", 415, "invalid_request"),
        (Method::POST, "/oauth/token", "", "grant_type=x", 415, "invalid_request"),
        (Method::POST, "/oauth/token", form_type, "", 400, "invalid_request"),
        (
            Method::POST,
            "/oauth/token",
            form_type,
            "grant_type=password&username=a",
            400,
            "unsupported_grant_type",
        ),
        (Method::POST, "/oauth/token", form_type, "grant_type=a&grant_type=b", 400, "invalid_request"),
        (Method::GET, "/oauth/token", form_type, "", 405, "invalid_request"),
        (Method::POST, "/oauth/revoke", json_type, "{}", 415, "invalid_request"),
        (Method::POST, "/oauth/revoke", form_type, "", 400, "invalid_request"),
        (Method::PUT, "/oauth/revoke", form_type, "", 405, "invalid_request"),
        (Method::POST, "/oauth/register", form_type, "a=b", 415, "invalid_request"),
        (Method::POST, "/oauth/register", json_type, "{", 400, "invalid_request"),
        (Method::POST, "/oauth/register", json_type, "[]", 400, "invalid_client_metadata"),
        (Method::POST, "/oauth/register", json_type, "{}", 400, "invalid_redirect_uri"),
        (Method::GET, "/oauth/register", json_type, "", 405, "invalid_request"),
        (Method::POST, "/oauth/jwks.json", json_type, "", 405, "invalid_request"),
    ] {
        let headers: Vec<_> = (!kind.is_empty()).then_some(("content-type", kind)).into_iter().collect();
        let answer = program.send(method.clone(), path, &headers, body.to_owned()).await;
        let context = format!("{method} {path} {kind} {body}: {}", answer.text);
        assert_eq!(answer.status.as_u16(), status, "{context}");
        assert_eq!(error_of(&answer), error, "{context}");
        assert_eq!((answer.header("cache-control"), answer.header("pragma")), ("no-store", "no-cache"));
        assert_eq!(answer.header("allow").is_empty(), status != 405, "{context}");
    }
    assert_eq!(post_json(&mut program, &large).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    let long = format!("token={}", "x".repeat(16_384));
    assert_eq!(post_form(&mut program, "/oauth/revoke", long).await.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn client_that_tries_basic_authentication_gets_a_challenge_of_that_scheme() {
    let site = Site::new().await;
    let mut browser = site.alice().await;
    let page = browser.get(&authorize(CONFIGURED, CALLBACK, &[])).await;
    let location = decide(&mut browser, &page, "allow").await.location().to_owned();
    let code = parameter(&location, "code");
    let fields = [("grant_type", "authorization_code"), ("client_id", "other"), ("code", &code)];
    let body = form(fields.into_iter().chain([("code_verifier", super::fixture::VERIFIER)]));
    for (scheme, challenge) in [(Some("Basic b3RoZXI6"), "Basic realm=\"token\""), (None, "")] {
        let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
        headers.extend(scheme.map(|scheme| ("authorization", scheme)));
        let answer = site.program(None).send(Method::POST, "/oauth/token", &headers, body.clone()).await;
        if answer.status == StatusCode::UNAUTHORIZED {
            assert_eq!(error_of(&answer), "invalid_client");
            assert_eq!(answer.header("www-authenticate"), challenge);
        } else {
            assert_eq!(
                (answer.status, error_of(&answer).as_str()),
                (StatusCode::BAD_REQUEST, "invalid_grant")
            );
            assert_eq!(answer.header("www-authenticate"), "");
        }
    }
}

#[tokio::test]
async fn client_whose_scope_is_too_weak_reads_which_one_it_needs() {
    let site = Site::new().await;
    let tokens = site.tokens("mcp:read").await;
    assert_eq!(mcp(&site, &tokens, "tools/list").await.status, StatusCode::OK);
    for method in ["tools/call", "prompts/get", "resources/read", "completion/complete"] {
        let answer = mcp(&site, &tokens, method).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{method}: {}", answer.text);
        let challenge = "Bearer error=\"insufficient_scope\", scope=\"mcp:read mcp:call\"";
        assert!(
            answer.header("www-authenticate").starts_with(challenge),
            "{}",
            answer.header("www-authenticate")
        );
        assert!(answer.text.contains("\"forbidden\""), "the body tells MCP clients: {}", answer.text);
    }
    for accept in ["application/json, text/event-stream", "text/event-stream, application/json"] {
        let answer = in_session(&site, &tokens, accept).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{accept}: {}", answer.text);
    }
    let more = site.tokens("mcp:call").await;
    assert_eq!(mcp(&site, &more, "tools/call").await.header("www-authenticate"), "");
    // The person has no such role, so another login would not help.
    site.people.set("key:alice", Role::Reader);
    let answer = mcp(&site, &tokens, "tools/call").await;
    assert_eq!((answer.status, answer.header("www-authenticate")), (StatusCode::FORBIDDEN, ""));
}

/// A request of the modern era with an access token.
async fn mcp(site: &Site, tokens: &Value, method: &'static str) -> Shown {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let (mut params, name) = (json!({"_meta": meta}), "x");
    let named = matches!(method, "tools/call" | "prompts/get" | "resources/read");
    if named {
        (params["name"], params["uri"]) = (name.into(), name.into());
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let token = bearer(tokens)[http::header::AUTHORIZATION].to_str().expect("text").to_owned();
    let mut headers = vec![
        ("authorization", token.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
    ];
    headers.extend(named.then_some(("mcp-name", name)));
    site.program(None).send(Method::POST, "/mcp", &headers, body).await
}

/// A call in a session, by a client that sends `accept`.
async fn in_session(site: &Site, tokens: &Value, accept: &str) -> Shown {
    let token = bearer(tokens)[http::header::AUTHORIZATION].to_str().expect("text").to_owned();
    let headers = [
        ("authorization", token.as_str()),
        ("content-type", "application/json"),
        ("accept", accept),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let mut program: Browser = site.program(None);
    let started = program.send(Method::POST, "/mcp", &headers, body).await;
    assert_eq!(started.status, StatusCode::OK, "{}", started.text);
    let session = started.header("mcp-session-id").to_owned();
    let headers: Vec<_> = headers.into_iter().chain([("mcp-session-id", session.as_str())]).collect();
    let call =
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "x"}}).to_string();
    program.send(Method::POST, "/mcp", &headers, call).await
}

#[track_caller]
fn error_of(answer: &Shown) -> String {
    let body: Value =
        serde_json::from_str(&answer.text).unwrap_or_else(|_| panic!("no JSON: {}", answer.text));
    text(&body, "error").to_owned()
}
