//! The output of a command: its format, and what the terminal can show.
//!
//! Invariants: results go to standard output, everything else to standard error. Escape sequences are written only to a
//! terminal, and only where colors are not turned off.
//!
//! Not here: what a command shows.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use clap::ValueEnum;
use rustix::termios::tcgetwinsize;

use super::super::visible;
use super::json_text;
use super::members::{list_of, text};
use super::table::{Column, Table, shortened};
use crate::config::import::yaml;
use json::Raw;

/// The width of a terminal that does not tell its own.
const USUAL_WIDTH: usize = 80;

/// How a result is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// A table, or text.
    Table,
    /// The answer of the gateway as JSON.
    Json,
    /// The answer of the gateway as YAML.
    Yaml,
    /// Names only, one on each line.
    Name,
}

/// Options for the output.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Output {
    /// How to write the result.
    #[arg(
        short = 'o',
        long = "output",
        id = "output",
        value_enum,
        default_value = "table",
        value_name = "FORMAT"
    )]
    pub format: OutputFormat,
    /// Write results and errors only: no warnings, no progress.
    #[arg(short, long)]
    pub quiet: bool,
    /// Write no colors, also on a terminal. The variable `NO_COLOR` does the same.
    #[arg(long)]
    pub no_color: bool,
}

/// A result in all its forms.
pub(in crate::cli) struct View {
    /// The answer of the gateway.
    pub(in crate::cli) document: Raw,
    /// The names in it.
    pub(in crate::cli) names: Vec<String>,
    /// For people.
    pub(in crate::cli) table: Table,
}

impl View {
    /// A list of `items` in the answer `document`. The member `name` of each is its name.
    pub(super) fn list(document: Raw, items: &[Raw], name: &str, columns: &[Column]) -> Self {
        let names = items.iter().map(|item| text(item, name)).collect();
        Self { document, names, table: Table::of(items, columns) }
    }

    /// A list of `items` of several answers, in a document of its own that has them as `member`.
    pub(super) fn of_items(member: &str, items: &[Raw], name: &str, columns: &[Column]) -> Self {
        Self::list(Raw::object(&[(member, &list_of(items))]), items, name, columns)
    }
}

/// Where a command writes.
#[allow(clippy::struct_excessive_bools)] // six facts about the terminal and the options, none of which implies another
pub(in crate::cli) struct Screen<'a> {
    pub(in crate::cli) out: &'a mut dyn Write,
    pub(in crate::cli) err: &'a mut dyn Write,
    pub(in crate::cli) format: OutputFormat,
    is_quiet: bool,
    /// Whether standard output is a terminal.
    pub(in crate::cli) is_terminal: bool,
    width: Option<usize>,
    pub(super) has_color: bool,
    /// Whether a person can be asked: standard input and standard error are a terminal.
    pub(super) can_ask: bool,
    /// Whether standard output is a terminal that can be cleared.
    can_clear: bool,
    /// The width of standard error, if progress is shown there.
    progress_width: Option<usize>,
    has_progress: bool,
}

/// Returns the columns of a stream that is a terminal.
pub(in crate::cli) fn width_of(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let columns = || tcgetwinsize(stream).map(|size| usize::from(size.ws_col));
    stream.is_terminal().then(|| columns().ok().filter(|width| *width > 0).unwrap_or(USUAL_WIDTH))
}

impl<'a> Screen<'a> {
    /// The screen of this process.
    pub(in crate::cli) fn of(options: &Output, out: &'a mut dyn Write, err: &'a mut dyn Write) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let can_move = std::env::var_os("TERM").is_some_and(|name| name != "dumb");
        Self {
            out,
            err,
            format: options.format,
            is_quiet: options.quiet,
            is_terminal,
            width: width_of(&io::stdout()),
            can_ask: io::stdin().is_terminal() && io::stderr().is_terminal(),
            can_clear: is_terminal && can_move,
            has_color: is_terminal && can_move && !options.no_color && !is_set("NO_COLOR"),
            progress_width: width_of(&io::stderr()).filter(|_| can_move && !options.quiet),
            has_progress: false,
        }
    }

    /// Writes a result.
    pub(in crate::cli) fn show(&mut self, view: &View) -> io::Result<()> {
        match self.format {
            OutputFormat::Table => self.table(&view.table),
            OutputFormat::Name => {
                view.names.iter().try_for_each(|name| writeln!(self.out, "{}", visible::line(name)))
            }
            OutputFormat::Json | OutputFormat::Yaml => self.document(&view.document),
        }
    }

    /// Shows the next state of something that is watched: below the title on a terminal that is cleared, and cut to its
    /// lines, otherwise below what was written before. Without a view there is only the title.
    pub(super) fn redraw(&mut self, title: &str, view: Option<&View>) -> io::Result<()> {
        if self.format != OutputFormat::Table {
            let Some(view) = view else { return self.note(title) };
            let separator = if self.format == OutputFormat::Yaml { "---\n" } else { "" };
            write!(self.out, "{separator}")?;
            return self.show(view).and_then(|()| self.out.flush());
        }
        let size = self.can_clear.then(|| tcgetwinsize(io::stdout()).ok()).flatten();
        // A serial line and a new pseudo-terminal report 0.
        let known = |size: u16| Some(usize::from(size)).filter(|size| *size > 0);
        let width = size.and_then(|size| known(size.ws_col)).or(self.width);
        let height = size.and_then(|size| known(size.ws_row)).map_or(usize::MAX, |height| height.max(2));
        let mut text = Vec::new();
        if let Some(view) = view {
            view.table.write(width, self.has_color, &mut text)?;
        }
        let title = visible::line(title);
        let title = width.map_or(title.clone(), |width| shortened(&title, width));
        let start = if self.can_clear { "\x1b[2J\x1b[H" } else { "" };
        writeln!(self.out, "{start}{title}")?;
        let lines = text.split_inclusive(|byte| *byte == b'\n').take(height - 2);
        lines.into_iter().try_for_each(|line| self.out.write_all(line))?;
        if !self.can_clear {
            writeln!(self.out)?;
        }
        self.out.flush()
    }

    /// Writes a table as wide as the terminal.
    pub(in crate::cli) fn table(&mut self, table: &Table) -> io::Result<()> {
        table.write(self.width, self.has_color, self.out)
    }

    /// Writes an answer as JSON, or as YAML if that is asked for.
    pub(in crate::cli) fn document(&mut self, document: &Raw) -> io::Result<()> {
        match self.format {
            OutputFormat::Yaml => write!(self.out, "{}", yaml::document(document)),
            _ => writeln!(self.out, "{}", json_text::indented(document)),
        }
    }

    /// Writes lines of a result, which may be text of a server.
    pub(in crate::cli) fn lines(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", visible::lines(text))
    }

    /// Writes what is good to know, unless the command is quiet.
    pub(in crate::cli) fn note(&mut self, text: &str) -> io::Result<()> {
        if self.is_quiet { Ok(()) } else { writeln!(self.err, "{}", visible::line(text)) }
    }

    /// Replaces the line of progress, on a terminal.
    pub(in crate::cli) fn progress(&mut self, text: &str) -> io::Result<()> {
        let Some(width) = self.progress_width else { return Ok(()) };
        self.has_progress = true;
        write!(self.err, "\r\x1b[K{}", shortened(&visible::line(text), width.saturating_sub(1)))?;
        self.err.flush()
    }

    /// Removes the line of progress.
    pub(in crate::cli) fn end_progress(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.has_progress) {
            return Ok(());
        }
        write!(self.err, "\r\x1b[K")?;
        self.err.flush()
    }
}
