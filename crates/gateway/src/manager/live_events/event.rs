//! The events themselves, and the memory they need.
//!
//! Not here: keeping them (`live_events`), their form for watchers (`admin::events`).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use protocol::ErrorCode;
use runtime::telemetry::RequestId;
use upstream::{Attempt, breaker};

/// One event.
#[derive(Debug)]
pub struct LiveEvent {
    /// Its number. Later events have larger numbers, also after a restart.
    pub number: u64,
    /// When it happened.
    pub at: SystemTime,
    /// The server it is about, if any.
    pub server: Option<Arc<str>>,
    /// The change, the call or the operation.
    pub what: EventContent,
}

/// The content of an event.
#[derive(Debug)]
pub enum EventContent {
    /// A call of a tool began.
    CallStarted(CallStart),
    /// A call of a tool ended: the event of its beginning, and how it ended.
    CallEnded(Arc<LiveEvent>, CallEnd),
    /// The state of a server changed.
    Server {
        /// The new state.
        state: &'static str,
        /// The last failure, if the state is one.
        reason: Option<String>,
    },
    /// The circuit breaker of a server changed.
    Breaker {
        /// The states, and the consecutive failures.
        changed: breaker::Changed,
        /// The last failure, if the breaker opened.
        reason: Option<String>,
    },
    /// The tools of a server changed, or their approval did.
    Tools {
        /// Tools that the server has now.
        count: usize,
        /// New tools.
        added: SampledNames,
        /// Tools that are gone.
        removed: SampledNames,
        /// Tools with another definition.
        changed: SampledNames,
    },
    /// An operator's action ended.
    Action {
        /// The name of the action in the audit log.
        action: &'static str,
        /// The operator.
        principal: Arc<str>,
        /// `done` or the code of the failure.
        outcome: String,
        /// The request of the action, if it came with one.
        request_id: Option<RequestId>,
    },
}

/// A call that began.
#[derive(Debug)]
pub struct CallStart {
    /// The number of the call.
    pub number: u64,
    /// The tool under its name at the server.
    pub tool: Arc<str>,
    /// The principal of the client, if any.
    pub principal: Option<Arc<str>>,
    /// Name and version of the MCP client; none for a call over REST.
    pub client: Option<Arc<str>>,
    /// The HTTP request that made the call, if there is one.
    pub request_id: Option<RequestId>,
    /// The arguments as JSON text, without secrets of the server, if they are recorded.
    pub arguments: Option<String>,
}

/// How a call ended.
#[derive(Debug)]
pub struct CallEnd {
    /// `ok`, `tool_error`, `failed` or `cancelled`.
    pub outcome: &'static str,
    /// The code of the failure.
    pub code: Option<ErrorCode>,
    /// Time from the request to the response, or to the beginning of a streamed response.
    pub duration: Duration,
    /// The attempts that ended; none if no server was reached or a cached result was returned.
    pub attempts: Vec<Attempt>,
}

/// Names of tools, of which the first are listed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SampledNames {
    /// The first names.
    pub first: Vec<String>,
    /// How many there are.
    pub count: usize,
}

impl SampledNames {
    fn size(&self) -> usize {
        self.first.iter().map(|name| size_of::<String>() + name.len()).sum()
    }
}

impl CallStart {
    fn size(&self) -> usize {
        let texts = [self.principal.as_deref(), self.arguments.as_deref(), self.client.as_deref()];
        self.tool.len() + texts.iter().flatten().map(|text| text.len()).sum::<usize>()
    }
}

impl LiveEvent {
    /// Returns the call that began or ended, and its end.
    pub fn call(&self) -> Option<(&CallStart, Option<&CallEnd>)> {
        match &self.what {
            EventContent::CallStarted(start) => Some((start, None)),
            EventContent::CallEnded(begun, end) => begun.call().map(|(start, _)| (start, Some(end))),
            _ => None,
        }
    }

    /// Returns an upper estimate of the memory that the event needs.
    pub(super) fn size(&self) -> usize {
        let texts = match &self.what {
            EventContent::CallStarted(start) => start.size(),
            EventContent::CallEnded(begun, end) => {
                let of = |attempt: &Attempt| attempt.error.as_ref().map_or(0, String::len);
                let attempts = end.attempts.iter().map(|attempt| size_of::<Attempt>() + of(attempt));
                // It may outlive the other event in the ring.
                begun.size() + attempts.sum::<usize>()
            }
            EventContent::Server { reason, .. } | EventContent::Breaker { reason, .. } => {
                reason.as_ref().map_or(0, String::len)
            }
            EventContent::Tools { added, removed, changed, .. } => {
                [added, removed, changed].iter().map(|names| names.size()).sum()
            }
            EventContent::Action { principal, outcome, .. } => principal.len() + outcome.len(),
        };
        size_of::<Self>() + 64 + self.server.as_ref().map_or(0, |name| name.len()) + texts
    }
}
