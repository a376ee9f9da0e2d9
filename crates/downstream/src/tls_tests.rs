//! Certificates and handshakes: clients that fit and do not, files that change, slow clients.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use rcgen::{CertificateParams, DnType, SanType};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::super::listener::{Limits, serve_with};
use super::super::tls::{Certified, name_in};
use super::*;
use runtime::shutdown::Shutdown;
use runtime::worker::Workers;
use testkit::certificates::CertificateAuthority;

const WAIT: Duration = Duration::from_secs(20);

fn params(names: &[&str]) -> CertificateParams {
    CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).expect("names")
}

struct Door {
    folder: TempDir,
    authority: CertificateAuthority,
    certificates: Arc<Certificates>,
    at: SocketAddr,
    shutdown: Shutdown,
}

async fn who(request: axum::extract::Request) -> String {
    let client = request.extensions().get::<Certified>();
    client.map_or("nobody".to_owned(), |Certified(client)| client.id().to_string())
}

impl Door {
    async fn open(with_clients: bool, header_timeout: Duration) -> Self {
        Self::with(with_clients, Limits { header_timeout, ..Limits::default() }).await
    }

    async fn with(with_clients: bool, limits: Limits) -> Self {
        let (folder, authority) = (tempfile::tempdir().expect("a folder"), CertificateAuthority::new());
        let path = |name: &str| folder.path().join(name);
        let client_roles = HashMap::from([("dns:robot.example".to_owned(), Role::Caller)]);
        let client_ca = with_clients.then(|| path("ca.pem"));
        std::fs::write(path("ca.pem"), &authority.pem).expect("written");
        let tls = Tls {
            cert: path("cert.pem"),
            key: path("key.pem"),
            client_ca,
            client_roles,
            client_views: BTreeMap::new(),
        };
        write(&folder, &authority.signs(&params(&["localhost"])));
        let certificates = Certificates::read(&tls).expect("good files");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (at, shutdown) = (listener.local_addr().expect("an address"), Shutdown::new());
        let end = shutdown.clone();
        let used = Some(Arc::clone(&certificates));
        shutdown.spawn(async move {
            let workers = Workers::start(1).expect("no threads");
            serve_with(listener, Router::new().route("/", get(who)), (limits, end), used, &workers).await;
        });
        Self { folder, authority, certificates, at, shutdown }
    }

    async fn connect(&self, client: Option<(String, String)>) -> io::Result<Vec<CertificateDer<'static>>> {
        self.get(client).await.map(|(chain, _)| chain)
    }

    /// Sends a request, and returns the chain of the listener and the answer.
    async fn get(
        &self,
        client: Option<(String, String)>,
    ) -> io::Result<(Vec<CertificateDer<'static>>, String)> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.pem.as_bytes()).expect("PEM")).expect("fits");
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let config = match client {
            Some((cert, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(cert.as_bytes()).expect("PEM")];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
                builder.with_client_auth_cert(chain, key).expect("they fit")
            }
            None => builder.with_no_client_auth(),
        };
        let socket = TcpStream::connect(self.at).await?;
        let name = ServerName::try_from("localhost").expect("a name");
        let exchange = async {
            let mut stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await?;
            let chain = stream.get_ref().1.peer_certificates().expect("a chain").to_vec();
            stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await?;
            Ok((chain, text))
        };
        tokio::time::timeout(WAIT, exchange).await.expect("in time")
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.shutdown.begin();
    }
}

fn write(folder: &TempDir, (cert, key): &(String, String)) {
    std::fs::write(folder.path().join("cert.pem"), cert).expect("written");
    std::fs::write(folder.path().join("key.pem"), key).expect("written");
}

#[tokio::test]
async fn a_request_over_tls_is_answered_and_one_without_is_not() {
    let door = Door::open(false, WAIT).await;
    let (_, text) = door.get(None).await.expect("an answer");
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("nobody"), "{text}");
    let mut plain = TcpStream::connect(door.at).await.expect("connects");
    plain.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
    let mut answer = Vec::new();
    tokio::time::timeout(WAIT, plain.read_to_end(&mut answer))
        .await
        .expect("it is closed")
        .expect("an answer");
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 400") && body.contains("begins with https"), "{answer}");
    assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{answer}");
}

#[tokio::test]
async fn a_client_needs_a_certificate_of_the_authority_and_is_its_principal() {
    let door = Door::open(true, WAIT).await;
    let robot = || params(&["robot.example"]);
    let (_, text) = door.get(Some(door.authority.signs(&robot()))).await.expect("an answer");
    assert!(text.ends_with("cert:dns:robot.example"), "{text}");
    let (_, text) = door.get(Some(door.authority.signs(&params(&["other.example"])))).await.expect("it fits");
    assert!(text.ends_with("nobody"), "a name without a role gives no principal: {text}");
    assert!(door.connect(None).await.is_err());
    assert!(door.connect(Some(CertificateAuthority::new().signs(&robot()))).await.is_err());
}

#[tokio::test]
async fn a_new_pair_is_used_and_a_bad_one_changes_nothing() {
    let door = Door::open(false, WAIT).await;
    let first = door.connect(None).await.expect("a chain");
    let next = door.authority.signs(&params(&["localhost"]));
    for bad in [
        ("no certificate", &*next.1),
        (&*next.0, "no key"),
        (&*next.0, &*CertificateAuthority::new().signs(&params(&[])).1),
    ] {
        write(&door.folder, &(bad.0.to_owned(), bad.1.to_owned()));
        door.certificates.look().await;
        assert_eq!(door.connect(None).await.expect("a chain"), first);
    }
    std::fs::remove_file(door.folder.path().join("key.pem")).expect("it is there");
    door.certificates.look().await;
    assert_eq!(door.connect(None).await.expect("a chain"), first);
    write(&door.folder, &next);
    door.certificates.look().await;
    assert_ne!(door.connect(None).await.expect("a chain"), first);
}

#[tokio::test]
async fn slow_handshakes_hold_up_nobody_and_end_in_time() {
    let door = Door::open(false, Duration::from_secs(2)).await;
    let mut slow = Vec::new();
    for _ in 0..600 {
        let mut socket = TcpStream::connect(door.at).await.expect("connects");
        // The begin of a handshake record, whose rest never comes.
        socket.write_all(&[22, 3, 1, 1, 0, 1]).await.expect("sent");
        slow.push(socket);
    }
    assert!(door.connect(None).await.is_ok());
    for mut socket in slow {
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(WAIT, socket.read_to_end(&mut rest)).await.expect("it is closed");
    }
}

#[test]
fn the_name_of_a_client_has_an_order() {
    let authority = CertificateAuthority::new();
    let name = |params: &CertificateParams| {
        let (pem, _) = authority.signs(params);
        name_in(&CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM"))
    };
    let text = |text: &str| text.try_into().expect("ASCII");
    let mut all = params(&["robot.example"]);
    all.distinguished_name.push(DnType::CommonName, "robot");
    assert_eq!(name(&all).as_deref(), Some("dns:robot.example"));
    all.subject_alt_names.insert(0, SanType::Rfc822Name(text("robot@example.org")));
    assert_eq!(name(&all).as_deref(), Some("dns:robot.example"));
    all.subject_alt_names.push(SanType::URI(text("spiffe://example.org/robot")));
    assert_eq!(name(&all).as_deref(), Some("uri:spiffe://example.org/robot"));
    all.subject_alt_names = vec![SanType::Rfc822Name(text("robot@example.org"))];
    assert_eq!(name(&all).as_deref(), Some("email:robot@example.org"));
    all.subject_alt_names = Vec::new();
    assert_eq!(name(&all).as_deref(), Some("cn:robot"));
    all.distinguished_name.push(DnType::CommonName, "x".repeat(300));
    assert_eq!(name(&all), None);
    assert_eq!(name_in(b"no certificate"), None);
}

#[tokio::test]
async fn connections_without_a_handshake_yield_their_slots_to_new_ones() {
    const SOCKETS: usize = 8;
    let door = Door::with(false, Limits { max_sockets: SOCKETS, ..Limits::default() }).await;
    let mut held = Vec::new();
    // Silent, and in the middle of a handshake.
    for at in 0..2 * SOCKETS {
        let mut socket = TcpStream::connect(door.at).await.expect("connects");
        socket.write_all(&b"\x16\x03\x01\x02\x00\x01"[..at % 2 * 6]).await.expect("sent");
        held.push(socket);
    }
    for _ in 0..2 * SOCKETS {
        let (_, text) = door.get(None).await.expect("an answer");
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    }
}
