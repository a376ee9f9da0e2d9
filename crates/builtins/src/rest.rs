//! Requests to the REST services behind built-in servers, on the client of `net::http`.
//!
//! Invariants: an address is built from segments, none of which can become two, go up or end the path. Nothing is
//! retried here. A body is counted while it is read, never beyond its limit, and the memory budget is charged for it.
//! No error names an address, a secret or what was sent. There is no deadline here: the caller has one.
//!
//! Not here: what a service means by its answers, and logging in to it.

mod cleaner;
mod refusal;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use http::{HeaderName, Method};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use json::raw;
use net::http::{Client, DialPolicy, EventStream, Form, RequestBuilder, Response, is_media_type, whole};
use net::sse::{Event, Item};
use runtime::memory::Account;
use runtime::secret::{ExposeSecret, SecretString};
use upstream::api::{Error, ServerContext};

pub(super) use cleaner::{Cleaner, plain};
pub(super) use refusal::{facts, not_json};

/// Idle connections to one service that are kept longer than a second.
const KEPT: usize = 64;
/// Bytes of one answer, or of one event of a stream.
pub(super) const MOST_BYTES: usize = 16 << 20;

/// One service and the connections to it. Clones share them.
#[derive(Clone)]
pub(super) struct Rest {
    client: Arc<Client>,
    base: Url,
    /// The password of `base`.
    password: Option<SecretString>,
}

impl Rest {
    /// A client for the service at `base`. User and password of `base`, if any, are sent where no other credentials
    /// are; its query is not used.
    pub(super) fn new(base: &Url, server_context: &ServerContext) -> Result<Self, Error> {
        let ServerContext { network, shutdown, .. } = server_context;
        let client = Client::new(base, (DialPolicy::Anywhere, network), KEPT, shutdown)?;
        let client = Arc::new(client);
        let mut base = base.clone();
        base.set_query(None);
        base.set_fragment(None);
        let password =
            base.password().map(|text| percent_decode_str(text).decode_utf8_lossy().into_owned().into());
        Ok(Self { client, base, password })
    }

    /// A request for what is at `path` below the base, a segment each.
    pub(super) fn request(&self, method: Method, path: &[&str]) -> RestRequest {
        let builder = RequestBuilder::new(method, self.base.clone()).below(path);
        RestRequest {
            client: Arc::clone(&self.client),
            builder,
            secrets: self.password.iter().cloned().collect(),
        }
    }
}

/// The error for a request that cannot be sent, which is not the fault of the service.
pub(super) fn unsendable(why: &str) -> Error {
    Error::backend(400, format!("the request was not sent: {why}"))
}

/// One request that is being put together.
pub(super) struct RestRequest {
    client: Arc<Client>,
    builder: RequestBuilder,
    /// Removed from everything that the service says.
    secrets: Vec<SecretString>,
}

impl RestRequest {
    /// Adds parameters to the address.
    pub(super) fn query(self, pairs: &[(&str, &str)]) -> Self {
        self.with(|builder| builder.query(pairs))
    }

    /// Sets `Authorization: Bearer …`.
    pub(super) fn bearer(self, token: &SecretString) -> Self {
        self.with(|builder| builder.bearer(token)).secret(token)
    }

    /// Sets a header whose value is a secret.
    pub(super) fn header(self, name: &HeaderName, value: &SecretString) -> Self {
        self.with(|builder| builder.header(name, value)).secret(value)
    }

    /// Sends `body` as JSON.
    pub(super) fn json<B: Serialize + ?Sized>(self, body: &B) -> Self {
        self.with(|builder| builder.json(body))
    }

    /// Sends one secret as a bare JSON string.
    pub(super) fn secret_json(self, text: &SecretString) -> Self {
        self.json(text.expose_secret()).secret(text)
    }

    /// Sends a form whose values are secrets.
    pub(super) fn form(self, fields: &[(&str, &SecretString)]) -> Self {
        let plain: Vec<_> = fields.iter().map(|(name, value)| (*name, value.expose_secret())).collect();
        let request = self.with(|builder| builder.form(&plain));
        fields.iter().fold(request, |request, (_, value)| request.secret(value))
    }

    /// Sends a form with files.
    pub(super) fn multipart(self, form: Form) -> Self {
        self.with(|builder| builder.multipart(form))
    }

    fn with(mut self, step: impl FnOnce(RequestBuilder) -> RequestBuilder) -> Self {
        self.builder = step(self.builder);
        self
    }

    fn secret(mut self, value: &SecretString) -> Self {
        self.secrets.push(value.clone());
        self
    }

    /// Sends it. Returns the answer when its head is there and says success.
    pub(super) async fn send(self) -> Result<Answer, Error> {
        let Self { client, builder, secrets } = self;
        let response = client.request(builder).await?;
        if response.status().is_success() {
            return Ok(Answer { response, origin: Arc::clone(client.origin()), secrets });
        }
        Err(refusal::of(response, &secrets, client.origin()).await)
    }
}

/// An answer that says success, not yet read.
pub(super) struct Answer {
    response: Response,
    origin: Arc<str>,
    secrets: Vec<SecretString>,
}

impl Answer {
    /// Whether it declares itself as JSON.
    pub(super) fn is_json(&self) -> bool {
        is_media_type(self.response.headers(), "application/json")
    }

    /// All of it, without a byte order mark.
    pub(super) async fn bytes(self) -> Result<Bytes, Error> {
        let body = whole(self.response.into_body(), MOST_BYTES, &self.origin).await?;
        Ok(raw::without_byte_order_mark(&body).unwrap_or(body))
    }

    /// All of it, as JSON of a known form; what else it has is not looked at.
    pub(super) async fn json<T: DeserializeOwned>(mut self) -> Result<T, Error> {
        let secrets = std::mem::take(&mut self.secrets);
        let body = self.bytes().await?;
        serde_json::from_slice(&body).map_err(|error| refusal::of_success(&body, &error, &secrets))
    }

    /// The events of a stream, until it ends. One beyond the cap ends it with an error.
    pub(super) fn events(self) -> impl Stream<Item = Result<Event, Error>> + Send + 'static {
        let account = Account::Server(self.origin);
        let events = EventStream::of(self.response.into_body(), MOST_BYTES, account);
        stream::try_unfold(events, |mut events| async move {
            while let Some(decoded) = events.step().await? {
                match decoded.item {
                    Some(Item::Event(event)) => return Ok(Some((event, events))),
                    Some(Item::TooLong(_)) => return Err(Error::TooLarge { limit: MOST_BYTES }),
                    None => {}
                }
            }
            Ok(None)
        })
    }
}

#[cfg(test)]
mod tests;
