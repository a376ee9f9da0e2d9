//! Answers of tools that are given again, where the operator wants that (`tools: {cache: {ttl}}`).
//!
//! Invariants: only the answers of tools that change nothing are kept, and only final ones that went well;
//! none that came of anything a person or a client was asked; each for the principal who asked, unless a
//! modern server said that it is for everybody. A server that takes no calls is not answered for.
//!
//! What an answer may depend on is in its key: the server and its address, what it says of the tool, how
//! often its list of tools changed, the parameters but `_meta`, and the era and the abilities of the client.
//!
//! Not here: how answers are kept (`store`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use tokio::time::sleep_until;

use super::apply::is_in;
use super::snapshot::Server;
use super::{Error, Manager, failed_at};
use crate::manager::routed_request::{Called, RoutedRequest};
use json::Raw;
use protocol::caching::{self, Caching};
use protocol::feature::List;
use protocol::{Era, ErrorObject, Version};
use runtime::store::{Group, Keep, Key, Made, Places};
use upstream::{Answered, Call, Deadline, Outlet, ResponseBody};

/// The area that these answers are counted in.
const AREA: &str = "tools";
/// Parameters with which a call is part of something longer.
const GOES_ON: [&str; 3] = ["inputResponses", "requestState", "task"];
/// Beyond its deadline a call has so long to say itself what went wrong.
const MARGIN: Duration = Duration::from_millis(500);

/// A call whose answer may be given again.
pub(super) struct Recall<'a> {
    server: &'a Server,
    request: &'a RoutedRequest,
    ttl: Duration,
    principal: &'a Arc<str>,
}

/// Why there is no answer to keep.
#[derive(Clone)]
enum Failure {
    /// Between us and the server.
    Ours(upstream::Error),
    /// The server's own.
    Theirs(ErrorObject, Version),
}

impl<'a> Recall<'a> {
    /// `request`, if its response may be cached. For most servers one comparison decides.
    pub(super) fn of(server: &'a Server, request: &'a RoutedRequest) -> Option<Self> {
        let ttl = server.upstream.config().tools.cache_ttl?;
        let principal = request.call.principal.as_ref().filter(|_| !server.upstream.keeps_state())?;
        let fits = request.tool().is_some()
            && request.call.effect.is_read_only()
            && GOES_ON.iter().all(|member| request.params().part(member).is_none());
        fits.then_some(Self { server, request, ttl, principal })
    }

    /// Under which keys the answer is kept: for the principal, and for everybody.
    fn keys(&self) -> (Key, Key) {
        let (server, tool) = (&self.server.upstream.config(), &self.request.subject);
        let tools = self.server.catalog.tools();
        let definition = tools.iter().find(|entry| entry.route.subject == *tool);
        let params = self.request.params().without("_meta");
        let inputs = (
            // Another account may be answered otherwise.
            (server.source.bytes(), self.server.revisions.of(List::Tools)),
            (tool, definition.map(|entry| entry.definition.as_str())),
            params.as_str(),
            (self.request.call.era == Era::Modern, self.request.call.sender.capabilities.as_str()),
        );
        let own = Group::new(&[AREA, &server.name, "principal", self.principal]);
        let common = Group::new(&[AREA, &server.name, "public"]);
        (Key::new(&own, &inputs), Key::new(&common, &inputs))
    }

    fn deadline(&self) -> Deadline {
        self.request.deadline(&self.server.upstream)
    }

    async fn ask(&self, outlet: &Outlet) -> Result<(Raw, Version), Failure> {
        let call = Call { terms: None, ..(*self.request.call).clone() };
        // Boxed: it is large, and its callers have room for several.
        let answered = Box::pin(self.server.upstream.call(&call, self.deadline(), outlet)).await;
        let reply = answered.as_ref().map(|answered| answered.body.as_buffered());
        self.server.ended(reply, self.request.begun.elapsed());
        let Answered { body, version } = answered.map_err(Failure::Ours)?;
        match body.collect().await.map_err(Failure::Ours)? {
            Ok(result) => Ok((result, version)),
            Err(error) => Err(Failure::Theirs(error, version)),
        }
    }

    /// For whom a result is, and how long.
    fn keep(&self, result: &Raw, version: Version, outlet: &Outlet) -> Keep {
        let is_final = result.part("resultType").is_none_or(|kind| kind.says("complete"))
            && result.part("task").is_none()
            && result.get("isError").is_none_or(|failed| failed.as_str() == "false");
        let said = Caching::of(result, version.era());
        // A server that says nothing leaves it to the operator.
        let own_ttl = result.part(caching::TTL).map_or(self.ttl, |_| Duration::from_millis(said.ttl_ms));
        let is_public = version.is_modern() && said.is_public;
        match (is_final && !outlet.was_asked(), self.ttl.min(own_ttl)) {
            (false, _) | (_, Duration::ZERO) => Keep::Not,
            (true, ttl) if is_public => Keep::Common(ttl),
            (true, ttl) => Keep::Own(ttl),
        }
    }

    fn called(&self, reply: Result<Raw, ErrorObject>, version: Version) -> Called<ResponseBody> {
        self.request.called(ResponseBody::Buffered(reply), version)
    }
}

impl Manager {
    /// The answer that is kept, or the server's, which is then kept where it may be.
    pub(super) async fn recall(
        &self,
        call: &Recall<'_>,
        outlet: &Outlet,
    ) -> Result<Called<ResponseBody>, Error> {
        let result = match call.server.upstream.check_open() {
            Ok(()) => self.recalled(call, outlet).await,
            Err(error) => Err(Failure::Ours(error)),
        };
        match result {
            Ok((result, version)) => Ok(call.called(Ok(result), version)),
            Err(Failure::Theirs(error, version)) => Ok(call.called(Err(error), version)),
            // It waited where no server saw it, and its server was replaced and had ended meanwhile.
            Err(Failure::Ours(upstream::Error::Unavailable { .. }))
                if !is_in(&call.server.upstream, &self.snapshot()) =>
            {
                self.receive_anew(call, outlet).await
            }
            Err(Failure::Ours(source)) => Err(failed_at(&call.server.upstream, call.request.tool(), source)),
        }
    }

    /// The same at whatever has the place of its server now.
    fn receive_anew<'a>(
        &'a self,
        call: &'a Recall<'_>,
        outlet: &'a Outlet,
    ) -> BoxFuture<'a, Result<Called<ResponseBody>, Error>> {
        Box::pin(self.call(call.request, outlet))
    }

    /// The same. Who waits for another's call does so for half of the time that it has, and then asks as
    /// well: the other may be waiting for a person, or had less time to begin with.
    async fn recalled(&self, call: &Recall<'_>, outlet: &Outlet) -> Result<(Raw, Version), Failure> {
        let (own, common) = call.keys();
        let (begun, deadline, asks) = (call.request.begun, call.deadline(), AtomicBool::new(false));
        let make = async {
            asks.store(true, Ordering::Relaxed);
            let (result, version) = call.ask(outlet).await?;
            Ok(Made { value: written(&result, version), keep: call.keep(&result, version, outlet) })
        };
        let places = Places { own: &own, common: Some(&common) };
        let fetched = self.store.fetch_made(places, make);
        let impatient = async {
            sleep_until(begun + deadline.at.saturating_duration_since(begun) / 2).await;
            if asks.load(Ordering::Relaxed) {
                // It is our call that takes its time; but one that never ends by itself would be a fault.
                outlet.expired(deadline.plus(MARGIN)).await;
                return Err(Failure::Ours(upstream::Error::TimedOut { after: begun.elapsed() }));
            }
            call.ask(outlet).await
        };
        let fetched = tokio::select! {
            biased;
            fetched = fetched => fetched,
            answered = impatient => return answered,
        };
        match fetched {
            Ok(fetched) => match read(&fetched.value) {
                Some(answer) => Ok(answer),
                // Not what we write: somebody else wrote there.
                None => call.ask(outlet).await,
            },
            // Whose time was over was the other.
            Err(Failure::Ours(upstream::Error::TimedOut { .. })) if !asks.load(Ordering::Relaxed) => {
                call.ask(outlet).await
            }
            Err(failure) => Err(failure),
        }
    }
}

/// A result as it is kept: the revision in which it was given, a line break, the result.
fn written(result: &Raw, version: Version) -> Bytes {
    let mut bytes = BytesMut::with_capacity(16 + result.bytes().len());
    bytes.put_slice(version.as_str().as_bytes());
    bytes.put_u8(b'\n');
    bytes.put_slice(result.bytes());
    bytes.freeze()
}

fn read(kept: &Bytes) -> Option<(Raw, Version)> {
    let at = kept.iter().position(|byte| *byte == b'\n')?;
    let version = Version::from_name(std::str::from_utf8(&kept[..at]).ok()?)?;
    let result = Raw::parse(&kept.slice(at + 1..)).ok()?;
    result.is_object().then_some((result, version))
}

#[cfg(test)]
#[path = "response_cache_tests.rs"]
mod tests;
