//! The variables of a program in a file (`env_file`), in the form that editors and container tools read: `NAME=value`.
//!
//! A value ends at the end of its line or at ` #`. In single quotes it is literal; in double
//! quotes `\n`, `\r`, `\t`, `\"`, `\$` and `\\` are escapes; both may have several lines. `export ` before a name, blank
//! lines and lines that begin with `#` are ignored. `$NAME` in a value is a text: the file may come from others, and no
//! variable of Switchyard gets into it.
//!
//! Invariants: the file is read with the configuration, and again with each reload. No problem quotes a line, because any of
//! them may be a secret.

use std::collections::BTreeMap;

use runtime::regular_file;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use settings::Setting;

/// The largest file, in bytes.
const MAX_BYTES: u64 = 256 << 10;
const HINT: &str = "write `NAME=value` on each line; a value with several lines stands in quotes";

/// The variables of a file.
pub(super) type Variables = BTreeMap<String, SecretString>;

/// A line that cannot be read: its number and the reason.
type BadLine = (usize, &'static str);

/// Reads the file that `setting` names, unless the configuration is only checked before it is written.
pub(super) fn read(setting: &Setting<'_>) -> Option<Variables> {
    let path = setting.file_path()?;
    if !setting.reads_files() {
        return Some(Variables::new());
    }
    let content = match regular_file::read(&path, MAX_BYTES) {
        Ok(content) => Zeroizing::new(content),
        Err(reason) => {
            let hint =
                "a relative path begins at the folder of this file; remove `env_file` if it is not needed";
            setting.problem(format!("the file cannot be read: {reason}"), Some(hint.into()));
            return None;
        }
    };
    let text = std::str::from_utf8(&content).map_err(|error| {
        let line = content[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        (line, "it is not UTF-8")
    });
    match text.and_then(variables) {
        Ok(variables) => Some(variables),
        Err((line, reason)) => {
            setting.problem(format!("line {line} of the file: {reason}"), Some(HINT.into()));
            None
        }
    }
}

/// A text that changes when a variable does.
pub(super) fn fingerprint_text(variables: &Variables) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::new());
    for (name, value) in variables {
        for part in [name.as_str(), "=", value.expose_secret(), "\0"] {
            text.push_str(part);
        }
    }
    text
}

/// Reads the content of a file. The last value of a name counts.
fn variables(text: &str) -> Result<Variables, BadLine> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = Lines { rest: text, number: 0 };
    let mut found = Variables::new();
    while let Some(line) = lines.next() {
        let line = line.trim();
        let line = line.strip_prefix("export ").map_or(line, str::trim_start);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let number = lines.number;
        let (name, value) = line.split_once('=').ok_or((number, "it has no `=`"))?;
        let name = name.trim_end();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err((number, "what stands before `=` is not the name of an environment variable"));
        }
        let value = lines.value(value.trim_start())?;
        if name.contains('\0') || value.contains('\0') {
            return Err((number, "a NUL character cannot be handed to a program"));
        }
        found.insert(name.to_owned(), value.as_str().into());
    }
    Ok(found)
}

/// The lines of a text that were not read yet.
struct Lines<'t> {
    rest: &'t str,
    /// The number of the last line that was read.
    number: usize,
}

impl<'t> Lines<'t> {
    fn next(&mut self) -> Option<&'t str> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        (self.rest, self.number) = (rest, self.number + 1);
        Some(line)
    }

    /// Reads the value that begins with `written`, on further lines too if it is quoted.
    fn value(&mut self, written: &'t str) -> Result<Zeroizing<String>, BadLine> {
        let begin = self.number;
        let Some(quote) = written.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
            let is_comment = |at: &usize| *at == 0 || written[..*at].ends_with([' ', '\t']);
            let end = written.match_indices('#').map(|(at, _)| at).find(is_comment);
            return Ok(Zeroizing::new(written[..end.unwrap_or(written.len())].trim_end().to_owned()));
        };
        let (mut value, mut line) = (Zeroizing::new(String::new()), &written[1..]);
        loop {
            if let Some(rest) = unquoted(line, quote, &mut value) {
                let rest = rest.trim();
                let is_end = rest.is_empty() || rest.starts_with('#');
                return if is_end { Ok(value) } else { Err((self.number, "text follows the closing quote")) };
            }
            value.push('\n');
            line = self.next().ok_or((begin, "its quote is not closed"))?;
        }
    }
}

/// Adds `line` to `value` up to the closing `quote`. Returns what follows it, unless it is on another line.
fn unquoted<'t>(line: &'t str, quote: char, value: &mut String) -> Option<&'t str> {
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Some(&line[at + 1..]);
        }
        let next = line[at + c.len_utf8()..].chars().next();
        let escaped = match (quote, c, next) {
            ('"', '\\', Some('n')) => '\n',
            ('"', '\\', Some('r')) => '\r',
            ('"', '\\', Some('t')) => '\t',
            ('"', '\\', Some(next @ ('"' | '\\' | '$'))) => next,
            _ => {
                value.push(c);
                continue;
            }
        };
        value.push(escaped);
        chars.next();
    }
    // The end of the line is `\n` in the value, also in files of Windows.
    if value.ends_with('\r') {
        value.pop();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<(String, String)>, BadLine> {
        let found = variables(text)?;
        Ok(found.into_iter().map(|(name, value)| (name, value.expose_secret().to_owned())).collect())
    }

    #[test]
    fn values_are_read_as_they_are_written() {
        for (text, expected) in [
            ("", ""),
            ("# a\n\n  # b\n", ""),
            ("A=b", "b"),
            ("\u{feff}export A = b c # d\r\n", "b c"),
            ("A=b#c", "b#c"),
            ("A=#c", ""),
            ("A=", ""),
            ("A=1\nA=2", "2"),
            ("A=postgres://u:p@h/d?x=y", "postgres://u:p@h/d?x=y"),
            ("A=${HOME}$$", "${HOME}$$"),
            (r#"A="a\n\"b\" \\ \x # c" # d"#, "a\n\"b\" \\ \\x # c"),
            (r"A='a\n # b'", r"a\n # b"),
            ("A=\"one\r\n  two\nthree\"\n", "one\n  two\nthree"),
            ("A='é'", "é"),
        ] {
            let expected: Vec<_> =
                if text.contains('=') { vec![("A".to_owned(), expected.to_owned())] } else { Vec::new() };
            assert_eq!(of(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_line_that_is_no_variable_is_named_by_its_number() {
        for (text, line) in [
            ("A=b\nsecret\n", 2),
            ("=secret", 1),
            ("A B=secret", 1),
            ("A='x'\n\nB=\"secret\nC=d", 3),
            ("A=\"a\" secret", 1),
            ("A=a\0b", 1),
        ] {
            let (found, reason) = of(text).expect_err(text);
            assert_eq!(found, line, "{text}");
            assert!(!reason.contains("secret"), "{reason}");
        }
    }
}
