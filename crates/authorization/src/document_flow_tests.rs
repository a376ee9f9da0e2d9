//! Clients with a metadata document, from their host over TLS to their tokens.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use auth::Role;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use net::http::{Network, TlsFiles};
use rcgen::{CertificateParams, SanType};
use runtime::shutdown::Shutdown;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use testkit::certificates::CertificateAuthority;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::tests::{refresh_form, token};
use super::*;
use crate::fixture::{Site, VERIFIER, form, query, raw};

const CALLBACK: &str = "https://claude.ai/api/mcp/auth_callback";

/// The host of clients: an answer for each path, and the paths that were requested.
struct ClientHost {
    port: u16,
    answers: Arc<Mutex<HashMap<String, String>>>,
    requested: Arc<Mutex<Vec<String>>>,
    network: Network,
    shutdown: Shutdown,
    _folder: tempfile::TempDir,
}

impl ClientHost {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = CertificateAuthority::new();
        let ca = folder.path().join("ca.pem");
        std::fs::write(&ca, &authority.pem).expect("a file");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let host = Self {
            port: listener.local_addr().expect("an address").port(),
            answers: Arc::default(),
            requested: Arc::default(),
            network: Network::new(None, Some(TlsFiles { ca: Some(ca), identity: None })),
            shutdown: Shutdown::new(),
            _folder: folder,
        };
        let (acceptor, answers) = (acceptor(&authority), Arc::clone(&host.answers));
        let requested = Arc::clone(&host.requested);
        host.shutdown.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let Ok(mut socket) = acceptor.accept(socket).await else { continue };
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") && socket.read_buf(&mut request).await.unwrap_or(0) > 0
                {
                }
                let text = String::from_utf8_lossy(&request);
                let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
                let answer = answers.lock().expect("answers").get(&path).cloned();
                requested.lock().expect("requests").push(path);
                let answer =
                    answer.unwrap_or_else(|| "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".into());
                let _ = socket.write_all(answer.as_bytes()).await;
                let _ = socket.shutdown().await;
            }
        });
        host
    }

    fn id(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.port)
    }

    /// Answers requests for `path` with a document that has `members` beside its own id.
    fn publish(&self, path: &str, members: &str) -> String {
        let id = self.id(path);
        let body = format!(r#"{{"client_id": "{id}", "redirect_uris": ["{CALLBACK}"]{members}}}"#);
        let length = body.len();
        self.answer(
            path,
            &format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            ),
        );
        id
    }

    fn answer(&self, path: &str, answer: &str) {
        self.answers.lock().expect("answers").insert(path.to_owned(), answer.to_owned());
    }

    fn requests(&self) -> usize {
        self.requested.lock().expect("requests").len()
    }

    async fn site(&self, trusts: bool) -> Site {
        let trusted = if trusts { vec![format!("localhost:{}", self.port)] } else { Vec::new() };
        Site::reaching(Vec::new(), self.network.clone(), trusted).await
    }
}

fn acceptor(authority: &CertificateAuthority) -> TlsAcceptor {
    let mut params = CertificateParams::default();
    params.subject_alt_names.push(SanType::DnsName("localhost".try_into().expect("a name")));
    params.subject_alt_names.push(SanType::IpAddress(std::net::Ipv4Addr::LOCALHOST.into()));
    let (certificate, key) = authority.signs(&params);
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth().with_single_cert(vec![certificate], key);
    TlsAcceptor::from(Arc::new(config.expect("a configuration")))
}

fn token_form(client: &str, code: &str) -> String {
    let fields = [
        ("grant_type", "authorization_code"),
        ("client_id", client),
        ("code", code),
        ("code_verifier", VERIFIER),
        ("redirect_uri", CALLBACK),
    ];
    form(&fields)
}

#[tokio::test]
async fn client_with_a_document_logs_in_and_stays_so_while_its_host_is_down() {
    let host = ClientHost::new().await;
    let id = host.publish("/client.json", r#", "client_name": "Claude", "unknown": {"a": 1}"#);
    let mut site = host.site(true).await;
    let person = site.person("key:ann", Role::Caller);
    for _ in 0..3 {
        let consent =
            site.server.authorize(&person, &query(&id, CALLBACK, &[]), site.now).await.expect("a consent");
        assert_eq!(consent.client_name.as_deref(), Some("Claude"));
        assert_eq!(
            (consent.client_host.as_deref(), consent.is_trusted),
            (Some(&*format!("localhost:{}", host.port)), true)
        );
    }
    assert_eq!(host.requests(), 1, "the document is cached");
    let code = site.log_in(&person, &id, CALLBACK).await;
    host.answers.lock().expect("answers").clear();
    let mut tokens = token(&site, &token_form(&id, &code)).await.expect("tokens");
    for _ in 0..3 {
        site.wait(86_400);
        tokens = token(&site, &refresh_form(&id, &tokens)).await.expect("tokens");
    }
    assert_eq!(host.requests(), 1, "no refresh needs the document");
}

#[tokio::test]
async fn document_that_is_not_valid_is_shown_as_an_error_and_fetched_again() {
    let host = ClientHost::new().await;
    let (site, json) = (host.site(true).await, "content-type: application/json\r\n");
    let person = site.person("key:ann", Role::Caller);
    let large = "x".repeat(6_000);
    let other = r#"{"client_id": "https://claude.ai/c", "redirect_uris": ["https://claude.ai/api/mcp/auth_callback"]}"#;
    for (status, headers, body) in [
        ("200 OK", json, "{}"),
        ("200 OK", json, other),
        ("200 OK", json, "[]"),
        ("200 OK", json, &large),
        ("200 OK", "content-type: text/html\r\n", "{}"),
        ("302 Found", "location: https://169.254.169.254/\r\n", ""),
        ("307 Temporary Redirect", "location: /other.json\r\n", ""),
        ("404 Not Found", json, "{}"),
        ("503 Service Unavailable", json, "{}"),
    ] {
        let length = body.len();
        host.answer(
            "/client.json",
            &format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}"),
        );
        let before = host.requests();
        for _ in 0..2 {
            let query = query(&host.id("/client.json"), CALLBACK, &[]);
            let refused = site.server.authorize(&person, &query, site.now).await;
            assert!(matches!(refused, Err(AuthorizationError::Shown(_))), "{status} {body:.40} {refused:?}");
        }
        assert_eq!(host.requests() - before, 2, "{status} {body:.40}");
    }
}

#[tokio::test]
async fn document_at_a_private_address_is_not_fetched_unless_the_operator_trusts_its_host() {
    let host = ClientHost::new().await;
    let id = host.publish("/client.json", "");
    let site = host.site(false).await;
    let person = site.person("key:ann", Role::Caller);
    let refused = site.server.authorize(&person, &query(&id, CALLBACK, &[]), site.now).await;
    assert!(matches!(refused, Err(AuthorizationError::Shown(_))), "{refused:?}");
    assert_eq!(host.requests(), 0);
}

#[tokio::test]
async fn stranger_makes_this_server_fetch_nothing() {
    let host = ClientHost::new().await;
    let id = host.publish("/client.json", "");
    let site = host.site(true).await;
    let keys = r#"{"redirect_uris": ["https://a.example/"], "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "URI"}"#;
    let keys = crate::fixture::raw(&keys.replace("URI", &host.id("/keys.json")));
    let registered = site.server.register(&keys, site.now).await.expect("a client");
    let registered = registered["client_id"].as_str().expect("an id").to_owned();
    let assertion = ("client_assertion_type", crate::client::ASSERTION_TYPE);
    for client in [&*id, &registered] {
        for credential in [
            ("code", "swyc_00000000000000000000-00000000000000000000000000000000_00".to_owned()),
            ("code", format!("swyc_00000000000000000000-{}_{}", "0".repeat(32), "0".repeat(64))),
        ] {
            let fields = [
                ("grant_type", "authorization_code"),
                ("client_id", client),
                (credential.0, &credential.1),
                ("code_verifier", VERIFIER),
                assertion,
                ("client_assertion", "x"),
            ];
            assert!(token(&site, &form(&fields)).await.is_err());
        }
        let revoke = form(&[("token", "x"), ("client_id", client), assertion, ("client_assertion", "x")]);
        site.server.revoke(revoke.as_bytes(), RequestId::new(), site.now).await.expect("an unknown token");
    }
    assert_eq!(host.requests(), 0);
}

/// The members of a document whose client proves who it is with a key at `keys_at`.
fn with_keys(keys_at: &str) -> String {
    format!(r#", "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "{keys_at}""#)
}

/// The form that redeems `code` with a proof of `pair`.
fn proven_form(pair: &Ed25519KeyPair, id: &str, code: &str, now: SystemTime) -> String {
    let key = EncodingKey::from_ed_der(pair.to_pkcs8v1().expect("a document").as_ref());
    let exp = seconds(now) + 60;
    let claims =
        serde_json::json!({ "iss": id, "sub": id, "aud": crate::fixture::ISSUER, "exp": exp, "jti": "1" });
    let assertion = encode(&Header::new(Algorithm::EdDSA), &claims, &key).expect("signed");
    let more =
        form(&[("client_assertion_type", crate::client::ASSERTION_TYPE), ("client_assertion", &assertion)]);
    format!("{}&{more}", token_form(id, code))
}

#[tokio::test]
async fn client_whose_keys_are_at_a_url_proves_who_it_is() {
    let host = ClientHost::new().await;
    let id = host.publish("/client.json", &with_keys(&host.id("/keys.json")));
    let pair = Ed25519KeyPair::generate().expect("a key");
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    let body = format!(r#"{{"keys": [{{"kty": "OKP", "crv": "Ed25519", "x": "{x}"}}]}}"#);
    let length = body.len();
    host.answer("/keys.json", &format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/jwk-set+json\r\ncontent-length: {length}\r\n\r\n{body}"
    ));
    let site = host.site(true).await;
    let person = site.person("key:ann", Role::Caller);
    let code = site.log_in(&person, &id, CALLBACK).await;
    let refused = token(&site, &token_form(&id, &code)).await.expect_err("no proof");
    assert_eq!(refused.code, Code::InvalidClient);
    let signed = proven_form(&pair, &id, &code, site.now);
    assert!(token(&site, &signed).await.is_ok());
    assert_eq!(host.requests(), 2);
}

#[tokio::test]
async fn keys_at_a_private_address_are_not_fetched_unless_the_operator_trusts_its_host() {
    let host = ClientHost::new().await;
    let keys_at = host.id("/keys.json").replace("localhost", "127.0.0.1");
    let id = host.publish("/client.json", &with_keys(&keys_at));
    let site = host.site(true).await;
    let code = site.log_in(&site.person("key:ann", Role::Caller), &id, CALLBACK).await;
    let pair = Ed25519KeyPair::generate().expect("a key");
    let signed = proven_form(&pair, &id, &code, site.now);
    assert!(token(&site, &signed).await.is_err());
    assert_eq!(host.requests(), 1, "the document alone");
}

/// Hostile ids: each is refused before or at the connection.
#[tokio::test]
async fn hostile_ids_of_clients_reach_no_private_address() {
    let host = ClientHost::new().await;
    let site = host.site(false).await;
    let person = site.person("key:ann", Role::Caller);
    let port = host.port;
    let hosts = [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "x@127.0.0.1",
        "claude.ai@127.0.0.1",
        "claude.ai:80@127.0.0.1",
        "10.0.0.1",
        "192.168.0.1",
        "172.31.255.255",
        "169.254.169.254",
        "100.100.100.200",
        "[fd00:ec2::254]",
        "[fe80::1]",
    ];
    let schemes =
        ["https://", "http://", "HTTPS://", "https:\\\\", "file://", "ftp://", "gopher://", "dict://"];
    let mut count = 0;
    for name in hosts {
        for scheme in schemes {
            let id = format!("{scheme}{name}:{port}/client.json");
            let refused = site.server.authorize(&person, &query(&id, CALLBACK, &[]), site.now).await;
            assert!(matches!(refused, Err(AuthorizationError::Shown(_))), "{id} {refused:?}");
            count += 1;
        }
    }
    assert_eq!((count, host.requests()), (200, 0));
}

#[tokio::test]
async fn request_for_a_redirect_uri_that_was_left_out_says_why() {
    let site = Site::new(Vec::new()).await;
    let person = site.person("key:ann", Role::Caller);
    let both = raw(&format!(r#"{{"redirect_uris": ["http://app.example/cb", "{CALLBACK}"]}}"#));
    let client = site.server.register(&both, site.now).await.expect("a client");
    let client = client["client_id"].as_str().expect("an id");
    for (uri, expected) in
        [("http://app.example/cb", "loopback address"), ("https://other.example/cb", "none of those")]
    {
        let refused =
            site.server.authorize(&person, &query(client, uri, &[]), site.now).await.expect_err(uri);
        assert!(refused.error().description.contains(expected), "{refused:?}");
    }
}
