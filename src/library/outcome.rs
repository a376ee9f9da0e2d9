//! Outcomes of a start and of a call: a result, or the reason why there is none.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use gateway::manager::{self, CallResponse};
use json::Raw;
use protocol::{ErrorObject, Problem};

/// Returns `raw` as a type that programs know. It is valid JSON, so there always is one.
pub(super) fn as_raw_value(raw: &Raw) -> Option<Box<RawValue>> {
    RawValue::from_string(raw.as_str().to_owned()).ok()
}

/// The result of a tool, as its server sent it.
#[derive(Debug, Clone)]
pub struct ToolResponse {
    server: Arc<str>,
    result: Raw,
    elapsed: Duration,
}

impl ToolResponse {
    pub(super) fn of(called: CallResponse) -> Result<Self, CallError> {
        let result = called.reply.map_err(|error| CallError::of_reply(&error))?;
        Ok(Self { server: called.server, result, elapsed: called.elapsed })
    }

    /// Whether the tool says that it failed (`isError`). Its content then says why.
    pub fn is_error(&self) -> bool {
        self.result.get_as("isError").unwrap_or(false)
    }

    /// Returns the blocks of content, in order: text, images, audio and resources.
    pub fn content(&self) -> Vec<Box<RawValue>> {
        self.blocks().iter().filter_map(as_raw_value).collect()
    }

    /// Returns the text of all blocks of text, a line break between two.
    pub fn text(&self) -> String {
        let blocks = self.blocks();
        let texts = blocks.iter().filter(|block| block.text("type").as_deref() == Some("text"));
        texts.filter_map(|block| block.get_as::<String>("text")).collect::<Vec<_>>().join("\n")
    }

    /// Reads `structuredContent`. A tool without an output schema has none, which is an error.
    pub fn structured<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        let missing = || serde::de::Error::custom("the result has no `structuredContent`");
        let value = self.result.get("structuredContent").ok_or_else(missing)?;
        value.read()
    }

    /// Returns the whole result as JSON, byte for byte.
    pub fn json(&self) -> &str {
        self.result.as_str()
    }

    /// Returns the name of the server that ran the tool.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns how long the call took, with waiting and retries.
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    fn blocks(&self) -> Vec<Raw> {
        self.result.get("content").map(|blocks| blocks.elements().collect()).unwrap_or_default()
    }
}

/// Why a gateway could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration is not valid; the error names all its problems.
    #[error(transparent)]
    Config(#[from] settings::problem::Error),
    /// A server cannot be reached in the way that its settings say.
    #[error("{0}")]
    Server(String),
    /// A key or token file of the section `server` cannot be used.
    #[error("{0}")]
    Keys(String),
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The arguments cannot be JSON.
    #[error("the arguments cannot be written as JSON: {0}")]
    Arguments(serde_json::Error),
    /// The arguments are a list or a single value.
    #[error("the arguments of a tool are an object")]
    NotAnObject,
    /// The server refused the call with a JSON-RPC error.
    #[error("the server refused the call: {message}")]
    Refused {
        /// The code of the error.
        code: i64,
        /// Its message.
        message: String,
        /// Its data, byte for byte.
        data: Option<Box<RawValue>>,
    },
    /// No server has the tool, the call failed on its way, or its answer cannot be used.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl CallError {
    fn of_reply(error: &ErrorObject) -> Self {
        match error.problem() {
            Some(problem) => Self::Failed(Failure::of(problem)),
            None => Self::Refused {
                code: error.code(),
                message: error.message(),
                data: error.data().as_ref().and_then(as_raw_value),
            },
        }
    }
}

impl From<manager::Error> for CallError {
    fn from(error: manager::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// A failure of Switchyard, with the facts that a program needs to continue. Clients over REST get the same ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
#[non_exhaustive]
pub struct Failure {
    /// A stable word, such as `tool_not_found`. `docs/errors.md` lists all.
    pub code: &'static str,
    /// The description of this failure.
    pub detail: String,
    /// Advice for the caller.
    pub hint: String,
    /// Whether the same call can succeed when it is made again.
    pub is_retryable: bool,
    /// The time after which that is worth trying.
    pub retry_after: Option<Duration>,
    /// Names that resemble an unknown one, best first.
    pub nearest: Vec<String>,
}

impl Failure {
    fn of(problem: &Problem) -> Self {
        Self {
            code: problem.code().as_str(),
            detail: problem.detail.clone(),
            hint: problem.hint.clone().into_owned(),
            is_retryable: problem.retryable,
            retry_after: problem.retry_after,
            nearest: problem.nearest.clone(),
        }
    }
}

impl From<manager::Error> for Failure {
    fn from(error: manager::Error) -> Self {
        Self::of(&error.problem())
    }
}
