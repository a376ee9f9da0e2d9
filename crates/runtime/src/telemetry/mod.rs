//! Logs on standard error or in a file, types for log lines with foreign text, and the metrics.
//!
//! Invariants: nothing is written to standard output, which belongs to MCP over stdio. In JSON every line is exactly
//! one object, panics included. In the pretty format a value with spaces is quoted (`pretty`). Text of clients and
//! servers is logged as [`untrusted`] only. Logging never waits for the reader of standard error or for the file
//! (`log_queue`).
//!
//! It does not decide which events are logged; each part does.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::field::{DisplayValue, display};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use protocol::visible::escaped;

pub mod audit;
pub mod durations;
pub mod limit;
mod log_queue;
pub mod metrics;
pub mod pace;
pub mod panics;
mod pretty;
pub mod process;
mod request_id;
#[cfg(any(test, feature = "testing"))]
pub mod sink;

use log_queue::{LineKind, LogFile, QUEUE};
pub use request_id::RequestId;
use settings::{Setting, settings, words};

/// The target of the lines that name exceptions from authentication. The configuration file cannot turn it off.
pub const EXPOSURE: &str = "switchyard::exposure";
/// The variables with a filter, in order of precedence. The syntax is that of `tracing_subscriber::EnvFilter`.
const FILTER_VARIABLES: [&str; 2] = ["SWITCHYARD_LOG", "RUST_LOG"];
/// The longest piece of foreign text in one field, in characters.
const MAX_UNTRUSTED_CHARS: usize = 256;
/// The longest reason of a failure that is shown to an operator, in characters.
const MAX_REASON_CHARS: usize = 2_000;
/// The time limit at exit for writing the remaining lines.
const FLUSH_LIMIT: Duration = Duration::from_millis(500);

words! {
    /// The format of log lines.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Format {
        /// Pretty on a terminal, JSON anywhere else.
        #[default]
        Auto = "auto",
        /// One JSON object per line.
        Json = "json",
        /// For people.
        Pretty = "pretty",
    }
}

/// The lowest level of the program's own lines. Lines of libraries below `warn` are never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    /// Failures that an operator must handle.
    Error,
    /// Faults that may become failures.
    Warn,
    /// Events, once for each fact.
    #[default]
    Info,
    /// Every request.
    Debug,
    /// Everything.
    Trace,
}

impl Level {
    /// Parses a level in any case. The names of Python's levels are accepted too.
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "error" | "critical" | "fatal" => Self::Error,
            "warn" | "warning" => Self::Warn,
            "info" => Self::Info,
            "debug" => Self::Debug,
            "trace" => Self::Trace,
            _ => return None,
        })
    }

    /// The filter when no variable says otherwise. Operations are audited at every level.
    const fn filter(self) -> &'static str {
        match self {
            Self::Error => "error,switchyard::audit=info,switchyard::exposure=warn",
            Self::Warn => "warn,switchyard::audit=info",
            Self::Info => "warn,switchyard=info",
            Self::Debug => "warn,switchyard=debug",
            Self::Trace => "warn,switchyard=trace",
        }
    }
}

settings! {
    /// Settings of the log in the configuration file.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LogOptions {
        /// `auto`: pretty on a terminal, JSON otherwise
        pub format as "log_format": Format;
        /// the lowest level of lines that Switchyard writes: `error`, `warn`, `info`, `debug`, `trace`; `SWITCHYARD_LOG`
        /// takes precedence
        pub level as "log_level": Level => "`info`", with level;
        /// Switchyard [appends its log to this file](operate/logs.md#log-to-a-file) instead of writing to standard error
        pub file as "log_file": Option<PathBuf>;
    }
}

fn level(setting: &Setting<'_>) -> Option<Level> {
    setting.parsed("one of `error`, `warn`, `info`, `debug`, `trace`", Level::from_word)
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A filter does not parse.
    #[error("{variable} is not a log filter: {reason}")]
    Filter {
        /// Which variable.
        variable: &'static str,
        /// The problem.
        reason: String,
    },
    /// The file of the log cannot be used.
    #[error("`log_file` under `server:` cannot be written: {}: {reason}", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        reason: io::Error,
    },
    /// It was set up before.
    #[error(transparent)]
    Twice(#[from] TryInitError),
    /// Standard error cannot be written to from a thread of its own.
    #[error("cannot start the thread that writes the log: {0}")]
    Thread(#[from] io::Error),
}

/// The log of the program. When it is dropped, lines that wait are written, within a limit.
#[derive(Debug)]
#[must_use = "lines that wait are written when it is dropped"]
pub struct Log {
    is_file: bool,
}

impl Drop for Log {
    fn drop(&mut self) {
        QUEUE.flush(FLUSH_LIMIT);
    }
}

impl Log {
    /// Writes `text` as a line of its own, whatever the filter says. It goes to standard error too if the log is a file.
    pub fn print(&self, text: &dyn fmt::Display) {
        QUEUE.put(LineKind::Log, format!("{text}\n").as_bytes());
        if self.is_file {
            // Without standard error, the file has it.
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }
}

/// Sends the log to standard error, or to its file, from now on; once per program.
pub fn init(options: &LogOptions) -> Result<Log, Error> {
    let is_pretty = match options.format {
        Format::Auto => options.file.is_none() && io::stderr().is_terminal(),
        Format::Json => false,
        Format::Pretty => true,
    };
    let lines = tracing_subscriber::fmt()
        .with_writer(log_queue::Lines { is_json: !is_pretty })
        .with_env_filter(filter(options.level)?);
    let out = output(options.file.as_deref())?;
    if is_pretty {
        let lines = lines.with_ansi(options.file.is_none());
        lines.with_target(false).fmt_fields(pretty::Fields).finish().try_init()?;
    } else {
        lines.json().flatten_event(true).with_span_list(false).finish().try_init()?;
    }
    QUEUE.start(out)?;
    std::panic::set_hook(Box::new(panics::hook));
    Ok(Log { is_file: options.file.is_some() })
}

fn output(file: Option<&Path>) -> Result<Box<dyn io::Write + Send>, Error> {
    let Some(path) = file else {
        // A descriptor of its own: nothing else waits for a lock that a blocked write holds.
        return Ok(Box::new(File::from(io::stderr().as_fd().try_clone_to_owned()?)));
    };
    let file = LogFile::open(path).map_err(|reason| Error::File { path: path.to_owned(), reason })?;
    Ok(Box::new(file))
}

fn filter(level: Level) -> Result<EnvFilter, Error> {
    let set = |name: &&str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let found = FILTER_VARIABLES.iter().find_map(|name| Some((*name, set(name)?)));
    let Some((variable, text)) = found else { return Ok(EnvFilter::new(level.filter())) };
    EnvFilter::try_new(text).map_err(|error| Error::Filter { variable, reason: error.to_string() })
}

/// Escapes and shortens foreign text for a log line: at most 256 characters, each of them visible.
pub const fn untrusted(text: &str) -> Untrusted<'_> {
    Untrusted { text, most: MAX_UNTRUSTED_CHARS }
}

/// Escapes and shortens foreign text that explains a failure to an operator. It may be longer than in a log line.
pub const fn untrusted_reason(text: &str) -> Untrusted<'_> {
    Untrusted { text, most: MAX_REASON_CHARS }
}

/// Returns foreign text as the value of an optional field of a log line.
pub fn untrusted_if_any(text: Option<&str>) -> Option<DisplayValue<Untrusted<'_>>> {
    text.map(|text| display(untrusted(text)))
}

/// Foreign text that prints escaped and shortened. See [`untrusted`].
#[derive(Clone, Copy)]
pub struct Untrusted<'a> {
    text: &'a str,
    /// Characters that are shown.
    most: usize,
}

impl fmt::Display for Untrusted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.text.char_indices();
        for (_, c) in rest.by_ref().take(self.most) {
            match c {
                '\\' => f.write_str("\\\\")?,
                c => escaped(c).try_for_each(|c| f.write_char(c))?,
            }
        }
        match rest.next() {
            Some((at, _)) => write!(f, "… (+{} bytes)", self.text.len() - at),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Untrusted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::sink::Sink;
    use super::*;

    #[test]
    fn foreign_text_is_one_visible_bounded_line() {
        for (text, shown) in [
            ("plain Ünïcode 世界", "plain Ünïcode 世界"),
            ("a\r\nb\u{1b}[31m", "a\\r\\nb\\u{1b}[31m"),
            ("back\\slash", "back\\\\slash"),
            ("\u{202e}gpj.exe\u{9b}\u{2028}", "\\u{202e}gpj.exe\\u{9b}\\u{2028}"),
        ] {
            assert_eq!(untrusted(text).to_string(), shown);
        }
        let long = "é".repeat(300);
        let shown = untrusted(&long).to_string();
        assert_eq!(shown, format!("{}… (+88 bytes)", "é".repeat(256)));
    }

    #[test]
    fn every_line_is_one_json_object_whatever_it_holds() {
        let sink = Sink::default();
        let writer = sink.clone();
        let lines = tracing_subscriber::fmt().with_writer(move || writer.clone()).json().flatten_event(true);
        let hostile = ["{\"level\":\"x\"}", "a\nb", "\u{1b}]0;x\u{7}", "\"", "\\", "\u{2028}", "\0"];
        tracing::subscriber::with_default(lines.finish(), || {
            for text in hostile {
                tracing::info!(path = %untrusted(text), "refused");
            }
        });
        let written = sink.text();
        assert_eq!(written.lines().count(), hostile.len());
        for (line, text) in written.lines().zip(hostile) {
            let line: serde_json::Value = serde_json::from_str(line).expect("one object");
            assert_eq!(line["message"], "refused");
            assert_eq!(line["path"], untrusted(text).to_string());
        }
    }
}
