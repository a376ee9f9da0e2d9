//! Streamable HTTP towards clients, both eras on one path.
//!
//! `POST` carries every message; `GET` and `DELETE` belong to legacy sessions. A message says itself
//! which era it is of, so one URL serves every client. The first thing a request produces decides
//! how it is answered: the response itself as JSON, anything else as an event stream.
//!
//! Source: `basic/transports` of 2025-03-26 to 2026-07-28. Not here: Host, Origin and credentials
//! (`guard`), what a method means (`gateway`).

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, Request as HttpRequest, State};
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::error::{Refusal, described};
use super::events::{self, Form};
use super::exchange::{self, Exchange, Named};
use super::headers;
use super::sessions::{Session, Sessions};
use auth::Principal;
use gateway::manager::Scope;
use gateway::{Caller, Gateway, tools};
use protocol::headers::{LAST_EVENT_ID, SESSION_ID};
use protocol::{Message, Request, RequestId, method};
use runtime::shutdown::Shutdown;

/// What `Accept` must allow on POST.
const BOTH: &[&str] = &["application/json", "text/event-stream"];
/// The same for people.
const BOTH_SHOWN: &str = "application/json and text/event-stream";
/// What legacy sessions may do here.
const ALL_METHODS: &str = "GET, POST, DELETE";

/// The MCP endpoint: the gateway, its sessions, and the tasks that outlive a connection.
#[derive(Clone)]
pub struct Endpoint(Arc<Parts>);

struct Parts {
    gateway: Gateway,
    sessions: Arc<Sessions>,
    tasks: Shutdown,
    max_body: usize,
}

/// Who asks for what, before the message is looked at.
pub(super) struct Asked<'a> {
    pub principal: Principal,
    pub scope: Scope,
    pub headers: &'a HeaderMap,
    /// The name of the HTTP request, for the audit.
    pub named: Named,
}

impl Asked<'_> {
    fn form(&self) -> Form {
        if headers::prefers_stream(self.headers) { Form::Stream } else { Form::Json }
    }
}

/// What became of a request without waiting. What can be seen of it at once is no future, because each
/// layer of those would carry the request about once more.
enum Begun<'a> {
    /// It is answered.
    Answered(Response),
    /// A modern one is under way.
    Running(Exchange),
    /// All others.
    Waiting(BoxFuture<'a, Response>),
}

impl Begun<'_> {
    fn refused(refusal: Refusal, id: Option<RequestId>, named: Named) -> Self {
        Self::Answered(refusal.into_response(id, named))
    }
}

impl Endpoint {
    /// An endpoint over `gateway`. Bodies larger than `max_body` bytes are refused; `tasks` ends the
    /// streams and waits for the calls.
    pub fn new(gateway: Gateway, sessions: Arc<Sessions>, tasks: Shutdown, max_body: usize) -> Self {
        Self(Arc::new(Parts { gateway, sessions, tasks, max_body }))
    }

    /// `/mcp` for all servers, `/mcp/{server}` for one alone, as a router for who does not use
    /// [`crate::http_service::Front`]. It finds the [`Principal`] among the extensions of a request.
    pub fn router(self) -> Router {
        Router::new().route("/mcp", any(serve_all)).route("/mcp/{server}", any(serve_one)).with_state(self)
    }

    /// Answers a request that comes out of a router.
    async fn routed(&self, principal: Principal, scope: Scope, request: HttpRequest) -> Response {
        let (head, body) = request.into_parts();
        match read(body, self.0.max_body).await {
            Ok(body) => {
                let asked =
                    Asked { principal, scope, headers: &head.headers, named: named(&head.extensions) };
                self.answer(asked, &head.method, body).await
            }
            Err(refusal) => refusal.into_response(None, named(&head.extensions)),
        }
    }

    /// Answers a request that was let in.
    pub(super) async fn answer(&self, asked: Asked<'_>, method: &Method, body: Bytes) -> Response {
        match self.begin(asked, method, &body) {
            Begun::Answered(response) => response,
            Begun::Running(exchange) => events::answer(exchange, &self.0.tasks).await,
            Begun::Waiting(answer) => answer.await,
        }
    }

    fn begin<'a>(&'a self, asked: Asked<'a>, method: &Method, body: &Bytes) -> Begun<'a> {
        let named = asked.named;
        let answered = match *method {
            Method::POST => return self.post(asked, body),
            Method::GET => self.known(&asked).and_then(|()| self.get(&asked)),
            Method::DELETE => self.known(&asked).and_then(|()| self.delete(&asked)),
            _ => Err(Refusal::Method { allow: ALL_METHODS }),
        };
        answered.map_or_else(|refusal| Begun::refused(refusal, None, named), Begun::Answered)
    }

    /// Whether the endpoint exists: `/mcp/{server}` does when the server does.
    fn known(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        match &asked.scope {
            Scope::All => Ok(()),
            Scope::Server(name) => {
                self.0.gateway.manager().snapshot().server(name).map(drop).map_err(Refusal::Server)
            }
        }
    }

    fn post<'a>(&'a self, asked: Asked<'a>, bytes: &Bytes) -> Begun<'a> {
        if let Err(refusal) = check_media_types(asked.headers) {
            return Begun::refused(refusal, None, asked.named);
        }
        match Message::from_client(bytes) {
            Ok(Message::Request(request)) => self.request(asked, request),
            Ok(message) => match self.note(&asked, message) {
                Ok(()) => Begun::Answered(accepted()),
                Err(refusal) => Begun::refused(refusal, None, asked.named),
            },
            Err(error) => Begun::refused(error.into(), Message::readable_id(bytes), asked.named),
        }
    }

    /// Takes in what is not answered.
    fn note(&self, asked: &Asked<'_>, message: Message) -> Result<(), Refusal> {
        self.known(asked)?;
        match message {
            Message::Notification(notice) => {
                if !headers::is_modern(asked.headers, notice.params.as_ref()) {
                    let session = self.session(asked)?;
                    session.note(&notice);
                    if notice.method == method::INITIALIZED {
                        self.0.gateway.expect(&session.caller);
                    }
                }
            }
            Message::Response(_) if headers::is_modern(asked.headers, None) => {
                return Err(Refusal::PostedResponse);
            }
            // One that answers nothing is legal too: the question may be withdrawn by now.
            Message::Response(response) => self.session(asked)?.questions.answer(response),
            Message::Request(_) => {}
        }
        Ok(())
    }

    fn request<'a>(&'a self, asked: Asked<'a>, request: Request) -> Begun<'a> {
        if let Err(refusal) = self.known(&asked) {
            return Begun::refused(refusal, Some(request.id), asked.named);
        }
        if !headers::is_modern(asked.headers, request.params.as_ref()) {
            let refusing = refusing(request.id.clone(), asked.named);
            let answer = async move { self.legacy(asked, request).await.unwrap_or_else(refusing) };
            return Begun::Waiting(Box::pin(answer));
        }
        match headers::check_modern(asked.headers, &request) {
            Ok(()) => self.modern(asked, request),
            Err(refusal) => Begun::refused(refusal, Some(request.id), asked.named),
        }
    }

    fn modern<'a>(&'a self, asked: Asked<'a>, request: Request) -> Begun<'a> {
        let Parts { gateway, tasks, .. } = &*self.0;
        let caller = Arc::new(Caller::modern(asked.principal, asked.scope, request.params.as_ref()));
        if let Some(listed) = exchange::at_once(gateway, &caller, &request) {
            let listed = listed.map_err(|error| error.of_request(asked.named));
            return Begun::Answered(events::listed(request.id, listed));
        }
        let place = match self.0.sessions.place_for(caller.principal.id()) {
            Ok(place) => place,
            Err(full) => return Begun::refused(full.into(), Some(request.id), asked.named),
        };
        let named = asked.named;
        let attached = move |caller, request| {
            let mut exchange = Exchange::attached(gateway, caller, request, named);
            exchange.hold(place);
            exchange
        };
        // Hardly any tool mirrors parameters, and then its name is looked up once, for the call.
        if request.method != method::TOOLS_CALL || !gateway.manager().may_mirror(&caller.scope) {
            return Begun::Running(attached(caller, request));
        }
        let refusing = refusing(request.id.clone(), named);
        let answer = async move {
            if let Some(params) = &request.params
                && let Ok(mirrored) = tools::mirrored(gateway.manager(), &caller, params).await
            {
                headers::check_mirrored(asked.headers, &mirrored)?;
            }
            Ok(events::answer(attached(caller, request), tasks).await)
        };
        Begun::Waiting(Box::pin(async move { answer.await.unwrap_or_else(refusing) }))
    }

    async fn legacy(&self, asked: Asked<'_>, request: Request) -> Result<Response, Refusal> {
        if request.method == method::INITIALIZE {
            return self.initialize(asked, request).await;
        }
        let session = self.session(&asked)?;
        let running = session.begin(&request.id)?;
        let (caller, tasks) = (session.caller.clone(), &self.0.tasks);
        let request = (request, asked.named);
        let exchange = Exchange::detached(&self.0.gateway, caller, request, running, tasks);
        Ok(events::recorded(exchange, asked.form(), &session, tasks).await)
    }

    async fn initialize(&self, asked: Asked<'_>, request: Request) -> Result<Response, Refusal> {
        let caller = described(asked.principal, asked.scope, request.params.as_ref())?;
        let session = self.0.sessions.open(caller)?;
        let exchange = Exchange::attached(&self.0.gateway, session.caller.clone(), request, asked.named);
        let mut response = events::answer(exchange, &self.0.tasks).await;
        if let Ok(value) = HeaderValue::from_str(session.id()) {
            response.headers_mut().insert(HeaderName::from_static(SESSION_ID), value);
        }
        Ok(response)
    }

    fn get(&self, asked: &Asked<'_>) -> Result<Response, Refusal> {
        if headers::is_modern(asked.headers, None) {
            return Err(Refusal::Method { allow: "POST" });
        }
        headers::check_accept(asked.headers, &["text/event-stream"], "text/event-stream")?;
        let (session, gateway, tasks) = (self.session(asked)?, &self.0.gateway, &self.0.tasks);
        let last = headers::single(asked.headers, LAST_EVENT_ID)?.filter(|id| !id.is_empty());
        let Some(last) = last else { return Ok(events::own_stream(gateway, &session, tasks)) };
        let reader = session.replay.resume(last).ok_or(Refusal::UnknownEvent)?;
        Ok(events::resumed(gateway, &session, reader, tasks))
    }

    fn delete(&self, asked: &Asked<'_>) -> Result<Response, Refusal> {
        if headers::is_modern(asked.headers, None) {
            return Err(Refusal::Method { allow: "POST" });
        }
        self.0.sessions.close(self.session(asked)?.as_ref());
        Ok(empty(StatusCode::NO_CONTENT))
    }

    fn session(&self, asked: &Asked<'_>) -> Result<Arc<Session>, Refusal> {
        headers::check_legacy_version(asked.headers)?;
        let id = headers::single(asked.headers, SESSION_ID)?.ok_or(Refusal::NoSession)?;
        self.0.sessions.find(id, &asked.principal, &asked.scope).ok_or(Refusal::UnknownSession)
    }
}

/// The name of the HTTP request with these extensions.
pub(super) fn named(extensions: &Extensions) -> Named {
    extensions.get().copied()
}

/// Whether a POST brings JSON, and takes both kinds of answer.
fn check_media_types(headers: &HeaderMap) -> Result<(), Refusal> {
    headers::check_content_type(headers)?;
    headers::check_accept(headers, BOTH, BOTH_SHOWN)
}

/// The body of a message.
pub(super) async fn read(body: Body, limit: usize) -> Result<Bytes, Refusal> {
    axum::body::to_bytes(body, limit).await.map_err(|error| {
        let cause = std::error::Error::source(&error);
        let too_large = cause.is_some_and(<dyn std::error::Error>::is::<http_body_util::LengthLimitError>);
        if too_large { Refusal::BodyTooLarge { limit } } else { Refusal::Body }
    })
}

async fn serve_all(
    State(endpoint): State<Endpoint>,
    Extension(principal): Extension<Principal>,
    request: HttpRequest,
) -> Response {
    endpoint.routed(principal, Scope::All, request).await
}

async fn serve_one(
    State(endpoint): State<Endpoint>,
    Extension(principal): Extension<Principal>,
    Path(server): Path<String>,
    request: HttpRequest,
) -> Response {
    endpoint.routed(principal, Scope::Server(server.into()), request).await
}

/// How a request is refused whose id is `id`.
fn refusing(id: RequestId, named: Named) -> impl FnOnce(Refusal) -> Response {
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
