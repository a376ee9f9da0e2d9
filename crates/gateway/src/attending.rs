//! The first request of a client with connections of its own: it waits until they are there.
//!
//! Invariants: a call of a server that clients share waits for nobody. Meanwhile servers can ask the client on the
//! stream of this request. So a server has the answer to what it asked at its start before the first call.
//!
//! Not here: the connections (`upstream::attendant`), and what the client then sees (`manager::views`).

use std::sync::Arc;

use super::caller::Caller;
use super::{Gateway, Row};
use crate::manager::{Named, Viewer};
use json::Raw;
use upstream::{Loan, Outlet};

impl Gateway {
    /// Waits for the connections of `caller` that the request `row` needs, if it has any of its own.
    pub(super) async fn attend(
        &self,
        caller: &Caller,
        row: Option<Row>,
        params: Option<&Raw>,
        outlet: &Outlet,
    ) {
        let is_own = matches!(row, Some(Row::Initialize | Row::Discover | Row::Ping | Row::SetLevel));
        if is_own || matches!(row, None | Some(Row::Unsubscribe | Row::Task(_))) {
            return;
        }
        let server = self.server_of(caller, row, params);
        let nothing = Raw::empty_object();
        let invocation = caller.invocation(params.unwrap_or(&nothing));
        let _loan = self.lend(caller, outlet);
        self.manager.attend(&caller.scope, &invocation, server.as_deref()).await;
        if let Some(mailbox) = &caller.mailbox {
            mailbox.begin_with(self.manager.seen_by(Some(&caller.home)).revisions(&caller.scope));
        }
    }

    /// Lets servers ask the client of a session on `outlet`, outside of their calls too.
    pub fn lend(&self, caller: &Caller, outlet: &Outlet) -> Option<Loan> {
        caller.home.lend(outlet, caller.owner, caller.capabilities())
    }

    /// The one server that a call is for, if its name is known.
    fn server_of(&self, caller: &Caller, row: Option<Row>, params: Option<&Raw>) -> Option<Arc<str>> {
        let kind = match row {
            Some(Row::CallTool) => Named::Tool,
            Some(Row::GetPrompt) => Named::Prompt,
            _ => return None,
        };
        let Viewer { scope, home } = caller.viewer();
        let route = self.manager.seen_by(home).route(scope, kind, &params?.text("name")?).ok()?;
        Some(Arc::clone(&route.server))
    }
}
