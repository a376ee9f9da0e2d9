//! Servers that only a proxy reaches, from outside: tunnels and forwarded requests, a private authority, the certificate
//! of Switchyard, and variables of the environment. Content codings that nobody asked for.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rcgen::CertificateParams;
use serde_json::json;
use testkit::certificates::CertificateAuthority;
use testkit::scripted::full;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running, eventually, odd};

/// `us:canary-s3cret`.
const CREDENTIALS: &str = "Basic dXM6Y2FuYXJ5LXMzY3JldA==";

/// A proxy on loopback, which remembers the heads of what it was sent.
struct Proxy {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// Leads every tunnel to `tls` and every other request to `plain`, whatever names they have.
    #[allow(clippy::disallowed_methods)] // its tasks end with the runtime
    async fn start(tls: &str, plain: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (targets, seen) = ([tls.to_owned(), authority_of(plain)], Arc::clone(&heads));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, targets.clone(), Arc::clone(&seen)));
            }
        });
        Self { url, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("lock").clone()
    }
}

async fn pass(
    mut client: TcpStream,
    [tls, plain]: [String; 2],
    heads: Arc<Mutex<Vec<String>>>,
) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let is_tunnel = head.starts_with(b"CONNECT ");
    heads.lock().expect("lock").push(String::from_utf8_lossy(&head).into_owned());
    let mut server = TcpStream::connect(if is_tunnel { tls } else { plain }).await?;
    if is_tunnel {
        client.write_all(b"HTTP/1.1 200 ok\r\n\r\n").await?;
    } else {
        server.write_all(&head).await?;
    }
    copy_bidirectional(&mut client, &mut server).await.map(|_| ())
}

/// The host and the port of `server`.
fn authority_of(server: &Server) -> String {
    server.url().split('/').nth(2).expect("a host").to_owned()
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("it can be written");
}

/// Writes a certificate for `host` and its key.
fn write_pair(folder: &Path, authority: &CertificateAuthority, host: &str) {
    let (cert, key) = authority.signs(&CertificateParams::new([host.to_owned()]).expect("a name"));
    write(folder, "cert.pem", &cert);
    write(folder, "key.pem", &key);
    write(folder, "ca.pem", &authority.pem);
}

/// A server with TLS at `mcp.invalid`, which serves clients with a certificate of `authority` only.
async fn behind_tls(authority: &CertificateAuthority) -> (Running, Server) {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let listener = "server: {auth_mode: certificate, public_url: 'https://mcp.invalid', tls: {cert: cert.pem, \
                    key: key.pem, client_ca: ca.pem, client_roles: {'dns:robot.example': caller}}}";
    let gateway = Gateway::of(&Registry::new().http("one", &server.url()).setting(listener));
    write_pair(gateway.folder(), authority, "mcp.invalid");
    (gateway.start().await, server)
}

async fn failure(gateway: &Running, server: &str) -> String {
    eventually("it is known why the server is away", async || {
        let row = gateway.get(&format!("/servers/{server}")).await.json();
        row["last_error"].as_str().map(str::to_owned)
    })
    .await
}

async fn works(gateway: &Running, server: &str, tool: &str) {
    eventually(&format!("{server} answers"), async || {
        (gateway.call(server, tool, json!({})).await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn servers_behind_a_proxy_are_called_with_their_own_certificates_and_nothing_secret_shows() {
    let authority = CertificateAuthority::new();
    let (inner, _server) = behind_tls(&authority).await;
    let plain = Scripted::modern().tool(Tool::named("b")).start();
    let near = Scripted::modern().tool(Tool::named("c")).start();
    let proxy = Proxy::start(&inner.address, &plain).await;
    let (own, near_url) = ("ca: ca.pem, cert: cert.pem, key: key.pem", near.url());
    let gateway = Gateway::with_config(&format!(
        "proxy: {{url: '{}', username: us, password: '${{PW}}'}}\nmcp_servers:\n  \
         secure: {{url: 'https://mcp.invalid/mcp', tls: {{{own}}}}}\n  \
         renamed: {{url: 'https://other.invalid/mcp', tls: {{{own}}}}}\n  \
         without: {{url: 'https://mcp.invalid/mcp', tls: {{ca: ca.pem}}}}\n  \
         stranger: {{url: 'https://mcp.invalid/mcp'}}\n  \
         plain: {{url: 'http://plain.invalid/mcp'}}\n  near: {{url: '{near_url}', proxy: none}}\n",
        proxy.url
    ));
    write_pair(gateway.folder(), &authority, "robot.example");
    let gateway = gateway.env("PW", "canary-s3cret").start().await;
    for (server, tool) in [("secure", "a"), ("plain", "b"), ("near", "c")] {
        works(&gateway, server, tool).await;
    }
    for (server, remedy) in [
        ("renamed", "use a name of the certificate in `url`"),
        ("without", "name one in `tls: {cert: FILE, key: FILE}`"),
        ("stranger", "in `tls: {ca: FILE}` of this server"),
    ] {
        let told = failure(&gateway, server).await;
        eprintln!("{server}: {told}");
        assert!(told.contains(remedy), "{server}: {told}");
    }
    let heads = proxy.heads();
    assert!(heads.iter().all(|head| head.contains(CREDENTIALS)), "{heads:?}");
    for begin in ["CONNECT mcp.invalid:443 ", "POST http://plain.invalid/mcp "] {
        assert!(heads.iter().any(|head| head.starts_with(begin)), "{begin}: {heads:?}");
    }
    assert!(near.seen().iter().all(|seen| seen.header("proxy-authorization").is_none()));
    let shown = format!("{:?}{}", gateway.log(), gateway.get("/configuration").await.json());
    assert!(!shown.contains("canary-s3cret") && !shown.contains(&CREDENTIALS[6..]), "{shown}");
}

#[tokio::test]
async fn variables_name_a_proxy_only_where_the_file_says_so() {
    let plain = Scripted::modern().tool(Tool::named("b")).start();
    let proxy = Proxy::start("127.0.0.1:1", &plain).await;
    let started = async |setting: &str| {
        let yaml = format!("{setting}\nmcp_servers: {{plain: {{url: 'http://plain.invalid/mcp'}}}}\n");
        Gateway::with_config(&yaml).env("http_proxy", &proxy.url).start().await
    };
    let told = failure(&started("").await, "plain").await;
    assert!(told.contains("set `proxy: environment`"), "{told}");
    assert_eq!(proxy.heads(), [""; 0]);
    works(&started("proxy: environment").await, "plain", "b").await;
}

#[tokio::test]
async fn an_unknown_content_coding_is_named_and_harms_one_call() {
    let server = odd::http(|seen| {
        let is_odd = seen.method() == "tools/call" && seen.has("\"odd\"");
        is_odd.then(|| vec![full(200, "content-type: application/json\r\ncontent-encoding: zstd\r\n", "x")])
    })
    .await;
    let registry = Registry::new().http("one", server.url.as_str()).with("circuit_breaker_threshold: 2");
    let gateway = Gateway::of(&registry).start().await;
    works(&gateway, "one", "fine").await;
    for _ in 0..5 {
        let told = gateway.call("one", "odd", json!({})).await.json().to_string();
        assert!(told.contains("`zstd`") && told.contains("Accept-Encoding: identity"), "{told}");
        assert_eq!(gateway.call("one", "fine", json!({})).await.status, 200);
    }
}
