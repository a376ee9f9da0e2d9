//! `switchyard prompts` and `switchyard prompt`.
//!
//! Not here: how arguments are read (`arguments`).

use super::super::error::CommandError;
use super::super::remote::{Remote, not_a_gateway};
use super::arguments::TypedArguments;
use super::members::list_of;
use super::screen::{OutputFormat, Screen, View};
use super::table::{Cell, Column};
use super::{content, mcp};
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
    let document = Raw::object(&[("prompts", &list_of(&prompts))]);
    Ok(screen.show(&View::list(document, &prompts, "name", COLUMNS))?)
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
        let role = message.text("role").unwrap_or_default();
        let text = message.get("content").map(|block| content::text_of(&block)).unwrap_or_default();
        screen.lines(&format!("{role}: {text}"))?;
    }
    Ok(())
}

/// The names of the arguments; those that may be left out have a question mark.
fn arguments_of(prompt: &Raw) -> String {
    let arguments = prompt.get("arguments").unwrap_or_else(Raw::empty_object);
    let names = arguments.elements().map(|argument| {
        let is_required = argument.get_as("required").unwrap_or(false);
        format!("{}{}", argument.text("name").unwrap_or_default(), if is_required { "" } else { "?" })
    });
    names.collect::<Vec<_>>().join(" ")
}
