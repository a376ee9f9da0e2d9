//! The command line: arguments, subcommands, exit codes.
//!
//! Exit codes: 0 done, 1 failed, 2 the arguments or the configuration file are wrong.
//! Standard output belongs to what a command answers (with `stdio`: to MCP), the rest goes to
//! standard error.
//!
//! Not here: what a command does, beyond `check`.

pub mod check;
mod run;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::{self, Config};

/// The configuration file could not be used, or the arguments not understood (clap's own code).
const EXIT_USAGE: u8 = 2;

/// Many MCP servers behind one REST call and one MCP endpoint.
#[derive(Debug, Parser)]
#[command(name = "switchyard", version, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// What to do; without it, `serve`.
    #[command(subcommand)]
    command: Option<Command>,
    /// The arguments of `serve`.
    #[command(flatten)]
    serve: Serve,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve REST and MCP over HTTP (the default command).
    Serve(Serve),
    /// Serve MCP on standard input and output, for a client that starts this program itself.
    Stdio(Stdio),
    /// Check a configuration file and print what would run.
    Check(Check),
}

/// Arguments of `serve`.
#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// Which configuration.
    #[command(flatten)]
    pub file: ConfigFile,
    /// Address to listen on instead of the configured one, such as 127.0.0.1:8080.
    #[arg(long, env = "SWITCHYARD_LISTEN", hide_env_values = true, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
}

/// Arguments of `stdio`.
#[derive(Debug, Clone, Args)]
pub struct Stdio {
    /// Which configuration.
    #[command(flatten)]
    pub file: ConfigFile,
}

/// Arguments of `check`.
#[derive(Debug, Clone, Args)]
pub struct Check {
    /// The configuration file.
    #[arg(env = "SWITCHYARD_CONFIG", hide_env_values = true, default_value = "mcp_servers.yaml")]
    pub file: PathBuf,
}

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
}

impl ConfigFile {
    /// Reads it with the environment of this process.
    pub fn load(&self) -> Result<Config, config::Error> {
        Config::load(&self.config, &environment)
    }
}

impl Arguments {
    /// The command, `serve` if none is named.
    pub fn command(self) -> Command {
        self.command.unwrap_or(Command::Serve(self.serve))
    }
}

/// Parses the arguments of this process, does what they say, and gives the exit code.
pub fn run() -> ExitCode {
    match Arguments::parse().command() {
        Command::Check(check) => {
            check::run(&check.file, &environment, &mut io::stdout().lock(), &mut io::stderr().lock())
        }
        Command::Serve(arguments) => run::serve(&arguments),
        Command::Stdio(arguments) => run::stdio(&arguments),
    }
}

fn environment(name: &str) -> Result<String, std::env::VarError> {
    std::env::var(name)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parsed(line: &str) -> Command {
        Arguments::try_parse_from(line.split(' ')).expect(line).command()
    }

    #[test]
    fn the_arguments_are_sound() {
        <Arguments as CommandFactory>::command().debug_assert();
    }

    #[test]
    fn serve_is_the_default_command() {
        for line in [
            "switchyard --config a.yaml --listen 127.0.0.1:9",
            "switchyard serve --listen 127.0.0.1:9 --config a.yaml",
        ] {
            let Command::Serve(serve) = parsed(line) else { panic!("not serve: {line}") };
            assert_eq!(serve.file.config.as_os_str(), "a.yaml");
            assert_eq!(serve.listen.map(|address| address.port()), Some(9));
        }
    }

    #[test]
    fn other_commands_are_named() {
        assert!(
            matches!(parsed("switchyard stdio --config a.yaml"), Command::Stdio(stdio) if stdio.file.config.as_os_str() == "a.yaml")
        );
        assert!(
            matches!(parsed("switchyard check a.yaml"), Command::Check(check) if check.file.as_os_str() == "a.yaml")
        );
        for line in [
            "switchyard chek",
            "switchyard --listen nowhere",
            "switchyard check a b",
            "switchyard stdio --listen 127.0.0.1:9",
        ] {
            assert!(Arguments::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
