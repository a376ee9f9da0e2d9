//! Entries of calls in the audit log.
//!
//! Not here: the log (`runtime::telemetry::audit`), entries of operations (`lib`).

use super::problem::Problem;
use super::who;
use auth::Principal;
use gateway::manager::{self, Called};
use runtime::telemetry::RequestId;
use runtime::telemetry::audit::{self, Deed};

/// Begins the entry of a call in the audit log, if calls are logged. `server` is the one that the caller named.
pub(super) fn begun(
    (principal, id): (&Principal, RequestId),
    server: Option<&str>,
    subject: impl FnOnce() -> String,
) -> Result<Option<Box<Deed>>, Problem> {
    let mut deed = audit::call(who(principal, Some(id)), subject)?;
    if let (Some(deed), Some(server)) = (&mut deed, server) {
        deed.at(server);
    }
    Ok(deed)
}

/// Records the result of a call in `deed`, if calls are logged.
pub(super) fn noted(
    deed: Option<Box<Deed>>,
    called: Result<Called, manager::Error>,
) -> Result<Called, Problem> {
    let Some(mut deed) = deed else { return Ok(called?) };
    if let Err(manager::Error::Upstream { server, .. } | manager::Error::ToolChanged { server, .. }) = &called
    {
        deed.at(server);
    }
    let called = called.map_err(Problem::from);
    ended(*deed, called.as_ref());
    called
}

/// Ends `deed` with what the client gets.
pub(super) fn ended(mut deed: Deed, called: Result<&Called, &Problem>) {
    match called {
        Ok(called) => {
            deed.at(&called.server);
            deed.answered(&called.reply);
        }
        Err(problem) => deed.ended(problem.code().to_string()),
    }
}
