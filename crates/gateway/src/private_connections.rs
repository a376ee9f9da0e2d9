//! The connections that belong to one client, opened before its first request that needs one. A list needs none, except at
//! servers where each principal logs in, which list nothing before.
//!
//! While a connection is opened, its server can send requests to the client on the stream of this request.
//!
//! Not here: the connections (`upstream::private_clients`), and what the client then sees (`manager::views`).

use std::sync::Arc;

use super::caller::Caller;
use super::{Gateway, Row, unlisted};
use crate::manager::{Error, RoutedRequest};
use json::Raw;
use protocol::method;
use tokio::time;
use upstream::{Call, EventSender, SenderLoan, WaitFor};

impl Gateway {
    /// Opens the connections of `caller` to servers where its principal logs in, before the request `row`.
    pub(super) async fn open_session(&self, caller: &Caller, row: Option<Row>, event_sender: &EventSender) {
        let is_own = matches!(row, Some(Row::Initialize | Row::Discover | Row::Ping | Row::SetLevel));
        if !is_own && !matches!(row, None | Some(Row::Unsubscribe | Row::Task(_))) {
            let _loan = self.lend(caller, event_sender);
            let is_list = matches!(row, Some(Row::List(_)));
            self.connect(caller, None, if is_list { WaitFor::Lists } else { WaitFor::Connection }).await;
        }
    }

    /// Opens the connection of `caller` to `server`, if the next request needs one of its own. Returns whether that was to
    /// be done, so that the server may have listed something else for this client.
    pub(super) async fn open(&self, caller: &Caller, server: &str, event_sender: &EventSender) -> bool {
        let to_open = self.manager.to_open(&caller.affinity, caller.capabilities(), server);
        let Some(upstream) = to_open else { return false };
        // Boxed: it is large, and each client waits once.
        Box::pin(async {
            upstream.decide().await;
            let _loan = self.lend(caller, event_sender);
            self.connect(caller, Some(server), WaitFor::Connection).await;
        })
        .await;
        true
    }

    /// Finds the server of a call of `name`, a tool or a prompt, with `route`, and opens the connection of `caller` to it
    /// ([`Gateway::open`]). A name that nobody lists may go to the one server of the endpoint ([`unlisted`]).
    pub(super) async fn routed<Route: Future<Output = Result<RoutedRequest, Error>>>(
        &self,
        caller: &Caller,
        (method, name, params): (&'static str, &str, &Raw),
        route: impl Fn(Box<Call>) -> Route,
        event_sender: &EventSender,
    ) -> Result<RoutedRequest, Error> {
        let find = || route(caller.call(method, params));
        // A call whose headers contradict it is refused whatever its server is, which may take long to connect. Then the
        // refusal could not have its status any more.
        let agrees = |request: &RoutedRequest| caller.check_headers(request).is_ok();
        let (started, timeout) = (caller.started(), caller.timeout());
        let routed = match self
            .found(caller, find, |request| agrees(request).then(|| request.server_name()), event_sender)
            .await
        {
            Err(error @ Error::NameNotFound { .. }) => {
                unlisted::request(&self.manager, caller, name, caller.call(method, params))
                    .unwrap_or(Err(error))
            }
            found => found,
        };
        // The wait for the connection is part of the time of the call.
        routed.map(|request| RoutedRequest { timeout, started, ..request })
    }

    /// Looks up a name or URI of `caller` with `find`, and opens its connection to the `server` of what is found. Looks again
    /// if the server may have listed something else for this client. At the endpoint of one server, an unknown name may be
    /// one that the server lists for this client only. A name that a server has just announced is read now.
    pub(super) async fn found<T, Find: Future<Output = Result<T, Error>>>(
        &self,
        caller: &Caller,
        find: impl Fn() -> Find,
        server: impl Fn(&T) -> Option<&Arc<str>>,
        event_sender: &EventSender,
    ) -> Result<T, Error> {
        let found = find().await;
        let is_unknown = matches!(found, Err(Error::NameNotFound { .. } | Error::ResourceNotFound { .. }));
        if is_unknown && self.manager.is_stale(caller.viewer()) {
            self.manager.refresh(caller.viewer()).await;
            return find().await;
        }
        let to_open = match (&found, &caller.scope.server) {
            (Ok(found), _) => server(found),
            (Err(_), Some(server)) if is_unknown && !caller.affinity.is_of_program() => Some(server),
            (Err(_), _) => None,
        };
        match to_open {
            Some(server) if self.open(caller, server, event_sender).await => find().await,
            _ => found,
        }
    }

    async fn connect(&self, caller: &Caller, only: Option<&str>, awaited: WaitFor) {
        let call = caller.call(method::TOOLS_LIST, &Raw::empty_object());
        let waiting = caller.mailbox.as_ref().map(|mailbox| mailbox.wait());
        let opened = self.manager.open_session(&caller.scope, &call, only, awaited);
        match caller.deadline {
            // The rest of the time is for the call.
            Some(deadline) => drop(time::timeout(deadline.left() / 2, opened).await),
            None => opened.await,
        }
        if let Some(mailbox) = &caller.mailbox {
            mailbox.begin_with(self.manager.revisions(caller.viewer(), &caller.principal));
        }
        drop(waiting);
    }

    /// Lets servers ask the client of a session on `event_sender`, outside of their calls too.
    pub fn lend(&self, caller: &Caller, event_sender: &EventSender) -> Option<SenderLoan> {
        caller.affinity.lend(event_sender, caller.owner, caller.capabilities())
    }
}
