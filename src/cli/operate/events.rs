//! The event stream of the gateway: calls, and states of servers, as they happen.
//!
//! Invariants: an event has at most [`MAX_EVENT`] bytes, longer ones are left out. [`Events::last_id`] is the place from
//! which a stream that ended is opened again.
//!
//! Source: `GET /api/v1/mcp/events`. Not here: which events are recorded (`gateway::manager::live_events`).

use std::sync::Arc;

use http::{HeaderName, Method, StatusCode};
use secrecy::SecretString;

use super::super::error::CommandError;
use super::super::remote::{LIMITS, Remote, not_of_a_gateway};
use super::mcp::problem;
use json::Raw;
use net::http::{Decoded, EventStream, is_media_type, whole};
use net::sse::{Event, Item};
use runtime::memory::Payer;

/// The most bytes of one event.
const MAX_EVENT: usize = 1024 * 1024;
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// An open stream.
pub(super) struct Events<'r> {
    remote: &'r Remote,
    stream: EventStream,
}

impl<'r> Events<'r> {
    /// Opens a stream after the event `last`. An empty id means that there was none.
    pub(super) async fn open(
        remote: &'r Remote,
        query: &[(&str, &str)],
        last: Option<&[u8]>,
    ) -> Result<Self, CommandError> {
        let mut request = remote.request(Method::GET, &["api", "v1", "mcp", "events"]).query(query);
        if let Some(id) = last.filter(|id| !id.is_empty()) {
            let id = SecretString::from(String::from_utf8_lossy(id).into_owned());
            request = request.header(&LAST_EVENT_ID, &id);
        }
        let response = remote.open(request).await?;
        let (status, origin): (_, Arc<str>) = (response.status(), remote.origin().into());
        if status != StatusCode::OK {
            let body = whole(response.into_body(), LIMITS.bytes, &origin).await;
            let body = Raw::parse(&body.map_err(|error| remote.lost(&error))?);
            return Err(body.map_or_else(|_| not_of_a_gateway(status), |document| problem(status, &document)));
        }
        if !is_media_type(response.headers(), "text/event-stream") {
            return Err(not_of_a_gateway(status));
        }
        let account = Payer { principal: None, server: &origin }.account();
        Ok(Self { remote, stream: EventStream::of(response.into_body(), MAX_EVENT, account) })
    }

    /// Returns the next event; none at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, CommandError> {
        loop {
            match self.stream.step().await {
                Ok(Some(Decoded { item: Some(Item::Event(event)), .. })) => return Ok(Some(event)),
                Ok(Some(_)) => {}
                Ok(None) => return Ok(None),
                Err(error) => return Err(self.remote.lost(&error)),
            }
        }
    }

    /// Returns the id of the last event, if it had one.
    pub(super) fn last_id(&self) -> Option<Vec<u8>> {
        self.stream.last_id().map(|id| id.to_vec())
    }
}
