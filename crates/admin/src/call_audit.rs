//! Entries of calls in the audit log.
//!
//! Not here: the log (`runtime::telemetry::audit`), entries of operations (`lib`).

use super::problem::Problem;
use super::who;
use auth::Principal;
use gateway::manager::{self, CallResponse};
use runtime::telemetry::RequestId;
use runtime::telemetry::audit::{self, AuditRecord};

/// Begins the entry of a call in the audit log, if calls are logged. `server` is the one that the caller named.
pub(super) fn start(
    (principal, id): (&Principal, RequestId),
    server: Option<&str>,
    subject: impl FnOnce() -> String,
) -> Result<Option<Box<AuditRecord>>, Problem> {
    let mut record = audit::call(who(principal, Some(id)), subject)?;
    if let (Some(record), Some(server)) = (&mut record, server) {
        record.at(server);
    }
    Ok(record)
}

/// Records the result of a call in `record`, if calls are logged.
pub(super) fn noted(
    record: Option<Box<AuditRecord>>,
    called: Result<CallResponse, manager::Error>,
) -> Result<CallResponse, Problem> {
    let Some(mut record) = record else { return Ok(called?) };
    if let Err(manager::Error::Upstream { server, .. } | manager::Error::ToolChanged { server, .. }) = &called
    {
        record.at(server);
    }
    let called = called.map_err(Problem::from);
    ended(*record, called.as_ref());
    called
}

/// Ends `record` with what the client gets.
pub(super) fn ended(mut record: AuditRecord, called: Result<&CallResponse, &Problem>) {
    match called {
        Ok(called) => {
            record.at(&called.server);
            record.answered(&called.reply);
        }
        Err(problem) => record.ended(problem.code().to_string()),
    }
}
