//! The page at `/docs/errors`, to which `type` of every problem document refers.
//!
//! Invariant: it is made from the table of codes and loads nothing from elsewhere. `docs/errors.md` has the same texts;
//! a test compares it with the table.

use protocol::error_code::{Numbers, Retryable, Row, TABLE};

/// The page above the codes.
const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n<title>Error codes of Switchyard</title>\n\
    <style>body{font:16px/1.5 sans-serif;max-width:46em;margin:2em auto;padding:0 1em}\
    h2{font:bold 1.1em monospace;margin:1.5em 0 0}:target{background:#ffc}p{margin:.3em 0}</style>\n\
    <h1>Error codes of Switchyard</h1>\n\
    <p>Every error has <code>code</code>, <code>detail</code>, <code>hint</code> and <code>retryable</code>. Where they \
    apply, <code>retry_after_ms</code>, <code>request_id</code>, <code>server</code> and <code>tool</code> are added.</p>\n";

/// The page.
pub(super) fn html() -> String {
    TABLE.iter().fold(HEAD.to_owned(), |page, row| page + &section(row))
}

fn section(row: &Row) -> String {
    let (title, meaning, action) = (marked(row.title), marked(row.meaning), marked(&sentence(row.action)));
    format!(
        "<h2 id=\"{name}\">{name}</h2>\n<p><b>{title}.</b> {meaning}</p>\n<p>{action}</p>\n<p><small>{facts}</small></p>\n",
        name = row.name,
        facts = facts(row),
    )
}

/// Status, numbers and retryability in one line.
pub(super) fn facts(row: &Row) -> String {
    let number = row.numbers.map_or_else(String::new, |numbers| format!(" · JSON-RPC {}", both(numbers)));
    format!("HTTP {}{number} · retryable: {}", row.status, retryable(row.retryable))
}

/// One number where the eras share it, else that of legacy clients first.
pub(super) fn both([legacy, modern]: Numbers) -> String {
    if legacy == modern { legacy.to_string() } else { format!("{legacy}, since 2026-07-28 {modern}") }
}

pub(super) const fn retryable(retryable: Retryable) -> &'static str {
    match retryable {
        Retryable::Yes => "yes",
        Retryable::No => "no",
        Retryable::Sometimes => "sometimes",
    }
}

/// `hint` as a sentence.
pub(super) fn sentence(hint: &str) -> String {
    let mut letters = hint.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

/// `text` as HTML, its backticks as code.
fn marked(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let parts = escaped.split('`').enumerate();
    parts
        .map(|(at, part)| if at % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() })
        .collect()
}

#[cfg(test)]
#[path = "error_page_tests.rs"]
mod tests;
