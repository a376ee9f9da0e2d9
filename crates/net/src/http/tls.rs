//! TLS towards servers: the trusted authorities, and a certificate for servers that ask for one.
//!
//! Invariants: the authorities of the system are always trusted, also where `SSL_CERT_FILE`, `SSL_CERT_DIR` or a file of
//! one server name further ones. The files of a server are read again when they change. If the new ones cannot be used,
//! new connections fail with the reason.
//!
//! Not here: the handshake (`connect`).

use std::env;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use secrecy::zeroize::Zeroizing;

use super::error::Error;
use runtime::regular_file;

/// Variables that name further authorities.
const VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
/// How often the files are compared with those in use, at most.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Limit of the size of one file.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The files for TLS with one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of authorities in PEM, trusted beside those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate chain and the private key of Switchyard in PEM, for servers that ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// The settings of TLS of one server.
pub(super) struct Tls {
    files: TlsFiles,
    last: Mutex<Option<Read>>,
}

/// The files as they were read last.
struct Read {
    content: Content,
    at: Instant,
    config: Arc<ClientConfig>,
}

#[derive(PartialEq, Eq)]
struct Content {
    ca: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Zeroizing<Vec<u8>>)>,
}

impl Tls {
    /// Settings with `files`, which are read when the first connection is opened.
    pub(super) fn new(files: TlsFiles) -> Arc<Self> {
        Arc::new(Self { files, last: Mutex::default() })
    }

    pub(super) const fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// The settings without the certificate of Switchyard, for a service that another party named.
    pub(super) fn without_identity(&self) -> Arc<Self> {
        Self::new(TlsFiles { ca: self.files.ca.clone(), identity: None })
    }

    /// Returns the settings for a new connection.
    pub(super) async fn config(self: &Arc<Self>) -> Result<Arc<ClientConfig>, Error> {
        let own = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || own.read_now()).await;
        read.unwrap_or_else(|_| Err(Error::tls("the files of `tls` cannot be read")))
    }

    fn read_now(&self) -> Result<Arc<ClientConfig>, Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(read) = last.as_ref().filter(|read| read.at.elapsed() < LOOK_EVERY) {
            return Ok(Arc::clone(&read.config));
        }
        let content = Content::read(&self.files)?;
        let config = match last.take() {
            Some(read) if read.content == content => read.config,
            _ => content.config(&self.files)?,
        };
        *last = Some(Read { content, at: Instant::now(), config: Arc::clone(&config) });
        Ok(config)
    }
}

impl Content {
    fn read(files: &TlsFiles) -> Result<Self, Error> {
        let ca = files.ca.as_deref().map(|path| read("tls.ca", path)).transpose()?;
        let identity = match &files.identity {
            Some((cert, key)) => Some((read("tls.cert", cert)?, read("tls.key", key)?.into())),
            None => None,
        };
        Ok(Self { ca, identity })
    }

    fn config(&self, files: &TlsFiles) -> Result<Arc<ClientConfig>, Error> {
        let authorities = match (&self.ca, &files.ca) {
            (Some(pem), Some(path)) => certificates("tls.ca", path, pem)?,
            _ => Vec::new(),
        };
        let identity = match (&self.identity, &files.identity) {
            (Some((cert, key)), Some((cert_path, key_path))) => {
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|_| content("tls.key", key_path, "there is no private key in PEM in it"))?;
                Some((certificates("tls.cert", cert_path, cert)?, key))
            }
            _ => None,
        };
        build(authorities, identity).map(Arc::new)
    }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn build(
    authorities: Vec<CertificateDer<'static>>,
    identity: Option<Identity>,
) -> Result<ClientConfig, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let authorities = authorities.into_iter().chain(named_by_environment());
    let unusable = |error: rustls::Error| Error::connect(&error);
    let verifier = Verifier::new_with_extra_roots(authorities, Arc::clone(&provider)).map_err(unusable)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        // Nothing is left out: it is the verifier of the platform, with further authorities.
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match identity {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| {
            Error::tls(&format!("the files of `tls.cert` and `tls.key` do not fit together: {error}"))
        })?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The authorities of the system and those of the variables. Where a variable is set, the verifier of the platform reads
/// either those or those of the system.
fn named_by_environment() -> Vec<CertificateDer<'static>> {
    if VARIABLES.iter().all(|name| env::var_os(name).is_none_or(|value| value.is_empty())) {
        return Vec::new();
    }
    let named = rustls_native_certs::load_native_certs();
    for error in &named.errors {
        tracing::warn!(%error, "certificates of SSL_CERT_FILE or SSL_CERT_DIR cannot be read");
    }
    let of_system = |dir| rustls_native_certs::load_certs_from_paths(None, Some(dir)).certs;
    let all = named.certs.into_iter().chain(openssl_probe::candidate_cert_dirs().flat_map(of_system));
    // The verifier refuses all of them for one that it cannot read.
    all.filter(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok()).collect()
}

/// Returns the settings for servers without files of their own. Reading the certificates of the system takes long, so
/// all clients share them.
pub(super) fn shared() -> Result<Arc<ClientConfig>, Error> {
    static SHARED: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = SHARED.get() {
        return Ok(Arc::clone(config));
    }
    let config = build(Vec::new(), None)?;
    Ok(Arc::clone(SHARED.get_or_init(|| Arc::new(config))))
}

fn certificates(name: &str, path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(read) if !read.is_empty() => Ok(read),
        _ => Err(content(name, path, "there is no certificate in PEM in it")),
    }
}

fn read(name: &str, path: &Path) -> Result<Vec<u8>, Error> {
    regular_file::read(path, MAX_FILE_BYTES).map_err(|error| {
        Error::tls(&format!("the file of `{name}`, {}, cannot be read: {error}", path.display()))
    })
}

fn content(name: &str, path: &Path, reason: &str) -> Error {
    Error::tls(&format!("the file of `{name}`, {}, cannot be used: {reason}", path.display()))
}
