//! Streamable HTTP for clients; both eras share one path.
//!
//! `POST` carries every message; `GET` and `DELETE` belong to legacy sessions. Each message shows its
//! era, so one URL serves all clients. The first output of a request decides the form of its answer: a
//! response is sent as JSON, anything else starts an event stream.
//!
//! Not here: Host, Origin and credentials (`guard`), the meaning of methods (`gateway`). Source:
//! `basic/transports` of 2025-03-26 to 2026-07-28.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, Request as HttpRequest, State};
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::error::{MessageRefusal, described};
use super::events;
use super::exchange::{self, Exchange, HttpRequestId};
use super::headers::{self, ResponseFormat};
use super::sessions::{Session, Sessions};
use auth::Principal;
use gateway::manager::Scope;
use gateway::{Caller, Gateway, ParamHeaders};
use protocol::headers::{LAST_EVENT_ID, SESSION_ID};
use protocol::{ErrorCode, Message, Notification, Request, RequestId, method};
use runtime::shutdown::Shutdown;
use upstream::CallSource;

/// HTTP methods of the endpoint, for `Allow`.
const ALL_METHODS: &str = "GET, POST, DELETE";

/// The MCP endpoint: the gateway, its sessions, and tasks that outlive a connection.
#[derive(Clone)]
pub struct StreamableHttpEndpoint(Arc<StreamableHttpParts>);

struct StreamableHttpParts {
    gateway: Gateway,
    sessions: Arc<Sessions>,
    tasks: Shutdown,
    max_body: usize,
}

/// The sender and target of a message, before the message is parsed.
pub(super) struct MessageContext<'a> {
    pub principal: Principal,
    pub scope: Scope,
    pub headers: &'a HeaderMap,
    /// The id of the HTTP request, for the audit log.
    pub named: HttpRequestId,
}

/// The first result of handling a request, found without waiting. Immediate answers are not futures,
/// because each layer of futures would copy the request once more.
#[allow(clippy::large_enum_variant)] // it is passed on at once, and a box would cost every request an allocation
enum FirstResult<'a> {
    /// The answer is complete.
    Answered(Response),
    /// A modern request is running.
    Running(Exchange, ResponseFormat),
    /// Any other request.
    Waiting(BoxFuture<'a, Response>),
}

impl FirstResult<'_> {
    fn refused(refusal: MessageRefusal, id: Option<RequestId>, named: HttpRequestId) -> Self {
        Self::Answered(refusal.into_response(id, named))
    }
}

impl StreamableHttpEndpoint {
    /// An endpoint over `gateway`. Bodies larger than `max_body` bytes are refused. At shutdown
    /// `tasks` ends the streams and waits for the calls.
    pub fn new(gateway: Gateway, sessions: Arc<Sessions>, tasks: Shutdown, max_body: usize) -> Self {
        Self(Arc::new(StreamableHttpParts { gateway, sessions, tasks, max_body }))
    }

    /// Returns a router with `/mcp` for all servers and `/mcp/{server}` for one, for programs that do
    /// not use [`crate::http_service::HttpService`]. The [`Principal`] must be among the extensions of each
    /// request.
    pub fn router(self) -> Router {
        Router::new().route("/mcp", any(serve_all)).route("/mcp/{server}", any(serve_one)).with_state(self)
    }

    /// Answers a request from a router.
    async fn routed(&self, principal: Principal, scope: Scope, request: HttpRequest) -> Response {
        let (head, body) = request.into_parts();
        match read(body, self.0.max_body).await {
            Ok(body) => {
                let context = MessageContext {
                    principal,
                    scope,
                    headers: &head.headers,
                    named: named(&head.extensions),
                };
                self.answer(context, &head.method, body).await
            }
            Err(refusal) => refusal.into_response(None, named(&head.extensions)),
        }
    }

    /// Answers a request that passed the checks of `guard`.
    pub(super) async fn answer(&self, context: MessageContext<'_>, method: &Method, body: Bytes) -> Response {
        match self.begin(context, method, &body) {
            FirstResult::Answered(response) => response,
            FirstResult::Running(exchange, format) => events::answer(exchange, format, &self.0.tasks).await,
            FirstResult::Waiting(answer) => answer.await,
        }
    }

    fn begin<'a>(
        &'a self,
        mut context: MessageContext<'a>,
        method: &Method,
        body: &Bytes,
    ) -> FirstResult<'a> {
        let named = context.named;
        let answered = match *method {
            Method::POST => return self.post(context, body),
            Method::GET => self.find_scope(&mut context).and_then(|()| self.get(&context)),
            Method::DELETE => self.find_scope(&mut context).and_then(|()| self.delete(&context)),
            _ => Err(MessageRefusal::method(ALL_METHODS)),
        };
        answered.map_or_else(|refusal| FirstResult::refused(refusal, None, named), FirstResult::Answered)
    }

    /// Finds what the client reaches at the path: `/mcp/{name}` exists if the server or the view does.
    fn find_scope(&self, context: &mut MessageContext<'_>) -> Result<(), MessageRefusal> {
        let (own, named) = (context.principal.view(), context.scope.server.as_deref());
        if own.is_some() || named.is_some() {
            context.scope = self.0.gateway.manager().reach(own, named, None)?;
        }
        Ok(())
    }

    fn post<'a>(&'a self, mut context: MessageContext<'a>, bytes: &Bytes) -> FirstResult<'a> {
        let format = match check_media_types(context.headers) {
            Ok(format) => format,
            Err(refusal) => return FirstResult::refused(refusal, None, context.named),
        };
        match Message::from_client(bytes) {
            Ok(Message::Request(request)) => self.request(context, request, format),
            Ok(message) => match self.record(&mut context, message) {
                Ok(None) => FirstResult::Answered(accepted()),
                // Its client sends the next message after this answer.
                Ok(Some(passed)) => FirstResult::Waiting(Box::pin(passed.map(|()| accepted()))),
                Err(refusal) => FirstResult::refused(refusal, None, context.named),
            },
            Err(error) => FirstResult::refused(error.into(), Message::readable_id(bytes), context.named),
        }
    }

    /// Handles a message that needs no answer. Returns a future that passes it on, if it is for a server.
    fn record(
        &self,
        context: &mut MessageContext<'_>,
        message: Message,
    ) -> Result<Option<BoxFuture<'static, ()>>, MessageRefusal> {
        self.find_scope(context)?;
        match message {
            Message::Notification(notice) => {
                if !headers::is_modern(context.headers, notice.params.as_ref()) {
                    let session = self.session(context)?;
                    session.record(&notice);
                    return Ok(self.passed(session, notice));
                }
            }
            Message::Response(_) if headers::is_modern(context.headers, None) => {
                let text = "responses cannot be posted in this protocol revision";
                return Err(MessageRefusal::new(ErrorCode::PostedResponse, text));
            }
            // A response without a matching server request is legal too: the request may have been
            // withdrawn.
            Message::Response(response) => self.session(context)?.questions.answer(response),
            Message::Request(_) => {}
        }
        Ok(None)
    }

    fn passed(&self, session: Arc<Session>, notice: Notification) -> Option<BoxFuture<'static, ()>> {
        let gateway = self.0.gateway.clone();
        notice.method.known().is_none().then_some(Box::pin(async move {
            gateway.notify(&session.caller, &notice).await;
        }))
    }

    fn request<'a>(
        &'a self,
        mut context: MessageContext<'a>,
        request: Request,
        format: ResponseFormat,
    ) -> FirstResult<'a> {
        if let Err(refusal) = self.find_scope(&mut context) {
            return FirstResult::refused(refusal, Some(request.id), context.named);
        }
        if !headers::is_modern(context.headers, request.params.as_ref()) {
            let refusing = refusing(request.id.clone(), context.named);
            let answer = async move { self.legacy(context, request, format).await.unwrap_or_else(refusing) };
            return FirstResult::Waiting(Box::pin(answer));
        }
        match headers::check_modern(context.headers, &request) {
            Ok(()) => self.modern(context, request, format),
            Err(refusal) => FirstResult::refused(refusal, Some(request.id), context.named),
        }
    }

    fn modern<'a>(
        &'a self,
        context: MessageContext<'a>,
        request: Request,
        format: ResponseFormat,
    ) -> FirstResult<'a> {
        let StreamableHttpParts { gateway, .. } = &*self.0;
        if format == ResponseFormat::OnlyJson && request.method == method::SUBSCRIPTIONS_LISTEN {
            let refusal = MessageRefusal::accept(headers::EVENTS_NEEDED);
            return FirstResult::refused(refusal, Some(request.id), context.named);
        }
        let forwarded = match gateway.manager().forwarded(context.headers) {
            Ok(forwarded) => forwarded,
            Err(too_large) => {
                return FirstResult::refused((*too_large).into(), Some(request.id), context.named);
            }
        };
        let caller = Caller::modern(context.principal, context.scope, request.params.as_ref());
        let caller = caller.forwarding(forwarded);
        let is_call = request.method == method::TOOLS_CALL;
        let source = CallSource { request_id: context.named, is_rest: false };
        let caller = if is_call {
            caller.with_headers(ParamHeaders::of(context.headers)).in_request(source)
        } else {
            caller
        };
        let caller = Arc::new(caller);
        if let Some(listed) = exchange::at_once(gateway, &caller, &request) {
            let listed = listed.map_err(|error| error.of_request(context.named));
            let page = events::listed(request.id, listed, format, caller.principal.id());
            return FirstResult::Answered(page);
        }
        let place = match self.0.sessions.place_for(caller.principal.id()) {
            Ok(place) => place,
            Err(full) => return FirstResult::refused(full.into(), Some(request.id), context.named),
        };
        let mut exchange = Exchange::attached(gateway, caller, request, context.named);
        exchange.hold(place);
        FirstResult::Running(exchange, format)
    }

    async fn legacy(
        &self,
        context: MessageContext<'_>,
        request: Request,
        format: ResponseFormat,
    ) -> Result<Response, MessageRefusal> {
        match &*request.method {
            method::INITIALIZE => return self.initialize(context, request, format).await,
            method::PING if !context.headers.contains_key(SESSION_ID) => {
                return self.ping(context, request, format).await;
            }
            _ => {}
        }
        let session = self.session(&context)?;
        let running = session.begin(&request.id)?;
        let cancel = running.cancel.clone();
        let forwarded = self.0.gateway.manager().forwarded(context.headers);
        let forwarded = forwarded.map_err(|too_large| MessageRefusal::from(*too_large))?;
        let (caller, tasks) = (session.caller_of(forwarded), &self.0.tasks);
        let request = (request, context.named);
        let exchange = Exchange::detached(&self.0.gateway, caller, request, running, tasks);
        Ok(events::recorded(exchange, format, (&session, cancel), tasks).await)
    }

    /// Answers a `ping` outside of a session: monitors and load balancers send one to see that Switchyard lives.
    async fn ping(
        &self,
        context: MessageContext<'_>,
        request: Request,
        format: ResponseFormat,
    ) -> Result<Response, MessageRefusal> {
        headers::check_legacy_version(context.headers)?;
        let caller = Arc::new(Caller::legacy(context.principal, context.scope, None));
        let exchange = Exchange::attached(&self.0.gateway, caller, request, context.named);
        Ok(events::answer(exchange, format, &self.0.tasks).await)
    }

    async fn initialize(
        &self,
        context: MessageContext<'_>,
        request: Request,
        format: ResponseFormat,
    ) -> Result<Response, MessageRefusal> {
        let caller = described(context.principal, context.scope, request.params.as_ref())?;
        let session = self.0.sessions.open(caller)?;
        let exchange = Exchange::attached(&self.0.gateway, session.caller.clone(), request, context.named);
        let mut response = events::answer(exchange, format, &self.0.tasks).await;
        if let Ok(value) = HeaderValue::from_str(session.id()) {
            response.headers_mut().insert(HeaderName::from_static(SESSION_ID), value);
        }
        Ok(response)
    }

    fn get(&self, context: &MessageContext<'_>) -> Result<Response, MessageRefusal> {
        if headers::is_modern(context.headers, None) {
            return Err(MessageRefusal::method("POST"));
        }
        headers::check_accepts_events(context.headers)?;
        if !context.headers.contains_key(SESSION_ID) {
            let hint = "begin with `initialize` by POST; a client of the older HTTP+SSE connects to `/sse`";
            return Err(MessageRefusal::no_session().hinting(hint));
        }
        let (session, gateway, tasks) = (self.session(context)?, &self.0.gateway, &self.0.tasks);
        let last = headers::single(context.headers, LAST_EVENT_ID)?.filter(|id| !id.is_empty());
        let Some(last) = last else { return Ok(events::own_stream(gateway, &session, tasks)) };
        let reader = session.replay.resume(last).ok_or_else(|| {
            let text =
                "nothing can be resumed behind this event: it is unknown, or its stream is not kept any more";
            MessageRefusal::new(ErrorCode::UnknownEvent, text)
        })?;
        // SDKs resume until they have a response, and a cancelled request has none. They retry after an error and
        // after an empty stream, and stop at this status, as HTML says of event streams.
        if reader.is_at_end() {
            return Ok(empty(StatusCode::NO_CONTENT));
        }
        Ok(events::resumed(gateway, &session, reader, tasks))
    }

    fn delete(&self, context: &MessageContext<'_>) -> Result<Response, MessageRefusal> {
        if headers::is_modern(context.headers, None) {
            return Err(MessageRefusal::method("POST"));
        }
        self.0.sessions.close(self.session(context)?.as_ref());
        Ok(empty(StatusCode::NO_CONTENT))
    }

    fn session(&self, context: &MessageContext<'_>) -> Result<Arc<Session>, MessageRefusal> {
        headers::check_legacy_version(context.headers)?;
        let id = headers::single(context.headers, SESSION_ID)?.ok_or_else(MessageRefusal::no_session)?;
        self.0
            .sessions
            .find(id, &context.principal, &context.scope)
            .ok_or_else(MessageRefusal::unknown_session)
    }
}

/// Returns the id of the HTTP request with these extensions.
pub(super) fn named(extensions: &Extensions) -> HttpRequestId {
    extensions.get().copied()
}

/// Checks that a POST has JSON, and returns the forms of answers that it accepts.
fn check_media_types(headers: &HeaderMap) -> Result<ResponseFormat, MessageRefusal> {
    headers::check_content_type(headers)?;
    headers::response_format(headers)
}

/// Reads the body of a message.
pub(super) async fn read(body: Body, limit: usize) -> Result<Bytes, MessageRefusal> {
    axum::body::to_bytes(body, limit).await.map_err(|error| {
        let cause = std::error::Error::source(&error);
        let too_large = cause.is_some_and(<dyn std::error::Error>::is::<http_body_util::LengthLimitError>);
        if too_large {
            MessageRefusal::body_too_large(limit)
        } else {
            MessageRefusal::new(ErrorCode::BodyIncomplete, "the body could not be read")
        }
    })
}

async fn serve_all(
    State(endpoint): State<StreamableHttpEndpoint>,
    Extension(principal): Extension<Principal>,
    request: HttpRequest,
) -> Response {
    endpoint.routed(principal, Scope::ALL, request).await
}

async fn serve_one(
    State(endpoint): State<StreamableHttpEndpoint>,
    Extension(principal): Extension<Principal>,
    Path(server): Path<String>,
    request: HttpRequest,
) -> Response {
    endpoint.routed(principal, Scope::of_server(server), request).await
}

/// Returns a function that answers the request `id` with a refusal.
fn refusing(id: RequestId, named: HttpRequestId) -> impl FnOnce(MessageRefusal) -> Response {
    move |refusal| refusal.into_response(Some(id), named)
}

fn accepted() -> Response {
    empty(StatusCode::ACCEPTED)
}

pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response.headers_mut().remove(CONTENT_TYPE);
    response
}
