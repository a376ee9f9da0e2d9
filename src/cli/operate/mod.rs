//! Commands for the running gateway: they show what it has, call its tools and repair its servers.
//!
//! ```text
//! servers, tools ── REST ──┐
//!                          ├── remote ──▶ gateway        screen ◀── table, json_text, yaml
//! call, prompts, resources ── mcp ──┘
//! ```
//!
//! Invariants: text of servers is visible text when it reaches a terminal. Results go to standard output, notes and
//! progress to standard error.
//!
//! Exit codes: those of `remote`.
//!
//! Not here: logins (`login`), and commands that need no gateway.

mod approve;
mod arguments;
mod call;
mod grants;
mod json_text;
mod logs;
mod mcp;
mod members;
mod prompts;
mod questions;
mod resources;
pub(super) mod screen;
mod servers;
pub(super) mod table;
mod tools;
mod watch;
mod why;

use std::io;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::arguments::TypedArguments;
use self::screen::Screen;
pub(crate) use self::screen::{Output, OutputFormat};
use super::error::{CommandError, exit};
use super::remote::{Remote, RunningGateway, block_on};

const STATUS_HELP: &str = "\
Examples:
  switchyard status
  switchyard status --check --url https://gateway.example.org
  switchyard status --watch

Exit codes: 0 healthy or degraded, 1 no server is healthy, 2 invalid arguments, 3 the gateway cannot be reached, 4 it
refuses the credential";

const TOOLS_HELP: &str = "\
Examples:
  switchyard tools
  switchyard tools create issue
  switchyard tools --as helpdesk
  switchyard tools -o name";

const WHY_HELP: &str = "\
Examples:
  switchyard why create_issue
  switchyard why issues/delete_issue --view support
  switchyard why delete_issue --as helpdesk

It needs the role superuser. A client hears only that there is no such tool.";

const TOOL_HELP: &str = "\
Examples:
  switchyard tool create_issue
  switchyard tool create_issue -o yaml";

const CALL_HELP: &str = "\
Arguments of the tool:
  key=value   a string; a number, true or false as such, unless the tool wants a string
  key:=JSON   any value
  --json TEXT all arguments as one JSON object; - reads it from standard input

Examples:
  switchyard call search_handbook query='circuit breaker' limit=3
  switchyard call create_issue title=Broken labels:='[\"bug\"]'
  switchyard call create_issue --json '{\"title\": \"Broken\"}'
  switchyard call create_issue - < issue.json

On a terminal, a tool can ask for more: a form field by field, or a page to open. Nothing is sent before you agree, and
Ctrl-D cancels.

Exit codes: 0 done, 1 the tool reported an error or did not run, 2 invalid arguments, 3 the gateway cannot be reached,
4 it refuses the credential";

const READ_HELP: &str = "\
Examples:
  switchyard read file:///notes/today.md
  switchyard read file:///logo.png > logo.png";

const PROMPT_HELP: &str = "\
Examples:
  switchyard prompt review language=Rust";

const BREAKERS_HELP: &str = "\
Examples:
  switchyard breakers
  switchyard breakers reset issues";

const LOGS_HELP: &str = "\
Past calls are kept without anybody watching. Other events are recorded only while somebody watches: this command with
--follow, the dashboard, or another reader of /api/v1/mcp/events.

Examples:
  switchyard logs --since 1d --failed
  switchyard logs --since 15m --server issues -o json
  switchyard logs --follow
  switchyard logs --follow --server issues --outcome failed
  switchyard logs --follow -o json";

const APPROVE_HELP: &str = "\
Nothing is approved that the server changed again after it was shown.

Examples:
  switchyard approve issues
  switchyard approve issues --tool create_issue
  switchyard approve issues --yes

Exit codes: 0 done, 1 not approved, 2 invalid arguments, 3 the gateway cannot be reached, 4 it refuses the credential";

const GRANTS_HELP: &str = "\
A grant is what one person allowed one client, such as claude.ai, at the authorization server of the gateway. When it ends,
its tokens are refused, its sessions, streams and calls end, and the client has to ask the person again.

Examples:
  switchyard grants
  switchyard grants list --of key:laptop
  switchyard grants clients
  switchyard grants revoke 17c592ab
  switchyard grants revoke --of key:laptop
  switchyard grants revoke --client https://claude.ai/oauth/client.json";

/// Options of all commands for the running gateway.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Which gateway.
    #[command(flatten)]
    pub running: RunningGateway,
    /// How to write the result.
    #[command(flatten)]
    pub output: Output,
}

/// Commands for the running gateway.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum OperateCommand {
    /// Show whether the running gateway and its servers are healthy.
    #[command(after_help = STATUS_HELP)]
    Status {
        /// Ask the servers now, and not only for what is known of them.
        #[arg(long)]
        check: bool,
        /// Show state, breaker and rates of the servers every two seconds, until Ctrl-C.
        #[arg(long, conflicts_with = "check")]
        watch: bool,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
    /// List the servers: state, breaker, tools, calls.
    Servers(Options),
    /// List the tools, or those that match a query.
    #[command(after_help = TOOLS_HELP)]
    Tools {
        /// Words that name, server or description of the tool contain.
        query: Vec<String>,
        /// Which clients [default: the one that asks].
        #[command(flatten)]
        client: why::ClientView,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
    /// Say why clients get a tool, or do not: which rule decides, and how its server is.
    #[command(after_help = WHY_HELP)]
    Why {
        /// The tool: its name, its name at its server, or `server/name`.
        name: String,
        /// Which clients [default: those without a view].
        #[command(flatten)]
        client: why::ClientView,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
    /// Show one tool: its server, its parameters and its annotations.
    #[command(after_help = TOOL_HELP)]
    Tool {
        /// Its name, as `switchyard tools` lists it.
        name: String,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
    /// Run a tool and print its result.
    #[command(after_help = CALL_HELP)]
    Call {
        /// Its name, as `switchyard tools` lists it.
        name: String,
        /// Its arguments, or `-` to read them as a JSON object from standard input.
        #[arg(value_name = "KEY=VALUE")]
        arguments: Vec<String>,
        /// All arguments as one JSON object; `-` is standard input.
        #[arg(long, value_name = "TEXT")]
        json: Option<String>,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
    /// List the resources, and the templates of resources.
    Resources(Options),
    /// Print a resource. A file or pipe gets its bytes.
    #[command(after_help = READ_HELP)]
    Read {
        /// Its URI, as `switchyard resources` lists it.
        uri: String,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
    /// List the prompts and their arguments.
    Prompts(Options),
    /// Print the messages of a prompt.
    #[command(after_help = PROMPT_HELP)]
    Prompt {
        /// Its name, as `switchyard prompts` lists it.
        name: String,
        /// Its arguments.
        #[arg(value_name = "KEY=VALUE")]
        arguments: Vec<String>,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
    /// List the circuit breakers, or close one.
    #[command(args_conflicts_with_subcommands = true, after_help = BREAKERS_HELP)]
    Breakers {
        /// An action on one breaker.
        #[command(subcommand)]
        action: Option<BreakerAction>,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
    /// List the grants of people to clients at the authorization server of the gateway, or end them.
    #[command(args_conflicts_with_subcommands = true, after_help = GRANTS_HELP)]
    Grants {
        /// An action [default: list all grants].
        #[command(subcommand)]
        action: Option<GrantAction>,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
    /// Connect to a server again.
    Reconnect {
        /// The server.
        name: String,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
    /// Enable a server until the next reload or restart.
    Enable {
        /// The server.
        name: String,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
    /// Disable a server until the next reload or restart. Running calls finish.
    Disable {
        /// The server.
        name: String,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
    /// Show past calls, or calls and states of servers as they happen.
    #[command(after_help = LOGS_HELP)]
    Logs {
        /// Which events.
        #[command(flatten)]
        filter: logs::EventFilter,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
    /// Make the gateway read its configuration file again.
    Reload(Options),
    /// Show how tools of a server changed, and trust them as they were shown.
    #[command(after_help = APPROVE_HELP)]
    Approve {
        /// The server.
        name: String,
        /// Only this tool, by its name at the server.
        #[arg(long)]
        tool: Option<String>,
        /// Only if the definition still has this SHA-256.
        #[arg(long, value_name = "HASH", requires = "tool")]
        sha256: Option<String>,
        /// Approve without asking. Only what was shown is approved.
        #[arg(long, short)]
        yes: bool,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
}

/// An action on one circuit breaker.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum BreakerAction {
    /// Close the breaker of a server now.
    Reset {
        /// The server.
        name: String,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
}

/// An action on grants.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum GrantAction {
    /// List grants. Without the role superuser, these are your own.
    List {
        /// Which grants.
        #[command(flatten)]
        choice: grants::GrantChoice,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
    /// List the clients of the authorization server: those of the file, those that registered themselves or have a grant.
    Clients(Options),
    /// End one grant, all grants of one person, or all grants of one client.
    Revoke {
        /// Which grants.
        #[command(flatten)]
        which: grants::Revoked,
        /// Options.
        #[command(flatten)]
        options: Options,
    },
}

impl GrantAction {
    const fn options(&self) -> &Options {
        match self {
            Self::Clients(options) | Self::List { options, .. } | Self::Revoke { options, .. } => options,
        }
    }
}

impl OperateCommand {
    const fn options(&self) -> &Options {
        match self {
            Self::Grants { action: Some(action), .. } => action.options(),
            Self::Breakers { action: Some(BreakerAction::Reset { options, .. }), .. }
            | Self::Grants { options, .. }
            | Self::Servers(options)
            | Self::Resources(options)
            | Self::Prompts(options)
            | Self::Reload(options)
            | Self::Status { options, .. }
            | Self::Tools { options, .. }
            | Self::Tool { options, .. }
            | Self::Why { options, .. }
            | Self::Call { options, .. }
            | Self::Read { options, .. }
            | Self::Prompt { options, .. }
            | Self::Breakers { options, .. }
            | Self::Reconnect { options, .. }
            | Self::Enable { options, .. }
            | Self::Disable { options, .. }
            | Self::Logs { options, .. }
            | Self::Approve { options, .. } => options,
        }
    }

    /// Whether its result has names.
    const fn has_names(&self) -> bool {
        !matches!(self, Self::Call { .. } | Self::Read { .. } | Self::Prompt { .. } | Self::Logs { .. })
    }
}

/// Runs the command and returns its exit code.
pub(super) fn run(command: &OperateCommand) -> ExitCode {
    let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
    let mut screen = Screen::of(&command.options().output, &mut out, &mut err);
    let ended = block_on(done(command, &mut screen));
    exit(ended, &mut err)
}

async fn done(command: &OperateCommand, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    if screen.format == OutputFormat::Name && !command.has_names() {
        return Err(CommandError::Usage("-o name is for lists; use table, json or yaml".into()));
    }
    let remote = &Remote::of(&command.options().running)?;
    done_at(remote, command, screen).await.map_err(|error| error.of(remote))
}

async fn done_at(
    remote: &Remote,
    command: &OperateCommand,
    screen: &mut Screen<'_>,
) -> Result<(), CommandError> {
    match command {
        OperateCommand::Status { watch: true, .. } => watch::run(remote, screen).await,
        OperateCommand::Status { check, .. } => servers::status(remote, *check, screen).await,
        OperateCommand::Servers(_) => servers::list(remote, screen).await,
        OperateCommand::Tools { query, client, options } => {
            let view = client.named(&options.running)?.view;
            tools::list(remote, query, view.as_deref(), screen).await
        }
        OperateCommand::Why { name, client, options } => {
            let client = client.named(&options.running)?;
            why::explain(remote, name, &client, screen).await
        }
        OperateCommand::Tool { name, .. } => tools::show(remote, name, screen).await,
        OperateCommand::Call { name, arguments, json, .. } => {
            let call = call::Call { name, words: arguments, json: json.as_deref() };
            call::run(remote, &call, &mut io::stdin().lock(), screen).await
        }
        OperateCommand::Resources(_) => resources::list(remote, screen).await,
        OperateCommand::Read { uri, .. } => resources::read(remote, uri, screen).await,
        OperateCommand::Prompts(_) => prompts::list(remote, screen).await,
        OperateCommand::Prompt { name, arguments, .. } => {
            let given = TypedArguments::read(arguments, None, &mut io::stdin().lock())?;
            prompts::show(remote, name, &given, screen).await
        }
        OperateCommand::Breakers { action: None, .. } => servers::breakers(remote, screen).await,
        OperateCommand::Breakers { action: Some(BreakerAction::Reset { name, .. }), .. } => {
            servers::reset_breaker(remote, name, screen).await
        }
        OperateCommand::Grants { action, .. } => grants::run(remote, action.as_ref(), screen).await,
        OperateCommand::Reconnect { name, .. } => servers::change(remote, name, "reconnect", screen).await,
        OperateCommand::Enable { name, .. } => servers::change(remote, name, "enable", screen).await,
        OperateCommand::Disable { name, .. } => servers::change(remote, name, "disable", screen).await,
        OperateCommand::Logs { filter, .. } => logs::run(remote, filter, screen).await,
        OperateCommand::Reload(_) => servers::reload(remote, screen).await,
        OperateCommand::Approve { name, tool, sha256, yes, .. } => {
            let choice = approve::Choice {
                server: name,
                tool: tool.as_deref(),
                sha256: sha256.as_deref(),
                is_agreed: *yes,
            };
            approve::run(remote, &choice, &mut io::stdin().lock(), screen).await
        }
    }
}
