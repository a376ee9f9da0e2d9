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
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::error::Refusal;
use super::events::{self, Form};
use super::exchange::{self, Exchange};
use super::front::Admitted;
use super::headers;
use super::sessions::{Session, Sessions};
use crate::auth::Principal;
use crate::gateway::{Caller, Gateway, tools};
use crate::manager::Scope;
use crate::protocol::headers::{LAST_EVENT_ID, SESSION_ID};
use crate::protocol::{Message, Request, method};
use crate::shutdown::Shutdown;

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
struct Asked {
    principal: Principal,
    scope: Scope,
    headers: HeaderMap,
}

impl Asked {
    fn form(&self) -> Form {
        if headers::prefers_stream(&self.headers) { Form::Stream } else { Form::Json }
    }
}

impl Endpoint {
    /// An endpoint over `gateway`. Bodies larger than `max_body` bytes are refused; `tasks` ends the
    /// streams and waits for the calls.
    pub fn new(gateway: Gateway, sessions: Arc<Sessions>, tasks: Shutdown, max_body: usize) -> Self {
        Self(Arc::new(Parts { gateway, sessions, tasks, max_body }))
    }

    /// `/mcp` for all servers, `/mcp/{server}` for one alone, as a router for who does not use
    /// [`super::front::Front`]. It finds the [`Principal`] among the extensions of a request.
    pub fn router(self) -> Router {
        Router::new().route("/mcp", any(serve_all)).route("/mcp/{server}", any(serve_one)).with_state(self)
    }

    /// Answers a request that was let in, for a client that sees `scope`.
    pub(super) async fn admitted(&self, request: Box<Admitted>, scope: Scope) -> Response {
        let Admitted { head, body, principal, .. } = *request;
        let Some(principal) = principal else { return empty(StatusCode::UNAUTHORIZED) };
        self.serve(Asked { principal, scope, headers: head.headers }, &head.method, body).await
    }

    /// The same for one that comes out of a router.
    async fn routed(&self, principal: Principal, scope: Scope, request: HttpRequest) -> Response {
        let (head, body) = request.into_parts();
        match read(body, self.0.max_body).await {
            Ok(body) => {
                self.serve(Asked { principal, scope, headers: head.headers }, &head.method, body).await
            }
            Err(refusal) => refusal.into_response(None),
        }
    }

    async fn serve(&self, asked: Asked, method: &Method, body: Bytes) -> Response {
        let answered = match *method {
            Method::POST => return self.post(asked, body).await,
            Method::GET => self.known(&asked).and_then(|()| self.get(&asked)),
            Method::DELETE => self.known(&asked).and_then(|()| self.delete(&asked)),
            _ => Err(Refusal::Method { allow: ALL_METHODS }),
        };
        answered.unwrap_or_else(|refusal| refusal.into_response(None))
    }

    /// Whether the endpoint exists: `/mcp/{server}` does when the server does.
    fn known(&self, asked: &Asked) -> Result<(), Refusal> {
        match &asked.scope {
            Scope::All => Ok(()),
            Scope::Server(name) => {
                self.0.gateway.manager().snapshot().server(name).map(drop).map_err(Refusal::Server)
            }
        }
    }

    async fn post(&self, asked: Asked, bytes: Bytes) -> Response {
        if let Err(refusal) = check_media_types(&asked.headers) {
            return refusal.into_response(None);
        }
        let message = match Message::from_client(&bytes) {
            Ok(message) => message,
            Err(error) => return Refusal::from(error).into_response(Message::readable_id(&bytes)),
        };
        let id = match &message {
            Message::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        self.message(asked, message).await.unwrap_or_else(|refusal| refusal.into_response(id))
    }

    async fn message(&self, asked: Asked, message: Message) -> Result<Response, Refusal> {
        self.known(&asked)?;
        match message {
            Message::Request(request) if headers::is_modern(&asked.headers, request.params.as_ref()) => {
                self.modern(asked, request).await
            }
            // Boxed, so that a modern one does not carry the room for it about.
            Message::Request(request) => Box::pin(self.legacy(asked, request)).await,
            Message::Notification(notice) => {
                if !headers::is_modern(&asked.headers, notice.params.as_ref()) {
                    self.session(&asked)?.note(&notice);
                }
                Ok(accepted())
            }
            Message::Response(_) if headers::is_modern(&asked.headers, None) => Err(Refusal::PostedResponse),
            // One that answers nothing is legal too: the question may be withdrawn by now.
            Message::Response(response) => {
                self.session(&asked)?.questions.answer(response);
                Ok(accepted())
            }
        }
    }

    async fn modern(&self, asked: Asked, request: Request) -> Result<Response, Refusal> {
        headers::check_modern(&asked.headers, &request)?;
        let caller = Arc::new(Caller::modern(asked.principal, asked.scope, request.params.as_ref()));
        if request.method == method::TOOLS_CALL
            && let Some(params) = &request.params
            && let Ok(mirrored) = tools::mirrored(self.0.gateway.manager(), &caller, params).await
        {
            headers::check_mirrored(&asked.headers, &mirrored)?;
        }
        if let Some(listed) = exchange::at_once(&self.0.gateway, &caller, &request) {
            return Ok(events::listed(request.id, listed));
        }
        Ok(events::answer(Exchange::attached(&self.0.gateway, caller, request), &self.0.tasks).await)
    }

    async fn legacy(&self, asked: Asked, request: Request) -> Result<Response, Refusal> {
        if request.method == method::INITIALIZE {
            return self.initialize(asked, request).await;
        }
        let session = self.session(&asked)?;
        let running = session.begin(&request.id)?;
        let (caller, tasks) = (session.caller.clone(), &self.0.tasks);
        let exchange = Exchange::detached(&self.0.gateway, caller, request, running, tasks);
        Ok(events::recorded(exchange, asked.form(), &session, tasks).await)
    }

    async fn initialize(&self, asked: Asked, request: Request) -> Result<Response, Refusal> {
        let caller = Caller::legacy(asked.principal, asked.scope, request.params.as_ref());
        let session = self.0.sessions.open(caller).ok_or_else(|| self.0.sessions.refusal())?;
        let exchange = Exchange::attached(&self.0.gateway, session.caller.clone(), request);
        let mut response = events::answer(exchange, &self.0.tasks).await;
        if let Ok(value) = HeaderValue::from_str(session.id()) {
            response.headers_mut().insert(HeaderName::from_static(SESSION_ID), value);
        }
        Ok(response)
    }

    fn get(&self, asked: &Asked) -> Result<Response, Refusal> {
        if headers::is_modern(&asked.headers, None) {
            return Err(Refusal::Method { allow: "POST" });
        }
        headers::check_accept(&asked.headers, &["text/event-stream"], "text/event-stream")?;
        let (session, gateway, tasks) = (self.session(asked)?, &self.0.gateway, &self.0.tasks);
        let last = headers::single(&asked.headers, LAST_EVENT_ID)?.filter(|id| !id.is_empty());
        let Some(last) = last else { return Ok(events::own_stream(gateway, &session, tasks)) };
        let reader = session.replay.resume(last).ok_or(Refusal::UnknownEvent)?;
        Ok(events::resumed(gateway, &session, reader, tasks))
    }

    fn delete(&self, asked: &Asked) -> Result<Response, Refusal> {
        if headers::is_modern(&asked.headers, None) {
            return Err(Refusal::Method { allow: "POST" });
        }
        self.0.sessions.close(self.session(asked)?.as_ref());
        Ok(empty(StatusCode::NO_CONTENT))
    }

    fn session(&self, asked: &Asked) -> Result<Arc<Session>, Refusal> {
        headers::check_legacy_version(&asked.headers)?;
        let id = headers::single(&asked.headers, SESSION_ID)?.ok_or(Refusal::NoSession)?;
        self.0.sessions.find(id, &asked.principal, &asked.scope).ok_or(Refusal::UnknownSession)
    }
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

fn accepted() -> Response {
    empty(StatusCode::ACCEPTED)
}

pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response.headers_mut().remove(CONTENT_TYPE);
    response
}
