//! `resources/read`.
//!
//! A URI that a server lists, or generates by a template, is read there. For an unlisted URI, the servers
//! that may have it are asked in order, and the first one that has it answers. They share one deadline. A
//! server that answers at once leaves its time to the others, and one that hangs takes at most its share.
//!
//! Not here: the choice of these servers (`manager::catalog`).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::caller::Caller;
use super::{Gateway, era, error, references};
use crate::manager::{Error, RoutedRequest};
use crate::{bridge, collect, params};
use auth::Action;
use json::Raw;
use protocol::error::code;
use protocol::{ErrorCode, ErrorObject, Reply, method};
use upstream::EventSender;

/// Most time for one of several servers that may have the URI.
const TRIAL: Duration = Duration::from_secs(10);
/// Most time for all of them, unless each has less.
const TRIALS: Duration = Duration::from_secs(30);

/// Reads a resource.
pub(super) async fn read(
    gateway: &Gateway,
    caller: &Caller,
    params: Option<&Raw>,
    event_sender: &EventSender,
) -> Reply {
    let (uri, params) = read_params(caller, params)?;
    let (place, result) = at(gateway, caller, (method::RESOURCES_READ, &uri, params), event_sender).await?;
    let snapshot = gateway.manager.seen_by(Some(&caller.affinity));
    Ok(references::of_contents(&snapshot, &caller.scope, (&place.server, &place.uri, &uri), &result))
}

/// Returns the URI that a client wants to read, and the parameters.
pub(super) fn read_params<'a>(
    caller: &Caller,
    params: Option<&'a Raw>,
) -> Result<(Cow<'a, str>, &'a Raw), ErrorObject> {
    if !caller.principal.may(Action::Read) {
        return Err(error::forbidden("read resources"));
    }
    let (uri, params) = params::text(params, "uri", "which resource to read")?;
    params::short_uri(&uri, "uri")?;
    Ok((uri, params))
}

/// Makes the request `method` about `uri` where that lives, and returns the server that answered.
pub(super) async fn at(
    gateway: &Gateway,
    caller: &Caller,
    (method, uri, params): (&'static str, &str, &Raw),
    event_sender: &EventSender,
) -> Result<(ReadFrom, Raw), ErrorObject> {
    let (started, call) = (caller.started(), caller.call(method, params));
    let find = || gateway.manager.resource_requests(caller.viewer(), uri, &call);
    let found = gateway.found(caller, find, only_server, event_sender).await;
    let requests = found.map_err(|failure| refused(caller, &failure))?;
    let is_alone = requests.len() == 1;
    match first(gateway, caller, started, requests, event_sender).await {
        Err(refusal) if !is_alone && is_missing(&refusal) => Err(era::no_resource(caller, uri)),
        answered => answered,
    }
}

/// The server of `requests`, if there is one request. Otherwise each is opened when it is its turn.
pub(super) fn only_server(requests: &Vec<RoutedRequest>) -> Option<&Arc<str>> {
    if let [request] = requests.as_slice() { Some(request.server_name()) } else { None }
}

/// The server that answered, and its URI.
pub(super) struct ReadFrom {
    pub(super) server: Arc<str>,
    pub(super) uri: String,
}

/// Returns the first result of `requests`, whose time began at `started`. Without one, it returns the first error other
/// than "missing", or else the last error.
pub(super) async fn first(
    gateway: &Gateway,
    caller: &Caller,
    started: Instant,
    requests: Vec<RoutedRequest>,
    event_sender: &EventSender,
) -> Result<(ReadFrom, Raw), ErrorObject> {
    let mut trials = SharedTimeout::of(started, &requests);
    let admission = gateway.manager.shared_admission();
    let mut last_error: Option<ErrorObject> = None;
    // The server of a single request was opened when it was found.
    let is_alone = requests.len() == 1;
    for (number, request) in requests.into_iter().enumerate() {
        let place = ReadFrom { server: Arc::clone(request.server_name()), uri: request.subject.to_string() };
        let Some(timeout) = trials.next() else { break };
        let admission = admission.clone();
        let request = RoutedRequest { started: trials.started, timeout, admission, ..request };
        let is_opened = !is_alone && gateway.open(caller, request.server_name(), event_sender).await;
        // The servers before it may have taken long.
        let request = if is_opened || number > 0 { gateway.manager.renewed(request) } else { Ok(request) };
        let era = caller.version.era();
        let answered = match request {
            Ok(request) => collect(bridge::call(gateway, caller, request, event_sender).await, era).await,
            Err(gone) => Err(error::object(&gone, era)),
        };
        match answered {
            Ok(result) => return Ok((place, result)),
            Err(error) if last_error.as_ref().is_none_or(is_missing) => last_error = Some(error),
            Err(_) => {}
        }
    }
    Err(last_error.unwrap_or_else(|| {
        error::refusal(ErrorCode::NotFound, caller.version.era(), "no server has this resource")
    }))
}

/// The time that several servers share.
struct SharedTimeout {
    started: Instant,
    /// Time for all of them. None if there is only one, which has its own timeout.
    whole: Option<Duration>,
    left: u32,
}

impl SharedTimeout {
    fn of(started: Instant, requests: &[RoutedRequest]) -> Self {
        let left = u32::try_from(requests.len()).unwrap_or(u32::MAX);
        let timeouts = || {
            let timeout = |request: &RoutedRequest| request.server.upstream.config().timeout;
            requests.iter().map(timeout).max().map_or(TRIALS, |longest| longest.min(TRIALS))
        };
        Self { started, whole: (left > 1).then(timeouts), left }
    }

    /// Returns the end of the next server's time, counted from the beginning. Returns none if the time is
    /// over.
    #[allow(clippy::option_option)] // the inner one is the timeout of a request
    fn next(&mut self) -> Option<Option<Duration>> {
        let Some(whole) = self.whole else { return Some(None) };
        let gone = self.started.elapsed();
        let rest = whole.checked_sub(gone).filter(|rest| !rest.is_zero())?;
        let share = rest / self.left.max(1);
        self.left = self.left.saturating_sub(1);
        Some(Some(gone + share.min(TRIAL)))
    }
}

/// Whether a server reports a missing resource: by the code of either era, or because it has no resources.
fn is_missing(error: &ErrorObject) -> bool {
    [code::INVALID_PARAMS, code::RESOURCE_NOT_FOUND, code::METHOD_NOT_FOUND].contains(&error.code())
}

/// Makes the error for a URI without a server.
pub(super) fn refused(caller: &Caller, failure: &Error) -> ErrorObject {
    match failure {
        Error::ResourceNotFound { uri } => era::no_resource(caller, uri),
        other => error::object(other, caller.version.era()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Scene, legacy, raw, text};
    use super::*;
    use crate::manager::{Config, Manager, Scope};
    use auth::{Principal, Role};
    use protocol::{Request, RequestId, Version};
    use runtime::shutdown::Shutdown;
    use upstream::fake::{self, Answer, Fake};

    /// Returns the reply to a caller.
    async fn answered(scene: &Scene, caller: &Caller, method: &str, params: &str) -> Reply {
        let id = RequestId::from_u64(1);
        let request = Request { id, method: method.into(), params: Some(raw(params)) };
        collect(scene.gateway.handle(caller, &request, &EventSender::none()).await, caller.version.era())
            .await
    }

    #[tokio::test(start_paused = true)]
    async fn requests_to_a_server_need_more_than_a_reader_and_lists_do_not() {
        let scene = Scene::with(Version::V2025_11_25).await;
        let mut reader = legacy("{}");
        reader.principal = Principal::new("r", Role::Reader);
        for method in ["prompts/list", "resources/list", "resources/templates/list", "tools/list"] {
            assert!(answered(&scene, &reader, method, "{}").await.is_ok(), "{method}");
        }
        for (method, params) in [
            ("prompts/get", r#"{"name":"p"}"#),
            ("resources/read", r#"{"uri":"test://x"}"#),
            ("resources/subscribe", r#"{"uri":"test://x"}"#),
            ("completion/complete", r#"{"ref":{"type":"ref/resource","uri":"test://x"}}"#),
            ("tools/call", r#"{"name":"echo"}"#),
        ] {
            let refused = answered(&scene, &reader, method, params).await;
            assert!(text(&refused).contains(r#""code":"forbidden""#), "{method}: {}", text(&refused));
            assert!(text(&refused).contains("needs the role caller"), "{method}: {}", text(&refused));
            assert_eq!(scene.server.executed(method), 0, "{method}");
            let mut caller = legacy("{}");
            caller.principal = Principal::new("c", Role::Caller);
            let answer = answered(&scene, &caller, method, params).await;
            assert!(!text(&answer).contains("forbidden"), "{method}: {}", text(&answer));
        }
    }

    /// Reads an unlisted URI at servers of which some hang. Returns the time and the reply.
    async fn read_at(servers: &[bool]) -> (Duration, Reply) {
        let fakes = servers.iter().map(|hangs| {
            let (fake, hangs) = (Fake::new(Version::V2025_11_25), *hangs);
            fake.capabilities(&serde_json::json!({"resources": {}}));
            fake.answer(move |call| {
                let found = || Answer::result(&serde_json::json!({"contents": []}));
                (call.method == "resources/read").then(|| if hangs { Answer::Silence } else { found() })
            });
            fake
        });
        let fakes: Vec<_> = fakes.collect();
        let names = (0..fakes.len()).map(|number| fake::config(&format!("s{number}"))).collect();
        let connectors = fakes.iter().map(Fake::connector).collect();
        let shutdown = Shutdown::new();
        let manager = Manager::with_connectors(Config::of(names), connectors, shutdown.child());
        manager.settled(&Scope::ALL, Duration::from_secs(1)).await;
        let gateway = Gateway::new(manager, shutdown);
        let (started, params) = (Instant::now(), raw(r#"{"uri":"a://b"}"#));
        let reply = read(&gateway, &legacy("{}"), Some(&params), &EventSender::none()).await;
        (started.elapsed(), reply)
    }

    #[tokio::test(start_paused = true)]
    async fn several_servers_that_hang_take_no_longer_than_one() {
        let (took, reply) = read_at(&[true; 8]).await;
        assert_eq!(took, TRIALS, "{}", text(&reply));
        assert!(text(&reply).contains(r#""code":"timed_out""#), "{}", text(&reply));
        let (took, reply) = read_at(&[true, true, true, true, true, true, true, false]).await;
        assert_eq!((took, reply.is_ok()), (TRIALS / 8 * 7, true), "the last one still has its share");
        let (took, reply) = read_at(&[true, false]).await;
        assert_eq!((took, reply.is_ok()), (TRIAL, true));
    }

    #[tokio::test(start_paused = true)]
    async fn where_nobody_has_resources_nobody_is_asked() {
        let scene = Scene::with(Version::V2025_11_25).await;
        let refused = answered(&scene, &legacy("{}"), "resources/read", r#"{"uri":"a://é"}"#).await;
        assert_eq!(
            text(&refused),
            r#"{"code":-32002,"message":"there is no resource \"a://é\"","data":{"code":"resource_not_found","detail":"there is no resource \"a://é\"","hint":"list the resources with `resources/list` and use one of their URIs","retryable":false,"type":"not_found","uri":"a://é"}}"#
        );
        assert_eq!(scene.server.executed("resources/read"), 0);
    }
}
