//! The first call after a start of a server whose changed tools are blocked: it waits until the tools were compared.
//!
//! Not here: the comparison (`trust`), and starting a server (`upstream`).

use std::sync::Arc;

use super::snapshot::Server;
use super::{Error, Manager, RoutedRequest, failed_at};
use upstream::config::OnChange;
use upstream::{Affinity, EventSender};

impl Server {
    /// Whether a call of the client of `affinity` has to wait until the tools of a process that was just started were
    /// compared with the trusted ones.
    pub(super) fn compares_first(&self, affinity: Option<&Affinity>) -> bool {
        let config = self.upstream.config();
        config.enabled && config.tools.on_change == OnChange::Block && self.upstream.is_unread(affinity)
    }
}

impl Manager {
    /// Starts the server, to which `request` goes, if it does not run, and returns it with its tools as the client sees them.
    pub(super) async fn read_first(
        &self,
        request: &RoutedRequest,
        event_sender: &EventSender,
    ) -> Result<Arc<Server>, Error> {
        let upstream = &request.server.upstream;
        let read = upstream.read_first(&request.call, request.deadline(), event_sender).await;
        read.map_err(|source| failed_at(upstream, request.tool(), source))?;
        self.catch_up().await;
        self.seen_by(request.call.affinity.as_ref()).server(request.server_name()).cloned()
    }
}
