//! Requests of MCP to one server over HTTP: the headers that all of them carry, its credentials, and its endpoint.
//!
//! Invariants: a request carries the headers of its transport and the headers configured for this server, and nothing
//! else, and cookies that the server set in the same session. A call also carries the headers of its client that the
//! server's settings name. Redirects are followed once and within the origin only, so
//! credentials go where they were meant for. Nothing is sent twice, apart from a request whose token was replaced, and one
//! that was redirected. Reasons of failures name neither the URL nor a header,
//! because both may hold secrets.
//!
//! The parts that all requests of one kind share are in their [`Head`], which is made once. A request is made right before
//! it is sent, and made again for the repeat, so nothing is kept for a repeat that rarely happens. Not here: connections and
//! their pool (`net::http`), what is sent, and reading answers (`body`, `streamable_http::answer`).

mod advice;
mod cookies;
mod place;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use secrecy::ExposeSecret;

use self::advice::Challenge;
pub use self::advice::proxy_variable;
pub(super) use self::cookies::Cookies;
use self::place::{At, Place};
use crate::config::{Config, Http};
use crate::connection::Call;
use crate::credential::Credential;
use crate::error::Error;
use crate::principal_secrets::OwnSecrets;
pub(super) use advice::{describe, describe_other};
use net::http::{
    IDENTITY, OUR_USER_AGENT, RequestBody, Response, Sockets, basic_credentials, collect, host, path,
    retry_after, same_origin_target,
};
use protocol::sanitize::shown;
use protocol::{Notification, method};
use runtime::memory::Payer;
use runtime::shutdown::Shutdown;

/// Both kinds of answer to a POST.
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
/// The only answer to a GET.
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// How long the body of an error may take to arrive.
const BODY_LIMIT: Duration = Duration::from_secs(2);
/// Room in a [`Head`] for the headers that are put there.
const SPARE: usize = 8;

/// Sends requests to one server.
pub(super) struct HttpClient {
    http: Arc<net::http::Client>,
    place: Arc<Place>,
    /// Headers that every request to it carries.
    headers: HeaderMap,
    /// Headers of clients that their calls carry on.
    forwarded: Arc<[HeaderName]>,
    /// The credential that a request carries beside that.
    credential: Option<Credential>,
    /// The secrets of its principal among the headers, which are redacted as long as they are in use.
    _secrets: Option<Arc<OwnSecrets>>,
    challenge: Arc<Challenge>,
    /// Whether requests go through a proxy.
    has_proxy: bool,
    /// Bytes of one message.
    pub(super) limit: usize,
    /// The payer for what the server sends outside of any call: the server itself, named by its URL.
    pub(super) server: Arc<str>,
}

/// Parts that all requests of one kind have in common, built once: the method, the path, and all headers that do
/// not change.
#[derive(Clone)]
pub(super) struct Head {
    method: Method,
    path: Uri,
    headers: HeaderMap,
    /// The cookies of its session, if it belongs to one.
    cookies: Option<Arc<Cookies>>,
}

/// A request to send, its head and its body; or why it cannot be made.
pub(super) type NewRequest = Result<(Head, RequestBody), Error>;

impl Head {
    /// Puts a header of the protocol, which wins over any other of that name.
    pub(super) fn put(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.insert(name, value);
    }

    /// Makes it one of the session with `cookies`.
    pub(super) fn in_session(mut self, cookies: &Arc<Cookies>) -> Self {
        self.cookies = Some(Arc::clone(cookies));
        self
    }

    /// Puts `token` into the place that the head of a client with a credential has for it.
    fn authorized(mut self, token: Option<HeaderValue>) -> Self {
        match token {
            Some(token) => self.put(AUTHORIZATION, token),
            None => _ = self.headers.remove(AUTHORIZATION),
        }
        self
    }

    fn with(self, body: RequestBody) -> Request<RequestBody> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.path;
        *request.headers_mut() = self.headers;
        request
    }
}

impl HttpClient {
    /// A client for the server of `config`, which is behind `http`; `credential` is the one that it configures with
    /// `token`.
    pub(super) fn new(
        http: &Http,
        config: &Config,
        credential: Option<Credential>,
        shutdown: &Shutdown,
    ) -> Result<Self, Error> {
        let way = (config.dial_policy, &config.network);
        let client = net::http::Client::new(&http.url, way, config.limits.connections, shutdown)?;
        Ok(Self {
            http: Arc::new(client),
            place: Arc::new(Place::new(&http.url)?),
            headers: headers(http)?,
            forwarded: http.forward.clone().into(),
            credential,
            _secrets: None,
            challenge: Arc::default(),
            has_proxy: config.network.proxy(&http.url).is_some(),
            limit: config.limits.message_bytes,
            server: http.url.as_str().into(),
        })
    }

    /// Makes a client that differs only in its credentials, which are those of one principal.
    pub(super) fn of_principal(
        &self,
        credential: Option<Credential>,
        secrets: Option<Arc<OwnSecrets>>,
    ) -> Self {
        let mut headers = self.headers.clone();
        if let Some(secrets) = &secrets {
            for (name, value) in &secrets.headers {
                headers.insert(name, value.clone());
            }
        }
        Self {
            http: Arc::clone(&self.http),
            place: Arc::clone(&self.place),
            headers,
            forwarded: Arc::clone(&self.forwarded),
            credential: credential.or_else(|| self.credential.clone()),
            _secrets: secrets,
            challenge: Arc::clone(&self.challenge),
            has_proxy: self.has_proxy,
            limit: self.limit,
            server: Arc::clone(&self.server),
        }
    }

    /// Adds to `head` the headers of the client's request that `call` carries on.
    pub(super) fn forward(&self, call: &Call, head: &mut Head) {
        if let Some(forwarded) = &call.forwarded {
            forwarded.add_to(&mut head.headers, &self.forwarded);
        }
    }

    /// Its connections now.
    pub(super) fn sockets(&self) -> Sockets {
        self.http.sockets()
    }

    /// The head of requests that send JSON to `path`; `protocol` are the headers of the protocol.
    pub(super) fn post(&self, path: &Uri, protocol: &HeaderMap) -> Head {
        let mut head = self.head(Method::POST, path, protocol);
        head.put(CONTENT_TYPE, JSON);
        head.put(ACCEPT, JSON_OR_EVENTS);
        head
    }

    /// The head of requests that open an event stream.
    pub(super) fn get(&self, protocol: &HeaderMap) -> Head {
        let mut head = self.head(Method::GET, &self.endpoint().path, protocol);
        head.put(ACCEPT, EVENTS);
        head
    }

    /// The head of requests that end a session.
    pub(super) fn delete(&self, protocol: &HeaderMap) -> Head {
        let mut head = self.head(Method::DELETE, &self.endpoint().path, protocol);
        head.put(ACCEPT, ANYTHING);
        head
    }

    fn head(&self, method: Method, path: &Uri, protocol: &HeaderMap) -> Head {
        let mut headers = HeaderMap::with_capacity(self.headers.len() + protocol.len() + SPARE);
        headers.extend(self.headers.clone());
        // A header of the protocol wins over a configured one of the same name.
        for name in protocol.keys() {
            headers.remove(name);
        }
        headers.extend(protocol.clone());
        if self.credential.is_some() {
            // Reserves the place of the token, so that the map does not grow for each request.
            headers.insert(AUTHORIZATION, HeaderValue::from_static(""));
        }
        Head { method, path: path.clone(), headers, cookies: None }
    }

    /// Sends the request that `make` gives, and once more if its token was replaced. Gives the answer when its head is
    /// there. `once` says that it must not run twice.
    pub(super) async fn send(&self, make: impl Fn() -> NewRequest, once: bool) -> Result<Response, Error> {
        let Some(credential) = &self.credential else {
            let (head, body) = make()?;
            let answer = self.send_once(head, body, once).await?;
            if answer.status().is_redirection() {
                return Box::pin(self.follow(answer, make, once)).await;
            }
            return Ok(answer);
        };
        let token = credential.header().await?;
        let (head, body) = make()?;
        let mut answer = self.send_once(head.authorized(token.clone()), body, once).await?;
        if answer.status().is_redirection() {
            let make = || make().map(|(head, body)| (head.authorized(token.clone()), body));
            answer = Box::pin(self.follow(answer, make, once)).await?;
        }
        if matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            // Boxed: it is rarely needed.
            return Box::pin(self.repeat((credential, token), answer, make, once)).await;
        }
        Ok(answer)
    }

    /// Sends a request again that was refused with `answer`, if there is another token than the one that it had.
    async fn repeat(
        &self,
        (credential, sent): (&Credential, Option<HeaderValue>),
        answer: Response,
        make: impl Fn() -> NewRequest,
        once: bool,
    ) -> Result<Response, Error> {
        if !credential.is_replaced(sent.as_ref(), answer.status(), answer.headers()).await? {
            return Ok(answer);
        }
        let token = credential.header().await?;
        let (head, body) = make()?;
        self.send_once(head.authorized(token), body, once).await
    }

    /// Sends a request again that was redirected with `answer`, if it leads elsewhere in the origin. It did not run.
    async fn follow(
        &self,
        answer: Response,
        make: impl Fn() -> NewRequest,
        once: bool,
    ) -> Result<Response, Error> {
        let (mut head, body) = make()?;
        let Some(from) = self.place.url_of(&head.path) else { return Ok(answer) };
        let Some(target) = same_origin_target(&from, answer.status(), answer.headers()) else {
            return Ok(answer);
        };
        let is_permanent = answer.status() == StatusCode::PERMANENT_REDIRECT;
        let to = path(&target)?;
        drop(answer);
        self.place.note_move(&head.path, target, is_permanent);
        head.path = to;
        self.send_once(head, body, once).await
    }

    async fn send_once(&self, mut head: Head, body: RequestBody, once: bool) -> Result<Response, Error> {
        if let Some(path) = self.place.moved(&head.path) {
            head.path = path;
        }
        let answer = match head.cookies.take() {
            None => self.http.send(head.with(body), once).await?,
            Some(cookies) => {
                let path = head.path.clone();
                cookies.add_to(&mut head.headers, path.path());
                let answer = self.http.send(head.with(body), once).await?;
                cookies.take_from(answer.headers(), path.path());
                answer
            }
        };
        if !answer.status().is_success() {
            self.challenge.record(answer.status(), answer.headers());
            self.place.record(answer.status(), answer.headers());
        }
        Ok(answer)
    }

    /// The cookies of a new session.
    pub(super) fn cookies(&self) -> Arc<Cookies> {
        Arc::new(Cookies::of(&self.endpoint().url))
    }

    /// Posts the notification after `initialize`. Some servers know no notifications and refuse it, and work otherwise.
    pub(super) async fn initialized(&self, post: &Head) -> Result<(), Error> {
        let notification = Notification { method: method::INITIALIZED.into(), params: None }.encode();
        let response = self.send(|| Ok((post.clone(), notification.clone().into())), true).await?;
        if is_of_every_request(response.status().as_u16()) {
            return Err(self.refusal(response).await);
        }
        Ok(())
    }

    /// The error for `response`, which is no success, with what its body says.
    pub(super) async fn refusal(&self, response: Response) -> Error {
        let error = status_error(response.status(), response.headers());
        let content_type = response.headers().get(CONTENT_TYPE).cloned();
        let payer = Payer { principal: None, server: &self.server };
        let body = collect(response.into_body(), Bytes::new(), advice::MOST_BYTES, payer);
        match tokio::time::timeout(BODY_LIMIT, body).await {
            Ok(Ok(body)) => error.saying(describe(content_type.as_ref(), &body)),
            Ok(Err(unreadable)) => error.saying(Some(unreadable.to_string())),
            Err(_) => error,
        }
    }

    /// Resolves when it has a credential that was not refused yet; never where none comes by itself.
    pub(super) fn renewed(&self) -> BoxFuture<'_, ()> {
        match &self.credential {
            Some(credential) => credential.renewed(),
            None => Box::pin(pending()),
        }
    }

    /// Adds what to do about it to `error`, for which there is no connection.
    pub(super) fn advise(&self, error: Error) -> Error {
        match error {
            Error::Status { status: status @ 300..=399, .. } => self.place.redirected(status),
            error => advice::advise(error, (&self.endpoint().url, self.has_proxy), &self.challenge),
        }
    }

    /// Where requests of new connections go.
    pub(super) fn endpoint(&self) -> Arc<At> {
        self.place.now()
    }

    /// Forgets where the endpoint turned out to be, as far as that was not for good.
    pub(super) fn forget(&self) {
        self.place.forget();
    }

    /// A remark for operators if the endpoint is not the configured one.
    pub(super) fn remark(&self) -> Option<String> {
        self.place.remark()
    }
}

/// Whether the status concerns credentials or the path to the server, so that every request would get it.
pub(super) fn is_of_every_request(status: u16) -> bool {
    matches!(status, 300..=399 | 401 | 403 | 407 | 429 | 502..=504)
}

/// The error for an answer that is nothing but its status.
pub(super) fn status_error(status: StatusCode, headers: &HeaderMap) -> Error {
    let target = headers.get(LOCATION).filter(|_| status.is_redirection());
    let detail = target.and_then(|target| target.to_str().ok()).map(|target| {
        // A query could hold a secret.
        let target = shown(target.split(['?', '#']).next().unwrap_or_default());
        format!(": a redirect to {target}, which is not followed; if that is the right server, put its address in `url`")
    });
    let detail = detail.unwrap_or_default();
    Error::Status { status: status.as_u16(), retry_after: retry_after(headers), detail }
}

/// Headers that every request to this server carries: a configured one wins over a default of Switchyard.
fn headers(http: &Http) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in &http.headers {
        let cannot = |_| Error::Connect { reason: format!("the value of header {name:?} cannot be sent") };
        let mut value = HeaderValue::from_str(value.expose_secret()).map_err(cannot)?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    headers.entry(USER_AGENT).or_insert(OUR_USER_AGENT);
    headers.entry(ACCEPT_ENCODING).or_insert(IDENTITY);
    headers.entry(HOST).or_insert(host(&http.url)?);
    if let Some(credentials) = basic_credentials(&http.url).filter(|_| http.token.is_none()) {
        headers.entry(AUTHORIZATION).or_insert(credentials);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests;
