//! The command line: arguments, subcommands, exit codes.
//!
//! Exit codes: 0 success, 1 failure, 2 invalid arguments or configuration file. Commands for the running gateway also
//! have 3 (it cannot be reached) and 4 (it refuses the credential). Results of a command go to standard output (with
//! `stdio`, only MCP messages), everything else to standard error.
//!
//! Not here: the work of `serve` and `stdio`.

mod browser;
pub mod check;
mod config_file;
mod confirm;
pub(crate) mod connect;
mod connect_check;
pub(crate) mod doctor;
pub(crate) mod edit;
mod error;
mod forget;
pub(crate) mod import;
mod inherited_sockets;
pub(crate) mod init;
pub(crate) mod key;
mod login;
pub(crate) mod operate;
mod pages;
mod process_access;
pub(crate) mod remote;
mod run;
mod schema;
pub(crate) mod secret;
pub(crate) mod service;
mod terminal;
pub(crate) mod token;
mod visible;
mod warm;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

pub use self::check::Check;
pub use self::config_file::ConfigFile;
use auth::Role;
use downstream::config::parse_address;

/// The configuration file or the arguments are not valid (clap's own code).
const EXIT_USAGE: u8 = 2;

/// Many MCP servers behind one REST call and one MCP endpoint.
#[derive(Debug, Parser)]
#[command(
    name = "switchyard",
    version,
    args_conflicts_with_subcommands = true,
    after_help = process_access::HELP
)]
pub(crate) struct Arguments {
    /// The command; without it, `serve`.
    #[command(subcommand)]
    command: Option<Command>,
    /// The arguments of `serve`.
    #[command(flatten)]
    serve: Serve,
}

/// The command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve REST and MCP over HTTP (the default command).
    Serve(Serve),
    /// Serve MCP on standard input and output, for a client that starts this program itself.
    Stdio(StdioArguments),
    /// Check a configuration file and print what would run.
    Check(Check),
    /// Find the usual mistakes in the configuration, on this machine and at the servers, and say what to type.
    #[command(after_help = doctor::HELP)]
    Doctor(doctor::Doctor),
    /// Write a first configuration file, with the servers of the MCP clients on this machine.
    #[command(after_help = init::HELP)]
    Init(init::Init),
    /// Add a server to the configuration file: a URL, a program, or a snippet in the format of any client.
    #[command(after_help = edit::ADD_HELP)]
    Add(edit::Add),
    /// Remove servers from the configuration file.
    Remove(edit::Remove),
    /// Print the JSON Schema of the configuration file, for editors.
    #[command(after_help = schema::HELP)]
    Schema,
    /// Print the servers of another client's JSON file (`mcpServers`, or `servers`), or the YAML file of another MCP
    /// server, as a configuration file.
    Import(Import),
    /// Commands for the running gateway.
    #[command(flatten)]
    Operate(operate::OperateCommand),
    /// Log in to a server of the running gateway (`auth: oauth`), in a browser.
    #[command(after_help = login::HELP)]
    Login(login::Login),
    /// Log out of a server of the running gateway: its tokens are deleted.
    Logout(login::Logout),
    /// Write Switchyard into the file of an MCP client, and show the change first.
    #[command(after_help = connect::HELP)]
    Connect(connect::Connect),
    /// Start servers once and remember what they offer, so that their tools are listed from the next start on.
    #[command(after_help = warm::HELP)]
    Warm(warm::Warm),
    /// Forget what is remembered of a server: its offer, its trusted tools and its names.
    #[command(after_help = forget::HELP)]
    Forget(forget::Forget),
    /// API keys (`auth_mode: api_key`).
    #[command(subcommand, after_help = key::HELP)]
    Key(Key),
    /// The gateway as a service of one person, which starts at login.
    #[command(subcommand, after_help = service::HELP)]
    Service(service::Service),
    /// Print a JSON Web Token that this gateway accepts (`auth_mode: jwt`).
    Token(Token),
    /// Secrets for the configuration file, sealed in the vault (`${secret:NAME}`).
    #[command(subcommand, after_help = secret::HELP)]
    Secret(Secret),
    /// Completions of a shell, and man pages.
    #[command(flatten)]
    Pages(pages::Pages),
}

/// Operations on the secrets of the vault.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Secret {
    /// Set a secret to the value that is typed on the terminal, or to all of standard input.
    #[command(after_help = secret::HELP)]
    Set {
        /// The name: letters, digits, `_`, `-` and `.`.
        #[arg(value_parser = secret::parse_name)]
        name: String,
        /// The principal that it belongs to, such as `key:laptop` (`${principal:NAME}` in `headers` of a server). Without it,
        /// it is one value for all.
        #[arg(long = "for", value_name = "PRINCIPAL", value_parser = secret::parse_principal)]
        principal: Option<String>,
        /// The configuration with the settings of the vault.
        #[command(flatten)]
        file: ConfigFile,
    },
    /// Print the names of all secrets, whose each is, and when it was set.
    List {
        /// Print only those of this principal.
        #[arg(long = "for", value_name = "PRINCIPAL", value_parser = secret::parse_principal)]
        principal: Option<String>,
        /// The configuration with the settings of the vault.
        #[command(flatten)]
        file: ConfigFile,
    },
    /// Remove a secret, or all that the vault has of a principal.
    Remove {
        /// The name. Without it, all secrets and logins of the principal, such as one whose key is gone.
        #[arg(value_parser = secret::parse_name, required_unless_present = "principal")]
        name: Option<String>,
        /// The principal that it belongs to.
        #[arg(long = "for", value_name = "PRINCIPAL", value_parser = secret::parse_principal)]
        principal: Option<String>,
        /// The configuration with the settings of the vault.
        #[command(flatten)]
        file: ConfigFile,
    },
}

/// The commands for API keys.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Key {
    /// Make a key, print it once, and store its hash in `keys_file`. A running gateway accepts it about a second later.
    Add {
        /// Its name: lower-case letters, digits and `-`.
        #[arg(value_parser = key::parse_id)]
        name: String,
        /// The role of its holder: `reader` sees what there is, `caller` also calls, `superuser` also operates.
        #[arg(long, default_value = "reader", value_parser = key::parse_role)]
        role: Role,
        /// From when on it is refused: a date such as 2027-06-30, or a time such as 2027-06-30T12:00:00Z.
        #[arg(long, value_name = "DATE", value_parser = key::parse_date)]
        expires: Option<String>,
        /// The view that it is bound to, one of `views` in the configuration file: its holder sees nothing else.
        #[arg(long, value_name = "NAME")]
        view: Option<String>,
        /// The configuration that names the file.
        #[command(flatten)]
        file: ConfigFile,
    },
    /// List the names and roles of all keys.
    List {
        /// The configuration that names the file.
        #[command(flatten)]
        file: ConfigFile,
    },
    /// Remove a key from `keys_file`. A running gateway refuses it about a second later, and ends its sessions and streams.
    Revoke {
        /// Its name.
        #[arg(value_parser = key::parse_id)]
        name: String,
        /// The configuration that names the file.
        #[command(flatten)]
        file: ConfigFile,
    },
    /// Print a new key, once, and the lines of the configuration file that let it in.
    New {
        /// Its name: lower-case letters, digits and `-`. Without it, one is made up.
        #[arg(long, value_name = "NAME", value_parser = key::parse_id)]
        id: Option<String>,
        /// The role of its holder: `reader` sees what there is, `caller` also calls, `superuser` also operates.
        #[arg(long, default_value = "reader", value_parser = key::parse_role)]
        role: Role,
    },
}

/// Arguments of `token`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Token {
    /// Which configuration.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The subject that it is for.
    #[arg(long, value_name = "SUBJECT")]
    pub sub: String,
    /// The role of the subject: `reader` sees what there is, `caller` also calls, `superuser` also operates.
    #[arg(long, default_value = "reader", value_parser = key::parse_role)]
    pub role: Role,
    /// How long it is good: 90s, 30m, 1h, 7d.
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = token::parse_lifetime)]
    pub ttl: Duration,
    /// The private key (PEM), where only the public one is configured.
    #[arg(long, value_name = "FILE")]
    pub private_key: Option<PathBuf>,
    /// The id of that key in the key set.
    #[arg(long, requires = "private_key")]
    pub kid: Option<String>,
}

/// Arguments of `serve`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Serve {
    /// Which configuration.
    #[command(flatten)]
    pub file: ConfigFile,
    /// Address to listen on instead of the configured one, such as 127.0.0.1:8080.
    #[arg(long, env = "SWITCHYARD_LISTEN", hide_env_values = true, value_name = "ADDRESS:PORT", value_parser = address)]
    pub listen: Option<SocketAddr>,
    /// An option of other MCP servers.
    #[arg(long, hide = true, value_parser = transport_of_others)]
    transport: Option<String>,
    /// An option of other MCP servers.
    #[arg(long, hide = true, value_parser = port_of_others)]
    port: Option<String>,
    /// Whether it stands on the command line, and not in the environment, which others may have set.
    #[arg(skip)]
    pub listen_is_said: bool,
}

/// Arguments of `stdio`.
#[derive(Debug, Clone, Args)]
pub(crate) struct StdioArguments {
    /// Which configuration.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The view that the client sees, one of `views` in the configuration file [default: everything].
    #[arg(long, value_name = "NAME")]
    pub view: Option<String>,
}

/// Arguments of `import`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Import {
    /// The file of Claude Desktop, Claude Code, Cursor, VS Code or another MCP server; `-` is standard input.
    pub file: PathBuf,
    /// The folder whose own servers are taken too, as Claude Code keeps them in `~/.claude.json` [default: the
    /// current folder, if the file has servers for it].
    #[arg(long, value_name = "FOLDER")]
    pub project: Option<PathBuf>,
}

impl Serve {
    /// Notes what clap knows about the sources of the values.
    fn learn(&mut self, source: impl Fn(&str) -> Option<ValueSource>) {
        self.listen_is_said = source("listen") == Some(ValueSource::CommandLine);
        self.file.is_default = source("config") == Some(ValueSource::DefaultValue);
    }
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    parse_address(text).ok_or("expected an address and a port, such as 127.0.0.1:8080 or [::1]:8080")
}

fn transport_of_others(_: &str) -> Result<String, &'static str> {
    Err(
        "write `transport: http`, `stdio` or `both` under `server:` in the configuration file, or run `switchyard stdio`",
    )
}

fn port_of_others(_: &str) -> Result<String, &'static str> {
    Err("write `--listen 127.0.0.1:PORT`, or `listen` under `server:` in the configuration file")
}

impl Arguments {
    /// Reads the arguments that clap has matched.
    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut arguments = Self::from_arg_matches(matches)?;
        let inner = matches.subcommand();
        let source = |name: &str| inner.map_or(matches, |(_, inner)| inner).value_source(name);
        match &mut arguments.command {
            Some(Command::Check(check)) => {
                check.refuse_two_files(matches)?;
                check.config.is_default = source("config") == Some(ValueSource::DefaultValue);
            }
            Some(Command::Doctor(doctor)) => {
                doctor.running.file.is_default = source("config") == Some(ValueSource::DefaultValue);
            }
            Some(Command::Stdio(stdio)) => {
                stdio.file.is_default = source("config") == Some(ValueSource::DefaultValue);
            }
            Some(Command::Serve(serve)) => serve.learn(source),
            Some(_) => {}
            None => arguments.serve.learn(source),
        }
        Ok(arguments)
    }

    /// The command; `serve` if none is named.
    pub(crate) fn command(self) -> Command {
        self.command.unwrap_or(Command::Serve(self.serve))
    }
}

/// Parses the arguments of this process, runs the command, and returns the exit code.
pub fn run() -> ExitCode {
    // Before clap reads variables, and before the configuration file is expanded.
    if let Err(reason) = process_access::restrict() {
        // Without standard error, the exit code alone reports it.
        let _ = writeln!(io::stderr().lock(), "{reason}");
        return EXIT_USAGE.into();
    }
    let matches = <Arguments as CommandFactory>::command().get_matches();
    match Arguments::read(&matches).unwrap_or_else(|error| error.exit()).command() {
        Command::Check(check) => {
            confirm::with_own_streams(|streams| check::run_with(&check, &environment, streams))
        }
        Command::Import(arguments) => {
            let config = std::env::var_os("SWITCHYARD_CONFIG").unwrap_or_else(|| remote::DEFAULT_FILE.into());
            let gateway = connect::configured_url(config.as_ref(), &environment);
            let (mut out, mut err) = (io::stdout().lock(), visible::VisibleWriter(io::stderr().lock()));
            let passed = crate::connect::inherited::here(&environment);
            import::run(&arguments, &gateway, &passed, &mut io::stdin().lock(), &mut out, &mut err)
        }
        Command::Doctor(arguments) => doctor::run(&arguments, &environment),
        Command::Init(arguments) => init::start(&arguments, &environment),
        Command::Add(arguments) => edit::start_add(&arguments, &environment),
        Command::Remove(arguments) => edit::start_remove(&arguments, &environment),
        Command::Schema => schema::print(&mut io::stdout().lock()),
        Command::Connect(arguments) => connect::start(&arguments, &environment),
        Command::Serve(arguments) => run::serve(&arguments),
        Command::Stdio(arguments) => run::stdio(&arguments),
        Command::Key(command) => confirm::with_streams(|streams| key::run(&command, &environment, streams)),
        Command::Service(command) => service::start(&command, &environment),
        Command::Warm(arguments) => warm::run(&arguments),
        Command::Forget(arguments) => forget::run(&arguments),
        Command::Operate(command) => operate::run(&command),
        Command::Pages(command) => pages::run(&command),
        Command::Login(arguments) => login::run(&arguments),
        Command::Logout(arguments) => login::end(&arguments),
        Command::Secret(command) => {
            confirm::with_streams(|streams| secret::run(&command, &environment, streams))
        }
        Command::Token(token) => confirm::with_streams(|streams| token::run(&token, streams.out)),
    }
}

fn environment(name: &str) -> Result<String, std::env::VarError> {
    std::env::var(name)
}

#[cfg(test)]
mod tests;
