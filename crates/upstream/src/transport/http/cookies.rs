//! The cookies that a server sets for one session with it, such as those of a balancer that pins a session to one machine.
//!
//! Invariants: they live as long as the session, in memory only, and no other session sends them. They go to the origin of
//! the server alone, whatever `Domain` says. At most [`MOST`] are kept, of [`MOST_BYTES`] together; the oldest makes room.
//! Nothing shows their values.
//!
//! Source: RFC 6265, section 5.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use cookie::Cookie;
use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue};
use url::{Host, Url};

/// Cookies of one session.
const MOST: usize = 32;
/// Bytes of their names, values and paths together.
const MOST_BYTES: usize = 16 * 1024;
/// Bytes of one `Set-Cookie`.
const LONGEST: usize = 4 * 1024;

/// The cookies of one session.
pub(in super::super) struct Cookies {
    host: String,
    is_secure: bool,
    /// Whether any are kept. It is read for each request.
    has_any: AtomicBool,
    /// The oldest first.
    stored: Mutex<Vec<StoredCookie>>,
}

struct StoredCookie {
    name: String,
    value: String,
    path: String,
    ends: Option<SystemTime>,
}

impl StoredCookie {
    const fn bytes(&self) -> usize {
        self.name.len() + self.value.len() + self.path.len()
    }
}

impl Cookies {
    /// No cookies yet, of the server at `url`.
    pub(super) fn of(url: &Url) -> Self {
        let host = match url.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            _ => String::new(),
        };
        let is_secure = url.scheme() == "https";
        Self { host, is_secure, has_any: AtomicBool::new(false), stored: Mutex::default() }
    }

    /// Adds the cookies for a request to `path` to its headers. The configured ones come first.
    pub(super) fn add_to(&self, headers: &mut HeaderMap, path: &str) {
        if !self.has_any.load(Ordering::Relaxed) {
            return;
        }
        let now = SystemTime::now();
        let mut stored = self.lock();
        stored.retain(|cookie| cookie.ends.is_none_or(|ends| ends > now));
        let mut fitting: Vec<&StoredCookie> =
            stored.iter().filter(|cookie| is_below(path, &cookie.path)).collect();
        // Those with longer paths come first (section 5.4).
        fitting.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let own = fitting.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value));
        let configured = headers.get(COOKIE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let all: Vec<String> = configured.into_iter().chain(own).collect();
        if let Ok(mut value) = HeaderValue::from_str(&all.join("; "))
            && !all.is_empty()
        {
            value.set_sensitive(true);
            headers.insert(COOKIE, value);
        }
    }

    /// Takes the cookies of a response to a request for `path`.
    pub(super) fn take_from(&self, headers: &HeaderMap, path: &str) {
        for line in headers.get_all(SET_COOKIE) {
            let text = line.to_str().ok().filter(|text| text.len() <= LONGEST);
            if let Some(Ok(cookie)) = text.map(Cookie::parse) {
                self.take(&cookie, path);
            }
        }
    }

    fn take(&self, cookie: &Cookie<'_>, path: &str) {
        let is_foreign = cookie.domain().is_some_and(|domain| !self.is_within(domain));
        // Over plain HTTP, such a cookie would be sent to everybody on the way.
        let is_unsafe = cookie.secure() == Some(true) && !self.is_secure;
        let is_printable = HeaderValue::from_str(cookie.value()).is_ok() && !cookie.name().is_empty();
        if is_foreign || is_unsafe || !is_printable {
            return;
        }
        let now = SystemTime::now();
        let ends = match (cookie.max_age(), cookie.expires_datetime()) {
            (Some(age), _) => Some(now + Duration::try_from(age).unwrap_or_default()),
            (None, Some(ends)) => Some(ends.into()),
            (None, None) => None,
        };
        let path = cookie.path().filter(|path| path.starts_with('/')).unwrap_or(folder_of(path));
        let new = StoredCookie {
            name: cookie.name().to_owned(),
            value: cookie.value().to_owned(),
            path: path.to_owned(),
            ends,
        };
        let mut stored = self.lock();
        stored.retain(|old| (&old.name, &old.path) != (&new.name, &new.path));
        if new.ends.is_none_or(|ends| ends > now) {
            stored.push(new);
        }
        while stored.len() > MOST || stored.iter().map(StoredCookie::bytes).sum::<usize>() > MOST_BYTES {
            stored.remove(0);
        }
        self.has_any.store(!stored.is_empty(), Ordering::Relaxed);
    }

    /// Whether the host of the server is `domain` or below it.
    fn is_within(&self, domain: &str) -> bool {
        let domain = domain.strip_prefix('.').unwrap_or(domain).to_ascii_lowercase();
        // A name without a dot is a whole top-level domain, unless it is the host itself.
        let rest = self.host.strip_suffix(&domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.') && domain.contains('.'))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<StoredCookie>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a cookie of `folder` belongs to a request for `path` (section 5.1.4).
fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| rest.is_empty() || folder.ends_with('/') || rest.starts_with('/'))
}

/// The path of a cookie that names none.
fn folder_of(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(end) => &path[..end],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookies(url: &str) -> Cookies {
        Cookies::of(&Url::parse(url).expect(url))
    }

    fn set(cookies: &Cookies, line: &str) {
        let line = HeaderValue::from_str(line).expect(line);
        cookies.take_from(&HeaderMap::from_iter([(SET_COOKIE, line)]), "/mcp/a");
    }

    fn sent(cookies: &Cookies, path: &str) -> String {
        let mut headers = HeaderMap::new();
        cookies.add_to(&mut headers, path);
        headers.get(COOKIE).map_or_else(String::new, |value| {
            assert!(value.is_sensitive());
            value.to_str().expect("ASCII").to_owned()
        })
    }

    #[test]
    fn attributes_decide_where_and_how_long_a_cookie_is_sent() {
        for (url, line, path, expected) in [
            ("https://h.example/", "lb=1", "/mcp/b", "lb=1"),
            ("https://h.example/", "lb=1", "/other", ""),
            ("https://h.example/", "lb=1; Path=/", "/other", "lb=1"),
            ("https://h.example/", "lb=1; Path=/mcp", "/mcpx", ""),
            ("https://h.example/", "lb=1; Path=relative", "/mcp", "lb=1"),
            ("https://h.example/", "lb=1; Domain=h.example; Path=/", "/", "lb=1"),
            ("https://a.h.example/", "lb=1; Domain=.H.example; Path=/", "/", "lb=1"),
            ("https://h.example/", "lb=1; Domain=a.h.example; Path=/", "/", ""),
            ("https://h.example/", "lb=1; Domain=other.example; Path=/", "/", ""),
            ("https://h.example/", "lb=1; Domain=example; Path=/", "/", ""),
            ("https://10.0.0.1/", "lb=1; Domain=0.0.1; Path=/", "/", ""),
            ("https://h.example/", "lb=1; Secure; HttpOnly; SameSite=None; Path=/", "/", "lb=1"),
            ("http://h.example/", "lb=1; Secure; Path=/", "/", ""),
            ("https://h.example/", "lb=1; Max-Age=0; Path=/", "/", ""),
            ("https://h.example/", "lb=1; Max-Age=-5; Path=/", "/", ""),
            ("https://h.example/", "lb=1; Max-Age=60; Path=/", "/", "lb=1"),
            ("https://h.example/", "lb=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Path=/", "/", ""),
            ("https://h.example/", "lb=1; Expires=Fri, 31 Dec 2100 23:59:59 GMT; Path=/", "/", "lb=1"),
            ("https://h.example/", "no cookie", "/", ""),
        ] {
            let cookies = cookies(url);
            set(&cookies, line);
            assert_eq!(sent(&cookies, path), expected, "{line} at {url}");
        }
    }

    #[test]
    fn a_later_cookie_replaces_or_removes_an_earlier_one() {
        let cookies = cookies("https://h.example/");
        set(&cookies, "a=1; Path=/");
        set(&cookies, "b=2; Path=/mcp");
        set(&cookies, "a=3; Path=/");
        assert_eq!(sent(&cookies, "/mcp"), "b=2; a=3");
        set(&cookies, "a=; Path=/; Max-Age=0");
        assert_eq!(sent(&cookies, "/mcp"), "b=2");
    }

    #[test]
    fn cookies_are_bounded_in_number_and_in_bytes() {
        let many = cookies("https://h.example/");
        (0..1_000).for_each(|at| set(&many, &format!("c{at}=x; Path=/")));
        assert_eq!(many.lock().len(), MOST);
        assert!(sent(&many, "/").contains("c999=x"));
        let large = cookies("https://h.example/");
        (0..100).for_each(|at| set(&large, &format!("c{at}={}; Path=/", "x".repeat(3_000))));
        assert!(large.lock().iter().map(StoredCookie::bytes).sum::<usize>() <= MOST_BYTES);
        set(&large, &format!("huge={}; Path=/", "x".repeat(LONGEST)));
        assert!(!sent(&large, "/").contains("huge"));
    }

    #[test]
    fn configured_cookies_stay() {
        let cookies = cookies("https://h.example/");
        set(&cookies, "lb=1; Path=/");
        let mut headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static("own=2"))]);
        cookies.add_to(&mut headers, "/");
        assert_eq!(headers[COOKIE], "own=2; lb=1");
    }
}
