//! What clients of the MCP endpoint do and may not do, for the audit.
//!
//! Not here: what is told of it (`telemetry::audit`), who may do what (`auth`), the REST API (`admin`).

use crate::auth::Action;
use crate::gateway::{Caller, Gateway};
use crate::manager::Named;
use crate::protocol::{Request, method};
use crate::telemetry::RequestId;
use crate::telemetry::audit::{self, Deed, Who};
use crate::upstream::Received;

/// A request that is about to be answered.
pub(super) struct Audited<'a> {
    caller: &'a Caller,
    request: &'a Request,
    id: Option<RequestId>,
    /// The call that it is; none where nobody reads of it.
    deed: Option<Box<Deed>>,
}

impl<'a> Audited<'a> {
    /// `id` is that of the HTTP request it came in, where it came in one.
    pub(super) fn begin(
        gateway: &Gateway,
        caller: &'a Caller,
        request: &'a Request,
        id: Option<RequestId>,
    ) -> Self {
        let is_call = request.method == method::TOOLS_CALL && caller.principal.may(Action::Call);
        let deed = if is_call { audit::call(who(caller, id), || tool(request)) } else { None };
        let deed = deed.map(|mut deed| {
            let route = gateway.manager().snapshot().route(&caller.scope, Named::Tool, &tool(request));
            if let Ok(route) = route {
                deed.at(&route.server);
            }
            deed
        });
        Self { caller, request, id, deed }
    }

    /// It came to `received`, of which the rest may still be arriving.
    pub(super) fn end(self, received: &Received) {
        match (self.deed, received) {
            (Some(deed), Received::Whole(reply)) => deed.answered(reply),
            (Some(deed), Received::Flowing(_)) => deed.ended(audit::DONE),
            (None, _) => {}
        }
        // Nothing of theirs reaches a server, so it was us who refused it.
        if !self.caller.principal.may(Action::Call) && is_forbidden(received) {
            audit::refused(who(self.caller, self.id), &self.request.method);
        }
    }
}

fn who(caller: &Caller, request: Option<RequestId>) -> Who<'_> {
    Who { principal: caller.principal.id(), role: caller.principal.role().as_str(), request }
}

/// Which tool, as the client calls it.
fn tool(request: &Request) -> String {
    let name = request.params.as_ref().and_then(|params| params.text("name"));
    name.unwrap_or_default().into_owned()
}

fn is_forbidden(received: &Received) -> bool {
    let Received::Whole(Err(error)) = received else { return false };
    error.data().and_then(|data| data.get_as::<String>("code")).is_some_and(|code| code == "forbidden")
}
