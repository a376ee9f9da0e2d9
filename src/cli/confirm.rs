//! Shows changes of files, asks the user, and reports why a command failed.
//!
//! Invariant: without `--yes` and without a terminal, nothing is written and the exit code is 1.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::Args;
use settings::one_line;

use super::error::{CommandError, exit_unless_done};
use super::operate::screen::width_of;
use super::operate::table::{Cell, Table};
use super::visible::VisibleWriter;
use crate::connect::own_file::ServersChange;
use crate::connect::{FileChange, MovedSecrets, diff};

/// Whether a command that changes files asks, and whether it writes.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WriteOptions {
    /// Write without asking.
    #[arg(long, short)]
    pub yes: bool,
    /// Show the change and write nothing, also with `--yes`.
    #[arg(long)]
    pub dry_run: bool,
}

/// The streams of a command.
pub(super) struct CommandStreams<'p> {
    /// A terminal, if the user can be asked.
    pub(super) input: Option<&'p mut dyn BufRead>,
    pub(super) out: &'p mut dyn Write,
    /// The columns of standard output, if it is a terminal.
    pub(super) width: Option<usize>,
    pub(super) err: &'p mut dyn Write,
}

impl CommandStreams<'_> {
    /// Prints a table as wide as the terminal.
    pub(super) fn table<const N: usize>(
        &mut self,
        header: &[&'static str; N],
        rows: impl Iterator<Item = [String; N]>,
    ) -> io::Result<()> {
        let mut table = Table::new(header);
        table.rows.extend(rows.map(|row| row.iter().map(|cell| Cell::new(cell)).collect()));
        table.write(self.width, false, self.out)
    }

    /// Says why the command failed, and returns the exit code.
    pub(super) fn end(&mut self, result: Result<(), CommandError>) -> ExitCode {
        // A command whose output is closed has failed: nobody saw its question or its result.
        exit_unless_done(result, self.err)
    }

    /// Prints the difference of each file, and asks whether to write them. False if the command was only to show them.
    pub(super) fn agree_to(
        &mut self,
        changes: &[&FileChange],
        writing: &WriteOptions,
    ) -> Result<bool, CommandError> {
        for change in changes {
            writeln!(self.out, "{}:\n{}", change.path.display(), diff(&change.before, &change.after))?;
        }
        self.out.flush()?;
        if writing.dry_run {
            return Ok(false);
        }
        let names: Vec<_> = changes.iter().map(|change| change.path.display().to_string()).collect();
        self.agree(writing.yes, &format!("Write {}?", names.join(" and ")))?;
        Ok(true)
    }

    /// Says which servers were not taken, and what else there is to know. `left` is the word for those.
    pub(super) fn report_notes(&mut self, addition: &ServersChange, left: &str) -> Result<(), CommandError> {
        for (name, reason) in &addition.refused {
            writeln!(self.err, "note: {}: {left}: {reason}", one_line(name))?;
        }
        for note in &addition.notes {
            writeln!(self.err, "note: {note}")?;
        }
        Ok(())
    }

    /// Writes the secrets that a file is about to refer to into the vault, before the file.
    pub(super) fn write_secrets(&mut self, secrets: Option<&MovedSecrets>) -> Result<(), CommandError> {
        let Some(secrets) = secrets.filter(|secrets| !secrets.is_empty()) else { return Ok(()) };
        let vault = secrets.write()?;
        let names: Vec<_> = secrets.names().collect();
        Ok(writeln!(self.err, "{}: it has the secrets {} now", vault.display(), names.join(", "))?)
    }

    /// Asks the user, unless the answer is given by `--yes`.
    pub(super) fn agree(&mut self, yes: bool, question: &str) -> Result<(), CommandError> {
        if yes || self.ask(question, false)? {
            Ok(())
        } else {
            Err(CommandError::Refused("nothing was written".into()))
        }
    }

    /// Asks a question. An empty answer is `default`.
    pub(super) fn ask(&mut self, question: &str, default: bool) -> Result<bool, CommandError> {
        let Some(input) = &mut self.input else {
            return Err(CommandError::Refused("nothing was written: without a terminal, add `--yes`".into()));
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
        change: &FileChange,
        backup: Option<&std::path::Path>,
    ) -> Result<(), CommandError> {
        let backup =
            backup.map(|path| format!(", the old content is in {}", path.display())).unwrap_or_default();
        Ok(writeln!(self.err, "{}: written{backup}", change.path.display())?)
    }
}

/// Runs a command with the streams of this process, and says why it failed.
pub(super) fn with_streams(
    command: impl FnOnce(&mut CommandStreams<'_>) -> Result<(), CommandError>,
) -> ExitCode {
    with_own_streams(|streams| {
        let result = command(streams);
        streams.end(result)
    })
}

/// Runs a command with the streams of this process.
pub(super) fn with_own_streams<T>(command: impl FnOnce(&mut CommandStreams<'_>) -> T) -> T {
    let stdin = io::stdin();
    let mut terminal = stdin.is_terminal().then(|| stdin.lock());
    command(&mut CommandStreams {
        input: terminal.as_mut().map(|input| input as &mut dyn BufRead),
        out: &mut VisibleWriter(io::stdout()),
        width: width_of(&io::stdout()),
        err: &mut VisibleWriter(io::stderr()),
    })
}
