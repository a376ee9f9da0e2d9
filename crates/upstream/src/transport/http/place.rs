//! Where in its origin a server has its endpoint, if that is not the path of the configuration.
//!
//! A URL without a path is completed, and a redirect (307, 308) within the origin is followed once. Invariants: the
//! scheme, the host and the port are always those of the configuration, so credentials go nowhere else. The target of a
//! 307 is kept until the server was away. A completed path and the target of a 308 are kept until they stop working.
//!
//! Not here: redirects of calls on a live connection, which fail with the status.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use http::header::LOCATION;
use http::{HeaderMap, StatusCode, Uri};
use url::Url;

use super::HttpClient;
use crate::error::Error;
use net::http::path;
use protocol::sanitize::shown;

/// Paths that are tried if nothing is at a URL without a path.
const GUESSES: [&str; 2] = ["/mcp", "/sse"];
/// Longest `Location` that is read, in bytes.
const MAX_TARGET: usize = 2_048;

/// The endpoint of one server.
pub(super) struct Place {
    configured: At,
    now: ArcSwap<At>,
    /// Where connecting begins after the server was away.
    start: ArcSwap<At>,
    noted: Mutex<Noted>,
}

/// An endpoint.
#[derive(Clone)]
pub(in super::super) struct At {
    pub(in super::super) url: Url,
    /// Its path and query.
    pub(in super::super) path: Uri,
}

/// The last answer that was no success.
#[derive(Default)]
struct Noted {
    status: u16,
    target: Option<String>,
}

impl At {
    fn new(url: Url) -> Result<Self, Error> {
        Ok(Self { path: path(&url)?, url })
    }
}

impl Place {
    pub(super) fn new(url: &Url) -> Result<Self, Error> {
        let configured = At::new(url.clone())?;
        let at = || ArcSwap::from_pointee(configured.clone());
        Ok(Self { now: at(), start: at(), configured, noted: Mutex::default() })
    }

    /// Where requests of new connections go.
    pub(super) fn now(&self) -> Arc<At> {
        self.now.load_full()
    }

    /// Notes an answer that is no success.
    pub(super) fn note(&self, status: StatusCode, headers: &HeaderMap) {
        let target = headers.get(LOCATION).filter(|_| status.is_redirection());
        let target =
            target.and_then(|target| target.to_str().ok()).filter(|target| target.len() <= MAX_TARGET);
        *self.noted() = Noted { status: status.as_u16(), target: target.map(str::to_owned) };
    }

    /// Goes back to where connecting begins.
    pub(super) fn forget(&self) {
        self.now.store(self.start.load_full());
    }

    /// Goes where the last answer redirects to, if that is to be followed.
    fn follow(&self) -> bool {
        let status = self.noted().status;
        let Some(target) = self.target().filter(|_| matches!(status, 307 | 308)) else { return false };
        let is_elsewhere = target.origin() != self.configured.url.origin() || target == self.now().url;
        let Ok(at) = At::new(target) else { return false };
        if !is_elsewhere {
            let at = Arc::new(at);
            self.now.store(Arc::clone(&at));
            if status == 308 {
                self.start.store(at);
            }
        }
        !is_elsewhere
    }

    fn target(&self) -> Option<Url> {
        self.now().url.join(self.noted().target.as_ref()?).ok()
    }

    /// Whether nothing is at the endpoint.
    fn is_absent(&self) -> bool {
        matches!(self.noted().status, 404 | 405)
    }

    fn go_to(&self, guess: &str) {
        let mut url = self.configured.url.clone();
        url.set_path(guess);
        if let Ok(at) = At::new(url) {
            self.now.store(Arc::new(at));
        }
    }

    /// A remark for operators if the endpoint is not the configured one.
    pub(super) fn remark(&self) -> Option<String> {
        let now = self.now();
        let is_other = now.url.path() != self.configured.url.path();
        is_other.then(|| format!("its endpoint is `{}`; write this path in `url`", shown(now.url.path())))
    }

    /// The error for a redirect that is not followed.
    pub(super) fn redirected(&self, status: u16) -> Error {
        let target = self.target().map(|target| {
            let origin = target.origin().ascii_serialization();
            format!(" to {}", shown(&format!("{origin}{}", target.path())))
        });
        let target = target.unwrap_or_default();
        Error::Connect {
            reason: format!(
                "the server answered HTTP {status}, a redirect{target}, which is not followed; if that is the \
                 right server, put its address in `url`"
            ),
        }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpClient {
    /// Opens a connection to the server `name` with `open`, again where the server turns out to be elsewhere in its
    /// origin.
    pub(in super::super) async fn located<T, F>(&self, name: &str, open: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let first = self.following(&open).await;
        let Err(error) = first else { return first };
        let is_bare = self.place.now().url.path() == "/";
        if !is_bare || !self.place.is_absent() {
            if self.place.is_absent() {
                self.place.start.store(Arc::new(self.place.configured.clone()));
            }
            self.place.forget();
            return Err(error);
        }
        for guess in GUESSES {
            self.place.go_to(guess);
            let opened = self.following(&open).await;
            if opened.is_ok() || !self.place.is_absent() {
                self.place.start.store(self.place.now());
                tracing::info!(
                    server = name,
                    "nothing is at `/` of the server, its endpoint is `{guess}`; write this path in `url`"
                );
                return opened;
            }
        }
        self.place.forget();
        let [first, second] = GUESSES;
        let reason = format!(
            "{error}; nothing is at `{first}` and `{second}` either, so put the path of the endpoint in `url`"
        );
        Err(Error::Connect { reason })
    }

    async fn following<T, F>(&self, open: &impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        *self.place.noted() = Noted::default();
        match open().await {
            Err(_) if self.place.follow() => open().await,
            opened => opened,
        }
    }
}
