//! Requests that are put together step by step, and redirects within one origin, which are followed once.
//!
//! Invariants: a part of a path never becomes two parts, goes up or ends the path. Values of credentials are marked as
//! sensitive, so no debug output shows them. Only 307 and 308 are followed, and only to the same scheme, host and port, so
//! credentials go where they were meant for. Both say that the request did not run, so it may be repeated whatever it does. A
//! body that is made while it is sent cannot be repeated.
//!
//! Source: RFC 9110, sections 15.4.8 and 15.4.9.

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use url::{ParseError, Url, form_urlencoded};

use super::error::Error;
use super::headers::{IDENTITY, OUR_USER_AGENT, basic_credentials, host, path};
use super::request_body::{Form, RequestBody};
use super::{Client, Response};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");

/// One request that is being put together. A part that cannot be written makes [`RequestBuilder::build`] fail.
pub struct RequestBuilder {
    url: Url,
    request: Request<RequestBody>,
    failure: Option<Error>,
}

impl RequestBuilder {
    /// A request for `url`, with its user and password as credentials.
    pub fn new(method: Method, url: Url) -> Self {
        let mut request = Request::new(RequestBody::from(Bytes::new()));
        *request.method_mut() = method;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, OUR_USER_AGENT);
        headers.insert(ACCEPT, ANYTHING);
        headers.insert(ACCEPT_ENCODING, IDENTITY);
        headers.extend(basic_credentials(&url).map(|credentials| (AUTHORIZATION, credentials)));
        Self { url, request, failure: None }
    }

    /// Appends `segments` to the path, each percent-encoded as one part of it. Segments that a server could read as
    /// something else are refused: an empty one, `.` and `..`. So are slashes, because many servers decode them before
    /// they look for the route.
    pub fn below(mut self, segments: &[&str]) -> Self {
        if segments.iter().any(|segment| is_ambiguous(segment)) {
            return self.failed("a part of its address is empty, `.`, `..` or has a slash");
        }
        let appended = self.url.path_segments_mut().map(|mut path| {
            path.pop_if_empty().extend(segments);
        });
        if appended.is_err() { self.failed("the URL of the service cannot be used") } else { self }
    }

    /// Adds parameters to the URL.
    pub fn query(mut self, pairs: &[(&str, &str)]) -> Self {
        if !pairs.is_empty() {
            self.url.query_pairs_mut().extend_pairs(pairs);
        }
        self
    }

    /// Sets `Authorization: Bearer …`.
    pub fn bearer(self, token: &SecretString) -> Self {
        let value = SecretString::from(format!("Bearer {}", token.expose_secret()));
        self.header(&AUTHORIZATION, &value)
    }

    /// Sets a header whose value is a secret.
    pub fn header(mut self, name: &HeaderName, value: &SecretString) -> Self {
        let Ok(mut value) = HeaderValue::from_str(value.expose_secret()) else {
            return self.failed("the value of a header cannot be sent");
        };
        value.set_sensitive(true);
        self.request.headers_mut().insert(name, value);
        self
    }

    /// Sends `body` as JSON.
    pub fn json<B: Serialize + ?Sized>(self, body: &B) -> Self {
        match serde_json::to_vec(body) {
            Ok(json) => self.body(JSON, Bytes::from(json).into()),
            Err(_) => self.failed("its body cannot be written as JSON"),
        }
    }

    /// Sends `fields` as a URL-encoded form.
    pub fn form(self, fields: &[(&str, &str)]) -> Self {
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.body(FORM, Bytes::from(form).into())
    }

    /// Sends a form with files.
    pub fn multipart(self, form: Form) -> Self {
        match form.into_body() {
            (Some(kind), body) => self.body(kind, body),
            (None, _) => self.failed("its form cannot be written"),
        }
    }

    fn body(mut self, kind: HeaderValue, body: RequestBody) -> Self {
        self.request.headers_mut().insert(CONTENT_TYPE, kind);
        *self.request.body_mut() = body;
        self
    }

    fn failed(mut self, reason: &'static str) -> Self {
        self.failure.get_or_insert(Error::Unwritable { reason });
        self
    }

    pub(super) const fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the request as [`Client::send`](super::Client::send) takes it.
    pub fn build(mut self) -> Result<Request<RequestBody>, Error> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.request.headers_mut().insert(HOST, host(&self.url)?);
        *self.request.uri_mut() = path(&self.url)?;
        Ok(self.request)
    }
}

fn is_ambiguous(segment: &str) -> bool {
    matches!(segment, "" | "." | "..") || segment.contains(['/', '\\']) || segment.contains(char::is_control)
}

/// Longest `Location` that is read, in bytes.
const MAX_LOCATION: usize = 2_048;

impl Client {
    /// Sends the request of `builder`, and once more where a redirect leads within its origin. It runs at most once, unless
    /// its method may be repeated (RFC 9110, 9.2.2).
    pub async fn request(&self, builder: RequestBuilder) -> Result<Response, Error> {
        let url = builder.url().clone();
        let request = builder.build()?;
        let once = !request.method().is_idempotent();
        let repeat = request.body().repeat().map(|body| {
            let mut repeat = Request::new(body);
            *repeat.method_mut() = request.method().clone();
            *repeat.headers_mut() = request.headers().clone();
            repeat
        });
        let response = self.send(request, once).await?;
        let Some(mut repeat) = repeat else { return Ok(response) };
        let Some(target) = same_origin_target(&url, response.status(), response.headers()) else {
            return Ok(response);
        };
        *repeat.uri_mut() = path(&target)?;
        self.send(repeat, once).await
    }
}

/// Returns where a response to a request for `url` redirects it to, if that may be followed.
pub fn same_origin_target(url: &Url, status: StatusCode, headers: &HeaderMap) -> Option<Url> {
    if !matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        return None;
    }
    let location = headers.get(LOCATION)?.to_str().ok().filter(|text| text.len() <= MAX_LOCATION)?;
    let target = joined(url, location).ok()?;
    let is_same = target.origin() == url.origin() && target != *url;
    // User and password of a target would be other credentials.
    let is_bare = target.username().is_empty() && target.password().is_none()
        || (target.username(), target.password()) == (url.username(), url.password());
    (is_same && is_bare).then_some(target)
}

/// Returns the URL that a server at `url` names with `reference`. A server behind a proxy that ends TLS writes `http://` for
/// itself, which becomes the origin of `url`.
///
/// # Errors
///
/// If `reference` is no URL.
pub fn joined(url: &Url, reference: &str) -> Result<Url, ParseError> {
    let mut target = url.join(reference)?;
    let has_its_port = target.port().is_none_or(|port| Some(port) == url.port());
    if (url.scheme(), target.scheme()) == ("https", "http") && target.host() == url.host() && has_its_port {
        // Neither fails, because both schemes have a host and a port.
        let _ = target.set_scheme("https");
        let _ = target.set_port(url.port());
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder(url: &str) -> RequestBuilder {
        RequestBuilder::new(Method::POST, Url::parse(url).expect("a URL"))
    }

    #[test]
    fn a_request_has_a_path_its_host_and_what_was_asked_for() {
        let token = SecretString::from("t0ken");
        let request = builder("http://us:pw@h:81/base/?q=1#part")
            .below(&["a b", "c?d"])
            .query(&[("e", "f&g")])
            .bearer(&token)
            .form(&[("grant_type", "x y")])
            .build()
            .expect("a request");
        assert_eq!(*request.uri(), "/base/a%20b/c%3Fd?q=1&e=f%26g");
        let header = |name| request.headers().get(name).expect("a header");
        assert_eq!(
            (header(HOST).as_bytes(), header(AUTHORIZATION).as_bytes()),
            (&b"h:81"[..], &b"Bearer t0ken"[..])
        );
        assert!(
            header(AUTHORIZATION).is_sensitive()
                && !format!("{request:?}", request = request.headers()).contains("t0ken")
        );
        assert_eq!(header(CONTENT_TYPE), "application/x-www-form-urlencoded");
        assert_eq!(header(USER_AGENT), OUR_USER_AGENT);
    }

    #[test]
    fn redirect_stays_at_the_origin_also_where_a_server_behind_tls_names_itself_without() {
        let followed = |url: &str, location: &str| {
            let headers = HeaderMap::from_iter([(LOCATION, location.parse().expect("a header"))]);
            let url = Url::parse(url).expect("a URL");
            same_origin_target(&url, StatusCode::TEMPORARY_REDIRECT, &headers).map(String::from)
        };
        for (url, location, expected) in [
            ("https://h/mcp", "/mcp/", Some("https://h/mcp/")),
            ("https://h/mcp", "http://h/mcp/?q=1", Some("https://h/mcp/?q=1")),
            ("https://h:8443/mcp", "http://h:8443/mcp/", Some("https://h:8443/mcp/")),
            ("https://h:8443/mcp", "http://h/mcp/", Some("https://h:8443/mcp/")),
            ("https://h/mcp", "http://h/mcp", None),
            ("https://h/mcp", "http://h:8000/mcp/", None),
            ("https://h/mcp", "http://other/mcp/", None),
            ("https://h/mcp", "http://us:pw@h/mcp/", None),
            ("http://h/mcp", "https://h/mcp/", None),
        ] {
            assert_eq!(followed(url, location).as_deref(), expected, "{url} to {location}");
        }
    }

    #[test]
    fn user_and_password_of_the_url_are_the_credentials_if_nothing_else_is() {
        let request = builder("http://us:pw@h/").build().expect("a request");
        assert_eq!(request.headers()[AUTHORIZATION], "Basic dXM6cHc=");
        assert_eq!(request.headers()[HOST], "h");
    }

    #[test]
    fn a_part_that_cannot_be_written_is_named_and_not_quoted() {
        for segment in ["", ".", "..", "a/b", "a\\b", "a\nb"] {
            let failed = builder("http://h/").below(&[segment]).build().err().expect(segment);
            assert!(matches!(failed, Error::Unwritable { .. }), "{failed}");
        }
        let failed =
            builder("http://h/").bearer(&SecretString::from("to\nken")).build().err().expect("a line end");
        assert_eq!(failed.to_string(), "the request was not sent: the value of a header cannot be sent");
    }
}
