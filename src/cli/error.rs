//! Why a command failed: what is said on standard error, and the exit code.
//!
//! Exit codes: 1 refused or failed, 2 arguments or configuration, 3 no gateway answered, 4 the gateway refused the
//! credential or its role.

use std::io::{self, Write};
use std::process::ExitCode;

use super::{EXIT_USAGE, visible};
use crate::{config, connect};

/// No gateway answered.
pub(super) const EXIT_UNREACHABLE: u8 = 3;
/// The gateway refused the credential.
pub(super) const EXIT_DENIED: u8 = 4;

/// Why a command failed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CommandError {
    /// The configuration file gives no URL.
    #[error("{0}\nname the running gateway with --url or SWITCHYARD_URL instead")]
    Configuration(String),
    /// The arguments do not fit together, or not to the gateway.
    #[error("{0}")]
    Usage(String),
    /// The reader of standard output has gone, as with `head`, or the one of standard error.
    #[error("the output is closed")]
    Closed,
    /// No gateway answered.
    #[error("cannot reach the gateway at {url}: {reason}; is it running? name another one with --url")]
    Unreachable {
        /// The URL, without its path.
        url: String,
        /// The error of the connection.
        reason: String,
    },
    /// Another program answered.
    #[error(
        "no Switchyard answers{}, another program does ({answer}); name the gateway with --url, or run `switchyard \
         doctor` to see which program it is", at(.url)
    )]
    Foreign {
        /// The URL, without its path. Empty where it is not known yet.
        url: String,
        /// The difference between its answer and that of a gateway.
        answer: String,
    },
    /// The gateway refused the credential, or its role does not suffice.
    #[error("{reason}; give a credential in SWITCHYARD_KEY, such as a key of `switchyard key add {needed}`")]
    Denied {
        /// The words of the gateway.
        reason: String,
        /// The arguments of the command that makes a key which suffices.
        needed: &'static str,
    },
    /// Another refusal or failure.
    #[error("{0}")]
    Refused(String),
}

fn at(url: &str) -> String {
    if url.is_empty() { String::new() } else { format!(" at {url}") }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Refused(format!("cannot write the result: {error}")),
        }
    }
}

impl From<config::Error> for CommandError {
    fn from(error: config::Error) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<connect::Error> for CommandError {
    fn from(error: connect::Error) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<auth::Error> for CommandError {
    fn from(error: auth::Error) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<auth::vault::Error> for CommandError {
    fn from(error: auth::vault::Error) -> Self {
        Self::Refused(error.to_string())
    }
}

/// Like [`exit`], but closed output is a failure: for commands that stop when nobody can read them.
pub(super) fn exit_unless_done(ended: Result<(), CommandError>, err: &mut dyn Write) -> ExitCode {
    match ended {
        Err(CommandError::Closed) => ExitCode::FAILURE,
        ended => exit(ended, err),
    }
}

/// Tells why a command failed, and returns its exit code.
pub(super) fn exit(ended: Result<(), CommandError>, err: &mut dyn Write) -> ExitCode {
    let Err(failed) = ended else { return ExitCode::SUCCESS };
    if failed == CommandError::Closed {
        return ExitCode::SUCCESS;
    }
    // If standard error is closed, the exit code alone reports the failure.
    let _ = writeln!(err, "{}", visible::lines(&failed.to_string()));
    match failed {
        CommandError::Configuration(_) | CommandError::Usage(_) => EXIT_USAGE.into(),
        CommandError::Unreachable { .. } | CommandError::Foreign { .. } => EXIT_UNREACHABLE.into(),
        CommandError::Denied { .. } => EXIT_DENIED.into(),
        CommandError::Refused(_) | CommandError::Closed => ExitCode::FAILURE,
    }
}
