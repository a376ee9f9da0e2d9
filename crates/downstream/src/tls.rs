//! TLS at the listener: certificate, key and accepted clients, handshakes, and the names in client certificates.
//!
//! Invariants: TLS 1.2 and 1.3 only, and HTTP/1.1 only. Files are read again when they change. Files that cannot be used
//! together change nothing: new connections get the previous certificate, and the log says why. Connections that are open keep
//! theirs. With `client_ca`, a client without a certificate of that authority gets no connection.
//!
//! A handshake has the time limit of a head (`header_timeout`), from the accepted connection on. At most
//! [`MOST`] handshakes run at a time. When one more begins, the oldest is closed: a client that answers in time has
//! finished long before, and slow ones shut out nobody. A client that has sent nothing takes no place among them. It
//! has a slot of the listener, as every connection, and yields it as others do (`socket_slots`). One
//! that speaks HTTP without TLS gets status 400, within the same limits.
//!
//! The name of a client is the first URI among the subject alternative names, else the first DNS name, else the first
//! e-mail address, else the only common name. It begins with its kind, so that a name of one kind never stands for
//! another: an authority may check DNS names and not common names. An empty, overlong or unprintable name is none.
//!
//! Not here: the limit of connections (`listener`).

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::io;
use std::io::{ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use secrecy::zeroize::Zeroizing;
use tokio::io as async_io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::listening_sockets::SocketCounts;
use super::moving_socket::MovingSocket;
use auth::{Principal, Role};
use runtime::regular_file;
use runtime::telemetry::{limit, pace};
use settings::{FromSetting, Setting, settings};

/// How often the files are compared with those in use.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Limit of the size of one file.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// The only application protocol that is offered.
const HTTP1: &[u8] = b"http/1.1";

settings! {
    /// Settings of `server.tls`.
    #[derive(Debug, Clone)]
    pub struct Tls {
        /// a file with the certificate chain in PEM, the own certificate first
        pub cert: PathBuf, required "a file with the certificate chain in PEM";
        /// a file with the private key in PEM
        pub key: PathBuf, required "a file with the private key in PEM";
        /// a file with certificates in PEM: every client needs a certificate that one of them signed
        pub client_ca: Option<PathBuf>;
        /// the role of a client by the name in its certificate, which begins with its kind: `dns:`, `email:`, `uri:` or
        /// `cn:` (common name)
        pub client_roles: HashMap<String, Role>, with read_roles;
        /// the [view](../views.md) that a client is bound to, by the same name: it sees nothing else, at any URL
        pub client_views: BTreeMap<String, String>;
    }
    check Tls::check;
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file has not the expected content.
    #[error("{}: {reason}", path.display())]
    Content {
        /// Its path.
        path: PathBuf,
        /// The part that is wrong.
        reason: String,
    },
    /// The files do not fit together.
    #[error("the files of `server.tls` cannot be used: {0}")]
    Unusable(String),
}

impl Tls {
    fn check(&mut self, setting: &Setting<'_>) {
        if let (None, Some(roles)) = (&self.client_ca, setting.member("client_roles")) {
            let hint = "add `client_ca`, a file with the certificates that sign those of clients".to_owned();
            roles.key_problem("it has no effect without `client_ca`", Some(hint));
        }
        for (name, view) in
            setting.member("client_views").and_then(|views| views.entries()).unwrap_or_default()
        {
            match self.client_roles.get(name) {
                Some(Role::Superuser) => {
                    let hint = "a superuser operates everything: write `caller` in `client_roles`, or remove it here";
                    view.key_problem("a view does not go with the role superuser", Some(hint.into()));
                }
                Some(_) => {}
                None => {
                    let hint = "add the name to `client_roles`, as in `\"dns:robot.example.org\": caller`";
                    view.key_problem("no certificate of this name has a role", Some(hint.into()));
                }
            }
        }
    }
}

fn read_roles(setting: &Setting<'_>) -> Option<HashMap<String, Role>> {
    for (name, role) in setting.entries()? {
        let names_kind =
            KINDS.iter().any(|kind| name.strip_prefix(kind).is_some_and(|rest| !rest.is_empty()));
        if !names_kind {
            let hint = format!("such as `\"{}\"`", with_kind(name));
            let message =
                "the name does not say its kind: `dns:`, `email:`, `uri:` or `cn:` (common name) before it";
            role.key_problem(message, Some(hint));
        }
    }
    BTreeMap::from_setting(setting).map(HashMap::from_iter)
}

/// The content of the files.
#[derive(PartialEq, Eq)]
struct Files {
    cert: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
    client_ca: Option<Vec<u8>>,
}

/// The certificate in use. Clones of the [`Arc`] share it.
pub struct Certificates {
    tls: Tls,
    current: ArcSwap<ServerConfig>,
    /// The files that were read last, good or not. Locked while they are read.
    last: Mutex<Option<Files>>,
    principals: HashMap<String, Principal>,
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").field("cert", &self.tls.cert).finish_non_exhaustive()
    }
}

impl Certificates {
    /// Reads the files of `tls`; blocks on them.
    pub fn read(tls: &Tls) -> Result<Arc<Self>, Error> {
        let files = Files::read(tls)?;
        let current = ArcSwap::new(files.accepting(tls)?);
        let principal = |(name, role): (&String, &Role)| {
            let view = tls.client_views.get(name).map(|view| Arc::from(view.as_str()));
            (name.clone(), Principal::of_certificate(name, *role).bound_to(view))
        };
        let principals = tls.client_roles.iter().map(principal).collect();
        Ok(Arc::new(Self { tls: tls.clone(), current, last: Mutex::new(Some(files)), principals }))
    }

    /// The settings of new connections.
    pub(super) fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// The principal of the client whose certificate has `name`, if it has a role.
    pub(super) fn principal(&self, name: &str) -> Option<Principal> {
        self.principals.get(name).cloned()
    }

    /// Reads the files again, and uses them for new connections if they changed and fit together.
    pub async fn look(self: &Arc<Self>) {
        let own = Arc::clone(self);
        // It only fails if reading panicked, which the panic hook logs.
        let _ = tokio::task::spawn_blocking(move || own.look_now()).await;
    }

    /// Looks at the files for ever.
    pub async fn follow(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.look().await;
        }
    }

    fn look_now(&self) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let read = Files::read(&self.tls);
        if read.as_ref().ok() == last.as_ref() {
            return; // also if the files are missing and were missing before
        }
        let used = read.and_then(|files| {
            let accepting = files.accepting(&self.tls);
            *last = Some(files);
            accepting
        });
        match used {
            Ok(config) => {
                self.current.store(config);
                tracing::info!(cert = %self.tls.cert.display(), "new connections use the new TLS certificate");
            }
            Err(error) => {
                if let Error::File { .. } = error {
                    *last = None;
                }
                tracing::error!(%error, "the TLS certificate was not replaced, the previous one stays");
            }
        }
    }
}

impl Files {
    fn read(tls: &Tls) -> Result<Self, Error> {
        Ok(Self {
            cert: read(&tls.cert)?,
            key: Zeroizing::new(read(&tls.key)?),
            client_ca: tls.client_ca.as_deref().map(read).transpose()?,
        })
    }

    fn accepting(&self, tls: &Tls) -> Result<Arc<ServerConfig>, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain = certificates(&tls.cert, &self.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|_| content(&tls.key, &"there is no private key in PEM in it"))?;
        let verifier: Arc<dyn ClientCertVerifier> = match (&tls.client_ca, &self.client_ca) {
            (Some(path), Some(pem)) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path, pem)? {
                    roots.add(certificate).map_err(|error| content(path, &error))?;
                }
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                    .build()
                    .map_err(|error| content(path, &error))?
            }
            _ => Arc::new(NoClientAuth),
        };
        let unusable = |error: rustls::Error| Error::Unusable(error.to_string());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(unusable)?;
        config.alpn_protocols = vec![HTTP1.to_vec()];
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(read) if !read.is_empty() => Ok(read),
        _ => Err(content(path, &"there is no certificate in PEM in it")),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    regular_file::read(path, MAX_FILE_BYTES).map_err(failed)
}

fn content(path: &Path, reason: &dyn Display) -> Error {
    Error::Content { path: path.to_owned(), reason: reason.to_string() }
}

/// Limit of handshakes that run at a time: some 30 KiB each.
const MOST: usize = 512;

/// The answer to a request without TLS.
const NEEDS_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 70\r\n\
    connection: close\r\n\r\nthis port speaks HTTP over TLS only; use a URL that begins with https\n";
/// The most bytes of a request without TLS that are read, so that the answer to it arrives.
const MAX_DRAINED: u64 = 64 * 1024;

/// The principal of a client certificate, among the extensions of each request of its connection.
#[derive(Debug, Clone)]
pub(super) struct Certified(pub(super) Principal);

/// The handshakes of one listener. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Handshakes {
    certificates: Arc<Certificates>,
    running: Arc<Mutex<RunningHandshakes>>,
    counts: SocketCounts,
}

#[derive(Debug, Default)]
struct RunningHandshakes {
    next: u64,
    /// By the order in which they began. The token ends the handshake.
    all: BTreeMap<u64, CancellationToken>,
}

/// The place of one running handshake.
struct HandshakeSlot {
    number: u64,
    ended: CancellationToken,
    running: Arc<Mutex<RunningHandshakes>>,
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        lock(&self.running).all.remove(&self.number);
    }
}

fn lock(running: &Mutex<RunningHandshakes>) -> MutexGuard<'_, RunningHandshakes> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handshakes {
    pub(super) fn new(certificates: Arc<Certificates>, counts: SocketCounts) -> Self {
        Self { certificates, running: Arc::default(), counts }
    }

    /// Takes a place, the one of the oldest handshake if there is no other.
    fn place(&self) -> HandshakeSlot {
        let (mut running, ended) = (lock(&self.running), CancellationToken::new());
        let number = running.next;
        running.next += 1;
        running.all.insert(number, ended.clone());
        if running.all.len() > MOST
            && let Some((_, oldest)) = running.all.pop_first()
        {
            limit::Limit::Handshakes.met(());
            oldest.cancel();
        }
        drop(running);
        HandshakeSlot { number, ended, running: Arc::clone(&self.running) }
    }

    /// Makes a stream of `socket` within `limit`, or returns nothing if its client failed to.
    pub(super) async fn open(
        &self,
        socket: TcpStream,
        limit: Duration,
    ) -> Option<(ClientStream, Option<Certified>)> {
        match timeout(limit, self.handshake(socket)).await {
            Ok(Ok(stream)) => {
                let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
                let name = chain.first().and_then(|certificate| name_in(certificate));
                let principal = name.and_then(|name| self.certificates.principal(&name));
                Some((ClientStream::Tls(Box::new(stream)), principal.map(Certified)))
            }
            Ok(Err(error)) => {
                self.failed(&error);
                None
            }
            Err(_) => {
                self.failed(&ErrorKind::TimedOut.into());
                None
            }
        }
    }

    /// Counts and logs a failure. Everybody who reaches the listener can cause it. Clients that close at once are usual:
    /// load balancers check a port in this way.
    fn failed(&self, error: &io::Error) {
        self.counts.count_failed_handshake();
        if error.kind() == ErrorKind::UnexpectedEof || error.kind() == ErrorKind::ConnectionReset {
            tracing::debug!(%error, "a TLS handshake failed");
        } else if let Some(suppressed) = pace::refusal("tls_handshake") {
            let suppressed = (suppressed > 0).then_some(suppressed);
            tracing::info!(%error, suppressed, "a TLS handshake failed");
        }
    }

    async fn handshake(&self, socket: TcpStream) -> io::Result<TlsStream<MovingSocket>> {
        socket.readable().await?;
        let place = self.place();
        let acceptor = TlsAcceptor::from(self.certificates.current());
        let accepted = async {
            if speaks_http(&socket).await? {
                refuse_without_tls(socket).await?;
                return Err(io::Error::new(ErrorKind::InvalidData, "the client speaks HTTP without TLS"));
            }
            acceptor.accept(MovingSocket::new(socket)).await
        };
        tokio::select! {
            stream = accepted => stream,
            () = place.ended.cancelled() => Err(io::Error::other("too many handshakes were running")),
        }
    }
}

/// Whether the client began with a method of HTTP. A handshake begins with another byte.
async fn speaks_http(socket: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    Ok(socket.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase())
}

/// Answers a request without TLS, and reads the rest of it: the system would drop the answer with unread bytes.
async fn refuse_without_tls(mut socket: TcpStream) -> io::Result<()> {
    socket.write_all(NEEDS_TLS).await?;
    socket.shutdown().await?;
    async_io::copy(&mut socket.take(MAX_DRAINED), &mut async_io::sink()).await.map(drop)
}

/// The bytes of a client's connection.
#[derive(Debug)]
pub(super) enum ClientStream {
    Plain(MovingSocket),
    Tls(Box<TlsStream<MovingSocket>>),
}

impl ClientStream {
    /// Whether bytes of the client have arrived that were not read yet.
    pub(super) fn has_arrived(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.has_arrived(),
            Self::Tls(stream) => stream.get_ref().0.has_arrived(),
        }
    }

    /// Closes the connection at once. Bytes that were written and not sent are dropped.
    pub(super) fn reset(self) {
        match self {
            Self::Plain(socket) => socket.reset(),
            Self::Tls(stream) => stream.into_inner().0.reset(),
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, buffer),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(context, buffers),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, buffers),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// The longest name in bytes: it is a key of maps and is logged.
const MAX_NAME_BYTES: usize = 256;

/// Returns the name of the client with the certificate `der`.
pub(super) fn name_in(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let alternative = certificate.subject_alternative_name().ok()?;
    let names = alternative.map(|found| found.value.general_names.as_slice()).unwrap_or_default();
    let first = |kind: &'static str, of: fn(&GeneralName<'_>) -> Option<String>| {
        names.iter().find_map(of).map(|name| (kind, name))
    };
    let name = first("uri:", uri).or_else(|| first("dns:", dns)).or_else(|| first("email:", email));
    let (kind, name) = name.or_else(|| Some(("cn:", common_name(&certificate)?)))?;
    let fits = (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control);
    fits.then(|| format!("{kind}{name}"))
}

/// The kinds of names, as a name in `client_roles` begins with one.
const KINDS: [&str; 4] = ["dns:", "email:", "uri:", "cn:"];

/// Returns `name` with the kind that it most likely has, for a hint.
fn with_kind(name: &str) -> String {
    let kind = if name.contains("://") {
        "uri:"
    } else if name.contains('@') {
        "email:"
    } else if name.contains('.') && !name.contains(' ') {
        "dns:"
    } else {
        "cn:"
    };
    format!("{kind}{name}")
}

fn uri(name: &GeneralName<'_>) -> Option<String> {
    if let GeneralName::URI(text) = name { Some((*text).to_owned()) } else { None }
}

fn dns(name: &GeneralName<'_>) -> Option<String> {
    if let GeneralName::DNSName(text) = name { Some((*text).to_owned()) } else { None }
}

fn email(name: &GeneralName<'_>) -> Option<String> {
    if let GeneralName::RFC822Name(text) = name { Some((*text).to_owned()) } else { None }
}

/// Which one of several names counts is not defined, so several are none.
fn common_name(certificate: &X509Certificate<'_>) -> Option<String> {
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?.to_owned();
    names.next().is_none().then_some(name)
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
