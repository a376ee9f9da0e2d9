//! Text of a file on one line, as messages show it.

use protocol::visible::escaped;

/// Shortens `text` to 80 characters and escapes invisible characters, so that a file cannot control the operator's
/// terminal.
pub fn one_line(text: &str) -> String {
    let mut line: String = text.chars().take(80).flat_map(escaped).collect();
    if text.chars().nth(80).is_some() {
        line.push('…');
    }
    line
}
