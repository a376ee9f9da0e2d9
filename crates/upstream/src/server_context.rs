//! The parts of the program that all servers share.

use std::sync::Arc;

use runtime::shutdown::Shutdown;
use runtime::store::Store;

/// Shared state of the program that servers use.
#[derive(Clone)]
pub struct ServerContext {
    /// The group of all their tasks.
    pub shutdown: Shutdown,
    /// The cache that all servers share.
    pub store: Store,
    /// Whether servers are only inspected. A built-in server then resumes no earlier work and stores nothing.
    pub is_inspection: bool,
    /// The vault for tokens; without one they end with the process.
    pub vault: Option<Arc<auth::vault::Vault>>,
    /// The way to the services of a server, which [`crate::transport::connector`] sets for each.
    pub network: net::http::Network,
    /// The issuers that credentials of servers belong to.
    pub issuers: oauth::KnownIssuers,
}

#[cfg(any(test, feature = "testing"))]
impl ServerContext {
    /// Those of a server in a test: a cache of its own, and no vault.
    pub fn alone(shutdown: &Shutdown) -> Self {
        let store = Store::open(&runtime::store::Config::default());
        Self {
            shutdown: shutdown.clone(),
            store,
            is_inspection: false,
            vault: None,
            issuers: oauth::KnownIssuers::default(),
            network: net::http::Network::default(),
        }
    }
}
