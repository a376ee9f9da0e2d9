//! One request as the server that is to answer it knows it, and on whose behalf it is made.
//!
//! Finding out which server that is, and rewriting names and URIs to its own, ends in a [`Target`];
//! [`super::Manager::call`] then makes the request without asking what it is about.
//!
//! Not here: who owns a name (`catalog`), how a server is reached (`upstream`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::catalog::{Place, Route};
use super::error::Error;
use super::failed;
use json::Raw;
use json::envelope_stream::Terms;
use protocol::feature::Effect;
use protocol::headers::HeaderParam;
use protocol::meta::Sender;
use protocol::{Era, Method, Reply, Version, method};
use runtime::memory::{Account, Charge, Kind, SMALL};
use runtime::worker::now;
use upstream::{Call, Deadline, Home, Owner, ResponseBody, Upstream};

/// When the memory budget may have room for a request again.
const ROOM_RETRY_IN: Duration = Duration::from_secs(1);

/// A request with its server found and every name in it the server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The server's name.
    pub server: Arc<str>,
    /// The method.
    pub method: &'static str,
    /// What it is about, as the server calls it: a tool, a prompt, a URI.
    pub subject: Arc<str>,
    /// The parameters as the server gets them, less what its era wants in `_meta`.
    pub params: Raw,
    /// Whether it may be made twice.
    pub effect: Effect,
    /// What modern HTTP mirrors into `Mcp-Param-*`.
    pub header_params: Arc<[HeaderParam]>,
    /// Whether a client that knows only objects as structured results was told that this tool's are
    /// wrapped into one.
    pub wraps_result: bool,
    /// Whether its server runs it only as a task of 2025-11-25, for a client that was not told so.
    pub needs_task: bool,
}

impl Target {
    /// The call of a tool. `params` are the client's, in which it goes by `name`.
    pub(super) fn of_tool(route: &Route, name: &str, params: &Raw) -> Self {
        Self {
            server: Arc::clone(&route.server),
            method: method::TOOLS_CALL,
            subject: Arc::clone(&route.subject),
            params: renamed(params, "name", name, &route.subject),
            effect: if route.effect == Effect::Unsafe {
                route.effect
            } else {
                effect_of(params, route.effect)
            },
            header_params: route.header_params.clone(),
            wraps_result: route.wraps_result,
            needs_task: route.needs_task,
        }
    }

    /// Getting a prompt that the client calls `name`.
    pub(super) fn of_prompt(route: &Route, name: &str, params: &Raw) -> Self {
        let params = renamed(params, "name", name, &route.subject);
        Self {
            effect: effect_of(&params, Effect::ReadOnly),
            ..Self::reading(method::PROMPTS_GET, (&route.server, &route.subject), params)
        }
    }

    /// Reading a resource that the client calls `uri`.
    pub(super) fn of_resource(place: &Place, uri: &str, params: &Raw) -> Self {
        let params = renamed(params, "uri", uri, &place.uri);
        Self {
            effect: effect_of(&params, Effect::ReadOnly),
            ..Self::reading(method::RESOURCES_READ, (&place.server, &place.uri), params)
        }
    }

    /// Completing an argument. The member of `ref` with a name or URI says what of, in the client's
    /// words and in the server's.
    pub(super) fn of_completion(
        server: &Arc<str>,
        (member, from, to): (&str, &str, &str),
        params: &Raw,
    ) -> Self {
        let reference =
            params.get("ref").filter(|_| from != to).map(|reference| reference.with(member, &Raw::of(to)));
        let params = reference.map_or_else(|| params.clone(), |reference| params.with("ref", &reference));
        Self::reading(method::COMPLETE, (server, to), params)
    }

    fn reading(method: &'static str, (server, subject): (&Arc<str>, &str), params: Raw) -> Self {
        Self {
            server: Arc::clone(server),
            method,
            subject: subject.into(),
            params,
            effect: Effect::ReadOnly,
            header_params: Arc::default(),
            wraps_result: false,
            needs_task: false,
        }
    }

    /// Whether each of `header_params` stands at most once in its arguments: the first one would be in the
    /// header, and a server may take the last one from the body.
    pub(super) fn check_unambiguous(&self, header_params: &[HeaderParam]) -> Result<(), Error> {
        if header_params.is_empty() {
            return Ok(());
        }
        let arguments = self.params.part("arguments");
        match header_params.iter().find(|param| param.is_ambiguous_in(arguments)) {
            None => Ok(()),
            Some(param) => Err(Error::AmbiguousArgument {
                server: Arc::clone(&self.server),
                tool: self.subject.to_string(),
                member: format!("arguments.{}", param.path.join(".")),
            }),
        }
    }

    /// The tool that it calls, if it calls one.
    pub fn tool(&self) -> Option<&str> {
        (self.method == method::TOOLS_CALL).then_some(&*self.subject)
    }

    /// What came of it when it was made for `invocation`.
    pub(super) fn called<R>(&self, invocation: &Invocation, reply: R, version: Version) -> Called<R> {
        Called {
            server: Arc::clone(&self.server),
            subject: Arc::clone(&self.subject),
            reply,
            version,
            // By the clock and not by the turn, in which no time passes: what is answered in the turn it was
            // asked in takes some too.
            elapsed: Instant::now().saturating_duration_since(invocation.begun),
        }
    }

    /// The charge of the parameters, which were printed anew where a tool has another name here than at its
    /// server.
    pub(super) fn charged(&self, invocation: &Invocation) -> Result<Option<Charge>, Error> {
        let size = self.params.bytes().len();
        if size < SMALL {
            return Ok(None);
        }
        let mut charge = Charge::open(Account::of(invocation.principal.as_ref()), Kind::Request);
        let full =
            |_| failed(&self.server, self.tool(), upstream::Error::Overloaded { retry_in: ROOM_RETRY_IN });
        charge.resize(size).map_err(full)?;
        Ok(Some(charge))
    }

    /// It for the layers below.
    pub(super) fn call(&self, invocation: &Invocation) -> Call {
        Call {
            method: Method::constant(self.method),
            params: Some(self.params.clone()),
            sender: invocation.sender.clone(),
            era: invocation.era,
            wants_progress: invocation.wants_progress,
            effect: self.effect,
            header_params: self.header_params.clone(),
            owner: invocation.owner,
            home: invocation.home.clone(),
            principal: invocation.principal.clone(),
            terms: invocation.terms,
        }
    }
}

/// `params` with the server's own name in `member`. Where that is the client's too, not a byte
/// changes.
fn renamed(params: &Raw, member: &str, from: &str, to: &str) -> Raw {
    if from == to { params.clone() } else { params.with(member, &Raw::of(to)) }
}

/// What `alone` may be made twice may not be as the end of a conversation: what a person said is not said
/// twice (2026-07-28 `basic/patterns/mrtr`).
fn effect_of(params: &Raw, alone: Effect) -> Effect {
    let goes_on = ["inputResponses", "requestState"].iter().any(|member| params.part(member).is_some());
    if goes_on { Effect::Unsafe } else { alone }
}

/// On whose behalf a request is made, and how long it may take.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// Whom it is made for.
    pub sender: Sender,
    /// The era of that client.
    pub era: Era,
    /// Whether progress is wanted.
    pub wants_progress: bool,
    /// Overrides the server's timeout; messages of the server do not move it.
    pub timeout: Option<Duration>,
    /// Whose it is.
    pub owner: Owner,
    /// Where the private connections of that client belong.
    pub home: Option<Home>,
    /// Who is answered: what one is told is not told another, and a server is shared with the others.
    /// None: nothing is kept of it.
    pub principal: Option<Arc<str>>,
    /// When its time began.
    pub begun: Instant,
    /// Terms under which its result may be passed on while it arrives. Without terms the response is buffered.
    pub terms: Option<Terms>,
}

impl Invocation {
    /// One that begins now, without progress and with the server's own timeout.
    pub fn begin(sender: Sender, era: Era, owner: Owner) -> Self {
        let begun = now();
        let (wants_progress, timeout) = (false, None);
        Self { sender, era, wants_progress, timeout, owner, home: None, principal: None, begun, terms: None }
    }

    /// When its time is over, at `upstream`.
    pub(super) fn deadline(&self, upstream: &Upstream) -> Deadline {
        let config = upstream.config();
        match self.timeout {
            Some(timeout) => (self.begun + timeout).into(),
            None => Deadline::moving(self.begun, config.timeout, config.max_timeout),
        }
    }
}

/// The response of a server, and the name of that server.
#[derive(Debug, Clone)]
pub struct Called<R = Reply> {
    /// The server that gave it.
    pub server: Arc<str>,
    /// What was asked about, as that server calls it.
    pub subject: Arc<str>,
    /// The response: a [`ResponseBody`], or the [`Reply`] that was collected from it.
    pub reply: R,
    /// The revision that it answered in.
    pub version: Version,
    /// From the request to the answer, waiting and retries included; of an answer that is still
    /// arriving, to its beginning.
    pub elapsed: Duration,
}

impl Called<ResponseBody> {
    /// Waits for the rest of the response. Only results of tools arrive in parts, so a failure names the tool.
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

    fn raw(text: &str) -> Raw {
        Raw::parse(&Bytes::from(text.to_owned())).expect("JSON")
    }

    fn place() -> Place {
        Place { server: "s".into(), uri: "test://x".into() }
    }

    fn route() -> Route {
        Route {
            server: "s".into(),
            subject: "t".into(),
            effect: Effect::Unsafe,
            header_params: Arc::default(),
            wraps_result: false,
            needs_task: false,
        }
    }

    #[test]
    fn a_read_may_be_made_twice_unless_it_brings_what_a_person_said() {
        for (more, effect) in [
            ("", Effect::ReadOnly),
            (r#","inputResponses":{}"#, Effect::Unsafe),
            (r#","requestState":"s""#, Effect::Unsafe),
        ] {
            let params = raw(&format!(r#"{{"uri":"test://x"{more}}}"#));
            assert_eq!(Target::of_resource(&place(), "test://x", &params).effect, effect, "{more}");
        }
    }

    #[test]
    fn a_call_that_brings_what_a_person_said_is_not_made_twice_whatever_its_tool_is() {
        let route = |effect| Route { effect, ..route() };
        for effect in [Effect::ReadOnly, Effect::Idempotent, Effect::Unsafe] {
            let of = |more: &str| {
                let params = raw(&format!(r#"{{"name":"t"{more}}}"#));
                Target::of_tool(&route(effect), "t", &params).effect
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
            Target::of_tool(&route, "t", &raw(&format!(r#"{{"name":"t","arguments":{arguments}}}"#)))
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
    fn a_call_is_made_on_behalf_of_whoever_asked() {
        let target = Target::of_resource(&place(), "test://x", &raw(r#"{"uri":"test://x"}"#));
        let begun = Invocation::begin(Sender::gateway(), Era::Modern, Owner::new());
        let call = target.call(&Invocation { principal: Some("key:ann".into()), ..begun });
        assert_eq!(call.principal.as_deref(), Some("key:ann"));
    }

    #[test]
    fn what_the_server_calls_the_same_is_not_written_anew() {
        let params = raw(r#"{ "uri" : "test:\/\/x","n":1e400}"#);
        assert_eq!(Target::of_resource(&place(), "test://x", &params).params, params);
        let renamed = Target::of_resource(&place(), "test://s/x", &params).params;
        assert_eq!(renamed.as_str(), r#"{ "uri" : "test://x","n":1e400}"#);
        let params = raw(r#"{"ref":{"x":1.0,"name":"s__p","type":"ref/prompt"},"argument":null}"#);
        let completed = Target::of_completion(&"s".into(), ("name", "s__p", "p"), &params);
        assert_eq!(
            completed.params.as_str(),
            r#"{"ref":{"x":1.0,"name":"p","type":"ref/prompt"},"argument":null}"#
        );
        assert_eq!((&*completed.subject, completed.tool()), ("p", None));
    }
}
