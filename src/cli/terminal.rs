//! Reads a secret from the terminal without showing it.
//!
//! Invariants: the terminal is as before when this returns, also after Ctrl-C. A line may be longer than the 4,095 bytes
//! that a terminal accepts when it edits lines itself, as long keys are.

use std::io::{self, BufRead, ErrorKind, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use secrecy::zeroize::Zeroizing;

use auth::vault::MAX_VALUE_BYTES;

const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;
const BACKSPACE: u8 = 0x08;
const CTRL_U: u8 = 0x15;
const DELETE: u8 = 0x7f;

/// Prints `prompt` on standard error and reads one line from `input`, which is the terminal of standard input.
pub(super) fn read_hidden(input: &mut dyn BufRead, prompt: &str) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut err = io::stderr().lock();
    write!(err, "{prompt}")?;
    err.flush()?;
    let hidden = Hidden::new()?;
    let line = line_of(input);
    drop(hidden);
    writeln!(err)?;
    line
}

/// The terminal of standard input, which shows no keys until this is dropped. It has the modes of before.
struct Hidden(Termios);

impl Hidden {
    fn new() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// Reads keys until the end of the line, with the keys that delete.
fn line_of(keys: impl BufRead) -> io::Result<Zeroizing<Vec<u8>>> {
    // With room for all of it, so that no copy stays behind.
    let mut line = Zeroizing::new(Vec::with_capacity(MAX_VALUE_BYTES + 1));
    for key in keys.bytes() {
        match key? {
            b'\r' | b'\n' | CTRL_D => break,
            CTRL_C => return Err(io::Error::new(ErrorKind::Interrupted, "Ctrl-C was pressed")),
            CTRL_U => line.clear(),
            BACKSPACE | DELETE => remove_character(&mut line),
            // One byte more than is allowed is kept, so that a value that is too long is refused.
            key if line.len() <= MAX_VALUE_BYTES => line.push(key),
            _ => {}
        }
    }
    Ok(line)
}

/// Removes the last character, which may have several bytes.
fn remove_character(line: &mut Vec<u8>) {
    let is_continuation = |byte: u8| byte & 0xc0 == 0x80;
    while line.pop().is_some_and(is_continuation) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_its_end_and_can_be_edited() {
        for (keys, expected) in [
            ("secret\nrest", "secret"),
            ("secret\rrest", "secret"),
            ("secret\x04rest", "secret"),
            ("secret", "secret"),
            ("wrong\x15right\n", "right"),
            ("a\u{e4}\u{20ac}\x7f\x08b\n", "ab"),
            ("\x7f\x7fa\n", "a"),
        ] {
            let line = line_of(keys.as_bytes()).expect("a line");
            assert_eq!(std::str::from_utf8(&line).expect("UTF-8"), expected, "{keys:?}");
        }
        assert!(line_of(&b"secret\x03"[..]).is_err(), "Ctrl-C");
        let long = line_of(&vec![b'x'; 2 * MAX_VALUE_BYTES][..]).expect("a line");
        assert_eq!(long.len(), MAX_VALUE_BYTES + 1);
    }
}
