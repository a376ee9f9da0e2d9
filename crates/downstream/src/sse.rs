//! The transport of 2024-11-05, HTTP+SSE: one event stream for all messages to the client, and a POST for each
//! message of the client.
//!
//! ```text
//! GET /sse ──▶ event: endpoint, data: /messages?session_id=… ──▶ event: message … until it ends
//! POST /messages?session_id=… ──▶ 202; the answer comes on the stream
//! ```
//!
//! The stream is the session. Its id is known to the client only, and it belongs to the principal that opened the
//! stream and to the servers of its path. When the stream ends, the session and its calls end, because their answers
//! could not be delivered. (In the other legacy transports a session outlives its connection.) Invariants: a client
//! that does not read costs `OUTGOING` messages and what [`super::exchange`] allows. These sessions count toward the
//! limit of `/mcp`, but `/mcp` does not know them.
//!
//! Not here: the meaning of messages (`conversation`), Host, Origin and credentials (`guard`). Source: 2024-11-05
//! `basic/transports`, HTTP with SSE.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, Query, Request as HttpRequest, State};
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use futures_util::stream;
use http::{Method, StatusCode};
use serde::Deserialize;
use tokio::sync::mpsc;
use url::Url;

use super::authority::{Authority, host_of};
use super::conversation::Conversation;
use super::error::MessageRefusal;
use super::sessions::{Session, SessionReader, Sessions};
use super::{events, headers, streamable_http};
use auth::Principal;
use gateway::{Caller, Gateway};
use net::sse::{Event, KEEP_ALIVE};
use protocol::Message;
use runtime::shutdown::Shutdown;

/// Limit of messages that wait for the client to read.
const OUTGOING: usize = 16;
/// Longer than any call: each call has its own deadline.
const FOR_EVER: Duration = Duration::MAX;
/// Path to which the client posts its messages.
const MESSAGES: &str = "/messages";

/// The endpoint: the gateway, its sessions, and the conversations of open streams.
#[derive(Clone)]
pub struct SseEndpoint(Arc<SseParts>);

struct SseParts {
    gateway: Gateway,
    sessions: Arc<Sessions>,
    tasks: Shutdown,
    max_body: usize,
    public: Option<PublicPath>,
    /// By session id. There is one for each session of this kind.
    conversations: RwLock<HashMap<String, Arc<Conversation>>>,
}

/// The path of `public_url`, below which a proxy has the endpoints.
#[derive(Debug)]
struct PublicPath {
    host: Authority,
    path: String,
}

impl PublicPath {
    fn of(public_url: &str) -> Option<Self> {
        let url = Url::parse(public_url).ok()?;
        Some(Self {
            host: Authority::parse(url.host_str()?)?,
            path: url.path().trim_end_matches('/').to_owned(),
        })
    }

    /// Whether the client that sent `request` knows the endpoints by this path. Others come without the proxy.
    fn is_of(&self, request: &HttpRequest) -> bool {
        let named = host_of(request.headers(), request.uri()).and_then(Authority::parse);
        named.is_some_and(|named| self.host.covers(&named))
    }
}

#[derive(Deserialize)]
struct ViewQuery {
    view: Option<String>,
}

#[derive(Deserialize)]
struct Of {
    session_id: Option<String>,
}

impl SseEndpoint {
    /// An endpoint over `gateway`. Bodies larger than `max_body` bytes are refused. At shutdown `tasks` ends the
    /// streams after their calls have ended. Clients that reach it at the host of `public_url` post their messages below its path.
    pub fn new(
        gateway: Gateway,
        sessions: Arc<Sessions>,
        tasks: Shutdown,
        max_body: usize,
        public_url: Option<&str>,
    ) -> Self {
        let (conversations, public) = (RwLock::default(), public_url.and_then(PublicPath::of));
        Self(Arc::new(SseParts { gateway, sessions, tasks, max_body, public, conversations }))
    }

    /// Returns a router with `/sse` for all servers, `/sse/{server}` for one, both also with a final slash, and
    /// `/messages` for messages of clients.
    pub fn router(self) -> Router {
        Router::new()
            .route("/sse", any(listen_to_all))
            .route("/sse/", any(listen_to_all))
            .route("/sse/{server}", any(listen_to_one))
            .route("/sse/{server}/", any(listen_to_one))
            .route(MESSAGES, any(say))
            .with_state(self)
    }

    fn open(
        &self,
        principal: Principal,
        named: Option<&str>,
        request: &HttpRequest,
    ) -> Result<Response, MessageRefusal> {
        if request.method() != Method::GET {
            let hint = "a client of Streamable HTTP posts to `/mcp`; one of HTTP+SSE begins with GET here";
            return Err(MessageRefusal::method("GET").hinting(hint));
        }
        headers::check_accepts_events(request.headers())?;
        let view = Query::<ViewQuery>::try_from_uri(request.uri()).ok().and_then(|Query(query)| query.view);
        let manager = self.0.gateway.manager();
        let scope = manager.reach(principal.view(), named, view.as_deref())?;
        // The client describes itself in `initialize`; until then only the principal is known.
        let caller = Caller::legacy(principal, scope, None);
        let session = self.0.sessions.open_channel(caller)?;
        let public = self.0.public.as_ref().filter(|public| public.is_of(request));
        let path = public.map_or("", |public| &public.path);
        Ok(events::event_stream(Body::from_stream(self.channel(&session).events(path))))
    }

    fn channel(&self, session: &Arc<Session>) -> Channel {
        let (outgoing, waiting) = mpsc::channel(OUTGOING);
        let (parts, requests) = (&self.0, Shutdown::new());
        let conversation = Conversation::new(
            parts.gateway.clone(),
            Arc::clone(session),
            outgoing,
            requests.clone(),
            (false, message_event),
        );
        let mut conversations = parts.conversations.write().unwrap_or_else(PoisonError::into_inner);
        conversations.insert(session.id().to_owned(), conversation);
        drop(conversations);
        parts.tasks.spawn(keep(self.clone(), Arc::clone(session), requests.clone()));
        Channel { endpoint: self.clone(), held: session.hold(), waiting, requests }
    }

    fn opened(&self, principal: Principal, named: Option<&str>, request: &HttpRequest) -> Response {
        let opened = self.open(principal, named, request);
        opened.unwrap_or_else(|refusal| {
            refusal.into_response(None, streamable_http::named(request.extensions()))
        })
    }

    async fn take(&self, principal: &Principal, of: Of, request: HttpRequest) -> Response {
        let named = streamable_http::named(request.extensions());
        match self.message(principal, of, request).await {
            Ok(response) => response,
            Err((refusal, text)) => refusal.into_response(Message::readable_id(&text), named),
        }
    }

    async fn message(
        &self,
        principal: &Principal,
        of: Of,
        request: HttpRequest,
    ) -> Result<Response, (MessageRefusal, Bytes)> {
        let early = |refusal| (refusal, Bytes::new());
        if request.method() != Method::POST {
            return Err(early(MessageRefusal::method("POST")));
        }
        let conversation = self.find(of.session_id.as_deref(), principal).map_err(early)?;
        let (head, body) = request.into_parts();
        headers::check_content_type(&head.headers).map_err(early)?;
        let bytes = streamable_http::read(body, self.0.max_body).await.map_err(early)?;
        let message = Message::from_client(&bytes).map_err(|error| (MessageRefusal::from(error), bytes))?;
        let forwarded = self.0.gateway.manager().forwarded(&head.headers);
        let forwarded = forwarded.map_err(|too_large| early((*too_large).into()))?;
        conversation.take(message, streamable_http::named(&head.extensions), forwarded).await;
        Ok(streamable_http::empty(StatusCode::ACCEPTED))
    }

    fn forget(&self, session: &Session) {
        let mut conversations = self.0.conversations.write().unwrap_or_else(PoisonError::into_inner);
        conversations.remove(session.id());
    }

    /// Returns the conversation of the session `id`, if it belongs to the principal, whose token may be
    /// for one endpoint.
    fn find(&self, id: Option<&str>, principal: &Principal) -> Result<Arc<Conversation>, MessageRefusal> {
        let conversations = self.0.conversations.read().unwrap_or_else(PoisonError::into_inner);
        let found = id.and_then(|id| conversations.get(id));
        let own = found.filter(|conversation| {
            let owner = &conversation.session().caller.principal;
            owner == principal && principal.may_reach_endpoint_of(owner)
        });
        own.cloned().ok_or_else(MessageRefusal::unknown_session)
    }
}

/// Waits for the end of a session and of its requests.
async fn keep(endpoint: SseEndpoint, session: Arc<Session>, requests: Shutdown) {
    session.ended().await;
    endpoint.forget(&session);
    requests.begin();
    requests.wait(FOR_EVER).await;
}

/// The stream of one session. Dropping it ends the session.
struct Channel {
    endpoint: SseEndpoint,
    held: SessionReader,
    waiting: mpsc::Receiver<Bytes>,
    requests: Shutdown,
}

impl Channel {
    /// Returns the stream. The client posts its messages below `path`.
    fn events(self, path: &str) -> impl futures_util::Stream<Item = Result<Bytes, Infallible>> + use<> {
        let data = format!("{path}{MESSAGES}?session_id={}", self.held.session().id()).into();
        let first = Event { name: Bytes::from_static(b"endpoint"), data, ..Event::default() }.encode();
        let rest = stream::unfold(self, |mut channel| async move {
            let chunk = channel.next().await?;
            Some((Ok(chunk), channel))
        });
        stream::StreamExt::chain(stream::once(async { Ok(first) }), rest)
    }

    async fn next(&mut self) -> Option<Bytes> {
        tokio::select! {
            // Messages from before the end are sent before it.
            biased;
            Some(event) = self.waiting.recv() => Some(event),
            () = self.held.session().ended() => None,
            () = drained(&self.endpoint.0.tasks, &self.requests) => None,
            () = tokio::time::sleep(events::KEEP_ALIVE_EVERY) => Some(KEEP_ALIVE),
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.endpoint.0.sessions.close(self.held.session());
    }
}

/// Resolves when shutdown has begun and the session's calls have ended.
async fn drained(tasks: &Shutdown, requests: &Shutdown) {
    tasks.requested().await;
    requests.begin();
    requests.wait(FOR_EVER).await;
}

fn message_event(data: Bytes) -> Bytes {
    Event { name: Bytes::from_static(b"message"), data, ..Event::default() }.encode()
}

async fn listen_to_all(
    State(endpoint): State<SseEndpoint>,
    Extension(principal): Extension<Principal>,
    request: HttpRequest,
) -> Response {
    endpoint.opened(principal, None, &request)
}

async fn listen_to_one(
    State(endpoint): State<SseEndpoint>,
    Extension(principal): Extension<Principal>,
    Path(server): Path<String>,
    request: HttpRequest,
) -> Response {
    endpoint.opened(principal, Some(&server), &request)
}

async fn say(
    State(endpoint): State<SseEndpoint>,
    Extension(principal): Extension<Principal>,
    Query(of): Query<Of>,
    request: HttpRequest,
) -> Response {
    endpoint.take(&principal, of, request).await
}
