//! Text of a file on one line, as messages show it.

/// Shortens `text` to 80 characters and escapes control characters, so that a file cannot control the operator's
/// terminal.
pub fn one_line(text: &str) -> String {
    let mut line: String = text.chars().take(80).flat_map(escaped).collect();
    if text.chars().nth(80).is_some() {
        line.push('…');
    }
    line
}

fn escaped(c: char) -> impl Iterator<Item = char> {
    let control = c.is_control();
    let plain = (!control).then_some(c);
    let escape = control.then(|| c.escape_debug()).into_iter().flatten();
    plain.into_iter().chain(escape)
}
