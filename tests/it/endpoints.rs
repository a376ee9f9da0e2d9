//! Addresses as people write them: without a path, with a slash at the end, at a server that redirects, and the paths of
//! a login that Switchyard does not have.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::{StreamExt, stream};
use http::{HeaderValue, Method, StatusCode};
use serde_json::json;

use crate::support::line::Line;
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Gateway, Registry, eventually, forwarded};
use testkit::served::Served;

/// A path with the status that it answers, and the target if that is a redirect.
type Rule = (&'static str, u16, &'static str);

/// Answers some paths itself and passes every other request on to a scripted server.
struct Before {
    served: Served,
    seen: Arc<Mutex<Vec<String>>>,
    _server: Server,
}

impl Before {
    fn start(scripted: Scripted, rules: Vec<Rule>) -> Self {
        let server = scripted.tool(Tool::named("a")).start();
        let (seen, base) = (Arc::<Mutex<Vec<String>>>::default(), origin(&server.url()));
        let (noted, http) =
            (Arc::clone(&seen), reqwest::Client::builder().no_proxy().build().expect("a client"));
        let routes = Router::new().fallback(move |request: Request| {
            let path = request.uri().path().to_owned();
            noted.lock().expect("a list").push(format!("{} {path}", request.method()));
            let rule = rules.iter().find(|(at, ..)| *at == path).copied();
            let (http, base) = (http.clone(), base.clone());
            async move {
                match rule {
                    Some((_, status, target)) => answer(status, target),
                    None => forwarded(&http, &base, request).await,
                }
            }
        });
        Self { served: Served::start(routes), seen, _server: server }
    }

    fn seen(&self, path: &str) -> usize {
        self.seen.lock().expect("a list").iter().filter(|line| line.ends_with(&format!(" {path}"))).count()
    }
}

fn origin(url: &str) -> String {
    url.split('/').take(3).collect::<Vec<_>>().join("/")
}

fn answer(status: u16, target: &str) -> Response {
    let mut response = StatusCode::from_u16(status).expect("a status").into_response();
    if !target.is_empty() {
        response.headers_mut().insert("location", HeaderValue::from_str(target).expect("a target"));
    }
    response
}

// Issue 18, item 10: before, the server stayed `failed` with "the server answered HTTP 404".
#[tokio::test]
async fn a_url_without_a_path_finds_the_endpoint_and_says_so() {
    let absent = |path, status| -> Rule { (path, status, "") };
    for (kind, scripted, rules, found) in [
        ("modern", Scripted::modern(), vec![absent("/", 404)], "/mcp"),
        ("legacy", Scripted::legacy(), vec![absent("/", 405)], "/mcp"),
        ("sse", Scripted::sse(), vec![absent("/", 404), absent("/mcp", 404)], "/sse"),
    ] {
        let before = Before::start(scripted, rules);
        let gateway = Gateway::of(&Registry::new().http("one", &before.served.url())).start().await;
        gateway.offers(&["a"]).await;
        let tried = before.seen("/");
        for number in 0..3 {
            assert_eq!(
                gateway.mcp().call("a", json!({"n": number})).await.text(),
                format!(r#"{{"n":{number}}}"#)
            );
        }
        eprintln!("{kind}: {tried} requests to /, {} to {found}", before.seen(found));
        assert_eq!(before.seen("/"), tried, "{kind}: it is remembered");
        let told = gateway.get("/servers/one").await.json();
        assert!(told["offer_problems"].to_string().contains(found), "{kind}: {told}");
        gateway
            .logs(&format!("{kind}: `{found}`"), |line| line.to_string().contains(&format!("`{found}`")))
            .await;
    }
}

#[tokio::test]
async fn a_url_without_a_path_where_nothing_is_says_what_was_tried() {
    let rules = vec![("/", 404, ""), ("/mcp", 404, ""), ("/sse", 404, "")];
    let before = Before::start(Scripted::modern(), rules);
    let gateway = Gateway::of(&Registry::new().http("one", &before.served.url())).start().await;
    let told = eventually("the server failed", async || {
        let one = gateway.get("/servers/one").await.json();
        one["last_error"].as_str().map(str::to_owned)
    })
    .await;
    assert!(["404", "`/mcp`", "`/sse`"].iter().all(|part| told.contains(part)), "{told}");
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_once_and_a_permanent_one_is_remembered() {
    for scripted in [Scripted::modern, Scripted::legacy] {
        for status in [307, 308] {
            let before = Before::start(scripted(), vec![("/old", status, "/new")]);
            let url = format!("{}/old", before.served.url());
            let gateway = Gateway::of(&Registry::new().http("one", &url)).start().await;
            gateway.offers(&["a"]).await;
            for _ in 0..3 {
                assert_eq!(gateway.mcp().call("a", json!({})).await.text(), "{}");
            }
            eprintln!(
                "{status}: {} requests to the old path, {} to the new one",
                before.seen("/old"),
                before.seen("/new")
            );
            assert_eq!(before.seen("/old"), 1);
            if status == 308 {
                assert_eq!(gateway.post("/servers/one/reconnect", "").await.status, 200);
                assert_eq!(gateway.mcp().call("a", json!({})).await.text(), "{}");
                assert_eq!(before.seen("/old"), 1, "a permanent redirect is remembered");
            }
        }
    }
}

#[tokio::test]
async fn a_redirect_that_is_not_followed_names_its_target() {
    let other = Scripted::modern().tool(Tool::named("a")).start();
    let elsewhere: &'static str = other.url().leak();
    for (rules, named) in [
        (vec![("/old", 308, elsewhere)], elsewhere),
        (vec![("/old", 301, "/new")], "/new"),
        (vec![("/old", 307, "/next"), ("/next", 307, "/old")], "/old"),
    ] {
        let before = Before::start(Scripted::modern(), rules);
        let url = format!("{}/old", before.served.url());
        let gateway = Gateway::of(&Registry::new().http("one", &url)).start().await;
        let told = eventually("the server failed", async || {
            let one = gateway.get("/servers/one").await.json();
            one["last_error"].as_str().map(str::to_owned)
        })
        .await;
        eprintln!("{told}");
        assert!(told.contains(named) && told.contains("`url`"), "{told}");
        assert!(before.seen("/old") <= 2 && before.seen("/new") == 0, "{:?}", before.seen);
    }
    assert!(other.seen().is_empty(), "nothing goes to another origin");
}

// Before, the reason was that of the first request, HTTP 405.
#[tokio::test]
async fn a_server_of_the_old_transport_that_cannot_be_used_says_why() {
    for (endpoint, expected) in [("http://127.0.0.2:1/x", "another origin"), ("/refused", "license expired")]
    {
        let stream = async move || {
            let event = Ok::<_, Infallible>(format!("event: endpoint\ndata: {endpoint}\n\n"));
            let events = stream::iter([event]).chain(stream::pending());
            ([("content-type", "text/event-stream")], Body::from_stream(events))
        };
        let refused = async || (StatusCode::BAD_REQUEST, r#"{"error": "license expired"}"#);
        let routes = Router::new().route("/sse", get(stream)).route("/refused", post(refused));
        let served = Served::start(routes);
        let registry = Registry::new().http("one", &format!("{}/sse", served.url()));
        let gateway = Gateway::of(&registry).start().await;
        eventually(expected, async || {
            let one = gateway.get("/servers/one").await.json();
            one["last_error"].as_str().filter(|reason| reason.contains(expected)).map(str::to_owned)
        })
        .await;
    }
}

#[tokio::test]
async fn our_own_endpoints_work_with_a_slash_at_the_end() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a"]).await;
    for path in ["/mcp/", "/mcp/one/"] {
        let client = gateway.mcp().to(&gateway.url(path));
        assert_eq!(client.call("a", json!({})).await.text(), "{}", "{path}");
        assert_eq!(client.legacy().await.call("a", json!({})).await.text(), "{}", "{path}");
    }
    for path in ["/sse/", "/sse/one/"] {
        let mut stream = gateway.mcp().to(&gateway.url(path)).listen().await;
        assert_eq!(stream.event().await.expect("an event").name, "endpoint", "{path}");
    }
    for path in ["/mcp//", "/mcp/one//", "/mcp/one/two"] {
        assert_eq!(gateway.mcp().to(&gateway.url(path)).post("{}", &[]).await.status, 404, "{path}");
    }
}

// Before, 401: clients took that for a registration that was rejected.
#[tokio::test]
async fn paths_of_a_login_that_does_not_exist_are_not_found_without_a_key_too() {
    let hash = "0".repeat(64);
    let keys = format!(
        "server:\n  auth_mode: api_key\n  api_keys:\n    - {{id: k, hash: \"sha256:{hash}\", role: caller}}\n"
    );
    let gateway = Gateway::with_config(&format!("mcp_servers: {{}}\n{keys}")).start().await;
    let mut line = Line::to(&gateway.address);
    for (method, path) in [
        ("POST", "/register"),
        ("GET", "/authorize"),
        ("POST", "/token"),
        ("POST", "/revoke"),
        ("GET", "/.well-known/oauth-authorization-server"),
        ("GET", "/.well-known/oauth-authorization-server/mcp"),
        ("GET", "/.well-known/openid-configuration"),
        ("GET", "/mcp/.well-known/openid-configuration"),
    ] {
        let told = line.send(method, path, &[("content-type", "application/json")], b"{}").await;
        assert_eq!(told.status, 404, "{method} {path}: {}", told.body);
    }
    for (method, path) in [("POST", "/mcp"), ("POST", "/mcp/"), ("GET", "/sse/"), ("GET", "/other")] {
        let told = line.send(method, path, &[], b"").await;
        assert_eq!((told.status, told.header("www-authenticate").is_some()), (401, true), "{method} {path}");
    }
    let wrong = [("authorization", "Bearer wrong")];
    assert_eq!(line.send(Method::POST.as_str(), "/register", &wrong, b"").await.status, 401);
}

#[tokio::test]
async fn client_of_the_old_transport_posts_below_the_path_of_the_proxy() {
    let config = Registry::new().setting("server: {public_url: 'https://gw.example/tools/'}");
    let gateway = Gateway::of(&config).start().await;
    for (host, expected) in [
        ("gw.example", "/tools/messages?session_id="),
        ("GW.example:8443", "/tools/messages?session_id="),
        ("localhost", "/messages?session_id="),
    ] {
        let client = gateway.mcp().to(&gateway.url("/sse")).with_header("host", host);
        let event = client.listen().await.event().await.expect("an event");
        assert!(event.name == "endpoint" && event.data.starts_with(expected), "{host}: {event:?}");
    }
}
