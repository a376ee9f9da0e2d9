//! The option that names the configuration file, and what is read without it.

use std::path::{Path, PathBuf};

use clap::Args;
use settings::expand::Lookup;

use super::environment;
use crate::config::{self, Config, Report};

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
    /// Loads it with the environment of this process. Servers whose entries have mistakes are left out.
    pub fn load(&self) -> Result<Config, config::Error> {
        Config::load_each(&self.config, &environment).map(|(config, _)| config)
    }

    /// Loads the file. If nobody named one, and there is none in the current folder, the configuration serves the
    /// documentation.
    pub(super) fn load_or_documentation(
        &self,
        environment: &Lookup<'_>,
    ) -> Result<LoadedFile, config::Error> {
        #[cfg(feature = "handbook")]
        if self.is_default
            && self.config.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        {
            let note = format!(
                "there is no {} in this folder, so Switchyard serves its own documentation; write one with \
                 `switchyard init`, or add a server with `switchyard add NAME URL`",
                self.config.display()
            );
            let config = Config::documentation(environment)?;
            return Ok(LoadedFile { config, report: None, note: Some(note) });
        }
        LoadedFile::of(&self.config, environment)
    }
}

/// A configuration file that can be used.
pub(super) struct LoadedFile {
    pub(super) config: Config,
    /// The mistakes in the entries of servers.
    pub(super) report: Option<Report>,
    /// The commands to type next, if the documentation takes the place of a file.
    pub(super) note: Option<String>,
}

impl LoadedFile {
    pub(super) fn of(path: &Path, environment: &Lookup<'_>) -> Result<Self, config::Error> {
        let (config, report) = Config::load_each(path, environment)?;
        Ok(Self { config, report, note: None })
    }
}
