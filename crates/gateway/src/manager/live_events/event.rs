//! The events themselves, and how much memory each holds.
//!
//! Not here: keeping them (`live_events`), their form for watchers (`admin::events`).

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use protocol::ErrorCode;
use runtime::telemetry::RequestId;
use upstream::{EndedAttempts, breaker};

/// One event.
#[derive(Debug, Clone)]
pub struct LiveEvent {
    /// Its number. Later events have larger numbers, also after a restart.
    pub number: u64,
    /// When it happened.
    pub at: SystemTime,
    /// The kind of the event, with its content.
    pub what: EventKind,
}

/// The kinds of events. The two events of a call share the call.
#[derive(Debug, Clone)]
pub enum EventKind {
    /// A call of a tool began.
    CallStarted(Arc<ToolCall>),
    /// A call of a tool ended.
    CallEnded(Arc<ToolCall>),
    /// Anything else happened.
    Other(Arc<OtherEvent>),
}

/// An event that is not about a call.
#[derive(Debug)]
pub struct OtherEvent {
    /// The server it is about, if any.
    pub server: Option<Arc<str>>,
    /// The change or the operation.
    pub content: EventContent,
}

/// The content of an event that is not about a call.
#[derive(Debug)]
pub enum EventContent {
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

/// A call of a tool.
#[derive(Debug)]
pub struct ToolCall {
    /// The number of the call.
    pub number: u64,
    /// The server.
    pub server: Arc<str>,
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
    /// How the call ended, once it has.
    pub end: OnceLock<CallEnd>,
}

/// How a call ended.
#[derive(Debug, Clone)]
pub struct CallEnd {
    /// `ok`, `tool_error`, `rpc_error`, `failed` or `cancelled`.
    pub outcome: &'static str,
    /// The code of the failure.
    pub code: Option<ErrorCode>,
    /// The text of the error without secrets of the server, if texts are recorded.
    pub error: Option<String>,
    /// Time from the request to the response, or to the beginning of a streamed response.
    pub duration: Duration,
    /// The attempts that ended; none if no server was reached or a cached result was returned.
    pub attempts: EndedAttempts,
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

impl ToolCall {
    /// Returns an upper estimate of the memory that the call needs with its end.
    pub(in crate::manager) fn size_with_end(&self) -> usize {
        self.size() + self.end.get().map_or(0, CallEnd::size)
    }

    /// Returns an upper estimate of the memory that the call needs without its attempts.
    fn size(&self) -> usize {
        let texts = [self.principal.as_deref(), self.arguments.as_deref(), self.client.as_deref()];
        let texts = texts.iter().flatten().map(|text| text.len()).sum::<usize>();
        ALLOCATION + size_of::<Self>() + self.server.len() + self.tool.len() + texts
    }
}

/// Overhead of one allocation.
const ALLOCATION: usize = 32;

impl LiveEvent {
    /// Returns the call that began or ended, and its end.
    pub fn call(&self) -> Option<(&ToolCall, Option<&CallEnd>)> {
        match &self.what {
            EventKind::CallStarted(call) => Some((call, None)),
            EventKind::CallEnded(call) => Some((call, call.end.get())),
            EventKind::Other(_) => None,
        }
    }

    /// Whether it is a change of a server or of its breaker.
    pub fn is_about_a_server(&self) -> bool {
        match &self.what {
            EventKind::CallStarted(_) | EventKind::CallEnded(_) => false,
            EventKind::Other(other) => {
                matches!(other.content, EventContent::Server { .. } | EventContent::Breaker { .. })
            }
        }
    }

    /// Returns the server that the event is about, if any.
    pub fn server(&self) -> Option<&str> {
        match &self.what {
            EventKind::CallStarted(call) | EventKind::CallEnded(call) => Some(&call.server),
            EventKind::Other(other) => other.server.as_deref(),
        }
    }
}

impl EventKind {
    /// Returns an upper estimate of the memory that the event holds.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::CallStarted(call) => call.size(),
            Self::CallEnded(call) => call.size_with_end(),
            Self::Other(other) => {
                let server = other.server.as_ref().map_or(0, |name| name.len());
                ALLOCATION + size_of::<OtherEvent>() + server + other.content.size()
            }
        }
    }
}

impl CallEnd {
    /// The memory of the attempts and of the texts of errors.
    fn size(&self) -> usize {
        let own = self.error.as_ref().map_or(0, String::len);
        let errors = self.attempts.iter().filter_map(|attempt| attempt.error.as_ref()).map(String::len);
        let is_inline = !self.attempts.spilled();
        own + errors.sum::<usize>() + if is_inline { 0 } else { ALLOCATION + size_of_val(&*self.attempts) }
    }
}

impl EventContent {
    fn size(&self) -> usize {
        match self {
            Self::Server { reason, .. } | Self::Breaker { reason, .. } => {
                reason.as_ref().map_or(0, String::len)
            }
            Self::Tools { added, removed, changed, .. } => {
                [added, removed, changed].iter().map(|names| names.size()).sum()
            }
            Self::Action { principal, outcome, .. } => principal.len() + outcome.len(),
        }
    }
}
