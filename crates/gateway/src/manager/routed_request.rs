//! One request with its server found.
//!
//! Routing gives each name and URI in a [`Call`] of a client the name that the server uses. The result is a
//! [`RoutedRequest`]; [`super::Manager::call`] makes it at the server and returns [`Called`].
//!
//! Does not find out who owns a name (`catalog`), and does not reach a server (`upstream`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::catalog::{Route, ServerResource};
use super::error::Error;
use super::{failed, unrequested};
use json::Raw;
use protocol::feature::Effect;
use protocol::headers::HeaderParam;
use protocol::{Reply, Version, method};
use runtime::memory::{Account, Charge, ChargeKind, SMALL};
use runtime::worker::now;
use upstream::{Call, Deadline, ResponseBody, Upstream};

/// Retry hint if the memory budget has no room for a request.
const ROOM_RETRY_IN: Duration = Duration::from_secs(1);

/// A request with its server, in which every name is the server's own.
#[derive(Debug, Clone)]
pub struct RoutedRequest {
    /// The server's name.
    pub server: Arc<str>,
    /// The subject under its name at the server: a tool, a prompt, or a URI.
    pub subject: Arc<str>,
    /// The request for the server, without the members of `_meta` that its era requires.
    pub call: Box<Call>,
    /// Overrides the server's timeout. Messages of the server do not extend it.
    pub timeout: Option<Duration>,
    /// When the time of the request began.
    pub begun: Instant,
    /// Whether the client sees the tool's structured results as objects, because its revision allows no other
    /// values.
    pub wraps_result: bool,
    /// Whether the server runs the tool only as a task of 2025-11-25, while the client does not know that.
    pub needs_task: bool,
    /// Whether the tool is that of Switchyard with which a person logs in to the server.
    pub is_login: bool,
}

impl RoutedRequest {
    /// Makes a request about `subject` at `server`, whose time begins now.
    pub fn new(server: Arc<str>, subject: Arc<str>, call: Box<Call>) -> Self {
        let (timeout, begun) = (None, now());
        Self {
            server,
            subject,
            call,
            timeout,
            begun,
            wraps_result: false,
            needs_task: false,
            is_login: false,
        }
    }

    /// Makes the call of a tool that the client calls `name`.
    pub(super) fn of_tool(route: &Route, name: &str, mut call: Box<Call>) -> Self {
        // An unsafe tool stays unsafe.
        if route.effect == Effect::Unsafe {
            call.effect = Effect::Unsafe;
        } else {
            call.effect = effect_of(&call, route.effect);
        }
        rename(&mut call, "name", (name, &route.subject));
        call.header_params = Arc::clone(&route.header_params);
        let (wraps_result, needs_task) = (route.wraps_result, route.needs_task);
        let routed = Self::new(Arc::clone(&route.server), Arc::clone(&route.subject), call);
        Self { wraps_result, needs_task, is_login: route.is_login, ..routed }
    }

    /// Makes the request for a prompt that the client calls `name`.
    pub(super) fn of_prompt(route: &Route, name: &str, mut call: Box<Call>) -> Self {
        call.effect = effect_of(&call, Effect::ReadOnly);
        rename(&mut call, "name", (name, &route.subject));
        Self::new(Arc::clone(&route.server), Arc::clone(&route.subject), call)
    }

    /// Makes the request that reads a resource, which the client calls `uri`.
    pub(super) fn of_resource(place: &ServerResource, uri: &str, mut call: Box<Call>) -> Self {
        call.effect = effect_of(&call, Effect::ReadOnly);
        rename(&mut call, "uri", (uri, &place.uri));
        Self::new(Arc::clone(&place.server), place.uri.as_str().into(), call)
    }

    /// Makes the completion of an argument. `member` of `ref` has the client's name or URI, and gets the
    /// server's.
    pub(super) fn of_completion(
        server: &Arc<str>,
        (member, from, to): (&str, &str, &str),
        mut call: Box<Call>,
    ) -> Self {
        let reference = call.params.as_ref().filter(|_| from != to).and_then(|params| params.get("ref"));
        if let (Some(params), Some(reference)) = (&call.params, reference) {
            call.params = Some(params.with("ref", &reference.with(member, &Raw::of(to))));
        }
        call.effect = Effect::ReadOnly;
        Self::new(Arc::clone(server), to.into(), call)
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
        if header_params.is_empty() {
            return Ok(());
        }
        let params = self.params();
        let arguments = params.part("arguments");
        match header_params.iter().find(|param| param.is_ambiguous_in(arguments)) {
            None => Ok(()),
            Some(param) => Err(Error::AmbiguousArgument {
                server: Arc::clone(&self.server),
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

    /// Returns the deadline at `upstream`.
    pub(super) fn deadline(&self, upstream: &Upstream) -> Deadline {
        let config = upstream.config();
        match self.timeout {
            Some(timeout) => (self.begun + timeout).into(),
            None => Deadline::moving(self.begun, config.timeout, config.max_timeout),
        }
    }

    /// Makes the response to this request from what its server sent.
    pub(super) fn called(&self, body: ResponseBody, version: Version) -> Called<ResponseBody> {
        let reply = match body {
            ResponseBody::Buffered(reply) => {
                ResponseBody::Buffered(unrequested::checked(&self.call, version.is_modern(), reply))
            }
            // Its terms refuse what is checked.
            streaming @ ResponseBody::Streaming(_) => streaming,
        };
        Called {
            server: Arc::clone(&self.server),
            subject: Arc::clone(&self.subject),
            reply,
            version,
            // This reads the clock. The time of the turn would not include work within one turn.
            elapsed: Instant::now().saturating_duration_since(self.begun),
        }
    }

    /// Charges the parameters, which were printed again if the tool has another name at its server.
    pub(super) fn charged(&self) -> Result<Option<Charge>, Error> {
        let size = self.call.params.as_ref().map_or(0, |params| params.bytes().len());
        if size < SMALL {
            return Ok(None);
        }
        let mut charge = Charge::open(Account::of(self.call.principal.as_ref()), ChargeKind::Request);
        let full =
            |_| failed(&self.server, self.tool(), upstream::Error::Overloaded { retry_in: ROOM_RETRY_IN });
        charge.resize(size).map_err(full)?;
        Ok(Some(charge))
    }
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

/// The response of a server, and the name of that server.
#[derive(Debug, Clone)]
pub struct Called<R = Reply> {
    /// The server that sent it.
    pub server: Arc<str>,
    /// The subject under its name at that server.
    pub subject: Arc<str>,
    /// The response: a [`ResponseBody`], or the [`Reply`] that was collected from it.
    pub reply: R,
    /// The revision of the response.
    pub version: Version,
    /// Time from the request to the response, including waiting and retries. For a stream, the time until its
    /// beginning.
    pub elapsed: Duration,
}

impl Called<ResponseBody> {
    /// Waits for the rest of the response. Only tool results are streamed, so a failure names the tool.
    pub async fn collect(self) -> Result<Called, Error> {
        let Self { server, subject, reply, version, elapsed } = self;
        let reply = reply.collect().await.map_err(|source| failed(&server, Some(&subject), source))?;
        Ok(Called { server, subject, reply, version, elapsed })
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

    fn place() -> ServerResource {
        ServerResource { server: "s".into(), uri: "test://x".into() }
    }

    fn route() -> Route {
        Route {
            server: "s".into(),
            subject: "t".into(),
            effect: Effect::Unsafe,
            header_params: Arc::default(),
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
            let routed = RoutedRequest::of_resource(&place(), "test://x", call);
            assert_eq!(routed.call.effect, effect, "{more}");
        }
    }

    #[test]
    fn a_call_that_brings_what_a_person_said_is_not_made_twice_whatever_its_tool_is() {
        let route = |effect| Route { effect, ..route() };
        for effect in [Effect::ReadOnly, Effect::Idempotent, Effect::Unsafe] {
            let of = |more: &str| {
                let call = call(&format!(r#"{{"name":"t"{more}}}"#));
                RoutedRequest::of_tool(&route(effect), "t", call).call.effect
            };
            assert_eq!(of(""), effect);
            assert_eq!(of(r#","inputResponses":{}"#), Effect::Unsafe);
            assert_eq!(of(r#","requestState":"s""#), Effect::Unsafe);
        }
    }

    #[test]
    fn what_is_mirrored_stands_once() {
        let deep = HeaderParam { header: "Region".into(), path: vec!["at".into(), "region".into()] };
        let target = |arguments: &str| {
            let route = Route { header_params: [deep.clone()].into(), ..route() };
            RoutedRequest::of_tool(&route, "t", call(&format!(r#"{{"name":"t","arguments":{arguments}}}"#)))
        };
        for fine in [r#"{"at":{"region":"us"},"x":1,"x":2}"#, "{}", r#"{"at":{}}"#] {
            assert!(target(fine).check_unambiguous(std::slice::from_ref(&deep)).is_ok(), "{fine}");
        }
        for twice in [
            r#"{"at":{"region":"us","region":"eu"}}"#,
            r#"{"at":{"region":"us","reg\u0069on":"us"}}"#,
            r#"{"at":{"region":"us"},"at":{}}"#,
        ] {
            let refused = target(twice).check_unambiguous(std::slice::from_ref(&deep)).expect_err(twice);
            let told = refused.to_string();
            assert!(told.contains("\"arguments.at.region\"") && told.contains("once"), "{told}");
        }
    }

    #[test]
    fn routing_keeps_the_principal_of_a_call() {
        let mut call = call(r#"{"uri":"test://x"}"#);
        call.principal = Some("key:ann".into());
        let routed = RoutedRequest::of_resource(&place(), "test://x", call);
        assert_eq!(routed.call.principal.as_deref(), Some("key:ann"));
    }

    #[test]
    fn a_name_that_the_server_uses_too_changes_no_byte() {
        let read = r#"{ "uri" : "test:\/\/x","n":1e400}"#;
        assert_eq!(RoutedRequest::of_resource(&place(), "test://x", call(read)).params().as_str(), read);
        let renamed = RoutedRequest::of_resource(&place(), "test://s/x", call(read)).params();
        assert_eq!(renamed.as_str(), r#"{ "uri" : "test://x","n":1e400}"#);
        let complete = call(r#"{"ref":{"x":1.0,"name":"s__p","type":"ref/prompt"},"argument":null}"#);
        let completed = RoutedRequest::of_completion(&"s".into(), ("name", "s__p", "p"), complete);
        assert_eq!(
            completed.params().as_str(),
            r#"{"ref":{"x":1.0,"name":"p","type":"ref/prompt"},"argument":null}"#
        );
        assert_eq!(&*completed.subject, "p");
    }
}
