//! The option that names the configuration file, and what is read without it.

use std::path::PathBuf;

use clap::Args;
use settings::expand::Lookup;

use super::environment;
use crate::config::{self, Config};

/// Which configuration to use.
#[derive(Debug, Clone, Args)]
pub struct ConfigFile {
    /// The configuration file.
    #[arg(
        long,
        env = "SWITCHYARD_CONFIG",
        hide_env_values = true,
        default_value = "mcp_servers.yaml",
        value_name = "FILE"
    )]
    pub config: PathBuf,
    /// Whether nobody named it, neither on the command line nor in the environment.
    #[arg(skip)]
    pub is_default: bool,
}

impl ConfigFile {
    /// Loads it with the environment of this process.
    pub fn load(&self) -> Result<Config, config::Error> {
        Config::load(&self.config, &environment)
    }

    /// Loads the file. If nobody named one, and there is none in the current folder, the configuration serves the
    /// documentation, and the text says what to type next.
    pub(super) fn load_or_documentation(
        &self,
        environment: &Lookup<'_>,
    ) -> Result<(Config, Option<String>), config::Error> {
        #[cfg(feature = "handbook")]
        if self.is_default
            && self.config.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        {
            let note = format!(
                "there is no {} in this folder, so Switchyard serves its own documentation; write one with \
                 `switchyard init`, or add a server with `switchyard add NAME URL`",
                self.config.display()
            );
            return Config::documentation(environment).map(|config| (config, Some(note)));
        }
        Config::load(&self.config, environment).map(|config| (config, None))
    }
}
