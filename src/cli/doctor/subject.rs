//! The things that `doctor` examines: its arguments, the configuration, and the gateway that may run already.
//!
//! Not here: what is wrong with it.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::path::Path;

use clap::Args;
use settings::expand::Lookup;
use url::Url;

use super::super::connect::listener_url;
use super::super::operate::Output;
use super::super::remote::RunningGateway;
use super::running::{self, Seen};
use crate::config::{Config, Error};

/// Arguments of `doctor`.
#[derive(Debug, Clone, Args)]
pub struct Doctor {
    /// Which gateway.
    #[command(flatten)]
    pub running: RunningGateway,
    /// Address to listen on instead of the configured one.
    #[arg(long, env = "SWITCHYARD_LISTEN", hide_env_values = true, value_name = "ADDRESS:PORT", value_parser = crate::cli::address)]
    pub listen: Option<SocketAddr>,
    /// Contact no server and start no program.
    #[arg(long)]
    pub offline: bool,
    /// How to write the result.
    #[command(flatten)]
    pub output: Output,
}

/// The things that the checks look at.
pub(super) struct Subject<'a> {
    pub(super) arguments: &'a Doctor,
    pub(super) loaded: Result<Config, Error>,
    /// A note if the documentation takes the place of a file.
    pub(super) note: Option<String>,
    seen: OnceCell<Option<Seen>>,
}

impl<'a> Subject<'a> {
    /// Reads the configuration.
    pub(super) fn new(arguments: &'a Doctor, environment: &Lookup<'_>) -> Self {
        let (loaded, note) = match arguments.running.file.load_or_documentation(environment) {
            Ok((config, note)) => (Ok(config), note),
            Err(error) => (Err(error), None),
        };
        Self { arguments, loaded, note, seen: OnceCell::new() }
    }

    /// The path of the configuration file.
    pub(super) fn path(&self) -> &Path {
        &self.arguments.running.file.config
    }

    /// The configuration, if it is valid.
    pub(super) fn config(&self) -> Option<&Config> {
        self.loaded.as_ref().ok()
    }

    /// The servers that are enabled.
    pub(super) fn servers(&self) -> impl Iterator<Item = &upstream::Config> {
        let all = self.config().into_iter().flat_map(|config| &config.manager.servers);
        all.filter(|server| server.enabled)
    }

    /// The address of the listener.
    pub(super) fn address(&self, config: &Config) -> SocketAddr {
        self.arguments.listen.unwrap_or(config.server.listen)
    }

    /// The MCP endpoint of the gateway.
    pub(super) fn endpoint(&self) -> Url {
        let mut url = self.base();
        url.set_path(&format!("{}/mcp", url.path().trim_end_matches('/')));
        url
    }

    /// The URL of the gateway: the one that was named, or the address of the listener.
    fn base(&self) -> Url {
        if let Some(url) = &self.arguments.running.url {
            return url.clone();
        }
        let server = self.config().map(|config| config.server.clone()).unwrap_or_default();
        let listen = self.arguments.listen.unwrap_or(server.listen);
        let mut url = listener_url(&downstream::Config { listen, ..server });
        url.set_path("/");
        url
    }

    /// The gateway that runs at that address.
    pub(super) fn gateway(&self) -> Option<&Seen> {
        let seen = self.seen.get_or_init(|| {
            running::look(&RunningGateway { url: Some(self.base()), ..self.arguments.running.clone() })
        });
        seen.as_ref()
    }
}
