//! A modern server: every request describes itself, in its body and in its headers.
//!
//! Source: 2026-07-28 `basic/transports/streamable-http`. There is no session, so a connection is
//! what is known of the server. Dropping a request closes its stream, which cancels it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::Server;
use super::answer::{Hear, Outcome, Reader, Refusal};
use crate::protocol::error::code;
use crate::protocol::lifecycle::Peer;
use crate::protocol::{
    Era, ErrorObject, Message, Notification, Raw, Reply, Request, Version, headers, meta, method,
};
use crate::upstream::connection::{Call, Connection, Event, Events, Outlet};
use crate::upstream::error::Error;
use crate::upstream::transport::closing::Closing;
use crate::upstream::transport::{compose, handshake, inbound, listen};

/// A live connection to a modern server. Dropping it ends what runs for it.
pub(super) struct Modern {
    peer: Peer,
    wire: Arc<Wire>,
}

/// How requests get to the server, before anything is known of it too.
pub(super) struct Wire {
    server: Arc<Server>,
    events: Events,
    last_id: AtomicU64,
    closing: Closing,
}

impl Wire {
    pub(super) fn new(server: Arc<Server>, events: Events) -> Arc<Self> {
        Arc::new(Self { server, events, last_id: AtomicU64::new(0), closing: Closing::default() })
    }

    /// Asks what the server is.
    pub(super) async fn discover(&self) -> Result<Outcome, Error> {
        self.send(&Call::of_gateway(method::DISCOVER, None), &Outlet::none(), false).await
    }

    /// Sends one request and reads its answer. `again` says that a stream of change notices was
    /// open before.
    async fn send(&self, call: &Call, outlet: &Outlet, again: bool) -> Result<Outcome, Error> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let request = compose(call, id, Era::Modern);
        let client = &self.server.client;
        let once = !call.effect.is_repeatable();
        let response = client.post(&client.url, metadata(&request, call), request.encode(), once).await?;
        let token = call.wants_progress.then_some(id);
        let hear = OfCall { token, outlet, events: &self.events, again };
        let reader = Reader { id, limit: client.limit, hear: &hear, shutdown: &self.server.shutdown };
        reader.read(response).await.map_err(|broken| broken.error)
    }

    async fn exchange(&self, call: &Call, outlet: &Outlet) -> Result<Reply, Error> {
        let outcome = tokio::select! {
            outcome = self.send(call, outlet, false) => outcome?,
            reason = self.closing.wait() => return Err(Error::Lost { reason }),
        };
        if let Outcome::Refusal(Refusal { status, error, .. }) = &outcome
            && matches!(status.as_u16(), 400 | 404 | 405)
        {
            // A modern server names the request it refuses. So it was not read by one.
            let said =
                error.as_ref().map(|error| format!(": {}", handshake::said(error))).unwrap_or_default();
            let reason = format!("the server answers HTTP {} like one of another era{said}", status.as_u16());
            return Err(self.misfit(reason));
        }
        let reply = outcome.into_reply()?;
        match reply.as_ref().map_err(ErrorObject::code) {
            Err(code::UNSUPPORTED_PROTOCOL_VERSION) => {
                drop(self.misfit("the server no longer speaks this revision".into()));
            }
            // The tool's parameters are not what they were; a new list tells.
            Err(code::HEADER_MISMATCH) => self.events.report(Event::ToolsChanged),
            _ => {}
        }
        Ok(reply)
    }

    /// The server is not what it was: the next connection finds out what it is now.
    fn misfit(&self, reason: String) -> Error {
        self.server.kind.set(None);
        self.closing.close(reason.clone());
        Error::NotSent { reason }
    }
}

impl Modern {
    pub(super) fn new(peer: Peer, wire: Arc<Wire>) -> Self {
        let (shutdown, closing) = (wire.server.shutdown.clone(), wire.closing.clone());
        wire.server.shutdown.spawn(async move {
            tokio::select! {
                () = shutdown.requested() => closing.close("the connection was closed"),
                _ = closing.wait() => {}
            }
        });
        if listen::is_offered(&peer) {
            listen_for_changes(Arc::clone(&wire));
        }
        Self { peer, wire }
    }
}

/// Keeps a stream of change notices open until the connection closes.
fn listen_for_changes(wire: Arc<Wire>) {
    let shutdown = wire.server.shutdown.clone();
    shutdown.spawn_until_end(async move {
        let call = listen::call();
        let opened = AtomicU64::new(0);
        let open = || async {
            let again = opened.fetch_add(1, Ordering::Relaxed) > 0;
            wire.send(&call, &Outlet::none(), again).await?.into_reply()
        };
        tokio::select! {
            () = listen::keep_open(open) => {}
            _ = wire.closing.wait() => {}
        }
    });
}

impl Connection for Modern {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn request<'a>(&'a self, call: &'a Call, outlet: &'a Outlet) -> BoxFuture<'a, Result<Reply, Error>> {
        self.wire.exchange(call, outlet).boxed()
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        self.wire.closing.wait().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async { self.wire.closing.close("the connection was closed") }.boxed()
    }
}

impl Drop for Modern {
    fn drop(&mut self) {
        self.wire.closing.close("the connection was dropped");
    }
}

/// Takes what a modern server says during a call.
struct OfCall<'a> {
    token: Option<u64>,
    outlet: &'a Outlet,
    events: &'a Events,
    again: bool,
}

impl Hear for OfCall<'_> {
    fn hear(&self, message: Message) {
        match message {
            Message::Notification(said)
                if said.method == method::SUBSCRIPTIONS_ACKNOWLEDGED && self.again =>
            {
                // Nobody told what changed while the stream was closed.
                self.events.report(Event::ToolsChanged);
            }
            Message::Notification(said) => {
                let said = inbound::sort(said, self.events).filter(|said| belongs(said, self.token));
                if let Some(said) = said {
                    self.outlet.offer(said);
                }
            }
            // It must not ask anything here, and there is no way to answer.
            Message::Request(_) | Message::Response(_) => {}
        }
    }
}

/// Whether a notification on the stream of a call is for its caller: progress only when it was
/// asked for, everything else is.
pub(super) fn belongs(notification: &Notification, token: Option<u64>) -> bool {
    let named = || notification.params.as_ref()?.get_as("progressToken");
    notification.method != method::PROGRESS || (token.is_some() && token == named())
}

/// The headers that mirror the body.
fn metadata(request: &Request, call: &Call) -> HeaderMap {
    let params = request.params.as_ref();
    let claimed = meta::claimed_version(params).and_then(|version| version.read::<String>().ok());
    let version = claimed.as_deref().unwrap_or(Version::NEWEST_MODERN.as_str());
    let mut map = HeaderMap::new();
    put(&mut map, headers::PROTOCOL_VERSION, version);
    put(&mut map, headers::METHOD, &request.method);
    if let Some(name) = subject(&request.method, params) {
        put(&mut map, headers::NAME, &name);
    }
    let arguments = params.and_then(|params| params.get("arguments"));
    for param in call.header_params.iter() {
        if let Some(value) = param.value_in(arguments.as_ref()) {
            put(&mut map, &param.header_name(), &value);
        }
    }
    map
}

/// What the request is about, for `Mcp-Name`.
fn subject(name: &str, params: Option<&Raw>) -> Option<String> {
    let member = match name {
        method::TOOLS_CALL | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return None,
    };
    params?.get_as(member)
}

fn put(map: &mut HeaderMap, name: &str, value: &str) {
    let value = HeaderValue::from_str(&headers::encode(value));
    // Neither can fail: names are tokens by construction, encoded values are visible ASCII.
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), value) {
        map.insert(name, value);
    }
}
