//! Audit records and log lines for requests of the MCP endpoint: calls, refusals and failures.
//!
//! Invariants: a request that the gateway refused or that failed leaves one line, at the level that REST has for it
//! (`admin::problem`). An answer of a server leaves no line, also if it is an error. A request that succeeds costs
//! only the check whether it did.
//!
//! Not here: the fields of a record (`telemetry::audit`), permissions (`auth`), the REST API (`admin`).

use crate::error::is_forbidden;
use auth::Action;
use gateway::error::audit_full;
use gateway::manager::ItemKind;
use gateway::{Caller, Gateway};
use protocol::{Problem, Request, method};
use runtime::telemetry::audit::{self, Actor, AuditRecord, Full, Subject};
use runtime::telemetry::pace::FAILURES;
use runtime::telemetry::{RequestId, untrusted, untrusted_if_any};
use upstream::ResponseBody;

/// A request that is about to be answered.
pub(super) struct Audited<'a> {
    caller: &'a Caller,
    request: &'a Request,
    id: Option<RequestId>,
    /// The call that it is; none where nobody reads of it.
    record: Option<Box<AuditRecord>>,
}

impl<'a> Audited<'a> {
    /// `id` is that of the HTTP request it came in, where it came in one.
    pub(super) fn begin(
        gateway: &Gateway,
        caller: &'a Caller,
        request: &'a Request,
        id: Option<RequestId>,
    ) -> Result<Self, Full> {
        let is_call = request.method == method::TOOLS_CALL && caller.principal.may(Action::Call);
        let record = if is_call { audit::call(who(caller, id), || tool(request))? } else { None };
        let record = record.map(|mut record| {
            let route = gateway.manager().seen_by(Some(&caller.affinity)).route(
                &caller.scope,
                ItemKind::Tool,
                &tool(request),
            );
            if let Ok(route) = route {
                record.at(&route.server);
            }
            record
        });
        Ok(Self { caller, request, id, record })
    }

    /// Ends it with `received`, of which the rest may still be arriving. A refusal by role becomes another one if its
    /// audit line cannot be written.
    pub(super) fn end(self, received: &mut ResponseBody) {
        match (self.record, &*received) {
            (Some(record), ResponseBody::Buffered(reply)) => record.answered(reply),
            (Some(record), ResponseBody::Streaming(_)) => record.ended(audit::DONE),
            (None, _) => {}
        }
        match received {
            ResponseBody::Buffered(Ok(_)) => {}
            ResponseBody::Buffered(Err(error)) => {
                if let Some(problem) = error.problem() {
                    failed(&self.request.method, self.id, problem);
                }
            }
            // It may still break.
            ResponseBody::Streaming(flow) => flow.answers(self.id),
        }
        // Their requests reach no server, so the gateway refused it.
        if !self.caller.principal.may(Action::Call)
            && matches!(received, ResponseBody::Buffered(reply) if is_forbidden(reply))
            && let Err(full) =
                audit::refused(who(self.caller, self.id), &self.request.method, &Subject::default())
        {
            *received = ResponseBody::Buffered(Err(audit_full(full, self.caller.version.era())));
        }
    }
}

/// The line of a request that failed with `problem`.
fn failed(method: &str, id: Option<RequestId>, problem: &Problem) {
    macro_rules! log_refusal {
        ($level:expr, $suppressed:expr, $message:literal) => {
            if tracing::enabled!($level) {
                let suppressed: Option<u64> = $suppressed;
                let (id, code) = (id.map(tracing::field::display), problem.code().as_str());
                let [server, tool] =
                    [&problem.server, &problem.tool].map(|name| untrusted_if_any(name.as_deref()));
                let (method, detail) = (untrusted(method), untrusted(&problem.detail));
                tracing::event!($level, request_id = id, %method, server, tool, code, %detail, suppressed, $message);
            }
        };
    }
    if !problem.is_failure() {
        log_refusal!(tracing::Level::DEBUG, None, "request refused");
    } else if let Some(suppressed) = FAILURES.admit() {
        log_refusal!(tracing::Level::WARN, (suppressed > 0).then_some(suppressed), "request failed");
    }
}

fn who(caller: &Caller, request: Option<RequestId>) -> Actor<'_> {
    Actor { principal: caller.principal.id(), role: caller.principal.role().as_str(), request }
}

/// Which tool, as the client calls it.
fn tool(request: &Request) -> String {
    let name = request.params.as_ref().and_then(|params| params.text("name"));
    name.unwrap_or_default().into_owned()
}
