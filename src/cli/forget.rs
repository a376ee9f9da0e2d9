//! `switchyard forget SERVER`: removes what is remembered of a server.
//!
//! The running gateway does it, and reads the server again. If no gateway runs, the file of the server is removed.
//!
//! Invariant: a gateway that answers decides. The file is removed here only if the configuration file names no running
//! gateway that can be reached.
//!
//! Exit codes: those of `remote`.

use std::io::{self, Write};
use std::process::ExitCode;

use http::Method;

use super::error::{CommandError, exit};
use super::remote::{Remote, RunningGateway, block_on, not_a_gateway};
use super::visible;

pub(super) const HELP: &str = "\
Forgotten are the offer, the signs of state, the trusted definitions of its tools, and the names that belong to it. A
running gateway starts the server again, and trusts what it offers then.

Examples:
  switchyard forget issues
  switchyard forget issues --url https://gateway.example.org

Exit codes: 0 forgotten, 1 not, 2 invalid arguments or configuration file, 3 the gateway of --url cannot be reached,
4 it refuses the credential";

/// Arguments of `forget`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Forget {
    /// The server, as the configuration file names it.
    pub server: String,
    /// Which gateway.
    #[command(flatten)]
    pub running: RunningGateway,
}

/// Runs the command.
pub(super) fn run(arguments: &Forget) -> ExitCode {
    let done = Remote::of(&arguments.running).and_then(|remote| {
        let path = ["servers", arguments.server.as_str(), "forget"];
        match block_on(remote.rest(Method::POST, &path, &[])) {
            Ok(server) if server.get("name").is_none() => Err(not_a_gateway().of(&remote)),
            Ok(_) => Ok("forgotten; the gateway reads it again".to_owned()),
            Err(CommandError::Unreachable { .. } | CommandError::Foreign { .. })
                if arguments.running.url.is_none() =>
            {
                forget_here(arguments)
            }
            Err(failed) => Err(failed.of(&remote)),
        }
    });
    let mut err = io::stderr().lock();
    let written = done
        .and_then(|done| Ok(writeln!(err, "{}", visible::line(&format!("{}: {done}", arguments.server)))?));
    exit(written, &mut err)
}

fn forget_here(arguments: &Forget) -> Result<String, CommandError> {
    let file = &arguments.running.file;
    let config = file.load()?.manager;
    if !config.names().iter().any(|name| **name == *arguments.server) {
        let reason = format!("{} has no server {:?}", file.config.display(), arguments.server);
        return Err(CommandError::Usage(reason));
    }
    let Some(folder) = config.remembered else {
        return Ok("nothing is remembered, because no state folder is known".into());
    };
    match folder.forget(&arguments.server) {
        Ok(true) => Ok("forgotten; no gateway runs, so it is read at the next start".into()),
        Ok(false) => Ok("nothing was remembered".into()),
        Err(error) => Err(CommandError::Refused(format!("the remembered offer cannot be removed: {error}"))),
    }
}
