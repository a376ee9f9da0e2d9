//! Requests to the REST services behind built-in servers. The only module that knows the HTTP client.
//!
//! Invariants: no redirect is followed and no proxy taken from the environment; an address is built
//! from segments, none of which can become two, go up or end the path; nothing is retried here; a
//! body is read while it is counted and never beyond the cap; an idle connection lives 4 s; no error
//! names an address, a secret or what was sent. There is no deadline here: whoever calls has one.
//!
//! Not here: what a service means by its answers, and logging in to it.

mod refusal;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use futures_util::stream;
use http::{HeaderName, HeaderValue, Method};
use percent_encoding::percent_decode_str;
use reqwest::multipart::Form;
use reqwest::redirect::Policy;
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::secret::{ExposeSecret, SecretString};
use crate::upstream::error::Error;
use crate::upstream::transport::reason;
use crate::wire::sse::{Decoder, Event, Item};

pub(super) use refusal::plain;

const OURSELVES: &str = concat!("switchyard/", env!("CARGO_PKG_VERSION"));
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Common servers close idle connections after 5 s.
const IDLE_LIMIT: Duration = Duration::from_secs(4);
/// Idle connections to one service; more are closed.
const MOST_IDLE: usize = 64;
/// Bytes of one answer, or of one event of a stream.
pub(super) const MOST_BYTES: usize = 16 << 20;

/// One service and the connections to it. Clones share them.
#[derive(Clone)]
pub(super) struct Rest {
    http: reqwest::Client,
    base: Url,
    /// What the URL said of who we are.
    basic: Option<Basic>,
}

/// User and password of RFC 7617.
#[derive(Clone)]
struct Basic {
    user: SecretString,
    password: SecretString,
}

impl Rest {
    /// For the service at `base`, whose user and password, if any, are sent where nothing else says who
    /// we are; its query is not used.
    pub(super) fn new(base: &Url) -> Result<Self, Error> {
        let mut http = reqwest::Client::builder()
            .user_agent(OURSELVES)
            .redirect(Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .no_proxy()
            .http1_only()
            .connect_timeout(CONNECT_LIMIT)
            .pool_idle_timeout(IDLE_LIMIT)
            .pool_max_idle_per_host(MOST_IDLE);
        if base.scheme() == "http" {
            // Reading the system's certificates takes long.
            http = http.tls_certs_only([]);
        }
        let http = http.build().map_err(|error| Error::Connect { reason: words(error) })?;
        let basic = basic(base);
        let mut base = base.clone();
        // They refuse only URLs that can not have a user.
        let _ = (base.set_username(""), base.set_password(None));
        base.set_query(None);
        base.set_fragment(None);
        Ok(Self { http, base, basic })
    }

    /// A request for what stands at `path` below the base. Every segment is one part of it and is
    /// percent-encoded; one that a server could read as something else is refused: an empty one, `.`,
    /// `..`, and one with a slash, which many servers decode before they look for the route.
    pub(super) fn request(&self, method: Method, path: &[&str]) -> Result<Request, Error> {
        let mut url = self.base.clone();
        if path.iter().any(|segment| is_ambiguous(segment)) {
            return Err(unsendable("a part of its address is empty, `.`, `..` or has a slash"));
        }
        match url.path_segments_mut() {
            Ok(mut segments) => segments.pop_if_empty().extend(path),
            Err(()) => return Err(unsendable("the URL of the service cannot be used")),
        };
        let builder = self.http.request(method, url);
        Ok(Request { builder, basic: self.basic.clone(), secrets: Vec::new() })
    }
}

fn basic(url: &Url) -> Option<Basic> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned().into();
    (!url.username().is_empty() || url.password().is_some()).then(|| Basic {
        user: decoded(url.username()),
        password: decoded(url.password().unwrap_or_default()),
    })
}

fn is_ambiguous(segment: &str) -> bool {
    matches!(segment, "" | "." | "..") || segment.contains(['/', '\\']) || segment.contains(char::is_control)
}

/// What was asked for cannot be sent, which is not the service's fault.
pub(super) fn unsendable(why: &str) -> Error {
    Error::Backend { status: 400, detail: format!("the request was not sent: {why}"), retry_after: None }
}

/// One request that is being put together.
pub(super) struct Request {
    builder: reqwest::RequestBuilder,
    /// Sent unless something else says who we are.
    basic: Option<Basic>,
    /// Never shown, should the service say them back.
    secrets: Vec<SecretString>,
}

impl Request {
    /// Adds parameters to the address.
    pub(super) fn query(mut self, pairs: &[(&str, &str)]) -> Self {
        if !pairs.is_empty() {
            self.builder = self.builder.query(pairs);
        }
        self
    }

    /// Says who we are: `Authorization: Bearer …`.
    pub(super) fn bearer(mut self, token: &SecretString) -> Self {
        self.builder = self.builder.bearer_auth(token.expose_secret());
        self.basic = None;
        self.secret(token)
    }

    /// Adds a header whose value is a secret.
    pub(super) fn header(mut self, name: &HeaderName, value: &SecretString) -> Result<Self, Error> {
        let cannot = |_| unsendable("the value of a header cannot be sent");
        let mut text = HeaderValue::from_str(value.expose_secret()).map_err(cannot)?;
        text.set_sensitive(true);
        self.builder = self.builder.header(name, text);
        Ok(self.secret(value))
    }

    /// Sends `body` as JSON.
    pub(super) fn json<B: Serialize + ?Sized>(mut self, body: &B) -> Self {
        self.builder = self.builder.json(body);
        self
    }

    /// Sends one secret as a bare JSON string.
    pub(super) fn secret_json(self, text: &SecretString) -> Self {
        self.json(text.expose_secret()).secret(text)
    }

    /// Sends a form, of which everything is a secret.
    pub(super) fn form(mut self, fields: &[(&str, &SecretString)]) -> Self {
        let plain: Vec<_> = fields.iter().map(|(name, value)| (*name, value.expose_secret())).collect();
        self.builder = self.builder.form(&plain);
        fields.iter().fold(self, |request, (_, value)| request.secret(value))
    }

    /// Sends parts, files among them.
    pub(super) fn multipart(mut self, form: Form) -> Self {
        self.builder = self.builder.multipart(form);
        self
    }

    fn secret(mut self, value: &SecretString) -> Self {
        self.secrets.push(value.clone());
        self
    }

    /// Sends it; gives the answer when its head is there and says success.
    pub(super) async fn send(mut self) -> Result<Answer, Error> {
        if let Some(Basic { user, password }) = self.basic.take() {
            self.builder = self.builder.basic_auth(user.expose_secret(), Some(password.expose_secret()));
            self.secrets.push(password);
        }
        let response = self.builder.send().await.map_err(unanswered)?;
        if response.status().is_success() {
            return Ok(Answer { response });
        }
        Err(refusal::of(response, &self.secrets).await)
    }
}

/// An answer that says success, not yet read.
pub(super) struct Answer {
    response: reqwest::Response,
}

impl Answer {
    /// All of it.
    pub(super) async fn bytes(self) -> Result<Bytes, Error> {
        whole(self.response, MOST_BYTES).await
    }

    /// All of it, as JSON of a known form; what else it has is not looked at.
    pub(super) async fn json<T: DeserializeOwned>(self) -> Result<T, Error> {
        let body = self.bytes().await?;
        // The text of the error would quote the answer.
        serde_json::from_slice(&body).map_err(|error| Error::Malformed {
            reason: format!(
                "not the JSON that was expected, at line {} column {}",
                error.line(),
                error.column()
            ),
        })
    }

    /// The events of a stream, until it ends. One beyond the cap ends it with an error.
    pub(super) fn events(self) -> impl Stream<Item = Result<Event, Error>> + Send + 'static {
        let begun = (self.response, Decoder::new(MOST_BYTES), Bytes::new());
        stream::try_unfold(begun, |(mut response, mut decoder, mut input)| async move {
            loop {
                match decoder.decode(&mut input) {
                    Some(Item::Event(event)) => return Ok(Some((event, (response, decoder, input)))),
                    Some(Item::TooLong(_)) => return Err(Error::TooLarge { limit: MOST_BYTES }),
                    None => {}
                }
                match response.chunk().await.map_err(cut)? {
                    Some(chunk) => input = chunk,
                    None => return Ok(None),
                }
            }
        })
    }
}

/// The whole body, if it has at most `limit` bytes.
async fn whole(mut response: reqwest::Response, limit: usize) -> Result<Bytes, Error> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(cut)? {
        if chunk.len() > limit - body.len() {
            return Err(Error::TooLarge { limit });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// What is known of a request without an answer.
fn unanswered(error: reqwest::Error) -> Error {
    if error.is_builder() {
        return unsendable("it cannot be written");
    }
    let is_connect = error.is_connect();
    let reason = words(error);
    if is_connect { Error::Connect { reason } } else { Error::Lost { reason } }
}

fn cut(error: reqwest::Error) -> Error {
    Error::Cut { reason: words(error) }
}

/// Why, without the address: any part of one may be a secret.
fn words(error: reqwest::Error) -> String {
    reason(&error.without_url())
}
