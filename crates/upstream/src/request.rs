//! A request on its way to the server: a call, or lists or a health check in a lane of their own.
//!
//! Not here: the layers that it passes (`layers`).

use std::sync::{Arc, OnceLock};

use tokio::time::Instant;

use super::Upstream;
use super::bulkhead::Lane;
use super::connection::{Call, Connection, EventSender, RequestFuture};
use super::dialect::PoolRequest;
use super::discover::{self, Discovery};
use super::error::Error;
use super::forwarded_headers::ForwardedHeaders;
use super::offer::Offer;
use super::response_stream::ResponseBody;
use super::retry::RetrySafety;
use json::Raw;
use protocol::LogLevel;

/// One request to the server, as its layers see it.
pub(super) struct Request<'a> {
    /// Its name in traces: a method.
    pub name: &'a str,
    /// Whether it may be repeated.
    pub safety: RetrySafety,
    /// The kind of slot that it takes.
    pub lane: Lane,
    /// The connection that it needs.
    pub connection: PoolRequest<'a>,
    /// Where messages of the server go. Server requests pause the deadline.
    pub events: &'a EventSender,
    work: Work<'a>,
}

/// The use of the connection.
enum Work<'a> {
    Call(&'a Call),
    /// Lists are read into an offer. The response is empty, or the server's refusal to list.
    Lists(&'a Discovery, &'a OnceLock<Offer>),
    /// Asks whether the server is alive, since the given time.
    Check(Instant),
}

impl<'a> Request<'a> {
    /// The call of a client, a program or a part of Switchyard.
    pub(super) fn call(call: &'a Call, events: &'a EventSender) -> Self {
        Self {
            name: &call.method,
            safety: RetrySafety::of(call),
            lane: Lane::of(&call.method),
            connection: PoolRequest::of(call),
            events,
            work: Work::Call(call),
        }
    }

    /// The headers of its client that it carries on.
    pub(super) fn forwarded(&self) -> Option<&ForwardedHeaders> {
        if let PoolRequest::Of(call) = self.connection { call.forwarded.as_ref() } else { None }
    }

    /// A health check that begins now.
    pub(super) fn check() -> Self {
        Self::of_gateway("health", PoolRequest::Own, Work::Check(Instant::now()))
    }

    fn of_gateway(name: &'a str, connection: PoolRequest<'a>, work: Work<'a>) -> Self {
        let lane = match connection {
            PoolRequest::Own => Lane::Own,
            PoolRequest::Of(_) => Lane::ClientLists,
        };
        let events = const { &EventSender::none() };
        Self { name, safety: RetrySafety::Read, lane, connection, events, work }
    }

    /// Returns the principal that it is made for.
    pub(super) fn principal(&self) -> Option<&'a Arc<str>> {
        self.connection.principal()
    }

    /// Returns the least level of log lines that its client requested, if any.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        if let PoolRequest::Of(call) = self.connection { call.sender.log_level } else { None }
    }

    /// Whether a caller waits for its response.
    pub(super) const fn is_a_call(&self) -> bool {
        matches!(self.work, Work::Call(_))
    }

    /// Whether the server may be silent because it works on another request.
    pub(super) fn is_excused(&self, upstream: &Upstream) -> bool {
        let Work::Check(started) = self.work else { return false };
        upstream.liveness.is_excused() || upstream.was_heard_for(started.elapsed())
    }

    /// Makes the request once. It has no deadline of its own.
    pub(super) fn send<'b>(
        &'b self,
        upstream: &'b Upstream,
        connection: &'b dyn Connection,
    ) -> RequestFuture<'b> {
        match self.work {
            Work::Call(call) => connection.request(call, self.events),
            Work::Lists(discovery, offer) => Box::pin(async move {
                let read = discovery.on(connection).await?;
                Ok(ResponseBody::Buffered(read.map(|read| {
                    offer.get_or_init(|| read);
                    Raw::empty_object()
                })))
            }),
            Work::Check(_) => Box::pin(upstream.check_on(connection)),
        }
    }
}

impl Upstream {
    /// Reads the lists once, on a connection as `connection` needs it.
    pub(super) async fn read_offer(
        self: &Arc<Self>,
        discovery: &Discovery,
        connection: PoolRequest<'_>,
    ) -> Result<Offer, Error> {
        let offer = OnceLock::new();
        let request = Request::of_gateway("discovery", connection, Work::Lists(discovery, &offer));
        let reply = self.run_once(&request, discovery.deadline).await?.body.collect().await?;
        reply.map_err(|refusal| discover::refused(&refusal))?;
        offer.into_inner().ok_or_else(|| Error::Lost { reason: "its lists were not read".into() })
    }
}
