//! The fields of a line in the pretty format.
//!
//! Invariant: a value is either one word or quoted, so that foreign text cannot look like another field. The message
//! is not quoted, because it never holds foreign text.
//!
//! It does not format JSON lines, and it does not shorten values ([`super::untrusted`]).

use std::fmt::{self, Debug};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

use protocol::visible::{escaped, is_visible, visible};

/// Writes fields as `name=value`.
pub(super) struct Fields;

impl<'a> FormatFields<'a> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'a>, fields: R) -> fmt::Result {
        let mut visitor = Visitor { writer, is_first: true, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct Visitor<'a> {
    writer: Writer<'a>,
    is_first: bool,
    result: fmt::Result,
}

impl Visitor<'_> {
    fn write(&mut self, name: &str, text: &str) -> fmt::Result {
        // Metadata of a record of the `log` crate, which the line has already.
        if name.starts_with("log.") {
            return Ok(());
        }
        if !std::mem::replace(&mut self.is_first, false) {
            self.writer.write_char(' ')?;
        }
        if name == "message" {
            return self.write_message(text);
        }
        let name = name.strip_prefix("r#").unwrap_or(name);
        if self.writer.has_ansi_escapes() {
            write!(self.writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?;
        } else {
            write!(self.writer, "{name}=")?;
        }
        if is_word(text) { self.writer.write_str(text) } else { self.write_quoted(text) }
    }

    /// Writes a message, which may be that of a library.
    fn write_message(&mut self, text: &str) -> fmt::Result {
        write!(self.writer, "{}", visible(text))
    }

    fn write_quoted(&mut self, text: &str) -> fmt::Result {
        self.writer.write_char('"')?;
        for c in text.chars() {
            if matches!(c, '"' | '\\') {
                self.writer.write_char('\\')?;
            }
            escaped(c).try_for_each(|c| self.writer.write_char(c))?;
        }
        self.writer.write_char('"')
    }
}

impl Visit for Visitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if self.result.is_ok() {
            self.result = self.write(field.name(), value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// Whether `text` is one word that cannot merge with the text around it.
fn is_word(text: &str) -> bool {
    let is_special = |c: char| c.is_whitespace() || !is_visible(c) || matches!(c, '"' | '=');
    !text.is_empty() && !text.contains(is_special)
}

#[cfg(test)]
mod tests {
    use super::super::sink::Sink;
    use super::super::untrusted;
    use super::*;

    #[test]
    fn foreign_text_cannot_look_like_another_field() {
        let sink = Sink::default();
        let writer = sink.clone();
        let lines = tracing_subscriber::fmt().with_writer(move || writer.clone()).fmt_fields(Fields);
        let lines = lines.without_time().with_target(false).with_ansi(false).finish();
        tracing::subscriber::with_default(lines, || {
            for text in ["echo", "x outcome=\"done\"", "\"x\" outcome=\"done\"", "a\nb", ""] {
                let span = tracing::info_span!("request", tool = %untrusted(text));
                span.in_scope(|| tracing::info!(tool = %untrusted(text), text, count = 3, "it was called"));
            }
        });
        let text = sink.text();
        eprintln!("{text}");
        assert_eq!(text.matches(" outcome=\"done\"").count(), 0, "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[0].ends_with("it was called tool=echo text=echo count=3"), "{text}");
        assert!(
            lines[1].ends_with(r#"tool="x outcome=\"done\"" text="x outcome=\"done\"" count=3"#),
            "{text}"
        );
        assert!(lines[4].ends_with(r#"tool="" text="" count=3"#), "{text}");
    }
}
