//! Routes an HTTP request from the listener to the part that answers it.
//!
//! ```text
//! Host, Origin ──▶ (preflight?) ──▶ size, credential, body ──▶ /mcp, shortcuts, metadata ──▶ else the router
//! ```
//!
//! Frequent routes are found by comparing paths and get head, body and principal directly. Other requests go
//! through an axum router, which finds the [`RequestId`] and the [`Principal`] among the extensions. A panic
//! in a handler gives an error answer and does not end the connection. If the credential is revoked before
//! the answer begins, the handler is dropped and the request is refused.
//!
//! Not here: the checks themselves (`guard`); CORS (`cors`); answers that have begun (`exchange`, `sessions`).

use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request};
use axum::response::Response;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{HOST, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, request};
use percent_encoding::percent_decode_str;
use tower::{Service, ServiceExt};

use super::authority::Authority;
use super::bodies::{Arriving, FromClient};
use super::body_budget::Incoming;
use super::cors;
use super::guard::Guard;
use super::listener::Site;
use super::refusal::{AnswerFormat, Refusal, add_to_challenge};
use super::streamable_http::{MessageContext, StreamableHttpEndpoint};
use auth::{Action, Denied, Principal, Reason, Role};
use authorization::Access;
use gateway::manager::Scope;
use runtime::telemetry::limit::Limit;
use runtime::telemetry::{RequestId, pace, panics, untrusted};
use runtime::worker::{now, until};

/// How long a handler runs before the credential is checked for revocation. The check takes a lock, and most
/// requests end sooner.
const LOOK_AFTER: Duration = Duration::from_millis(500);
/// Path of the MCP endpoint. A slash and the name of one server may follow it.
const MCP: &str = "/mcp";

/// The challenge for a token whose scopes do not allow the request, over MCP and REST (RFC 6750, section 3.1).
const INSUFFICIENT_SCOPE: HeaderValue = HeaderValue::from_static("Bearer error=\"insufficient_scope\"");

/// A request that passed the checks of `guard`.
#[derive(Debug)]
pub struct Admitted {
    /// Its head.
    pub head: request::Parts,
    /// Its body, complete.
    pub body: Bytes,
    /// The authenticated sender; none only on public paths.
    pub principal: Option<Principal>,
    /// The address of the other end of its connection, if that is known.
    pub(crate) peer: Option<IpAddr>,
    /// The id of the request in answers and logs.
    pub id: RequestId,
}

/// Handler of POST requests to one path, without a router.
pub type Shortcut = Box<dyn Fn(Admitted) -> BoxFuture<'static, Response> + Send + Sync>;

/// The complete HTTP service. Clones share it.
#[derive(Clone)]
pub struct HttpService(Arc<ServiceParts>);

struct ServiceParts {
    guard: Guard,
    mcp: Option<StreamableHttpEndpoint>,
    shortcuts: Vec<(&'static str, Shortcut)>,
    rest: Router,
    refused: Arc<RefusedRequests>,
}

/// How often requests were refused, by status, whichever part refused them.
#[derive(Debug, Default)]
pub struct RefusedRequests([AtomicU64; RefusedRequests::STATUSES.len()]);

impl RefusedRequests {
    const STATUSES: [StatusCode; 3] =
        [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];

    fn count(&self, status: StatusCode) {
        if let Some(at) = Self::STATUSES.iter().position(|counted| *counted == status) {
            self.0[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns each status with its count.
    pub fn counted(&self) -> [(u16, u64); Self::STATUSES.len()] {
        std::array::from_fn(|at| (Self::STATUSES[at].as_u16(), self.0[at].load(Ordering::Relaxed)))
    }
}

impl HttpService {
    /// A service of `guard` and the router `rest`.
    pub fn new(guard: Guard, rest: Router) -> Self {
        Self::with(guard, None, (Vec::new(), rest), Arc::default())
    }

    /// A service whose MCP endpoint and shortcuts are tried before the router. It counts in `refused`.
    pub fn with(
        guard: Guard,
        mcp: Option<StreamableHttpEndpoint>,
        (shortcuts, rest): (Vec<(&'static str, Shortcut)>, Router),
        refused: Arc<RefusedRequests>,
    ) -> Self {
        let rest = rest.layer(DefaultBodyLimit::disable());
        Self(Arc::new(ServiceParts { guard, mcp, shortcuts, rest, refused }))
    }

    /// Returns the service as a router, for programs that mount it in their own.
    pub fn into_router(self) -> Router {
        Router::new().fallback_service(self)
    }

    async fn serve<B: Incoming + FromClient>(self, request: http::Request<B>) -> Response {
        let id = RequestId::new();
        let (head, mut body) = request.into_parts();
        let (answer, origin) = match self.0.guard.check_source(&head) {
            Ok(origin) if cors::is_preflight(&head.method, &head.headers) => {
                (cors::preflight(&head.headers), origin)
            }
            Ok(origin) => match self.0.guard.admit(&head, &mut body).await {
                Ok((principal, bytes)) => {
                    let request = Admitted { head, body: bytes, principal, peer: body.peer(), id };
                    (self.0.route(request).await, origin)
                }
                Err(refusal) => (self.0.refuse(refusal, head, body, id).await, origin),
            },
            Err(refusal) => (self.0.refuse(refusal, head, body, id).await, None),
        };
        self.0.refused.count(answer.status());
        finished(answer, origin, id)
    }
}

impl ServiceParts {
    /// Answers the request by its path. A panic ends this request only; the panic hook logs it.
    async fn route(&self, request: Admitted) -> Response {
        let Some((mcp, scope)) = self.mcp.as_ref().zip(scope_of(request.head.uri.path())) else {
            return Box::pin(self.elsewhere(request)).await;
        };
        let Admitted { head, body, principal, id, .. } = request;
        let Some(principal) = principal else {
            return self.refused(Refusal::Denied(Denied::Missing), &Line::of(&head), id);
        };
        let context =
            MessageContext { principal: principal.clone(), scope, headers: &head.headers, named: Some(id) };
        let answer = {
            let answer = pin!(mcp.answer(context, &head.method, body));
            until_revoked(Some(&principal), answer).await
        };
        let mut answer = answer.unwrap_or_else(|refusal| self.refused(refusal, &Line::of(&head), id));
        if answer.status() == StatusCode::FORBIDDEN {
            let role = Role::needed_for(Action::Call);
            self.ask_for_scope(&principal, role, &Line::of(&head), &mut answer);
        }
        reuse_header_map(answer, head.headers)
    }

    /// Names the scopes that a client needs for what `role` may do, if its token does not have them and the person may grant
    /// them.
    fn ask_for_scope(&self, principal: &Principal, role: Role, line: &Line, answer: &mut Response) {
        let needed = Access { role, view: principal.view().map(ToString::to_string) };
        if principal.role() >= role || !needed.is_possible() || !self.guard.may_grant(principal, role) {
            return;
        }
        answer.headers_mut().insert(WWW_AUTHENTICATE, INSUFFICIENT_SCOPE);
        add_to_challenge(("scope", &needed.scope()), answer);
        self.name_metadata(line, answer);
    }

    /// Names the metadata of the requested endpoint in the challenge of `answer`.
    fn name_metadata(&self, line: &Line, answer: &mut Response) {
        if let Some(url) = self.guard.metadata().url(line.uri.path(), line.host().as_ref()) {
            add_to_challenge(("resource_metadata", &url), answer);
        }
    }

    /// Answers a request whose path is not that of the MCP endpoint.
    async fn elsewhere(&self, request: Admitted) -> Response {
        let (line, id) = (Line::of(&request.head), request.id);
        if let Some(answer) = self.guard.metadata().answer(&request.head, || line.host()) {
            return answer;
        }
        let principal = request.principal.clone();
        let answer = async {
            let is_posted = request.head.method == Method::POST;
            let shortcut = self.shortcuts.iter().find(|(at, _)| is_posted && *at == line.uri.path());
            match shortcut {
                Some((_, shortcut)) => shortcut(request).await,
                // Boxed: the future is large and rarely needed.
                None => Box::pin(self.routed(request)).await,
            }
        };
        let answer = until_revoked(principal.as_ref(), pin!(answer)).await;
        let mut answer = answer.unwrap_or_else(|refusal| self.refused(refusal, &line, id));
        // REST says with a refusal which role its action needs.
        if let (Some(principal), Some(role)) = (&principal, answer.extensions().get().copied()) {
            self.ask_for_scope(principal, role, &line, &mut answer);
        }
        answer
    }

    async fn routed(&self, request: Admitted) -> Response {
        let Admitted { mut head, body, principal, peer, id } = request;
        head.extensions.insert(id);
        if let Some(address) = self.guard.client(peer, &head.headers) {
            head.extensions.insert(address);
        }
        if let Some(principal) = principal {
            head.extensions.insert(principal);
        }
        let Ok(response) = self.rest.clone().oneshot(Request::from_parts(head, Body::from(body))).await;
        response
    }

    async fn refuse<B: Incoming>(
        &self,
        refusal: Refusal,
        head: request::Parts,
        body: B,
        id: RequestId,
    ) -> Response {
        let answer = self.refused(refusal, &Line::of(&head), id);
        self.guard.discard(head, body).await;
        answer
    }

    fn refused(&self, refusal: Refusal, line: &Line, id: RequestId) -> Response {
        match refusal {
            Refusal::TooLarge { .. } => Limit::Body.met(()),
            Refusal::Denied(Denied::Busy) => Limit::KeyChecks.met(()),
            Refusal::Panicked => panics::caught(id, None),
            _ => {}
        }
        log_refused(&refusal, line, id);
        let mut answer = refusal.response(AnswerFormat::of(line.uri.path()), id);
        if answer.headers().contains_key(WWW_AUTHENTICATE) {
            let metadata = self.guard.metadata();
            let names_scope = matches!(refusal, Refusal::Denied(Denied::NoRole)) || metadata.has_own_issuer();
            if let Some(scope) = metadata.scope_for_calls().filter(|_| names_scope) {
                add_to_challenge(("scope", &scope), &mut answer);
            }
            self.name_metadata(line, &mut answer);
        }
        answer
    }
}

/// Logs a refused request, unless this code was logged too often. Any client can cause this line, so it is
/// rate-limited.
fn log_refused(refusal: &Refusal, line: &Line, id: RequestId) {
    let Some(suppressed) = pace::refusal(refusal.code().as_str()) else { return };
    let (method, path) = (untrusted(line.method.as_str()), untrusted(line.uri.path()));
    let reason: &dyn std::fmt::Display = match refusal {
        Refusal::Denied(denied) => denied,
        refusal => refusal,
    };
    let suppressed = (suppressed > 0).then_some(suppressed);
    tracing::info!(request_id = %id, %method, %path, code = refusal.code().as_str(), %reason, suppressed, "refused");
}

/// The parts of a request that the answer to a refusal needs.
struct Line {
    method: Method,
    uri: Uri,
    host: Option<HeaderValue>,
}

impl Line {
    fn of(head: &request::Parts) -> Self {
        Self { method: head.method.clone(), uri: head.uri.clone(), host: head.headers.get(HOST).cloned() }
    }

    /// Returns the host of the request, which `guard` has already checked.
    fn host(&self) -> Option<Authority> {
        let header = self.host.as_ref().and_then(|host| host.to_str().ok());
        header.or(self.uri.authority().map(http::uri::Authority::as_str)).and_then(Authority::parse)
    }
}

/// Returns what a path of the MCP endpoint addresses; none for any other path. The name in it may turn out to be that of
/// a view.
fn scope_of(path: &str) -> Option<Scope> {
    let rest = path.strip_prefix(MCP)?;
    // Some users and clients append a slash.
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.is_empty() {
        return Some(Scope::ALL);
    }
    let name = rest.strip_prefix('/').filter(|name| !name.is_empty() && !name.contains('/'))?;
    Some(Scope::of_server(percent_decode_str(name).decode_utf8_lossy()))
}

/// Returns the output of `work`. If it panics, or if the credential of `principal` is revoked first, `work`
/// must be dropped and a refusal is returned. `work` is polled in place, because moving a large future costs
/// every call a copy.
async fn until_revoked<T>(
    principal: Option<&Principal>,
    work: Pin<&mut impl Future<Output = T>>,
) -> Result<T, Refusal> {
    let revoked = async {
        until(now() + LOOK_AFTER).await;
        match principal {
            // Boxed: most requests never get here.
            Some(principal) => Box::pin(principal.revoked()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        output = AssertUnwindSafe(work).catch_unwind() => output.map_err(|_| Refusal::Panicked),
        () = revoked => Err(Refusal::Denied(Denied::Credential(Reason::Revoked))),
    }
}

/// Puts the headers of `answer` into `map`, the header map of the request, to reuse its allocation. The
/// connection reads the next head into the map of its last answer.
fn reuse_header_map(mut answer: Response, mut map: HeaderMap) -> Response {
    map.clear();
    let own = std::mem::replace(answer.headers_mut(), map);
    answer.headers_mut().extend(own);
    answer
}

fn finished(mut response: Response, origin: Option<HeaderValue>, id: RequestId) -> Response {
    if let Some(origin) = origin {
        cors::allow(response.headers_mut(), origin);
    }
    response.headers_mut().insert(RequestId::HEADER, id.header_value());
    response
}

impl Site for HttpService {
    fn answer(self, request: http::Request<Arriving>) -> impl Future<Output = Response> + Send + 'static {
        self.serve(request)
    }
}

impl Service<Request> for HttpService {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        self.clone().serve(request).map(Ok).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_found_by_its_path() {
        let server = |name: &str| Some(Scope::of_server(name));
        for (path, scope) in [
            ("/mcp", Some(Scope::ALL)),
            ("/mcp/files", server("files")),
            ("/mcp/two%20words", server("two words")),
            ("/mcp/", Some(Scope::ALL)),
            ("/mcp/files/", server("files")),
            ("/mcp//", None),
            ("/mcp/files//", None),
            ("/mcp/a/b", None),
            ("/mcpx", None),
            ("/MCP", None),
            ("/", None),
        ] {
            assert_eq!(scope_of(path), scope, "{path}");
        }
    }
}
