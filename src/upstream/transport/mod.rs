//! The ways to reach a server, each in its own file.

use std::sync::Arc;

use super::config::Transport;
use super::connection::Connector;
use super::error::Error;
use super::{Config, builtin};
use crate::shutdown::Shutdown;

/// The way to the server of `config`; what it starts runs in `shutdown`.
pub fn connector(config: &Config, shutdown: &Shutdown) -> Result<Arc<dyn Connector>, Error> {
    match &config.transport {
        Transport::Builtin(options) => Ok(builtin::connector(options, shutdown)),
        Transport::Http(_) | Transport::Sse(_) | Transport::Stdio(_) => {
            Err(Error::Unavailable { state: "not reachable by this build" })
        }
    }
}
