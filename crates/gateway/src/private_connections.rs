//! The own connections of a client, opened for its first request that needs them: not by a list, except at servers where
//! each principal logs in, which list nothing before.
//!
//! Meanwhile servers can send requests to the client on the stream of this request.
//!
//! Not here: the connections (`upstream::private_clients`), and what the client then sees (`manager::views`).

use super::caller::Caller;
use super::{Gateway, Row};
use crate::manager::{Error, RoutedRequest, Scope};
use json::Raw;
use protocol::method;
use upstream::{Outlet, OutletLoan};

impl Gateway {
    /// Opens the connections of `caller` to servers where its principal logs in, before the request `row`.
    pub(super) async fn attend(&self, caller: &Caller, row: Option<Row>, outlet: &Outlet) {
        let is_own = matches!(row, Some(Row::Initialize | Row::Discover | Row::Ping | Row::SetLevel));
        if !is_own && !matches!(row, None | Some(Row::Unsubscribe | Row::Task(_))) {
            let _loan = self.lend(caller, outlet);
            self.connect(caller, None).await;
        }
    }

    /// Opens the connection of `caller` to `server`, if the next request needs one of its own. Returns whether it did, so
    /// that the server may have listed something else for this client.
    pub(super) async fn open(&self, caller: &Caller, server: &str, outlet: &Outlet) -> bool {
        let to_open = || self.manager.to_open(&caller.affinity, caller.capabilities(), server);
        let Some(upstream) = to_open() else { return false };
        // Boxed: it is rarely needed.
        Box::pin(upstream.decide()).await;
        let is_due = to_open().is_some();
        if is_due {
            let _loan = self.lend(caller, outlet);
            // Boxed: it is large, and each client waits once.
            Box::pin(self.connect(caller, Some(server))).await;
        }
        is_due
    }

    /// As [`Gateway::open`], for the server that `routed` leads to. At the endpoint of one server, an unknown name may be
    /// one that the server lists for this client only. A name that a server has just announced is read now.
    pub(super) async fn open_for(
        &self,
        caller: &Caller,
        routed: &Result<RoutedRequest, Error>,
        outlet: &Outlet,
    ) -> bool {
        if matches!(routed, Err(Error::NameNotFound { .. })) && self.manager.is_stale(caller.viewer()) {
            self.manager.refresh(caller.viewer()).await;
            return true;
        }
        let server = match (routed, &caller.scope) {
            (Ok(request), _) => &request.server,
            (Err(Error::NameNotFound { .. }), Scope::Server(server)) => server,
            (Err(_), _) => return false,
        };
        self.open(caller, server, outlet).await
    }

    async fn connect(&self, caller: &Caller, only: Option<&str>) {
        let call = caller.call(method::TOOLS_LIST, &Raw::empty_object());
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
}
