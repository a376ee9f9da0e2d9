//! Entries of calls in the audit log.
//!
//! Not here: the log (`runtime::telemetry::audit`), entries of operations (`lib`).

use super::problem::Problem;
use super::who;
use auth::Principal;
use gateway::manager::CallResponse;
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

/// Ends `record` with what the client gets, if calls are logged.
pub(super) fn ended(record: Option<Box<AuditRecord>>, called: Result<&CallResponse, &Problem>) {
    let Some(mut record) = record else { return };
    match called {
        Ok(called) => {
            record.at(&called.server);
            record.answered(&called.reply);
        }
        Err(problem) => {
            problem.server.iter().for_each(|server| record.at(server));
            record.ended(problem.code().to_string());
        }
    }
}
