//! Where in its origin a server has its endpoint, if that is not the path of the configuration.
//!
//! A URL without a path is completed, and a redirect (307, 308) within the origin is followed. Invariants: the scheme, the
//! host and the port are always those of the configuration, so credentials go nowhere else. The target of a 307 is kept
//! until the server was away. A completed path and the target of a 308 are kept until they stop working.
//!
//! Not here: sending a redirected request again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
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
    /// The last path that was redirected.
    moved: ArcSwapOption<Moved>,
    /// Whether one was. It is read for each request.
    has_moved: AtomicBool,
    noted: Mutex<Noted>,
}

/// A path that was redirected.
struct Moved {
    from: Uri,
    to: Uri,
    is_permanent: bool,
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
        Ok(Self {
            now: at(),
            start: at(),
            configured,
            moved: ArcSwapOption::empty(),
            has_moved: AtomicBool::new(false),
            noted: Mutex::default(),
        })
    }

    /// Where requests of new connections go.
    pub(super) fn now(&self) -> Arc<At> {
        self.now.load_full()
    }

    /// Notes an answer that is no success.
    pub(super) fn record(&self, status: StatusCode, headers: &HeaderMap) {
        let target = headers.get(LOCATION).filter(|_| status.is_redirection());
        let target =
            target.and_then(|target| target.to_str().ok()).filter(|target| target.len() <= MAX_TARGET);
        *self.noted() = Noted { status: status.as_u16(), target: target.map(str::to_owned) };
    }

    /// Goes back to where connecting begins.
    pub(super) fn forget(&self) {
        self.now.store(self.start.load_full());
        if self.moved.load().as_ref().is_some_and(|moved| !moved.is_permanent) {
            self.set_moved(None);
        }
    }

    /// Forgets also what should be for good, because nothing is there any more.
    fn forget_all(&self) {
        self.start.store(Arc::new(self.configured.clone()));
        self.set_moved(None);
        self.forget();
    }

    fn set_moved(&self, moved: Option<Moved>) {
        self.has_moved.store(moved.is_some(), Ordering::Relaxed);
        self.moved.store(moved.map(Arc::new));
    }

    /// Where requests for `path` go, if they were redirected before.
    pub(super) fn moved(&self, path: &Uri) -> Option<Uri> {
        if !self.has_moved.load(Ordering::Relaxed) {
            return None;
        }
        self.moved.load().as_ref().filter(|moved| moved.from == *path).map(|moved| moved.to.clone())
    }

    /// Notes that requests for `from` were redirected to `target`.
    pub(super) fn note_move(&self, from: &Uri, target: Url, is_permanent: bool) {
        let Ok(at) = At::new(target) else { return };
        self.set_moved(Some(Moved { from: from.clone(), to: at.path.clone(), is_permanent }));
        if *from == self.now().path {
            let at = Arc::new(at);
            self.now.store(Arc::clone(&at));
            if is_permanent {
                self.start.store(at);
            }
        }
    }

    /// The URL of a request for `path`.
    pub(super) fn url_of(&self, path: &Uri) -> Option<Url> {
        self.configured.url.join(path.path_and_query()?.as_str()).ok()
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
        *self.place.noted() = Noted::default();
        let first = open().await;
        let Err(error) = first else { return first };
        let is_bare = self.place.now().url.path() == "/";
        if !is_bare || !self.place.is_absent() {
            if self.place.is_absent() {
                self.place.forget_all();
            }
            self.place.forget();
            return Err(error);
        }
        for guess in GUESSES {
            self.place.go_to(guess);
            *self.place.noted() = Noted::default();
            let opened = open().await;
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
}
