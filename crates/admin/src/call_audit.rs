//! Entries of calls in the audit log.
//!
//! Not here: the log (`runtime::telemetry::audit`), entries of operations (`lib`).

use super::problem::Problem;
use super::who;
use auth::Principal;
use gateway::manager::CallResponse;
use protocol::ErrorObject;
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

/// Ends `record`, if calls are logged. An answer of the server is on record, also if the client got `problem` instead of it.
pub(super) fn ended(
    record: Option<Box<AuditRecord>>,
    response: Option<&CallResponse>,
    problem: Option<&Problem>,
) {
    let Some(mut record) = record else { return };
    let is_of_server =
        |response: &CallResponse| response.reply.as_ref().err().and_then(ErrorObject::problem).is_none();
    if let Some(response) = response.filter(|response| problem.is_none() || is_of_server(response)) {
        record.at(&response.server);
        record.answered(&response.reply);
    } else if let Some(problem) = problem {
        problem.server.iter().for_each(|server| record.at(server));
        record.ended(problem.code().to_string());
    }
}
