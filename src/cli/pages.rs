//! Completions for shells, and man pages. Both are made from the arguments of the program.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Subcommand};
use clap_complete::Shell;

use super::Arguments;

/// The name of the program.
const NAME: &str = "switchyard";

const COMPLETIONS_HELP: &str = "\
Examples:
  switchyard completions bash > ~/.local/share/bash-completion/completions/switchyard
  switchyard completions zsh > \"${fpath[1]}/_switchyard\"
  switchyard completions fish > ~/.config/fish/completions/switchyard.fish
  switchyard completions powershell >> $PROFILE";

const MAN_HELP: &str = "\
Examples:
  switchyard man ~/.local/share/man/man1";

/// Pages about the program.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Pages {
    /// Print the completions of a shell.
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the man pages of all commands into a folder.
    #[command(after_help = MAN_HELP)]
    Man {
        /// The folder; it is made if it is not there.
        folder: PathBuf,
    },
}

/// Makes it.
pub(super) fn run(pages: &Pages) -> ExitCode {
    let done = match pages {
        Pages::Completions { shell } => io::stdout().lock().write_all(&completions(*shell)),
        Pages::Man { folder } => man(folder),
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    let target = match pages {
        // The reader has closed the pipe. The exit code alone reports that.
        Pages::Completions { .. } if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::FAILURE,
        Pages::Completions { .. } => "the completions".to_owned(),
        Pages::Man { folder } => format!("man pages into {}", folder.display()),
    };
    // If standard error is closed, the exit code alone reports the failure.
    let _ = writeln!(io::stderr().lock(), "cannot write {target}: {error}");
    ExitCode::FAILURE
}

fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut <Arguments as CommandFactory>::command(), NAME, &mut script);
    script
}

fn man(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(<Arguments as CommandFactory>::command(), folder)
}
