//! TLS at the listener, from outside: handshakes, files that change, certificates of clients, and clients without TLS.

use std::path::Path;
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, date_time_ymd};
use reqwest::tls::TlsInfo;
use reqwest::{Certificate, Identity};
use serde_json::{Value, json};
use testkit::certificates::CertificateAuthority;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::client::Client;
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Answer, Gateway, Registry, Running, WAIT, eventually};

/// A certificate authority whose certificates clients of a test trust.
struct Authority(CertificateAuthority);

/// A certificate and its key, in PEM.
struct Pair {
    cert: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        Self(CertificateAuthority::new())
    }

    fn signs(&self, params: &CertificateParams) -> Pair {
        let (cert, key) = self.0.signs(params);
        Pair { cert, key }
    }

    /// A pair for `name`, which is a host or an address.
    fn named(&self, name: &str) -> Pair {
        self.signs(&params(name))
    }

    /// An HTTP client that trusts this authority and has the certificate `own`.
    fn client(&self, own: Option<&Pair>) -> reqwest::Client {
        let root = Certificate::from_pem(self.0.pem.as_bytes()).expect("PEM");
        let builder = reqwest::Client::builder().no_proxy().timeout(WAIT).tls_certs_only([root]);
        // A new connection for each request, so each one has a handshake of its own.
        let builder = builder.tls_info(true).pool_max_idle_per_host(0);
        let identity = |own: &Pair| Identity::from_pem(format!("{}{}", own.cert, own.key).as_bytes());
        match own {
            Some(own) => builder.identity(identity(own).expect("they fit")).build(),
            None => builder.build(),
        }
        .expect("a client")
    }
}

fn params(name: &str) -> CertificateParams {
    CertificateParams::new([name.to_owned()]).expect("a name")
}

impl Pair {
    /// Writes the files of the listener.
    fn write(&self, folder: &Path) {
        std::fs::write(folder.join("cert.pem"), &self.cert).expect("it can be written");
        std::fs::write(folder.join("key.pem"), &self.key).expect("it can be written");
    }
}

/// A gateway with TLS in front of a server with the tool `a`. `more` are settings of `tls`.
async fn started(authority: &Authority, (auth, more): (&str, &str)) -> (Running, Server) {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let tls = format!("server: {{auth_mode: {auth}, tls: {{cert: cert.pem, key: key.pem{more}}}}}");
    let gateway = Gateway::of(&Registry::new().http("one", &server.url()).setting(&tls));
    (serving(authority, gateway).await, server)
}

/// Starts `gateway` with a certificate of `authority`.
async fn serving(authority: &Authority, gateway: Gateway) -> Running {
    authority.named("127.0.0.1").write(gateway.folder());
    std::fs::write(gateway.folder().join("ca.pem"), &authority.0.pem).expect("it can be written");
    gateway.start().await
}

fn https(gateway: &Running, path: &str) -> String {
    format!("https://{}{path}", gateway.address)
}

/// The certificate that the listener shows to a new connection.
async fn shown(gateway: &Running, client: &reqwest::Client) -> Vec<u8> {
    let answer = client.get(https(gateway, "/health/live")).send().await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 200);
    let info = answer.extensions().get::<TlsInfo>().expect("a connection with TLS");
    info.peer_certificate().expect("a certificate").to_vec()
}

#[tokio::test]
async fn tools_are_called_over_tls_and_a_request_without_it_is_told_so() {
    let authority = Authority::new();
    let (gateway, server) = started(&authority, ("none", "")).await;
    let client = Client::with(authority.client(None), &https(&gateway, "/mcp"));
    eventually("the tool is offered", async || {
        let names = client.modern("tools/list", json!({})).await.tool_names();
        names.contains(&"a".to_owned()).then_some(())
    })
    .await;
    assert_eq!(client.call("a", json!({})).await.result()["isError"], Value::Null);
    assert_eq!(client.legacy().await.call("a", json!({})).await.result()["isError"], Value::Null);
    assert_eq!(server.runs("a"), 2);

    let stranger = Authority::new().client(None);
    assert!(stranger.get(https(&gateway, "/health/live")).send().await.is_err(), "another authority");
    let body = "x".repeat(20_000);
    let plain = reqwest::Client::builder().no_proxy().timeout(WAIT).build().expect("a client");
    for request in [plain.get(gateway.url("/health/live")), plain.post(gateway.url("/mcp")).body(body)] {
        let refused = request.send().await.expect("an answer");
        assert_eq!(refused.status().as_u16(), 400);
        let text = refused.text().await.expect("a text");
        assert!(text.contains("use a URL that begins with https"), "{text}");
    }
    let mut slow = TcpStream::connect(&gateway.address).await.expect("connects");
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20000\r\n\r\n";
    slow.write_all(head.as_bytes()).await.expect("sent");
    for _ in 0..20 {
        slow.write_all(&[b'x'; 1_000]).await.expect("the connection is not reset before the answer is read");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let mut noise = TcpStream::connect(&gateway.address).await.expect("connects");
    noise.write_all(&[0x80, 0x2e, 1, 0, 2, 0, 0x15]).await.expect("sent");
    let mut answer = Vec::new();
    let closed = tokio::time::timeout(WAIT, noise.read_to_end(&mut answer)).await;
    assert!(closed.is_ok() && !answer.starts_with(b"HTTP"), "no TLS and no HTTP: {answer:?}");
    assert_eq!(server.runs("a"), 2);
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_new_connections_and_a_bad_one_to_nobody() {
    let authority = Authority::new();
    let (gateway, _server) = started(&authority, ("none", "")).await;
    let client = authority.client(None);
    let first = shown(&gateway, &client).await;
    let next = authority.named("127.0.0.1");
    let mismatched = Pair { key: authority.named("127.0.0.1").key, ..authority.named("127.0.0.1") };
    mismatched.write(gateway.folder());
    let kept = |line: &Value| line["message"].to_string().contains("the previous one stays");
    gateway.logs("that the pair was not used", kept).await;
    assert_eq!(shown(&gateway, &client).await, first);

    next.write(gateway.folder());
    gateway.hang_up();
    let started_at = Instant::now();
    let last = eventually("the new certificate is shown", async || {
        let now = shown(&gateway, &client).await;
        (now != first).then_some(now)
    })
    .await;
    // Without the signal, the files are read 5 s after the mismatched pair was.
    assert!(started_at.elapsed() < Duration::from_secs(4), "{:?}", started_at.elapsed());
    assert_eq!(shown(&gateway, &client).await, last);
}

#[tokio::test]
async fn certificate_that_is_bound_to_a_view_reaches_nothing_else() {
    let authority = Authority::new();
    let tls = ", client_ca: ca.pem, client_roles: {\"dns:bound.example\": caller, \"dns:lost.example\": caller, \
               \"dns:ops.example\": superuser}, client_views: {\"dns:bound.example\": some, \"dns:lost.example\": gone}";
    let server = Scripted::modern().tool(Tool::named("a")).tool(Tool::named("b")).start();
    let settings = format!("server: {{auth_mode: certificate, tls: {{cert: cert.pem, key: key.pem{tls}}}}}");
    let views = "views: {some: {allow: [\"one/a\"]}, other: {servers: [one]}}";
    let registry = Registry::new().http("one", &server.url()).setting(views).setting(&settings);
    let gateway = serving(&authority, Gateway::of(&registry)).await;
    let get = async |name: &str, route: &str| {
        let own = authority.named(&format!("{name}.example"));
        let url = https(&gateway, &format!("/api/v1/mcp{route}"));
        Client::with(authority.client(Some(&own)), &url).bare(http::Method::GET, &[]).await
    };
    let names = |answer: Answer| {
        let tools = answer.json()["tools"].as_array().expect("tools").clone();
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    eventually("all tools are there", async || {
        (names(get("ops", "/tools").await) == ["a", "b"]).then_some(())
    })
    .await;
    assert_eq!(names(get("bound", "/tools").await), ["a"]);
    assert_eq!(names(get("lost", "/tools").await), [""; 0]);
    assert_eq!(get("bound", "/tools?view=other").await.json()["code"], "view_not_found");
    let views = get("ops", "/views").await.json();
    let some = views["views"].as_array().expect("views").iter().find(|view| view["view"] == "some");
    assert_eq!(some.expect("listed")["certificates"], json!(["dns:bound.example"]));
    assert_eq!(views["missing"][0]["certificates"], json!(["dns:lost.example"]));
    let warned = |line: &Value| line.to_string().contains("the certificate `dns:lost.example` sees nothing");
    gateway.logs("a warning", warned).await;
}

#[tokio::test]
async fn a_client_is_the_principal_of_its_certificate_and_others_get_no_connection() {
    let authority = Authority::new();
    let roles =
        ", client_ca: ca.pem, client_roles: {\"dns:robot.example\": caller, \"dns:watcher.example\": reader}";
    let (gateway, server) = started(&authority, ("certificate", roles)).await;
    let robot = authority.named("robot.example");
    let call = async |own: &Pair| {
        let client = Client::with(authority.client(Some(own)), &https(&gateway, "/api/v1/mcp/call"));
        client.post(r#"{"server":"one","tool":"a","arguments":{}}"#, &[]).await
    };
    eventually("the robot can call", async || (call(&robot).await.status == 200).then_some(())).await;
    let runs = server.runs("a");
    let logged = |line: &Value| line["principal"] == "cert:dns:watcher.example";
    let watcher = call(&authority.named("watcher.example")).await;
    assert_eq!(watcher.status, 403, "a reader may not call: {watcher:?}");
    gateway.logs("the refused principal", logged).await;
    let unknown = call(&authority.named("unknown.example")).await;
    assert_eq!(unknown.status, 401, "a name without a role: {unknown:?}");

    let mut old = params("robot.example");
    (old.not_before, old.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2020, 1, 2));
    let mut early = params("robot.example");
    (early.not_before, early.not_after) = (date_time_ymd(2090, 1, 1), date_time_ymd(2090, 1, 2));
    let foreign = Authority::new();
    for (what, own) in [
        ("no certificate", None),
        ("an expired one", Some(authority.signs(&old))),
        ("one of the future", Some(authority.signs(&early))),
        ("one of another authority", Some(foreign.named("robot.example"))),
    ] {
        let client = authority.client(own.as_ref());
        let refused = client.get(https(&gateway, "/api/v1/mcp/tools")).send().await;
        assert!(refused.is_err(), "{what}: {refused:?}");
    }
    assert_eq!(server.runs("a"), runs, "none of them called");
}
