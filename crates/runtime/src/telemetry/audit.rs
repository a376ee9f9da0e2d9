//! Audit lines: who did what, and the outcome.
//!
//! They have their own target, [`TARGET`], so that a filter can select them. Operations and refusals by role are at
//! `info`, tools that their server changed and stolen tokens at `warn`. Calls are at `debug`, which is off by default and then costs one
//! comparison. Invariants: there is one line for each action, at its end and with its duration, even if the client left
//! before. A line never contains arguments, results, or texts of errors. A line is never dropped: without room for it
//! ([`Full`]) the action is refused before it runs.
//!
//! It does not log bad credentials, which belong to no principal (`downstream::http_service`).

use std::borrow::Cow;
use std::time::Duration;

use tokio::time::Instant;

pub use super::log_queue::{AUDIT_TARGET as TARGET, Full};
use super::log_queue::{QUEUE, Quota, Slot};
use super::{RequestId, untrusted, untrusted_if_any};
use protocol::{ErrorCode, Problem, Reply};

/// The outcome of an action that did not end: its client left or cancelled it, or it panicked.
const UNFINISHED: &str = "unfinished";
/// The action whose line is written at `debug`.
const CALL: &str = "call";
/// The outcome of an action that succeeded.
pub const DONE: &str = "done";

/// The pause before a retry after [`Full`].
const RETRY_IN: Duration = Duration::from_secs(1);

/// The principal of an action, and its request.
#[derive(Debug, Clone, Copy)]
pub struct Actor<'a> {
    /// The name of the principal.
    pub principal: &'a str,
    /// Its role.
    pub role: &'static str,
    /// The request of the action, if there is one.
    pub request: Option<RequestId>,
}

/// The subject of an action, besides its server and its tool.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    /// The name of an API key.
    pub key: Option<String>,
    /// The name of a secret.
    pub secret: Option<String>,
    /// The id of a grant.
    pub grant: Option<String>,
    /// The id of a client of the authorization server.
    pub client: Option<String>,
    /// The principal to which it belongs.
    pub of: Option<String>,
}

/// An action with its outcome so far. Its line is written when it is dropped.
#[derive(Debug)]
#[must_use = "its line is written when it is dropped"]
pub struct AuditRecord {
    role: &'static str,
    request: Option<RequestId>,
    action: &'static str,
    server: Option<String>,
    tool: Option<String>,
    subject: Subject,
    outcome: Cow<'static, str>,
    started: Instant,
    is_withdrawn: bool,
    slot: Slot,
}

/// Begins an operation: `actor` does `action`, to `server` if it is about one. `None` if the filter drops its line.
pub fn operation(
    actor: Actor<'_>,
    action: &'static str,
    server: Option<&str>,
) -> Result<Option<Box<AuditRecord>>, Full> {
    if !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
        return Ok(None);
    }
    Ok(Some(AuditRecord::new(actor, action, server, None, QUEUE.reserve(Quota::All, actor.principal)?)))
}

/// Begins the call of a tool. If the filter drops its line, returns `None` without calling `tool`.
pub fn call(actor: Actor<'_>, tool: impl FnOnce() -> String) -> Result<Option<Box<AuditRecord>>, Full> {
    if !tracing::enabled!(target: TARGET, tracing::Level::DEBUG) {
        return Ok(None);
    }
    let slot = QUEUE.reserve(Quota::ThreeQuarters, actor.principal)?;
    Ok(Some(AuditRecord::new(actor, CALL, None, Some(tool()), slot)))
}

/// Logs that the role of `actor` does not allow `action`, such as a method or a path, on `subject`.
pub fn refused(actor: Actor<'_>, action: &str, subject: &Subject) -> Result<(), Full> {
    if !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
        return Ok(());
    }
    QUEUE.check(Quota::Half)?;
    let Actor { principal, role, request } = actor;
    let request_id = request.map(tracing::field::display);
    let (principal, action) = (untrusted(principal), untrusted(action));
    let [key, secret, grant, client, of] = subject.members().map(untrusted_if_any);
    tracing::info!(target: TARGET, %principal, role, %action, key, secret, grant, client, of, outcome = "forbidden", request_id, "refused");
    Ok(())
}

/// The room for the line of a grant that ends because its code or token was used twice.
#[derive(Debug)]
pub struct ReuseAlarm {
    _slot: Slot,
}

impl ReuseAlarm {
    /// Takes the room, for the grant of `owner`.
    pub fn reserve(owner: &str) -> Result<Self, Full> {
        Ok(Self { _slot: QUEUE.reserve(Quota::All, owner)? })
    }

    /// Logs that the grant of `subject` ended because of the request `request`; `outcome` says what was used twice. Logged at
    /// `warn`: somebody has probably stolen it.
    pub fn ended(self, subject: &Subject, outcome: &str, request: RequestId) {
        let [_, _, grant, client, of] = subject.members().map(untrusted_if_any);
        tracing::warn!(
            target: TARGET,
            action = "end_grant", grant, client, of, outcome, request_id = %request,
            "a grant ended, because its code or refresh token was used twice"
        );
    }
}

/// Logs that a server lists `tool` with a definition that is not the trusted one: the changed parts, and the hash.
/// Logged at `warn`, because no operator caused it and one should look.
pub fn tool_changed(
    server: &str,
    tool: &str,
    changed: &[&str],
    definition: &str,
    outcome: &str,
) -> Result<(), Full> {
    QUEUE.check(Quota::All)?;
    let (tool, changed) = (untrusted(tool), changed.join(", "));
    tracing::warn!(
        target: TARGET,
        server, %tool, changed, definition, outcome,
        "a tool's definition is not the one that was approved"
    );
    Ok(())
}

/// Logs that only `server` still lists `name`, which belonged to another server before. The tool or prompt is offered
/// as `offered_as`. Logged at `warn`, because an operator should look.
pub fn name_moved(server: &str, name: &str, previous_owner: &str, offered_as: &str) -> Result<(), Full> {
    QUEUE.check(Quota::All)?;
    let (name, offered_as) = (untrusted(name), untrusted(offered_as));
    tracing::warn!(
        target: TARGET,
        server, %name, previous_owner, %offered_as,
        "a name that another server had before is not given to this one until it is approved"
    );
    Ok(())
}

impl Subject {
    /// The client of the authorization server with this id.
    pub fn client(id: &str) -> Self {
        Self { client: Some(id.to_owned()), ..Self::default() }
    }

    /// Returns the members of a line, in their order.
    fn members(&self) -> [Option<&str>; 5] {
        [&self.key, &self.secret, &self.grant, &self.client, &self.of].map(Option::as_deref)
    }
}

impl AuditRecord {
    fn new(
        actor: Actor<'_>,
        action: &'static str,
        server: Option<&str>,
        tool: Option<String>,
        slot: Slot,
    ) -> Box<Self> {
        Box::new(Self {
            role: actor.role,
            request: actor.request,
            action,
            server: server.map(str::to_owned),
            tool,
            subject: Subject::default(),
            outcome: UNFINISHED.into(),
            started: Instant::now(),
            is_withdrawn: false,
            slot,
        })
    }

    /// Sets the server, once it is known.
    pub fn at(&mut self, server: &str) {
        self.server = Some(server.to_owned());
    }

    /// Sets what the action is about, once it is known.
    pub fn about(&mut self, subject: Subject) {
        self.subject = subject;
    }

    /// Ends a call that was answered. The outcome is [`DONE`], `tool_error`, the code of Switchyard's error, or the
    /// number of the server's error, because the server chooses the `data` of its errors.
    pub fn answered(self, reply: &Reply) {
        match reply {
            Ok(result) if result.get_as("isError") == Some(true) => self.ended("tool_error"),
            Ok(_) => self.ended(DONE),
            Err(error) => match error.problem() {
                Some(problem) => self.ended(problem.code().as_str()),
                None => self.ended(error.code().to_string()),
            },
        }
    }

    /// Ends the action of a stranger, which was refused before it began: no line is written.
    pub fn withdraw(mut self) {
        self.is_withdrawn = true;
    }

    /// Ends the action with [`DONE`] or the stable code of the failure.
    pub fn ended(mut self, outcome: impl Into<Cow<'static, str>>) {
        self.outcome = outcome.into();
    }
}

/// The refusal of an action whose line could not be written.
impl From<Full> for Problem {
    fn from(full: Full) -> Self {
        Self::new(ErrorCode::AuditFull, full.to_string()).after(RETRY_IN)
    }
}

/// Milliseconds, rounded to microseconds.
fn millis(elapsed: Duration) -> f64 {
    (elapsed.as_secs_f64() * 1e6).round() / 1e3
}

impl Drop for AuditRecord {
    fn drop(&mut self) {
        if self.is_withdrawn {
            return;
        }
        let Self { role, request, action, server, tool, subject, outcome, started, slot, .. } = &*self;
        let duration_ms = millis(started.elapsed());
        let request_id = request.map(tracing::field::display);
        let (principal, outcome) = (untrusted(slot.principal()), untrusted(outcome));
        let [server, tool] = [server, tool].map(|name| untrusted_if_any(name.as_deref()));
        let [key, secret, grant, client, of] = subject.members().map(untrusted_if_any);
        if *action == CALL {
            tracing::debug!(target: TARGET, %principal, role, action, server, tool, %outcome, duration_ms, request_id, "called");
        } else {
            tracing::info!(target: TARGET, %principal, role, action, server, key, secret, grant, client, of, %outcome, duration_ms, request_id, "operated");
        }
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
