//! Requests to the REST services behind built-in servers. The only module that knows the HTTP client.
//!
//! Invariants: no redirect is followed and no proxy taken from the environment; an address is built
//! from segments, none of which can become two, go up or end the path; nothing is retried here; a
//! body is read while it is counted and never beyond the cap, and the memory budget is charged for it; an idle connection lives 4 s, and one whose
//! end has arrived takes no request (`line`); no error names an address, a secret or what was sent.
//! There is no deadline here: whoever calls has one. What was not begun on a connection that had been
//! closed goes out on another one; what may have arrived is never sent twice here.
//!
//! Not here: what a service means by its answers, and logging in to it.

mod facts;
mod line;
mod refusal;
mod trace;

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use futures_util::stream;
use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderName, HeaderValue, Method, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::percent_decode_str;
use reqwest::multipart::Form;
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use net::sse::{Decoder, Event, Item};
use runtime::memory::{Account, Charge, Kind, SMALL};
use runtime::secret::{ExposeSecret, SecretString};
use runtime::worker::WorkBudget;
use upstream::api::{Error, decoded, reason};

pub(super) use facts::facts;
use line::Dialer;
pub(super) use refusal::{Cleaner, plain};

const OURSELVES: HeaderValue = HeaderValue::from_static(concat!("switchyard/", env!("CARGO_PKG_VERSION")));
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Common servers close idle connections after 5 s.
const IDLE_LIMIT: Duration = Duration::from_secs(4);
/// Idle connections to one service; more are closed.
const MOST_IDLE: usize = 64;
/// Bytes of one answer, or of one event of a stream.
pub(super) const MOST_BYTES: usize = 16 << 20;

/// Sends requests, and keeps connections for the next ones.
type Pool = legacy::Client<Dialer, reqwest::Body>;

/// One service and the connections to it. Clones share them.
#[derive(Clone)]
pub(super) struct Rest {
    pool: Pool,
    /// Writes requests, files among them; sends none.
    writer: reqwest::Client,
    base: Url,
    /// What the URL said of who we are.
    basic: Option<Basic>,
    /// The payer for answers of the service.
    account: Account,
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
        let pool = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_LIMIT)
            .pool_max_idle_per_host(MOST_IDLE)
            .build(Dialer::new(base)?);
        // It trusts nobody, because reading the system's certificates takes long.
        let writer = reqwest::Client::builder().no_proxy().tls_certs_only([]).build();
        let writer = writer.map_err(|error| Error::Connect { reason: reason(&error.without_url()) })?;
        let basic = basic(base);
        let account = Account::Server(Arc::from(base.origin().ascii_serialization()));
        let mut base = base.clone();
        // They refuse only URLs that can not have a user.
        let _ = (base.set_username(""), base.set_password(None));
        base.set_query(None);
        base.set_fragment(None);
        Ok(Self { pool, writer, base, basic, account })
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
        let builder = self.writer.request(method, url);
        let (pool, basic, account) = (self.pool.clone(), self.basic.clone(), self.account.clone());
        Ok(Request { pool, builder, basic, secrets: Vec::new(), account })
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
    Error::backend(400, format!("the request was not sent: {why}"))
}

/// One request that is being put together.
pub(super) struct Request {
    pool: Pool,
    builder: reqwest::RequestBuilder,
    /// Sent unless something else says who we are.
    basic: Option<Basic>,
    /// Never shown, should the service say them back.
    secrets: Vec<SecretString>,
    account: Account,
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
        let mut request = self.builder.build().and_then(http::Request::try_from).map_err(unwritten)?;
        request.headers_mut().insert(USER_AGENT, OURSELVES);
        request.headers_mut().insert(ACCEPT, ANYTHING);
        let response = self.pool.request(request).await.map_err(|error| unanswered(&error))?;
        let response = decoded(response)?;
        if response.status().is_success() {
            return Ok(Answer { response, account: self.account });
        }
        Err(refusal::of(response, &self.secrets, self.account).await)
    }
}

/// An answer that says success, not yet read.
pub(super) struct Answer {
    response: Response<Incoming>,
    account: Account,
}

impl Answer {
    /// All of it.
    pub(super) async fn bytes(self) -> Result<Bytes, Error> {
        whole(self.response.into_body(), MOST_BYTES, self.account).await
    }

    /// All of it, as JSON of a known form; what else it has is not looked at.
    pub(super) async fn json<T: DeserializeOwned>(self) -> Result<T, Error> {
        read_json(&self.bytes().await?)
    }

    /// The events of a stream, until it ends. One beyond the cap ends it with an error.
    pub(super) fn events(self) -> impl Stream<Item = Result<Event, Error>> + Send + 'static {
        let charge = Charge::open(self.account, Kind::Answer);
        let begun = (self.response.into_body(), Decoder::new(MOST_BYTES), Bytes::new(), charge);
        let begun = (begun, WorkBudget::new());
        stream::try_unfold(begun, |((mut body, mut decoder, mut input, mut charge), mut work)| async move {
            loop {
                work.yield_if_spent().await;
                let before = input.len();
                let item = decoder.decode(&mut input);
                work.charge(before - input.len());
                match item {
                    Some(Item::Event(event)) => {
                        return Ok(Some((event, ((body, decoder, input, charge), work))));
                    }
                    Some(Item::TooLong(_)) => return Err(Error::TooLarge { limit: MOST_BYTES }),
                    None if !input.is_empty() => continue,
                    None => {}
                }
                match decoder.held() {
                    held if held < SMALL => charge.clear(),
                    held => charge.cover(held)?,
                }
                match chunk(&mut body).await? {
                    Some(chunk) => input = chunk,
                    None => return Ok(None),
                }
            }
        })
    }
}

/// `body` as JSON of a known form. The error does not quote it.
pub(super) fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Malformed {
        reason: format!("not the JSON that was expected, at line {} column {}", error.line(), error.column()),
    })
}

/// The whole body, if it has at most `limit` bytes. It is charged to `account` as long as it lives.
async fn whole(mut body: Incoming, limit: usize, account: Account) -> Result<Bytes, Error> {
    let (mut all, mut work) = (BytesMut::new(), WorkBudget::new());
    let mut charge = Charge::open(account, Kind::Answer);
    while let Some(chunk) = chunk(&mut body).await? {
        work.charge(chunk.len());
        work.yield_if_spent().await;
        if chunk.len() > limit - all.len() {
            return Err(Error::TooLarge { limit });
        }
        charge.cover(all.len() + chunk.len())?;
        all.extend_from_slice(&chunk);
    }
    Ok(if all.len() < SMALL { all.freeze() } else { charge.hold(all.freeze())? })
}

/// The next piece of `body`, until it ends.
async fn chunk(body: &mut Incoming) -> Result<Option<Bytes>, Error> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Error::Cut { reason: reason(&error) })?;
        // What is none are trailers, which nobody wants.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

fn unwritten(_: reqwest::Error) -> Error {
    unsendable("it cannot be written")
}

/// What is known of a request without an answer.
fn unanswered(error: &legacy::Error) -> Error {
    let causes = iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| error.source());
    let was_not_taken =
        causes.filter_map(|cause| cause.downcast_ref::<hyper::Error>()).any(hyper::Error::is_canceled);
    let (is_connect, reason) = (error.is_connect(), reason(error));
    match () {
        () if is_connect => Error::Connect { reason },
        () if was_not_taken => Error::NotSent { reason },
        () => Error::Lost { reason },
    }
}

#[cfg(test)]
mod tests;
