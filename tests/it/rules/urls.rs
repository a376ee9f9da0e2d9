//! URLs that a server sends: none leads to another host, and none carries a credential there.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::any;
use serde_json::{Value, json};

use crate::support::scripted::{Scripted, Tool};
use crate::support::{Background, Gateway, Registry, Running, eventually};
use testkit::served::Served;

/// A foreign service on this machine that counts its connections.
struct Elsewhere {
    port: u16,
    visits: Arc<AtomicUsize>,
    _listening: Background,
}

impl Elsewhere {
    fn start() -> Self {
        let listener = crate::support::listen((Ipv4Addr::UNSPECIFIED, 0).into());
        let port = listener.local_addr().expect("an address").port();
        let visits = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&visits);
        let listening = Background::run(move || async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            while listener.accept().await.is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { port, visits, _listening: listening }
    }

    fn visits(&self) -> usize {
        self.visits.load(Ordering::Relaxed)
    }
}

/// Spellings of a URL that leads to `port` of this machine, to private addresses, or nowhere. `own` is the port of the
/// server that sends it.
fn forms(port: u16, own: u16) -> Vec<String> {
    let hosts = [
        "127.0.0.1",
        "127.0.0.2",
        "127.1",
        "127.0.1",
        "127.255.255.254",
        "0",
        "0.0.0.0",
        "0x7f000001",
        "0x7f.0.0.1",
        "0X7F.1",
        "2130706433",
        "017700000001",
        "0177.0.0.1",
        "0177.0.0.01",
        "127.0.0.1.",
        "127%2e0%2e0%2e1",
        "%31%32%37.0.0.1",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fc00::1]",
        "169.254.169.254",
        "169.254.170.2",
        "0xa9fea9fe",
        "2852039166",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "metadata.google.internal",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "192.0.0.192",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "１２７.0.0.1",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
        "127.0.0.1\u{ad}",
        "example.com",
        "xn--example",
    ];
    let schemes = ["http", "https"];
    let spelled = hosts.iter().flat_map(|host| schemes.map(|by| format!("{by}://{host}:{port}/steal")));
    let tricks = [
        format!("//127.0.0.1:{port}/steal"),
        format!("///127.0.0.1:{port}/steal"),
        format!("\\\\127.0.0.1:{port}\\steal"),
        format!("/\\127.0.0.1:{port}/steal"),
        format!("http:\\\\127.0.0.1:{port}\\steal"),
        format!("http:////127.0.0.1:{port}/steal"),
        format!("HTTP://127.0.0.1:{port}/steal"),
        format!("\thttp://127.0.0.1:{port}/steal"),
        format!("ht\ttp://127.0.0.1:{port}/steal"),
        format!("http://127.0.0.1:{own}@127.0.0.1:{port}/steal"),
        format!("http://127.0.0.1%3a{own}@127.0.0.1:{port}/steal"),
        format!("http://user:password@127.0.0.1:{port}/steal"),
        format!("http://127.0.0.1:{port}#@127.0.0.1:{own}/"),
        format!("http://127.0.0.1:{port}?@127.0.0.1:{own}/"),
        format!("http://127.0.0.1:{port}\\@127.0.0.1:{own}/"),
        format!("http://127.0.0.1:{own}.example.com:{port}/"),
        format!("http://127.0.0.1:0{port}/steal"),
        format!("http://127.0.0.1:{own}:{port}/steal"),
        "http://127.0.0.1/steal".to_owned(),
        "http://127.0.0.1:65536/".to_owned(),
        format!("ws://127.0.0.1:{port}/steal"),
        format!("ftp://127.0.0.1:{port}/steal"),
        format!("gopher://127.0.0.1:{port}/_steal"),
        format!("dict://127.0.0.1:{port}/steal"),
        format!("ldap://127.0.0.1:{port}/steal"),
        "file:///etc/passwd".to_owned(),
        "data:application/json,{}".to_owned(),
        "javascript:alert(1)".to_owned(),
        "unix:/run/docker.sock".to_owned(),
        "http+unix://%2frun%2fdocker.sock/".to_owned(),
        "about:blank".to_owned(),
        "http://".to_owned(),
        "//".to_owned(),
    ];
    spelled.chain(tricks).collect()
}

/// The answer of the server, by its kind: an event stream that names an endpoint, a refusal that names metadata, or a
/// redirect.
fn answer(forms: &[String], kind: &str, number: &str) -> Response {
    let form = number.parse::<usize>().ok().and_then(|number| forms.get(number)).cloned().unwrap_or_default();
    let header = |text: &str| http::HeaderValue::from_bytes(text.as_bytes()).expect("a header");
    let answer = Response::builder();
    match kind {
        "endpoint" => answer
            .header("content-type", "text/event-stream")
            .body(format!("event: endpoint\ndata: {form}\n\n")),
        "metadata" => {
            let challenge = format!("Bearer resource_metadata=\"{form}\", error=\"invalid_token\"");
            answer.status(401).header("www-authenticate", header(&challenge)).body(String::new())
        }
        // `kind` is the status.
        status => {
            let status: u16 = status.parse().expect("a status");
            answer.status(status).header("location", header(&form)).body(String::new())
        }
    }
    .expect("an answer")
    .map(Into::into)
}

/// Starts a server with the URLs that `make` returns for its port.
fn serve(make: impl FnOnce(u16) -> Vec<String>) -> (Served, Arc<std::sync::OnceLock<Vec<String>>>) {
    let forms: Arc<std::sync::OnceLock<Vec<String>>> = Arc::default();
    let its = Arc::clone(&forms);
    let routes = Router::new().route(
        "/{kind}/{number}",
        any(async move |Path((kind, number)): Path<(String, String)>| {
            answer(its.get().expect("it is set before anybody asks"), &kind, &number)
        }),
    );
    let served = Served::start(routes);
    let port = served.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    forms.set(make(port)).expect("once");
    (served, forms)
}

/// Waits until every server has a reason why it is not available, and returns the reasons by name.
async fn reasons(gateway: &Running, count: usize) -> Vec<(String, String)> {
    eventually("all servers have failed", async || {
        let health = gateway.get("/health").await.json();
        let servers = health["servers"].as_array().expect("servers").clone();
        let reason = |server: &Value| {
            let said = server["last_error"].as_str().or(server["error"].as_str())?.to_owned();
            Some((server["name"].as_str()?.to_owned(), said))
        };
        let known: Vec<_> = servers.iter().filter_map(reason).collect();
        (known.len() == count).then_some(known)
    })
    .await
}

/// RULES S19: over 120 forms of URLs, each as the endpoint that an HTTP+SSE server names and as the metadata of a
/// server that refuses Switchyard. None is connected to.
#[tokio::test]
async fn url_named_by_a_server_is_not_connected_to() {
    let elsewhere = Elsewhere::start();
    let (served, forms) = serve(|own| forms(elsewhere.port, own));
    let forms = forms.get().expect("set");
    assert!(forms.len() >= 120, "{} forms", forms.len());
    let registry = (0..forms.len()).fold(Registry::new(), |registry, number| {
        registry
            .sse(&format!("e{number}"), &format!("{}/endpoint/{number}", served.url()))
            .http(&format!("m{number}"), &format!("{}/metadata/{number}", served.url()))
    });
    let gateway = Gateway::of(&registry).start().await;
    let is_judged =
        |reason: &String| ["another origin", "is no URL", "401"].iter().any(|word| reason.contains(word));
    let reasons = reasons(&gateway, 2 * forms.len()).await;
    let others = reasons.iter().filter(|(_, reason)| !is_judged(reason));
    let others: Vec<_> = others
        .map(|(name, reason)| (name, &forms[name[1..].parse::<usize>().unwrap_or(0)], reason))
        .collect();
    assert!(others.is_empty(), "not refused for where they lead: {others:#?}");
    assert_eq!(elsewhere.visits(), 0);
    tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, elsewhere.port)).await.expect("it listens");
    eventually("it counts", async || (elsewhere.visits() == 1).then_some(())).await;
}

/// RULES S18: on no transport is a redirect to another origin followed (those within it: `endpoints`).
#[tokio::test]
async fn no_redirect_is_followed_by_any_transport() {
    let elsewhere = Elsewhere::start();
    let there = format!("http://127.0.0.1:{}/steal", elsewhere.port);
    let (served, _) = serve(|_| vec![there]);
    let statuses = [300, 301, 302, 303, 304, 305, 307, 308];
    let key = "headers: {X-Key: \"${KEY}\"}";
    let registry = statuses.iter().fold(Registry::new(), |registry, status| {
        let url = format!("{}/{status}/0", served.url());
        registry.http(&format!("h{status}"), &url).with(key).sse(&format!("s{status}"), &url).with(key)
    });
    let gateway = Gateway::of(&registry).env("KEY", "not for others").start().await;
    let reasons = reasons(&gateway, 2 * statuses.len()).await;
    assert!(reasons.iter().all(|(_, reason)| reason.contains("HTTP 30")), "{reasons:#?}");
    assert_eq!(elsewhere.visits(), 0);
}

/// RULES S26: references in a tool's schemas are not fetched, and patterns of a server are not matched, so none can
/// delay a call.
#[tokio::test]
async fn schemas_are_neither_fetched_nor_worked_through() {
    let elsewhere = Elsewhere::start();
    let there = format!("http://127.0.0.1:{}/schema.json", elsewhere.port);
    let schema = json!({"type": "object", "$schema": there, "$id": there, "$ref": format!("{there}#/a"),
        "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}, "y": {"$dynamicRef": there}},
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
    let definition = json!({"name": "a", "inputSchema": schema, "outputSchema": schema,
        "icons": [{"src": there}], "_meta": {"ui": {"resourceUri": there}}});
    let looping = json!({"tools": [{"name": "b", "inputSchema": {"type": "object"}}], "nextCursor": "again",
        "resultType": "complete", "ttlMs": 0, "cacheScope": "public"});
    let server = Scripted::modern().tool(Tool::defined("a", &definition.to_string())).start();
    let endless = Scripted::modern().answers("tools/list", vec![looping.to_string(); 300]).start();
    let registry = Registry::new().http("one", &server.url()).http("two", &endless.url());
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["a"]).await;
    let arguments = json!({"x": format!("{}!", "a".repeat(50_000)), "y": there});
    assert_eq!(gateway.mcp().call("a", arguments.clone()).await.text(), arguments.to_string());
    let session = gateway.mcp().legacy().await;
    assert_eq!(session.call("a", arguments.clone()).await.text(), arguments.to_string());
    assert_eq!(gateway.call("one", "a", arguments).await.status, 200);
    eventually("the endless list was given up", async || {
        let health = gateway.get("/health").await.json();
        let two =
            health["servers"].as_array().expect("servers").iter().find(|server| server["name"] == "two");
        (!endless.seen_calling("tools/list").is_empty() && two.is_some()).then_some(())
    })
    .await;
    assert!(endless.seen_calling("tools/list").len() <= 200, "{}", endless.seen_calling("tools/list").len());
    assert_eq!(elsewhere.visits(), 0);
}
