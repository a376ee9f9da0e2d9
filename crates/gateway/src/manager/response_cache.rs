//! Caches results of tools, if the operator configured that (`tools: {cache: {ttl}}`).
//!
//! Invariants: a result is cached only if its tool changes nothing, it is final and successful, and no user
//! or client was asked for input. It is cached for its principal, unless a modern server declared it public.
//! No cached result is returned for a disabled or disconnected server.
//!
//! The key contains everything that a result may depend on: the server and its address, the definition of the
//! tool, and the number of changes of its tool list. It also contains the parameters without `_meta`, the
//! era and the abilities of the client, and the headers of the client that the server gets.
//!
//! Not here: the storage of entries (`store`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use tokio::time::sleep_until;

use super::apply::is_in;
use super::snapshot::Server;
use super::{Error, Manager, failed_at};
use crate::manager::routed_request::{RequestEnd, RoutedRequest};
use json::Raw;
use protocol::caching::{self, Caching};
use protocol::feature::List;
use protocol::{Era, ErrorObject, Reply, Version};
use runtime::store::{CacheKeys, CacheScope, Group, Key, Made};
use upstream::{Call, Deadline, EventSender, ResponseBody, ServerResponse};

/// Name under which these results are counted.
const AREA: &str = "tools";
/// Parameters of a call that is part of a longer exchange.
const GOES_ON: [&str; 3] = ["inputResponses", "requestState", "task"];
/// Extra time after the deadline, so that the call can report its own error.
const MARGIN: Duration = Duration::from_millis(500);

/// A call whose result may be cached.
pub(super) struct CacheableCall<'a> {
    server: &'a Server,
    request: &'a RoutedRequest,
    ttl: Duration,
    principal: &'a Arc<str>,
}

/// Why there is no result.
#[derive(Clone)]
enum Failure {
    /// The server could not be called, or its response was lost.
    Ours(upstream::Error),
    /// The server answered with an error.
    Theirs(ErrorObject, Version),
    /// The call is not permitted any longer.
    Refused(Box<Error>),
}

impl<'a> CacheableCall<'a> {
    /// Accepts `request` if its response may be cached. For most servers one comparison decides.
    pub(super) fn of(server: &'a Server, request: &'a RoutedRequest) -> Option<Self> {
        let ttl = server.upstream.config().tools.cache_ttl?;
        let principal = request.call.principal.as_ref().filter(|_| !server.upstream.keeps_state())?;
        let fits = request.tool().is_some()
            && request.call.effect.is_read_only()
            && GOES_ON.iter().all(|member| request.params().part(member).is_none());
        fits.then_some(Self { server, request, ttl, principal })
    }

    /// Returns the keys of the result: for the principal, and for all.
    fn keys(&self) -> (Key, Key) {
        let (server, tool) = (&self.server.upstream.config(), &self.request.subject);
        let tools = self.server.catalog.all_tools();
        let definition = tools.iter().find(|entry| entry.route.subject == *tool);
        let params = self.request.params().without("_meta");
        let forwarded = self.request.call.forwarded.as_ref();
        let forwarded = forwarded.map(|headers| headers.of_server(server.forwarded_headers()));
        let inputs = (
            // Another account may get another result.
            (server.source.bytes(), self.server.revisions.of(List::Tools)),
            (tool, definition.map(|entry| entry.definition.as_str())),
            params.as_str(),
            (self.request.call.era == Era::Modern, self.request.call.sender.capabilities.as_str()),
            forwarded.filter(|headers| !headers.is_empty()),
        );
        let own = Group::new(&[AREA, &server.name, "principal", self.principal]);
        let common = Group::new(&[AREA, &server.name, "public"]);
        (Key::new(&own, &inputs), Key::new(&common, &inputs))
    }

    fn deadline(&self) -> Deadline {
        self.request.deadline()
    }

    /// Returns for whom a result is cached, and how long.
    fn keep(&self, result: &Raw, version: Version, event_sender: &EventSender) -> CacheScope {
        let is_final = result.part("resultType").is_none_or(|kind| kind.says("complete"))
            && result.part("task").is_none()
            && result.get("isError").is_none_or(|failed| failed.as_str() == "false");
        let caching = Caching::of(result, version.era());
        // If the server says nothing, the configuration decides.
        let own_ttl = result.part(caching::TTL).map_or(self.ttl, |_| Duration::from_millis(caching.ttl_ms));
        let is_public = version.is_modern() && caching.is_public;
        match (is_final && !event_sender.was_asked(), self.ttl.min(own_ttl)) {
            (false, _) | (_, Duration::ZERO) => CacheScope::Not,
            (true, ttl) if is_public => CacheScope::Common(ttl),
            (true, ttl) => CacheScope::Own(ttl),
        }
    }

    fn checked(&self, reply: Reply, version: Version) -> (ServerResponse, RequestEnd) {
        let end = self.request.end(Ok(Some(&reply)));
        (self.request.checked(ServerResponse { body: ResponseBody::Buffered(reply), version }), end)
    }
}

impl Manager {
    /// Returns the cached result, or the result of the server, which is then cached if possible.
    pub(super) async fn recall(
        &self,
        call: &CacheableCall<'_>,
        event_sender: &EventSender,
    ) -> Result<(ServerResponse, RequestEnd), Error> {
        let result = match call.server.upstream.check_open() {
            Ok(()) => self.recalled(call, event_sender).await,
            Err(error) => Err(Failure::Ours(error)),
        };
        match result {
            Ok((result, version)) => Ok(call.checked(Ok(result), version)),
            Err(Failure::Theirs(error, version)) => Ok(call.checked(Err(error), version)),
            // The call waited in the cache, and its server was replaced and stopped meanwhile.
            Err(Failure::Ours(upstream::Error::Unavailable { .. }))
                if !is_in(&call.server.upstream, &self.snapshot()) =>
            {
                self.receive_anew(call, event_sender).await
            }
            Err(Failure::Ours(source)) => Err(failed_at(&call.server.upstream, call.request.tool(), source)),
            Err(Failure::Refused(error)) => Err(*error),
        }
    }

    async fn ask(
        &self,
        call: &CacheableCall<'_>,
        event_sender: &EventSender,
    ) -> Result<(Raw, Version), Failure> {
        self.check_permitted(call)?;
        let CacheableCall { server, request, .. } = *call;
        let made = Call { terms: None, ..(*request.call).clone() };
        request.call.attempts.hand_over(&made.attempts);
        // Boxed: it is large, and its callers have room for several.
        let answered = Box::pin(server.upstream.call(&made, call.deadline(), event_sender)).await;
        made.attempts.hand_over(&request.call.attempts);
        let reply = answered.as_ref().map(|answered| answered.body.as_buffered());
        self.published.recorder.ended(request, server, request.end(reply));
        let ServerResponse { body, version } = answered.map_err(Failure::Ours)?;
        match body.collect().await.map_err(Failure::Ours)? {
            Ok(result) => Ok((result, version)),
            Err(error) => Err(Failure::Theirs(error, version)),
        }
    }

    /// Checks the policy again, because a call may have waited for an equal one. At a server that is gone, no call waits.
    fn check_permitted(&self, call: &CacheableCall<'_>) -> Result<(), Failure> {
        let snapshot = self.seen_by(call.request.call.affinity.as_ref());
        let Ok(server) = snapshot.server(call.request.server_name()) else { return Ok(()) };
        call.request.check_policy(server).map_err(|error| Failure::Refused(Box::new(error)))
    }

    /// Sends the request to the server that has its name now.
    fn receive_anew<'a>(
        &'a self,
        call: &'a CacheableCall<'_>,
        event_sender: &'a EventSender,
    ) -> BoxFuture<'a, Result<(ServerResponse, RequestEnd), Error>> {
        Box::pin(async {
            let renewed = self.renewed(call.request.clone())?;
            call.request.call.attempts.hand_over(&renewed.call.attempts);
            let called = self.call_unrecorded(&renewed, event_sender).await;
            renewed.call.attempts.hand_over(&call.request.call.attempts);
            called
        })
    }

    /// Returns a cached or new result. A caller that has waited half its deadline for another call sends its
    /// own request. The other call may be waiting for a user, or may have had less time.
    async fn recalled(
        &self,
        call: &CacheableCall<'_>,
        event_sender: &EventSender,
    ) -> Result<(Raw, Version), Failure> {
        let (own, common) = call.keys();
        let (started, deadline, asks) = (call.request.started, call.deadline(), AtomicBool::new(false));
        let make = async {
            asks.store(true, Ordering::Relaxed);
            let (result, version) = self.ask(call, event_sender).await?;
            Ok(Made { value: written(&result, version), keep: call.keep(&result, version, event_sender) })
        };
        let places = CacheKeys { own: &own, common: Some(&common) };
        let fetched = self.store.fetch_made(places, make);
        let impatient = async {
            sleep_until(started + deadline.at.saturating_duration_since(started) / 2).await;
            if asks.load(Ordering::Relaxed) {
                // This call itself takes the time. The timeout is a precaution against one that never ends.
                event_sender.expired(deadline.plus(MARGIN)).await;
                return Err(Failure::Ours(upstream::Error::TimedOut { after: started.elapsed() }));
            }
            self.ask(call, event_sender).await
        };
        let fetched = tokio::select! {
            biased;
            fetched = fetched => fetched,
            answered = impatient => return answered,
        };
        match fetched {
            Ok(fetched) => match read(&fetched.value) {
                Some(answer) if asks.load(Ordering::Relaxed) => Ok(answer),
                Some(answer) => self.check_permitted(call).map(|()| answer),
                // Another program wrote this value.
                None => self.ask(call, event_sender).await,
            },
            // The other call timed out, not this one.
            Err(Failure::Ours(upstream::Error::TimedOut { .. })) if !asks.load(Ordering::Relaxed) => {
                self.ask(call, event_sender).await
            }
            Err(failure) => Err(failure),
        }
    }
}

/// Returns the cached form of a result: its revision, a line break, and the result.
fn written(result: &Raw, version: Version) -> Bytes {
    let mut bytes = BytesMut::with_capacity(16 + result.bytes().len());
    bytes.put_slice(version.as_str().as_bytes());
    bytes.put_u8(b'\n');
    bytes.put_slice(result.bytes());
    bytes.freeze()
}

fn read(cached: &Bytes) -> Option<(Raw, Version)> {
    let at = cached.iter().position(|byte| *byte == b'\n')?;
    let version = Version::from_name(std::str::from_utf8(&cached[..at]).ok()?)?;
    let result = Raw::parse(&cached.slice(at + 1..)).ok()?;
    result.is_object().then_some((result, version))
}

#[cfg(test)]
#[path = "response_cache_tests.rs"]
mod tests;
