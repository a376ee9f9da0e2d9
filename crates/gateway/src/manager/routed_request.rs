//! One request with its server found.
//!
//! Routing gives each name and URI in a [`Call`] of a client the name that the server uses. The result is a
//! [`RoutedRequest`]; [`super::Manager::call`] makes it at the server.
//!
//! Invariant: everything that a request needs of its server is in the [`Server`] that was found, so no name is looked up
//! again. A further request of the same call is renewed first, because it may come minutes later.
//!
//! Does not find out who owns a name (`catalog`), and does not reach a server (`upstream`).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::catalog::Route;
use super::error::{Error, ItemKind};
use super::limits::{Admission, CountedRequest, LimitUsage};
use super::snapshot::{Scope, Server, Snapshot};
use super::tool_arguments::{Filled, ToolArguments};
use super::{Manager, failed, failed_at, unrequested};
use auth::Principal;
use json::Raw;
use protocol::feature::{Effect, Kind};
use protocol::headers::HeaderParam;
use protocol::{Reply, method};
use runtime::memory::{Account, Charge, ChargeKind, SMALL};
use runtime::telemetry::durations::Outcome;
use runtime::worker::now;
use upstream::config::OnChange;
use upstream::{Affinity, Call, Deadline, Delivery, EventSender, ResponseBody, ServerResponse};

/// Retry hint if the memory budget has no room for a request.
const ROOM_RETRY_IN: Duration = Duration::from_secs(1);

/// A request with its server, in which every name is the server's own.
#[derive(Clone)]
pub struct RoutedRequest {
    /// The server in the snapshot in which it was found, as the client sees it.
    pub server: Arc<Server>,
    /// Whether the client may know URIs in the result as those of another server.
    pub can_clash: bool,
    /// The subject under its name at the server: a tool, a prompt, or a URI.
    pub subject: Arc<str>,
    /// The request for the server, without the members of `_meta` that its era requires.
    pub call: Box<Call>,
    /// Overrides the server's timeout. Messages of the server do not extend it.
    pub timeout: Option<Duration>,
    /// When the time of the request began.
    pub started: Instant,
    /// The route of a tool; `None` for other requests, and for a tool that is in no list.
    pub(crate) route: Option<Arc<Route>>,
    /// The parts that it took of the limits of its caller, once it was counted.
    pub(crate) admission: Admission,
    /// The arguments of a tool that its view gives, and not the client.
    pub(crate) given: Vec<Arc<str>>,
}

/// How a request ended, for its counts and its record.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestEnd {
    pub(super) outcome: Outcome,
    /// Time from the request to the response, or to the beginning of a streamed response.
    pub(super) duration: Duration,
}

impl RoutedRequest {
    /// Makes a request about `subject` at `server`, whose time begins now.
    pub(super) fn new(
        snapshot: &Snapshot,
        server: &str,
        subject: Arc<str>,
        call: Box<Call>,
    ) -> Result<Self, Error> {
        let (timeout, started) = (None, now());
        let server = Arc::clone(snapshot.server(server)?);
        let (route, admission, given) = (None, Admission::default(), Vec::new());
        Ok(Self { server, can_clash: false, subject, call, timeout, started, route, admission, given })
    }

    /// Makes the call of a tool that the client calls `name`.
    pub(super) fn of_tool(
        (snapshot, scope): (&Snapshot, &Scope),
        route: Arc<Route>,
        name: &str,
        call: Box<Call>,
    ) -> Result<Self, Error> {
        let mut call = tool_call(&route, name, call);
        let given = match &route.arguments {
            Some(arguments) => fill(arguments, (&route, name), &mut call)?,
            None => Vec::new(),
        };
        let routed = Self::new(snapshot, &route.server, Arc::clone(&route.subject), call)?;
        Ok(Self { can_clash: snapshot.can_clash(scope), route: Some(route), given, ..routed })
    }

    /// Whether the client sees the tool's structured results as objects, because its revision allows no other values.
    pub(crate) fn wraps_result(&self) -> bool {
        self.route.as_ref().is_some_and(|route| route.wraps_result)
    }

    /// Whether the server runs the tool only as a task of 2025-11-25, while the client does not know that.
    pub(crate) fn needs_task(&self) -> bool {
        self.route.as_ref().is_some_and(|route| route.needs_task)
    }

    /// Whether the tool is that of Switchyard with which a person logs in to the server.
    pub(crate) fn is_login(&self) -> bool {
        self.route.as_ref().is_some_and(|route| route.is_login)
    }

    /// Returns the name of the server.
    pub fn server_name(&self) -> &Arc<str> {
        &self.server.upstream.config().name
    }

    /// Returns the parameters for the server.
    pub fn params(&self) -> Raw {
        self.call.params.clone().unwrap_or_else(Raw::empty_object)
    }

    /// Changes members of the parameters.
    pub(crate) fn edit(&mut self, changes: &[(&str, Option<&Raw>)]) {
        self.call.params = Some(self.params().edit(changes));
    }

    /// Checks that each of `header_params` occurs at most once in the arguments. Otherwise the header has the
    /// first value, while a server may read the last one from the body.
    pub(super) fn check_unambiguous(&self, header_params: &[HeaderParam]) -> Result<(), Error> {
        match repeated(&self.call, header_params) {
            None => Ok(()),
            Some(param) => Err(Error::AmbiguousArgument {
                server: Arc::clone(self.server_name()),
                tool: self.subject.to_string(),
                member: format!("arguments.{}", param.path.join(".")),
            }),
        }
    }

    /// Returns the tool, if the request calls one.
    pub fn tool(&self) -> Option<&str> {
        (self.call.method == method::TOOLS_CALL).then_some(&*self.subject)
    }

    /// Whether the request reads a URI: a resource, a skill or a directory.
    pub(super) fn reads_a_uri(&self) -> bool {
        [method::RESOURCES_READ, method::SKILLS_GET, method::DIRECTORY_READ]
            .contains(&self.call.method.as_str())
    }

    /// Checks that the view of its client has it at `server`, which is its own in a later snapshot.
    pub(super) fn check_view(&self, server: &Server) -> Result<(), Error> {
        if server.view.is_none() || self.is_login() {
            return Ok(());
        }
        match self.tool() {
            Some(tool) if !server.offers_tool(tool) => Err(self.unknown_at(server)),
            None if self.reads_a_uri() && !server.offers(Kind::Resources, &self.subject) => {
                Err(Error::resource_not_found(&self.subject))
            }
            _ => Ok(()),
        }
    }

    fn unknown_at(&self, server: &Server) -> Error {
        let names = server.catalog.tools().iter().map(|entry| entry.exposed.as_str());
        Error::name_not_found(ItemKind::Tool, &self.subject, Some(&server.upstream.config().name), names)
    }

    /// Checks that `server`, which is its own in this or a later snapshot, allows it. A tool may be denied or held since it
    /// was routed.
    pub(super) fn check_policy(&self, server: &Server) -> Result<(), Error> {
        let config = server.upstream.config();
        if self.is_login() {
            return Err(server.login_required());
        }
        if !std::ptr::eq(server, &raw const *self.server) {
            self.check_view(server)?;
        }
        let held = match self.tool() {
            Some(tool) if !config.tools.let_through(tool) => return Err(self.unknown_at(server)),
            _ if config.tools.on_change != OnChange::Block => None,
            Some(tool) => server.trust.held(tool),
            None if self.reads_a_uri() => server.trust.held_around(&self.subject),
            None => None,
        };
        held.map_or(Ok(()), |change| Err(change.refusal(&config.name)))
    }

    /// Returns its deadline.
    pub(super) fn deadline(&self) -> Deadline {
        let config = self.server.upstream.config();
        match self.timeout {
            Some(timeout) => Deadline::fixed(self.started, timeout),
            None => Deadline::moving(self.started, config.timeout, config.max_timeout),
        }
    }

    /// Checks what its server sent.
    pub(super) fn checked(&self, response: ServerResponse) -> ServerResponse {
        let ServerResponse { body, version } = response;
        let body = match body {
            ResponseBody::Buffered(reply) => {
                ResponseBody::Buffered(unrequested::checked(&self.call, version.is_modern(), reply))
            }
            // Its terms refuse what is checked.
            streaming @ ResponseBody::Streaming(_) => streaming,
        };
        ServerResponse { body, version }
    }

    /// Waits for the rest of its response. Only tool results are streamed, so a failure names the tool.
    pub async fn whole(&self, response: ServerResponse) -> Result<ServerResponse<Reply>, Error> {
        let whole = response.collect().await;
        whole.map_err(|source| failed(self.server_name(), Some(&self.subject), source))
    }

    /// How it ended now. Without a reply the result is still arriving.
    pub(super) fn end(&self, result: Result<Option<&Reply>, &upstream::Error>) -> RequestEnd {
        let outcome = match result {
            Ok(Some(Err(_))) => Outcome::RpcError,
            Ok(Some(Ok(result))) if self.tool().is_some() && says_error(result) => Outcome::ToolError,
            Ok(_) => Outcome::Result,
            Err(error) if error.delivery() == Delivery::Refused => Outcome::Refused,
            Err(_) => Outcome::Failed,
        };
        RequestEnd { outcome, duration: self.started.elapsed() }
    }

    /// Charges the parameters, which were printed again if the tool has another name at its server.
    pub(super) fn charged(&self) -> Result<Option<Charge>, Error> {
        let size = self.call.params.as_ref().map_or(0, |params| params.bytes().len());
        if size < SMALL {
            return Ok(None);
        }
        let mut charge = Charge::open(Account::of(self.call.principal.as_ref()), ChargeKind::Request);
        let full = |_| {
            failed(self.server_name(), self.tool(), upstream::Error::Overloaded { retry_in: ROOM_RETRY_IN })
        };
        charge.resize(size).map_err(full)?;
        Ok(Some(charge))
    }
}

/// Returns `call`, which calls `name`, as the server of the tool gets it.
fn tool_call(route: &Route, name: &str, mut call: Box<Call>) -> Box<Call> {
    // An unsafe tool stays unsafe.
    if route.effect == Effect::Unsafe {
        call.effect = Effect::Unsafe;
    } else {
        call.effect = effect_of(&call, route.effect);
    }
    rename(&mut call, "name", (name, &route.subject));
    call.header_params = Arc::clone(&route.header_params);
    call
}

/// Adds the arguments that the view of the client gives the tool, and returns their names.
fn fill(
    arguments: &ToolArguments,
    (route, name): (&Route, &str),
    call: &mut Call,
) -> Result<Vec<Arc<str>>, Error> {
    let params = call.params.take().unwrap_or_else(Raw::empty_object);
    let Filled { params, given } = arguments.fill(&params).map_err(|argument| Error::FixedArgument {
        server: Arc::clone(&route.server),
        tool: name.to_owned(),
        argument: argument.to_string(),
    })?;
    call.params = Some(params);
    Ok(given)
}

/// Returns `call`, which reads what its `member` names `from`, as the server that names it `to` gets it.
pub(super) fn read_call(mut call: Box<Call>, member: &str, from: &str, to: &str) -> Box<Call> {
    call.effect = effect_of(&call, Effect::ReadOnly);
    rename(&mut call, member, (from, to));
    call
}

/// Returns `call`, which completes an argument of what `member` of `ref` names `from`, as the server that names it `to`
/// gets it.
pub(super) fn completion_call(mut call: Box<Call>, member: &str, from: &str, to: &str) -> Box<Call> {
    let reference = call.params.as_ref().filter(|_| from != to).and_then(|params| params.get("ref"));
    if let (Some(params), Some(reference)) = (&call.params, reference) {
        call.params = Some(params.with("ref", &reference.with(member, &Raw::of(to))));
    }
    call.effect = Effect::ReadOnly;
    call
}

/// Returns the first of `header_params` that occurs more than once in the arguments of `call`.
fn repeated<'a>(call: &Call, header_params: &'a [HeaderParam]) -> Option<&'a HeaderParam> {
    if header_params.is_empty() {
        return None;
    }
    let arguments = call.params.as_ref()?.part("arguments");
    header_params.iter().find(|param| param.is_ambiguous_in(arguments))
}

impl fmt::Debug for RoutedRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, method) = (self.server_name(), &self.call.method);
        write!(formatter, "{method} of {:?} at {server:?}", self.subject)
    }
}

/// Whether the result of a tool says that the tool failed.
fn says_error(result: &Raw) -> bool {
    result.part("isError").is_some_and(|value| value.bytes() == b"true")
}

/// Writes the server's own name into `member` of the parameters. If the client uses this name, no byte
/// changes.
fn rename(call: &mut Call, member: &str, (from, to): (&str, &str)) {
    if from != to {
        call.params = call.params.take().map(|params| params.with(member, &Raw::of(to)));
    }
}

/// Returns the effect of `call`: `alone`, unless the call carries answers of a user. Such answers are not
/// sent twice (2026-07-28 `basic/patterns/mrtr`).
fn effect_of(call: &Call, alone: Effect) -> Effect {
    let has = |member: &&str| call.params.as_ref().is_some_and(|params| params.part(member).is_some());
    if ["inputResponses", "requestState"].iter().any(has) { Effect::Unsafe } else { alone }
}

/// The response to a tool call of a program, which is no MCP client.
#[derive(Debug, Clone)]
pub struct CallResponse {
    /// The server that answered.
    pub server: Arc<str>,
    /// The tool under its name at that server.
    pub subject: Arc<str>,
    /// The whole response.
    pub reply: Reply,
    /// Time from the request to the response, including waiting and retries.
    pub elapsed: Duration,
}

// The first call after a start of a server whose changed tools are blocked: it waits until the tools were compared.

impl Server {
    /// Whether a call of the client of `affinity` has to wait until the tools of a process that was just started were
    /// compared with the trusted ones.
    pub(super) fn compares_first(&self, affinity: Option<&Affinity>) -> bool {
        let config = self.upstream.config();
        config.enabled && config.tools.on_change == OnChange::Block && self.upstream.is_unread(affinity)
    }
}

impl Manager {
    /// Starts the server, to which `request` goes, if it does not run, and returns it with its tools as the client sees them.
    pub(super) async fn read_first(
        &self,
        request: &RoutedRequest,
        event_sender: &EventSender,
    ) -> Result<Arc<Server>, Error> {
        let upstream = &request.server.upstream;
        let read = upstream.read_first(&request.call, request.deadline(), event_sender).await;
        read.map_err(|source| failed_at(upstream, request.tool(), source))?;
        self.catch_up().await;
        self.seen_by(request.call.affinity.as_ref()).server(request.server_name()).cloned()
    }
}

// The place where requests are counted for the limits of their callers.

impl Manager {
    /// Whether requests have to be counted.
    pub(crate) fn has_limits(&self) -> bool {
        self.limits.is_on()
    }

    /// Returns an admission that several requests to servers share, because they are for one request of a client.
    pub(crate) fn shared_admission(&self) -> Admission {
        if self.has_limits() { Admission::shared() } else { Admission::default() }
    }

    /// Counts `request` of `client` for the limits of its caller, or refuses it. A refused call is recorded.
    pub(crate) async fn admit(
        &self,
        client: (&Principal, &Scope),
        request: &mut RoutedRequest,
    ) -> Result<(), Error> {
        let (principal, scope) = client;
        let mut admission = std::mem::take(&mut request.admission);
        let (view, server, tool) = (scope.view.as_ref(), request.server_name(), request.tool());
        let counted = CountedRequest { principal, view, server, tool };
        let admitted = self.limits.admit(counted, &mut admission).await;
        request.admission = admission;
        let Err(limited) = admitted else { return Ok(()) };
        let refused = Error::Limited(Box::new(limited));
        if request.tool().is_none() {
            return Err(refused);
        }
        self.call_recorded(request, std::pin::pin!(std::future::ready(Err(refused)))).await.map(drop)
    }

    /// How often each limit of callers was reached.
    pub fn limit_usage(&self) -> Vec<LimitUsage> {
        self.limits.usage()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn call(params: &str) -> Box<Call> {
        let params = Raw::parse(&Bytes::from(params.to_owned())).expect("JSON");
        Box::new(Call::of_gateway(method::TOOLS_CALL, Some(params)))
    }

    fn route() -> Route {
        Route {
            server: "s".into(),
            subject: "t".into(),
            effect: Effect::Unsafe,
            header_params: Arc::default(),
            arguments: None,
            wraps_result: false,
            needs_task: false,
            is_login: false,
        }
    }

    #[test]
    fn a_read_may_be_made_twice_unless_it_brings_what_a_person_said() {
        for (more, effect) in [
            ("", Effect::ReadOnly),
            (r#","inputResponses":{}"#, Effect::Unsafe),
            (r#","requestState":"s""#, Effect::Unsafe),
        ] {
            let call = call(&format!(r#"{{"uri":"test://x"{more}}}"#));
            let sent = read_call(call, "uri", "test://x", "test://x");
            assert_eq!(sent.effect, effect, "{more}");
        }
    }

    #[test]
    fn a_call_that_brings_what_a_person_said_is_not_made_twice_whatever_its_tool_is() {
        let route = |effect| Route { effect, ..route() };
        for effect in [Effect::ReadOnly, Effect::Idempotent, Effect::Unsafe] {
            let of = |more: &str| {
                let call = call(&format!(r#"{{"name":"t"{more}}}"#));
                tool_call(&route(effect), "t", call).effect
            };
            assert_eq!(of(""), effect);
            assert_eq!(of(r#","inputResponses":{}"#), Effect::Unsafe);
            assert_eq!(of(r#","requestState":"s""#), Effect::Unsafe);
        }
    }

    #[test]
    fn repeated_mirrored_parameter_is_found() {
        let deep = HeaderParam { header: "Region".into(), path: vec!["at".into(), "region".into()] };
        let found = |arguments: &str| {
            let call = call(&format!(r#"{{"name":"t","arguments":{arguments}}}"#));
            repeated(&call, std::slice::from_ref(&deep)).is_some()
        };
        for fine in [r#"{"at":{"region":"us"},"x":1,"x":2}"#, "{}", r#"{"at":{}}"#] {
            assert!(!found(fine), "{fine}");
        }
        for twice in [
            r#"{"at":{"region":"us","region":"eu"}}"#,
            r#"{"at":{"region":"us","reg\u0069on":"us"}}"#,
            r#"{"at":{"region":"us"},"at":{}}"#,
        ] {
            assert!(found(twice), "{twice}");
        }
    }

    #[test]
    fn routing_keeps_the_principal_of_a_call() {
        let mut call = call(r#"{"uri":"test://x"}"#);
        call.principal = Some("key:ann".into());
        let sent = read_call(call, "uri", "test://x", "test://x");
        assert_eq!(sent.principal.as_deref(), Some("key:ann"));
    }

    #[test]
    fn a_name_that_the_server_uses_too_changes_no_byte() {
        let read = r#"{ "uri" : "test:\/\/x","n":1e400}"#;
        let params = |call: Box<Call>| call.params.expect("parameters").as_str().to_owned();
        assert_eq!(params(read_call(call(read), "uri", "test://x", "test://x")), read);
        let renamed = params(read_call(call(read), "uri", "test://s/x", "test://x"));
        assert_eq!(renamed, r#"{ "uri" : "test://x","n":1e400}"#);
        let complete = call(r#"{"ref":{"x":1.0,"name":"s__p","type":"ref/prompt"},"argument":null}"#);
        assert_eq!(
            params(completion_call(complete, "name", "s__p", "p")),
            r#"{"ref":{"x":1.0,"name":"p","type":"ref/prompt"},"argument":null}"#
        );
    }
}
