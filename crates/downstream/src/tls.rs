//! TLS at the listener: certificate, key and accepted clients, read from files and replaced when these change.
//!
//! Invariants: TLS 1.2 and 1.3 only, and HTTP/1.1 only. Files that cannot be used together change nothing: new
//! connections get the previous certificate, and the log says why. Connections that are open keep theirs.
//! With `client_ca`, a client without a certificate of that authority gets no connection.
//!
//! Not here: the handshake (`tls_handshake`), the names in client certificates (`client_certificate`).

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::client_certificate;
use arc_swap::ArcSwap;
use auth::{Principal, Role};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls::{RootCertStore, ServerConfig};
use secrecy::zeroize::Zeroizing;

use runtime::regular_file;
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
        let names_kind = client_certificate::KINDS
            .iter()
            .any(|kind| name.strip_prefix(kind).is_some_and(|rest| !rest.is_empty()));
        if !names_kind {
            let hint = format!("such as `\"{}\"`", client_certificate::with_kind(name));
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

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
