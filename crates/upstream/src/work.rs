//! The work of an attempt on a connection: a call, a list or a health check.
//!
//! Not here: the attempt itself, with its slot and its permit (`attempt`).

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::connection::{Connection, EventSender};
use super::dialect::PoolRequest;
use super::error::Error;
use super::response_stream::ResponseStream;
use super::retry::RetrySafety;
use protocol::{ErrorObject, LogLevel};

/// One unit of work on a connection, under one permit.
pub(super) trait Work: Sync {
    /// The output if the server answers.
    type Output: Send;

    /// Returns the name in traces: a method.
    fn name(&self) -> &str;

    /// Returns whether the work may be repeated.
    fn kind(&self) -> RetrySafety;

    /// Returns the least level of log lines that its caller requested, if any.
    fn log_level(&self) -> Option<LogLevel> {
        None
    }

    /// Returns the purpose of the connection.
    fn pool_request(&self) -> PoolRequest<'_> {
        PoolRequest::Own
    }

    /// Whether a client waits for the result.
    fn is_a_call(&self) -> bool {
        false
    }

    /// Whether the server may be silent because it works on another call.
    fn is_excused(&self) -> bool {
        false
    }

    /// Returns the principal for the fair distribution of slots.
    fn principal(&self) -> Option<&Arc<str>> {
        None
    }

    /// Returns the outlet for server requests. They pause the deadline of the work.
    fn event_sender(&self) -> &EventSender {
        const { &EventSender::none() }
    }

    /// Charges its output to its caller, for as long as any part of it lives. The output of a probe is buffered,
    /// because other calls wait for its result.
    fn received(
        &self,
        output: Self::Output,
        _is_probe: bool,
    ) -> impl Future<Output = Result<Self::Output, Error>> + Send {
        std::future::ready(Ok(output))
    }

    /// Returns the output if it is still arriving.
    fn stream(_: &mut Self::Output) -> Option<&mut ResponseStream> {
        None
    }

    /// Returns the output if the server refused the work with `error`.
    fn refused(_error: ErrorObject) -> Option<Self::Output> {
        None
    }

    /// Does the work once. It has no deadline of its own.
    fn on<'a>(&'a self, connection: &'a dyn Connection) -> BoxFuture<'a, Result<Self::Output, Error>>;
}
