//! The instructions of servers and views, as clients get them.
//!
//! Not here: what is added for one client, such as links to logins (`gateway::lifecycle`).

use std::sync::Arc;

use super::snapshot::{Scope, Server, Snapshot};

impl Snapshot {
    /// The instructions in a scope: those of the view, or of all its servers, each under its server's name. For a single
    /// server they are unchanged.
    pub(crate) fn instructions(&self, scope: &Scope) -> String {
        let advice =
            |server: &Arc<Server>| server.offer.as_ref().and_then(|offer| offer.peer.instructions.clone());
        let of_view = self.view().and_then(|view| view.instructions.as_deref());
        match (&scope.server, of_view) {
            (Some(name), _) => self.server(name).ok().and_then(advice).unwrap_or_default(),
            (None, Some(own)) => own.to_owned(),
            (None, None) => {
                let part = |server: &Arc<Server>| {
                    let name = &server.upstream.config().name;
                    advice(server).map(|text| format!("## {name}\n\n{}", text.trim()))
                };
                self.servers().iter().filter_map(part).collect::<Vec<_>>().join("\n\n")
            }
        }
    }
}
