//! A built-in server as a connection like any other, in the modern era.
//!
//! Nothing is sent and nothing can be lost, because a call is a future in this process. Invariant: an answer
//! of a built-in takes the same path as an answer over the network, so the layers above treat both alike.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use serde_json::json;

use super::tool::Tool;
use super::{Builtin, BuiltinInfo, Report, no_method, no_text};
use json::Raw;
use protocol::caching::Caching;
use protocol::lifecycle::Peer;
use protocol::{Era, Notification, Reply, Version, method};
use upstream::api::{
    Call, Connection, Connector, Dialect, Error, EventSender, Events, Offer, RequestFuture, ResponseBody,
};

/// Member of `subscriptions/listen` with the URIs of resources.
const RESOURCES: &str = "resourceSubscriptions";

/// Opens the server when it is first needed, and again after a failure. For example, a missing folder may
/// exist later.
pub struct InProcessConnector<F> {
    open: F,
    declared: Option<Declared>,
}

impl<F, B> InProcessConnector<F>
where
    F: Fn(Events) -> BoxFuture<'static, Result<B, Error>> + Send + Sync + 'static,
    B: Builtin,
{
    /// A connector whose connections are servers made by `open`. Each server reports to the events that it is
    /// given.
    pub const fn new(open: F) -> Self {
        Self { open, declared: None }
    }

    /// Adds the offer that is known before `open` has succeeded.
    pub(super) fn declaring(self, declared: Declared) -> Self {
        Self { declared: Some(declared), ..self }
    }
}

impl<F, B> Connector for InProcessConnector<F>
where
    F: Fn(Events) -> BoxFuture<'static, Result<B, Error>> + Send + Sync + 'static,
    B: Builtin,
{
    fn connect(
        &self,
        events: Events,
        _dialect: Dialect,
    ) -> BoxFuture<'static, Result<Arc<dyn Connection>, Error>> {
        let opening = (self.open)(events);
        async move {
            let connection: Arc<dyn Connection> = Arc::new(InProcessConnection::new(opening.await?));
            Ok(connection)
        }
        .boxed()
    }

    fn speaks(&self, era: Era) -> Option<bool> {
        Some(era == Era::Modern)
    }

    fn declared(&self) -> Option<Offer> {
        self.declared.clone().map(Declared::offer)
    }

    fn requests_per_connection(&self) -> usize {
        usize::MAX
    }
}

/// A running built-in server.
struct InProcessConnection<B> {
    builtin: B,
    peer: Peer,
}

/// Returns a list as one page, which is the same for all clients.
fn list(member: &'static str, items: &[Raw]) -> Raw {
    Raw::object(&[
        (member, &Raw::of(items)),
        ("ttlMs", &Raw::of(&LISTS.ttl_ms)),
        ("cacheScope", &Raw::of(LISTS.scope())),
    ])
}

impl<B: Builtin> InProcessConnection<B> {
    fn new(builtin: B) -> Self {
        let subscribable = builtin.resources().map(|_| !builtin.subscribable_resources().is_empty());
        let peer = peer(&B::INFO, subscribable);
        Self { builtin, peer }
    }

    async fn answer(&self, call: &Call, event_sender: &EventSender) -> Result<Reply, Error> {
        match call.method.as_str() {
            method::TOOLS_CALL => self.call(call.params.as_ref(), &Report::of(call, event_sender)).await,
            method::TOOLS_LIST => Ok(Ok(list("tools", &self.builtin.tools()))),
            // Here the request only checks health. The layers above have the description from `peer`.
            method::DISCOVER => self.builtin.health().await.map(|()| Ok(Raw::empty_object())),
            method::RESOURCES_LIST if let Some(all) = self.builtin.resources() => {
                Ok(Ok(list("resources", &all)))
            }
            method::RESOURCES_READ => match call.params.as_ref().and_then(|params| params.text("uri")) {
                Some(uri) => self.builtin.read(&uri, &Report::of(call, event_sender)).await,
                None => Ok(Err(no_text(
                    "uri",
                    call.params.as_ref().and_then(|params| params.get("uri")).as_ref(),
                ))),
            },
            method::SUBSCRIPTIONS_LISTEN => self.listen(call.params.as_ref(), event_sender).await,
            other => Ok(Err(no_method(other))),
        }
    }

    /// Acknowledges the notifications that the built-in sends, and stays open. The notifications come as
    /// events.
    async fn listen(&self, params: Option<&Raw>, event_sender: &EventSender) -> Result<Reply, Error> {
        let requested =
            params.and_then(|params| params.get("notifications")).unwrap_or_else(Raw::empty_object);
        let mut uris: Vec<String> = requested.get_as(RESOURCES).unwrap_or_default();
        uris.retain(|uri| self.builtin.subscribable_resources().contains(&uri.as_str()));
        let uris = (!uris.is_empty()).then(|| Raw::of(&uris));
        // No built-in has tasks.
        let honoured = requested.edit(&[(RESOURCES, uris.as_ref()), ("taskIds", None)]);
        let params = Some(Raw::object(&[("notifications", &honoured)]));
        event_sender
            .deliver(Notification { method: method::SUBSCRIPTIONS_ACKNOWLEDGED.into(), params })
            .await;
        std::future::pending().await
    }

    async fn call(&self, params: Option<&Raw>, report: &Report) -> Result<Reply, Error> {
        let name: Option<String> = params.and_then(|params| params.get_as("name"));
        let Some(name) = name else {
            return Ok(Err(no_text("name", params.and_then(|params| params.get("name")).as_ref())));
        };
        let arguments = params.and_then(|params| params.get("arguments")).unwrap_or_else(Raw::empty_object);
        self.builtin.call(&name, arguments, report).await
    }
}

impl<B: Builtin> Connection for InProcessConnection<B> {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn request<'a>(&'a self, call: &'a Call, event_sender: &'a EventSender) -> RequestFuture<'a> {
        self.answer(call, event_sender).map_ok(ResponseBody::Buffered).boxed()
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        self.builtin.closed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

/// Caching of the lists of built-in servers: an hour, because the servers report changes.
const LISTS: Caching = Caching { ttl_ms: 3_600_000, is_public: true };

/// The offer of a built-in server before its service answers: what it offers later, except for what it learns from
/// its service. So a client that lists tools once sees them even if the service starts later.
#[derive(Debug, Clone)]
pub(super) struct Declared {
    info: BuiltinInfo,
    tools: Vec<Raw>,
    /// The definitions of its resources, if it has any, and whether clients can subscribe to them.
    resources: Option<(Vec<Raw>, bool)>,
}

impl Declared {
    pub(super) fn new<'t>(info: BuiltinInfo, tools: impl IntoIterator<Item = &'t Tool>) -> Self {
        let tools = tools.into_iter().map(|tool| tool.definition().clone()).collect();
        Self { info, tools, resources: None }
    }

    pub(super) fn with_resources(self, definitions: Vec<Raw>, are_subscribable: bool) -> Self {
        Self { resources: Some((definitions, are_subscribable)), ..self }
    }

    fn offer(self) -> Offer {
        let subscribable = self.resources.as_ref().map(|(_, are_subscribable)| *are_subscribable);
        let resources = self.resources.map(|(definitions, _)| definitions).unwrap_or_default();
        Offer::of_own(peer(&self.info, subscribable), self.tools, resources, LISTS)
    }
}

/// Describes a built-in server. `subscribable` tells whether clients can subscribe to its resources; `None`
/// means no resources.
fn peer(about: &BuiltinInfo, subscribable: Option<bool>) -> Peer {
    let mut capabilities = json!({"tools": {"listChanged": true}});
    if let Some(subscribe) = subscribable {
        capabilities["resources"] = json!({"listChanged": true, "subscribe": subscribe});
    }
    let info = json!({"name": about.name, "title": about.title, "version": env!("CARGO_PKG_VERSION")});
    let instructions = Some(about.instructions.to_owned());
    Peer {
        version: Version::NEWEST_MODERN,
        info: Raw::of(&info),
        capabilities: Raw::of(&capabilities),
        instructions,
    }
}
