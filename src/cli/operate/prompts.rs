//! `switchyard prompts` and `switchyard prompt`.
//!
//! Not here: how arguments are read (`arguments`).

use super::super::error::CommandError;
use super::super::remote::{Remote, not_a_gateway};
use super::arguments::TypedArguments;
use super::members::{is, text};
use super::screen::{OutputFormat, Screen, View};
use super::table::{Cell, Column};
use super::{mcp, members};
use json::Raw;
use protocol::method;

const COLUMNS: &[Column] = &[
    ("PROMPT", |prompt| Cell::of(prompt, "name")),
    ("ARGUMENTS", |prompt| Cell::new(&arguments_of(prompt))),
    ("DESCRIPTION", |prompt| Cell::of(prompt, "description")),
];

/// Lists the prompts.
pub(super) async fn list(remote: &Remote, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    let prompts = mcp::list(remote, method::PROMPTS_LIST, "prompts").await?;
    Ok(screen.show(&View::of_items("prompts", &prompts, "name", COLUMNS))?)
}

/// Shows the messages of a prompt.
pub(super) async fn show(
    remote: &Remote,
    name: &str,
    given: &TypedArguments,
    screen: &mut Screen<'_>,
) -> Result<(), CommandError> {
    let params = Raw::object(&[("name", &Raw::of(name)), ("arguments", &given.strings()?)]);
    let result = mcp::ask(remote, method::PROMPTS_GET, params).await?;
    if screen.format != OutputFormat::Table {
        return Ok(screen.document(&result)?);
    }
    for message in result.get("messages").ok_or_else(not_a_gateway)?.elements() {
        let role = text(&message, "role");
        let content = message.get("content").map(|block| members::text_of(&block)).unwrap_or_default();
        screen.lines(&format!("{role}: {content}"))?;
    }
    Ok(())
}

/// The names of the arguments; those that may be left out have a question mark.
fn arguments_of(prompt: &Raw) -> String {
    let arguments = prompt.get("arguments").unwrap_or_else(Raw::empty_object);
    let names = arguments.elements().map(|argument| {
        format!("{}{}", text(&argument, "name"), if is(&argument, "required") { "" } else { "?" })
    });
    names.collect::<Vec<_>>().join(" ")
}
