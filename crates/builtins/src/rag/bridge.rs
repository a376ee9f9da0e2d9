//! The three routes of the bridge, and the list of techniques that it sends, which may have any names and any length.
//!
//! Nothing is repeated here, and there is no deadline, because the caller has one. Invariants: at most [`MOST`] distinct names
//! are kept while the list is read. A long name is kept only as far as needed to see that it is too long. Elements that are not
//! strings are counted.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde_json::{Map, Value};

use super::failed::Reported;
use crate::rag::config;
use crate::rest::{Rest, RestRequest, not_json};
use json::Raw;
use runtime::secret::SecretString;
use upstream::api::{Error, ServerContext};

/// Most bytes of the bridge's health report.
const MOST_HEALTH: usize = 64 << 10;
/// Most names that are read.
const MOST: usize = 10_000;
/// Longest valid name, in bytes.
pub(super) const LONGEST: usize = 60;

/// One bridge and its key. Clones share the connections.
#[derive(Clone)]
pub(super) struct Bridge {
    rest: Rest,
    key: Option<SecretString>,
}

/// A request to a technique.
#[derive(Debug, Serialize)]
pub(super) struct TechniqueRequest<'a> {
    pub technique: &'a str,
    pub query: &'a str,
    /// All settings, `top_k` among them.
    pub params: &'a Map<String, Value>,
}

impl Bridge {
    pub(super) fn new(options: &config::RagOptions, server_context: &ServerContext) -> Result<Self, Error> {
        Ok(Self { rest: Rest::new(&options.url, server_context)?, key: options.api_key.clone() })
    }

    /// Returns the names of the techniques, or [`Error::AuthFailed`] if the bridge refuses the key.
    pub(super) async fn techniques(&self) -> Result<TechniqueNames, Error> {
        let answer = self.request(Method::GET, "list_techniques").send().await;
        let body = answer.map_err(|error| self.refusal(error))?.bytes().await?;
        self.check_denial(&body).map_err(|error| self.refusal(error))?;
        let listed = Raw::parse(&body).map_err(|error| not_json(&body, &error))?;
        TechniqueNames::of(&listed).ok_or_else(|| malformed("it is no list of techniques"))
    }

    /// Returns the health report of the bridge, which is an object.
    pub(super) async fn health(&self) -> Result<Raw, Error> {
        let body = self.request(Method::GET, "health_check").send().await?.bytes().await?;
        if body.len() > MOST_HEALTH {
            return Err(Error::TooLarge { limit: MOST_HEALTH });
        }
        self.check_denial(&body)?;
        object(&body)
    }

    /// Calls a technique. Returns the whole body, which is an object.
    pub(super) async fn invoke(&self, requested: &TechniqueRequest<'_>) -> Result<Raw, Error> {
        let request = self.request(Method::POST, "invoke_technique").json(requested);
        // On the heap: a request in flight is large.
        object(&Box::pin(async { request.send().await?.bytes().await }).await?)
    }

    /// Secrets that must not be shown if the bridge repeats them.
    pub(super) fn secrets(&self) -> &[SecretString] {
        self.key.as_slice()
    }

    fn request(&self, method: Method, route: &str) -> RestRequest {
        let request = self.rest.request(method, &["mcp", route]);
        match &self.key {
            Some(key) => request.bearer(key),
            None => request,
        }
    }

    /// Fails with 401 if `body` refuses the key although the status is 200. Some bridges do that.
    fn check_denial(&self, body: &Bytes) -> Result<(), Error> {
        let failed = Raw::parse(body).ok().filter(|body| body.get_as("success") == Some(false));
        let denial = failed.and_then(|failed| Reported::of(&failed, self.secrets()).into_denial());
        denial.map_or(Ok(()), |detail| Err(Error::backend(401, detail)))
    }

    /// Explains a failed request for the list. Only the key was sent, so a refusal concerns the key.
    fn refusal(&self, error: Error) -> Error {
        match error {
            Error::Backend { status: 401 | 403, detail, .. } => Error::AuthFailed {
                reason: match self.key {
                    Some(_) => format!("the bridge does not take the key ({detail}); check `rag.api_key`"),
                    None => format!("the bridge wants a key ({detail}); give `rag.api_key`"),
                },
            },
            Error::Backend { status: 404 | 405, .. } => error.reworded(|text| {
                format!(
                    "the bridge has no list of techniques ({text}); check `url`, which does not contain /mcp"
                )
            }),
            other => other,
        }
    }
}

fn object(body: &Bytes) -> Result<Raw, Error> {
    let answer = Raw::parse(body).map_err(|error| not_json(body, &error))?;
    if answer.is_object() && answer.duplicate_key().is_none() {
        return Ok(answer);
    }
    Err(malformed("it is not a JSON object with each member once"))
}

/// The error for an answer that the contract of the bridge does not allow.
pub(super) fn malformed(why: &str) -> Error {
    Error::Malformed { reason: format!("it is not what a RAG bridge answers: {why}") }
}

/// A list that was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TechniqueNames {
    /// Sorted, so that two lists with equal names are equal.
    pub names: BTreeSet<String>,
    /// Number of elements that are not strings, or come after the limit.
    pub others: usize,
}

impl TechniqueNames {
    /// Reads a list, or the list that is the member `techniques` of an object, which leaves a service room
    /// for further members. `None` if there is no list.
    pub(super) fn of(answer: &Raw) -> Option<Self> {
        let list = if answer.is_object() { answer.get("techniques")? } else { answer.clone() };
        if !list.as_str().starts_with('[') {
            return None;
        }
        let mut listed = Self::default();
        for element in list.elements() {
            listed.take(&element);
        }
        Some(listed)
    }

    fn take(&mut self, element: &Raw) {
        match element.read::<String>() {
            Ok(mut name) if self.names.len() < MOST => {
                name.truncate(name.floor_char_boundary(LONGEST + 4));
                self.names.insert(name);
            }
            _ => self.others += 1,
        }
    }
}
