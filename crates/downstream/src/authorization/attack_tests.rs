//! Attacks on people, clients and the gateway through the endpoints.

use std::time::{Duration, SystemTime};

use http::{Method, StatusCode};
use runtime::telemetry::sink::Sink;
use secrecy::ExposeSecret;
use serde_json::Value;
use tracing_subscriber::EnvFilter;

use super::fixture::{
    CALLBACK, CONFIGURED, Site, authorize, decide, form, parameter, post_form, post_json, redeem, text,
};
use crate::Config;
use crate::guard::Guard;
use crate::http_service::HttpService;
use crate::login::fixture::{Browser, PUBLIC, Shown};
use crate::login::sealed;
use authorization::AuthorizationRequest;
use gateway::login_links::LIFETIME;

fn assert_stays(page: &Shown, context: &str) {
    assert_eq!(page.location(), "", "{context}");
    assert!(!page.text.contains("evil.example"), "{context}: {}", page.text);
}

#[tokio::test]
async fn request_of_an_unknown_client_or_receiver_is_shown_and_never_redirected() {
    let site = Site::new().await;
    let mut browser = site.alice().await;
    for (client, uri, more) in [
        ("unknown", "https://evil.example/cb", None),
        ("swyclient-00000000000000000000000000000000", "https://evil.example/cb", None),
        (CONFIGURED, "https://evil.example/cb", None),
        (CONFIGURED, "https://claude.ai@evil.example/", None),
        (CONFIGURED, "https://claude.ai/api/mcp/auth_callback/../../evil.example", None),
        (CONFIGURED, "javascript:alert(1)", None),
        (CONFIGURED, "", None),
        ("", CALLBACK, None),
        (CONFIGURED, CALLBACK, Some("&redirect_uri=https://evil.example/cb")),
        (CONFIGURED, CALLBACK, Some("&client_id=evil.example")),
    ] {
        let link = authorize(client, uri, &[]) + more.unwrap_or_default();
        let page = browser.get(&link).await;
        assert!(matches!(page.status.as_u16(), 400 | 401), "{link}: {}", page.text);
        assert_eq!(page.heading().1, "The request of the client is not valid", "{link}");
        assert_stays(&page, &link);
    }
}

#[tokio::test]
async fn downgrade_is_answered_to_a_known_client_only() {
    let site = Site::new().await;
    let mut browser = site.alice().await;
    for more in [
        [("code_challenge", ""), ("code_challenge_method", "S256")],
        [("code_challenge_method", "plain"), ("scope", "mcp:read")],
        [("code_challenge_method", ""), ("scope", "mcp:read")],
        [("response_type", "token"), ("scope", "mcp:read")],
        [("resource", "https://other.example/mcp"), ("scope", "mcp:read")],
        [("request_uri", "https://evil.example/"), ("scope", "mcp:read")],
    ] {
        let answer = browser.get(&authorize(CONFIGURED, CALLBACK, &more)).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{more:?}: {}", answer.text);
        assert!(answer.location().starts_with(CALLBACK) && answer.location().contains("error="), "{more:?}");
        assert!(!answer.location().contains("code="), "{more:?}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
    }
    let long = authorize(CONFIGURED, CALLBACK, &[("state", &"x".repeat(9_000))]);
    assert_eq!(browser.get(&long).await.status, StatusCode::URI_TOO_LONG);
    let doubled = authorize(CONFIGURED, CALLBACK, &[("state", &"\u{1}".repeat(2_400))]);
    assert_eq!(browser.get(&doubled).await.status, StatusCode::URI_TOO_LONG, "its form would be refused");
}

#[tokio::test]
async fn error_leads_to_a_client_that_anybody_registered_only_after_a_click_or_an_agreement() {
    let site = Site::new().await;
    let stranger = site.register("Stranger", "https://evil.example/cb?a=%22").await;
    let id = text(&stranger, "client_id");
    let mut browser = site.alice().await;
    let wrong = [("response_type", "token"), ("state", "\"><b>")];
    let link = authorize(id, "https://evil.example/cb?a=%22", &wrong);
    let page = browser.get(&link).await;
    assert_eq!((page.heading(), page.location()), ((400, "The client gets no access"), ""));
    assert!(page.text.contains("unsupported_response_type"), "{}", page.text);
    let target = "<a href=\"https://evil.example/cb?a=%22&amp;error=unsupported_response_type";
    assert!(page.text.contains(target) && page.text.contains(">Return to evil.example</a>"), "{}", page.text);
    assert!(!page.text.contains("<b>"), "{}", page.text);
    let consent = browser.get(&authorize(id, "https://evil.example/cb?a=%22", &[])).await;
    let denied = decide(&mut browser, &consent, "deny").await;
    assert!(denied.location().contains("error=access_denied"), "the person decided: {}", denied.text);
    assert_eq!(browser.get(&link).await.location(), "", "a refusal vouches for nothing");
    decide(&mut browser, &consent, "allow").await;
    let answer = browser.get(&link).await;
    assert!(answer.location().starts_with("https://evil.example/cb?"), "{}", answer.text);
}

#[tokio::test]
async fn link_to_a_remembered_client_gives_no_code_without_a_click() {
    let site = Site::new().await;
    site.tokens("mcp:call").await;
    let (link, mut browser) = (authorize(CONFIGURED, CALLBACK, &[]), site.alice().await);
    for headers in [
        &[][..],
        &[("sec-fetch-dest", "document")],
        &[("sec-fetch-dest", "image")],
        &[("sec-fetch-dest", "document"), ("sec-purpose", "prefetch")],
    ] {
        let page = browser.send(Method::GET, &link, headers, String::new()).await;
        assert_eq!(page.heading(), (200, "Continue to claude.ai?"), "{headers:?}");
        assert!(page.header("content-security-policy").contains("frame-ancestors 'none'"));
        assert_eq!((page.header("x-frame-options"), page.header("cache-control")), ("DENY", "no-store"));
    }
    let grants = async || site.server.grants(None, SystemTime::now()).await.expect("grants").len();
    assert_eq!(grants().await, 1);
    // The form counts in the session that was asked, and with its token.
    let page = browser.get(&link).await;
    let mut mallory = site.browser();
    site.sign_in(&mut mallory, "/oauth/sign-in", &site.keys[1]).await;
    let theirs = mallory.get("/oauth/sign-in").await;
    let (own, request) = (page.field("csrf"), page.field("request"));
    for (who, csrf) in [(&mut mallory, &theirs.field("csrf")), (&mut browser, &String::new())] {
        let fields = [("csrf", csrf.as_str()), ("request", &request), ("decision", "allow")];
        let refused = who.post("/oauth/authorize", &fields).await;
        assert!(refused.status.is_client_error() && refused.location().is_empty(), "{}", refused.text);
    }
    assert_eq!(grants().await, 1);
    let fields = [("csrf", own.as_str()), ("request", &request), ("decision", "allow")];
    let done = browser.post("/oauth/authorize", &fields).await;
    assert!(done.location().starts_with(&format!("{CALLBACK}?code=")), "{}", done.text);
}

#[tokio::test]
async fn consent_counts_only_with_the_token_and_the_request_of_the_session() {
    let site = Site::new().await;
    let (mut alice, mut mallory) = (site.alice().await, site.browser());
    site.sign_in(&mut mallory, "/oauth/sign-in", &site.keys[1]).await;
    let link = authorize(CONFIGURED, CALLBACK, &[]);
    let (page, theirs) = (alice.get(&link).await, mallory.get(&link).await);
    let (csrf, request) = (page.field("csrf"), page.field("request"));
    let allow = |csrf: &str, request: &str| {
        [("csrf", csrf), ("request", request), ("decision", "allow")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    for (csrf, request, heading) in [
        ("", request.as_str(), "The form was refused"),
        (&theirs.field("csrf"), &request, "The form was refused"),
        (&csrf, "", "The form is not valid"),
        (&csrf, &theirs.field("request"), "The form is not valid"),
        (&csrf, &request[1..], "The form is not valid"),
        (&csrf, &page.field("authorize"), "The form is not valid"),
    ] {
        let fields = allow(csrf, request);
        let fields = fields.each_ref().map(|(name, value)| (name.as_str(), value.as_str()));
        let answer = alice.post("/oauth/authorize", &fields).await;
        assert_eq!(answer.heading().1, heading, "{fields:?}");
        assert_stays(&answer, heading);
    }
    // Another session of the same person.
    let mut second = site.alice().await;
    let fields = allow(&second.get(&link).await.field("csrf"), &request);
    let fields = fields.each_ref().map(|(name, value)| (name.as_str(), value.as_str()));
    let answer = second.post("/oauth/authorize", &fields).await;
    assert_eq!(answer.heading(), (403, "The form belongs to another session"));
    // A page of another site.
    let fields = allow(&csrf, &request);
    let fields = fields.each_ref().map(|(name, value)| (name.as_str(), value.as_str()));
    for from in [
        &[("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")][..],
        &[("origin", "https://evil.gw.example"), ("sec-fetch-site", "same-site")],
        &[("origin", "null")],
        &[],
    ] {
        let answer = alice.post_from("/oauth/authorize", &fields, from).await;
        assert_eq!(answer.heading(), (403, "The form was refused"), "{from:?}");
    }
    assert_eq!(site.server.grants(None, SystemTime::now()).await.expect("grants").len(), 0);
    assert!(decide(&mut alice, &page, "allow").await.location().starts_with(CALLBACK), "the real one");
}

#[tokio::test]
async fn consent_expires_after_ten_minutes_and_with_its_session() {
    let site = Site::new().await;
    let mut alice = site.alice().await;
    let page = alice.get(&authorize(CONFIGURED, CALLBACK, &[])).await;
    let cookie = alice.jar.values().next().expect("a session");
    let session = site.pages.sessions.find(cookie, None).await.expect("a session");
    let (links, now) = (&site.pages.logins.links, SystemTime::now());
    let request = sealed::open::<AuthorizationRequest>(links, &session, &page.field("request"), now);
    let request = request.expect("a request");
    let old = sealed::seal(links, &session, &request, now - LIFETIME - Duration::from_secs(1));
    let csrf = page.field("csrf");
    let fields = [("csrf", csrf.as_str()), ("request", &old), ("decision", "allow")];
    assert_eq!(alice.post("/oauth/authorize", &fields).await.heading(), (410, "The login took too long"));
    // Repeated, the form gives the same client another code, and nothing to anybody else.
    let [first, again] = [decide(&mut alice, &page, "allow").await, decide(&mut alice, &page, "allow").await];
    assert_ne!(parameter(first.location(), "code"), parameter(again.location(), "code"));
    alice.post("/oauth/sign-out", &[("csrf", &csrf)]).await;
    assert_eq!(decide(&mut alice, &page, "allow").await.heading(), (403, "Your session has ended"));
    assert_eq!(site.server.grants(None, now).await.expect("grants").len(), 2);
}

#[tokio::test]
async fn forwarded_link_logs_nobody_in() {
    let site = Site::new().await;
    let client = site.register("Claude", "http://localhost/cb").await;
    let link = authorize(text(&client, "client_id"), "http://localhost:9/cb", &[]);
    // The victim has to sign in, and is asked as the one who signed in.
    let mut victim = site.browser();
    let form = victim.get(&link).await;
    assert_eq!(form.heading(), (200, "Sign in to let a client in"));
    assert!(victim.jar.keys().all(|name| !name.contains("session")), "no session: {:?}", victim.jar);
    let stolen = form.field("authorize");
    assert!(!form.text.contains("localhost:9"), "the request is sealed");
    // A form that the attacker got signs nobody in, and leads nowhere else.
    let mut other = site.browser();
    let key = site.keys[1].expose_secret();
    let fields = [("csrf", form.field("csrf")), ("authorize", stolen), ("credential", key.to_owned())];
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(other.post("/oauth/sign-in", &fields).await.heading(), (403, "The form was refused"));
    for forged in ["https://evil.example/", "//evil.example", "client_id=a", "%0d%0alocation:x"] {
        let csrf = other.get("/oauth/sign-in").await.field("csrf");
        let fields = [("csrf", csrf.as_str()), ("authorize", forged), ("credential", key)];
        let answer = other.post("/oauth/sign-in", &fields).await;
        assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, "sign-in"), "{forged}");
        other.jar.clear();
    }
}

#[tokio::test]
async fn no_page_or_redirect_can_be_framed_cached_or_leaks_its_address() {
    let site = Site::new().await;
    let link = authorize(CONFIGURED, CALLBACK, &[]);
    let mut alice = site.alice().await;
    let page = alice.get(&link).await;
    let allowed = decide(&mut alice, &page, "allow").await;
    let answers = [
        site.browser().get(&link).await,
        alice.get(&authorize("unknown", CALLBACK, &[])).await,
        alice.get(&authorize(CONFIGURED, CALLBACK, &[("code_challenge", "")])).await,
        alice.get(&link).await,
        page,
        allowed,
    ];
    for answer in answers {
        let policy = answer.header("content-security-policy");
        assert!(
            policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'none'"),
            "{policy}"
        );
        assert_eq!(answer.header("x-frame-options"), "DENY");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert!(["no-referrer", "same-origin"].contains(&answer.header("referrer-policy")));
    }
    for method in [Method::PUT, Method::DELETE] {
        let answer = alice.send(method, "/oauth/authorize", &[], String::new()).await;
        assert!(answer.status.is_client_error(), "{}", answer.status);
    }
}

#[tokio::test]
async fn name_of_a_client_cannot_imitate_the_page() {
    let site = Site::new().await;
    for (name, shown) in [
        ("</dd><script>alert(1)</script>", "&lt;/dd&gt;&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("Claude\u{202e}\u{200b}", "Claude"),
        ("Switchyard\n\nYour session expired", "Switchyard Your session expired"),
        ("&#60;b&#62;\" onload=x", "&amp;#60;b&amp;#62;&quot; onload=x"),
    ] {
        let client = site.register(name, CALLBACK).await;
        let page = site.alice().await.get(&authorize(text(&client, "client_id"), CALLBACK, &[])).await;
        let fact = format!("<dt>Name, chosen by the client</dt><dd><bdi>{shown}</bdi></dd>");
        assert!(page.text.contains(&fact), "{name}: {}", page.text);
        assert_eq!(page.heading(), (200, "Allow a client to use this gateway?"), "no name in the heading");
        assert!(!page.text.contains("<script"), "{}", page.text);
    }
    let client = site.register(&"Visit https://evil.example/ ".repeat(50), CALLBACK).await;
    assert!(text(&client, "client_name").len() <= 60);
}

#[tokio::test]
async fn token_of_a_client_does_not_sign_in_as_its_person() {
    let site = Site::new().await;
    let tokens = site.tokens("mcp:call").await;
    let mut browser = site.browser();
    let csrf = browser.get("/oauth/sign-in").await.field("csrf");
    let token = text(&tokens, "access_token");
    // The check of requests knows the token.
    let headers = super::fixture::bearer(&tokens);
    assert!(site.authenticator().check(&headers).await.is_ok_and(|principal| principal.is_of_grant()));
    let answer = browser.post("/oauth/sign-in", &[("csrf", &csrf), ("credential", token)]).await;
    assert_eq!(answer.heading(), (403, "The sign-in was refused"));
    assert_eq!(
        browser.get(&authorize(CONFIGURED, CALLBACK, &[])).await.heading().1,
        "Sign in to let a client in"
    );
}

#[tokio::test]
async fn ten_thousand_registrations_of_one_address_leave_room_for_others() {
    let site = Site::new().await;
    let body = r#"{"redirect_uris": ["https://app.example/cb"]}"#;
    let mut flood = site.program(Some([192, 0, 2, 1]));
    let mut counts = [0; 2];
    for _ in 0..10_000 {
        let answer = post_json(&mut flood, body).await;
        match answer.status {
            StatusCode::CREATED => counts[0] += 1,
            StatusCode::TOO_MANY_REQUESTS => {
                assert!(
                    answer
                        .header("retry-after")
                        .parse::<u64>()
                        .is_ok_and(|seconds| (1..=4).contains(&seconds))
                );
                counts[1] += 1;
            }
            status => panic!("{status}: {}", answer.text),
        }
    }
    assert!(counts[0] >= 15 && counts[0] < 40, "{counts:?}");
    assert_eq!(post_json(&mut site.program(Some([192, 0, 2, 2])), body).await.status, StatusCode::CREATED);
    // All addresses together have a limit too, and each refusal says when to come back.
    let mut accepted = 0;
    for at in 0_u16..200 {
        let [high, low] = at.to_be_bytes();
        let answer = post_json(&mut site.program(Some([198, 51, high, low])), body).await;
        match answer.status {
            StatusCode::CREATED => accepted += 1,
            status => {
                assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.text);
                assert!(answer.headers.contains_key("retry-after"));
            }
        }
    }
    assert!(accepted < 150, "{accepted}");
}

#[tokio::test]
async fn flood_of_one_address_is_refused_and_another_address_is_served() {
    let site = Site::new().await;
    let mut flood = site.program(Some([192, 0, 2, 1]));
    let body = form([("grant_type", "refresh_token"), ("client_id", CONFIGURED), ("refresh_token", "x")]);
    let refused = |status: StatusCode| status == StatusCode::TOO_MANY_REQUESTS;
    let mut statuses = Vec::new();
    for _ in 0..2_000 {
        statuses.push(post_form(&mut flood, "/oauth/token", body.clone()).await.status);
    }
    assert!(statuses.iter().any(|status| refused(*status)), "tokens");
    let mut other = site.program(Some([192, 0, 2, 2]));
    assert_eq!(post_form(&mut other, "/oauth/token", body).await.status, StatusCode::BAD_REQUEST);
    let link = authorize(CONFIGURED, CALLBACK, &[]);
    let mut last = flood.get(&link).await;
    for _ in 0..2_000 {
        if refused(last.status) {
            break;
        }
        last = flood.get(&link).await;
    }
    assert_eq!(last.heading(), (429, "Try again in a moment"));
    assert_eq!(last.header("retry-after"), "1");
    assert_eq!(other.get(&link).await.status, StatusCode::OK);
}

#[tokio::test]
async fn log_has_each_decision_and_no_secret() {
    let sink = Sink::default();
    let writer = sink.clone();
    let lines = tracing_subscriber::fmt().with_env_filter(EnvFilter::new("trace")).json().flatten_event(true);
    let listening = tracing::subscriber::set_default(lines.with_writer(move || writer.clone()).finish());
    let site = Site::new().await;
    let client = site.register("canary-of-the-name", CALLBACK).await;
    let id = text(&client, "client_id");
    let mut browser = site.alice().await;
    let link = authorize(id, CALLBACK, &[("state", "canary-of-the-state")]);
    let page = browser.get(&link).await;
    decide(&mut browser, &page, "deny").await;
    let code = parameter(decide(&mut browser, &page, "allow").await.location(), "code");
    let answer = redeem(&mut site.program(None), id, &code).await;
    let tokens: Value = serde_json::from_str(&answer.text).expect("JSON");
    redeem(&mut site.program(None), id, &format!("{code}x")).await;
    browser.get(&authorize("canary-of-the-id", CALLBACK, &[])).await;
    let token = format!("Bearer {}", text(&client, "registration_access_token"));
    let path = format!("/oauth/register/{id}");
    site.program(None)
        .send(Method::DELETE, &path, &[("authorization", "Bearer canary-wrong")], String::new())
        .await;
    site.program(None).send(Method::DELETE, &path, &[("authorization", &token)], String::new()).await;
    drop(listening);
    let log = sink.text();
    for secret in [
        site.keys[0].expose_secret(),
        &code,
        text(&tokens, "access_token"),
        text(&tokens, "refresh_token"),
        text(&client, "registration_access_token"),
        super::fixture::VERIFIER,
        "canary",
    ] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
    let audit: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|line| line["target"] == "switchyard::audit")
        .collect();
    let actions: Vec<_> = audit.iter().map(|line| (text(line, "action"), text(line, "principal"))).collect();
    let expected = [
        ("register_client", "anonymous"),
        ("sign_in", "key:alice"),
        ("deny_grant", "key:alice"),
        ("grant", "key:alice"),
        ("remove_client", "anonymous"),
    ];
    assert_eq!(actions, expected);
    let is_of_client = |line: &Value| line["client"] == *id || line["action"] == "sign_in";
    assert!(audit.iter().all(|line| is_of_client(line) && line["outcome"] == "done"), "{audit:?}");
    assert!(
        log.contains("\"code\":\"invalid_grant\"") && log.contains("\"code\":\"invalid_client\""),
        "{log}"
    );
}

#[tokio::test]
async fn client_that_hammers_the_token_endpoint_gets_429_and_the_time_to_wait() {
    let site = Site::new().await;
    let mut tokens = site.tokens("mcp:call").await;
    let mut program = site.program(None);
    let mut refresh = async |tokens: &Value| {
        let token = text(tokens, "refresh_token");
        let fields = [("grant_type", "refresh_token"), ("client_id", CONFIGURED), ("refresh_token", token)];
        post_form(&mut program, "/oauth/token", form(fields)).await
    };
    let (mut count, mut answer) = (0, refresh(&tokens).await);
    while answer.status == StatusCode::OK && count < 200 {
        count += 1;
        tokens = serde_json::from_str(&answer.text).expect("JSON");
        answer = refresh(&tokens).await;
    }
    assert!((60..80).contains(&count), "{count}");
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS, "{}", answer.text);
    assert!(answer.header("retry-after").parse::<u64>().is_ok_and(|seconds| (1..=30).contains(&seconds)));
    let body: Value = serde_json::from_str(&answer.text).expect("JSON");
    assert_eq!(body["error"], "temporarily_unavailable");
}

#[tokio::test]
async fn request_for_another_host_is_refused_at_every_endpoint() {
    let site = Site::new().await;
    let mut rebound = Browser::on(&site.router, "evil.example", "http://evil.example");
    for (method, path) in [
        (Method::GET, "/.well-known/oauth-authorization-server"),
        (Method::GET, "/oauth/jwks.json"),
        (Method::POST, "/oauth/token"),
        (Method::POST, "/oauth/register"),
        (Method::GET, "/oauth/authorize"),
    ] {
        let answer = rebound.send(method.clone(), path, &[], String::new()).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{method} {path}: {}", answer.text);
        assert!(answer.text.contains("host_not_allowed"), "{}", answer.text);
    }
    // Another Switchyard, as a client of this one.
    let headers = [("cdn-loop", "switchyard"), ("content-type", "application/json")];
    let mut program = site.program(None);
    let answer = program.send(Method::POST, "/oauth/register", &headers, "{}".to_owned()).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);
}

#[tokio::test]
async fn without_an_authorization_server_every_path_is_what_it_was() {
    let config = Config { public_url: Some(PUBLIC.to_owned()), ..Config::default() };
    let (entries, _) = crate::login::fixture::two_keys();
    let config = Config { auth: auth::Config::ApiKey(entries.into()), ..config };
    let guard = Guard::new(&config).expect("no files");
    let router = HttpService::new(guard, axum::Router::new()).into_router();
    let mut program = Browser::on(&router, "127.0.0.1", "http://127.0.0.1");
    for (method, path) in [
        (Method::GET, "/.well-known/oauth-authorization-server"),
        (Method::GET, "/.well-known/openid-configuration/mcp"),
        (Method::GET, "/mcp/.well-known/openid-configuration"),
        (Method::POST, "/oauth/token"),
        (Method::DELETE, "/oauth/register/x"),
        (Method::GET, "/oauth/jwks.json"),
        (Method::GET, "/oauth/authorize"),
        (Method::POST, "/token"),
    ] {
        let answer = program.send(method.clone(), path, &[], String::new()).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}: {}", answer.text);
        let headers = [("origin", "https://inspector.example")];
        let answer = program.send(method.clone(), path, &headers, String::new()).await;
        assert_eq!(answer.header("access-control-allow-origin"), "", "{method} {path}");
    }
}
