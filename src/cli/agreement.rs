//! Shows changes of files, asks the user, and reports why a command failed.
//!
//! Invariant: without `--yes` and without a terminal, nothing is written and the exit code is 1.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use super::EXIT_USAGE;
use crate::connect::{self, Change, diff};

/// The streams of a command.
pub(super) struct Streams<'p> {
    /// A terminal, if the user can be asked.
    pub(super) input: Option<&'p mut dyn BufRead>,
    pub(super) out: &'p mut dyn Write,
    pub(super) err: &'p mut dyn Write,
}

/// Why the command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The arguments or a file are not usable.
    Usage(String),
    /// Nothing was written, for another reason.
    Other(String),
    /// Standard output or standard error is closed.
    Closed,
}

impl From<io::Error> for Failure {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

impl From<connect::Error> for Failure {
    fn from(error: connect::Error) -> Self {
        Self::Usage(error.to_string())
    }
}

impl Streams<'_> {
    /// Says why the command failed, and returns the exit code.
    pub(super) fn end(&mut self, result: Result<(), Failure>) -> ExitCode {
        let (reason, code) = match result {
            Ok(()) => return ExitCode::SUCCESS,
            Err(Failure::Closed) => return ExitCode::FAILURE,
            Err(Failure::Other(reason)) => (reason, ExitCode::FAILURE),
            Err(Failure::Usage(reason)) => (reason, EXIT_USAGE.into()),
        };
        // If standard error is closed, the exit code alone reports the failure.
        let _ = writeln!(self.err, "{reason}");
        code
    }

    /// Prints the difference of each file.
    pub(super) fn show(&mut self, changes: &[&Change]) -> Result<(), Failure> {
        for change in changes {
            writeln!(self.out, "{}:\n{}", change.path.display(), diff(&change.before, &change.after))?;
        }
        Ok(self.out.flush()?)
    }

    /// Asks the user, unless the answer is given by `--yes`.
    pub(super) fn agree(&mut self, yes: bool, question: &str) -> Result<(), Failure> {
        if yes || self.ask(question, false)? {
            Ok(())
        } else {
            Err(Failure::Other("nothing was written".into()))
        }
    }

    /// Asks a question. An empty answer is `default`.
    pub(super) fn ask(&mut self, question: &str, default: bool) -> Result<bool, Failure> {
        let Some(input) = &mut self.input else {
            return Err(Failure::Other("nothing was written: without a terminal, add `--yes`".into()));
        };
        write!(self.err, "{question} {} ", if default { "[Y/n]" } else { "[y/N]" })?;
        self.err.flush()?;
        let mut answer = String::new();
        // The end of the input is no answer.
        let is_answered = input.read_line(&mut answer)? > 0;
        Ok(match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => true,
            "" => is_answered && default,
            _ => false,
        })
    }

    /// Says that a file was written, and where its old content is.
    pub(super) fn written(
        &mut self,
        change: &Change,
        backup: Option<&std::path::Path>,
    ) -> Result<(), Failure> {
        let kept =
            backup.map(|path| format!(", the old content is in {}", path.display())).unwrap_or_default();
        Ok(writeln!(self.err, "{}: written{kept}", change.path.display())?)
    }
}
