//! The things that `doctor` examines: its arguments, the configuration, and the gateway that may run already.
//!
//! Invariant: the credential is sent only to a program that answered as Switchyard does.
//!
//! Not here: what is wrong with it.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use http::Method;
use settings::expand::Lookup;
use url::Url;

use super::super::config_file::LoadedFile;
use super::super::connect::mcp_of;
use super::super::error::CommandError;
use super::super::operate::Output;
use super::super::remote::{Remote, RunningGateway, block_on};
use crate::config::{Config, Error, Listener};
use json::Raw;
use net::http::ResponseLimits;

/// A health report is short, and the gateway is near.
const LIMITS: ResponseLimits = ResponseLimits { bytes: 1 << 20, time: Duration::from_secs(3) };

/// Arguments of `doctor`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Doctor {
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
    running: OnceCell<Option<GatewayInfo>>,
}

impl<'a> Subject<'a> {
    /// Reads the configuration.
    pub(super) fn new(arguments: &'a Doctor, environment: &Lookup<'_>) -> Self {
        let (loaded, note) = match arguments.running.file.load_or_documentation(environment) {
            Ok(LoadedFile { config, note, .. }) => (Ok(config), note),
            Err(error) => (Err(error), None),
        };
        Self { arguments, loaded, note, running: OnceCell::new() }
    }

    /// The path of the configuration file.
    pub(super) fn path(&self) -> &Path {
        &self.arguments.running.file.config
    }

    /// The configuration, if it can be used.
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
        mcp_of(self.base())
    }

    /// The URL of the gateway: the one that was named, or the address of the listener.
    fn base(&self) -> Url {
        if let Some(url) = &self.arguments.running.url {
            return url.clone();
        }
        let listener = self.config().map(|config| &config.server).map_or_else(Listener::default, |server| {
            Listener { address: server.listen, has_tls: server.tls.is_some() }
        });
        let address = self.arguments.listen.unwrap_or(listener.address);
        Listener { address, ..listener }.url()
    }

    /// The gateway that runs at that address.
    pub(super) fn gateway(&self) -> Option<&GatewayInfo> {
        let running = self.running.get_or_init(|| {
            look(&RunningGateway { url: Some(self.base()), ..self.arguments.running.clone() })
        });
        running.as_ref()
    }
}

/// A gateway that answered.
pub(super) struct GatewayInfo {
    /// Its version, if it tells it under the name by which it was asked.
    pub(super) version: Option<String>,
    /// Its configuration and when it was loaded, or why it does not show them.
    pub(super) configuration: Result<Raw, CommandError>,
}

/// Asks for the gateway; `None` if there is no Switchyard.
fn look(running: &RunningGateway) -> Option<GatewayInfo> {
    let remote = Remote::of(running).ok()?;
    let response = async {
        let Some(version) = remote.identify(LIMITS).await? else { return Ok(None) };
        let configuration = remote.rest(Method::GET, &["configuration"], &[]).await;
        Ok(Some(GatewayInfo { version, configuration }))
    };
    block_on(response).ok().flatten()
}
