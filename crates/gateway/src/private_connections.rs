//! Private connections of a client. They are opened when the client is initialized and can receive server
//! requests. Otherwise they are opened for its first request, which waits for them.
//!
//! Invariants: a call of a shared server does not wait. Meanwhile servers can send requests to the client on
//! the stream of this request. So a server has the answers to its first requests before the first call. A
//! client that has not read a list yet is not notified of changes by this.
//!
//! Not here: the connections (`upstream::private_clients`), and what the client then sees (`manager::views`).

use std::sync::Arc;

use super::caller::Caller;
use super::{Gateway, Row};
use crate::manager::{Named, Viewer};
use json::Raw;
use protocol::method;
use upstream::{Outlet, OutletLoan};

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
        let _loan = self.lend(caller, outlet);
        self.connect(caller, params, server.as_deref()).await;
    }

    /// Connects `caller` before its first request, as its servers would be without the gateway, if it is initialized
    /// and can be asked outside of calls.
    pub fn expect(&self, caller: &Arc<Caller>) {
        if !self.manager.has_to_attend(caller.viewer()) || !caller.affinity.begins() {
            return;
        }
        let (gateway, caller) = (self.clone(), Arc::clone(caller));
        self.shutdown.spawn_until_end(async move {
            tokio::select! {
                () = gateway.connect(&caller, None, None) => {}
                () = caller.affinity.ended() => return,
            }
            // It may have said so meanwhile.
            if let Some(level) = caller.log_level() {
                gateway.manager.want_log(&caller.scope, &caller.affinity, level).await;
            }
        });
    }

    /// Waits for the connections of `caller`; with `only` for that to one server.
    async fn connect(&self, caller: &Caller, params: Option<&Raw>, only: Option<&str>) {
        let nothing = Raw::empty_object();
        let call = caller.call(method::TOOLS_LIST, params.unwrap_or(&nothing));
        let waiting = caller.mailbox.as_ref().map(|mailbox| mailbox.wait());
        self.manager.attend(&caller.scope, &call, only).await;
        if let Some(mailbox) = &caller.mailbox {
            mailbox.begin_with(self.manager.revisions(caller.viewer(), &caller.principal));
        }
        drop(waiting);
    }

    /// Lets servers ask the client of a session on `outlet`, outside of their calls too.
    pub fn lend(&self, caller: &Caller, outlet: &Outlet) -> Option<OutletLoan> {
        caller.affinity.lend(outlet, caller.owner, caller.capabilities())
    }

    /// The one server that a call is for, if its name is known.
    fn server_of(&self, caller: &Caller, row: Option<Row>, params: Option<&Raw>) -> Option<Arc<str>> {
        let kind = match row {
            Some(Row::CallTool) => Named::Tool,
            Some(Row::GetPrompt) => Named::Prompt,
            _ => return None,
        };
        let Viewer { scope, affinity } = caller.viewer();
        let route = self.manager.seen_by(affinity).route(scope, kind, &params?.text("name")?).ok()?;
        Some(Arc::clone(&route.server))
    }
}
