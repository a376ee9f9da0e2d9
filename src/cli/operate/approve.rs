//! `switchyard approve`: shows how tools changed, asks, and approves exactly what it showed.
//!
//! Invariants: each tool is approved with the hash of the definition that was shown, and with the server that had its name
//! before, if that was shown. The gateway refuses a tool that changed meanwhile. With `--yes` too, nothing is
//! approved that was not printed. Texts of the definitions are visible text.
//!
//! Not here: names of prompts and resources that moved, which the REST API gives away with `current=true`.

use std::io::BufRead;

use http::Method;

use super::super::error::CommandError;
use super::super::remote::Remote;
use super::super::visible;
use super::json_text;
use super::members::{any_elements, plain, text};
use super::screen::{OutputFormat, Screen};
use super::servers;
use crate::connect::public_diff;
use json::{Raw, canonical};

/// Begins the second and each later line of a text, so that a text cannot look like another member.
const WITHIN: &str = "      │ ";

/// The tools that the operator wants to approve.
pub(super) struct Choice<'a> {
    pub(super) server: &'a str,
    pub(super) tool: Option<&'a str>,
    /// The hash of the definition that the operator looked at before.
    pub(super) sha256: Option<&'a str>,
    pub(super) is_agreed: bool,
}

/// Shows the changes, asks, and approves them.
pub(super) async fn run(
    remote: &Remote,
    choice: &Choice<'_>,
    input: &mut dyn BufRead,
    screen: &mut Screen<'_>,
) -> Result<(), CommandError> {
    let server = remote.rest(Method::GET, &["servers", choice.server], &[]).await?;
    let changes = chosen(remote, choice, &server).await?;
    for change in &changes {
        let text = described(choice.server, change);
        match screen.format {
            OutputFormat::Table => screen.lines(&text)?,
            _ => writeln!(screen.err, "{}", visible::lines(&text))?,
        }
    }
    if changes.is_empty() {
        screen.note("nothing to approve: every tool has its trusted definition")?;
        return servers::one(server, screen);
    }
    agree(choice, changes.len(), input, screen)?;
    let mut approved = server;
    for (done, change) in changes.iter().enumerate() {
        approved = approve(remote, choice.server, change).await.map_err(|failed| match failed {
            CommandError::Refused(reason) => {
                CommandError::Refused(format!("{reason}\n{done} of {} tools were approved", changes.len()))
            }
            failed => failed,
        })?;
    }
    let left = approved.get_as::<usize>("changed_tool_count").unwrap_or(0);
    servers::one(approved, screen)?;
    if left > 0 && choice.tool.is_none() {
        screen.note(&format!("{left} more tools changed; run the command again to see them"))?;
    }
    Ok(())
}

/// Returns the changes to show: all, or that of one tool.
async fn chosen(remote: &Remote, choice: &Choice<'_>, server: &Raw) -> Result<Vec<Raw>, CommandError> {
    let all = any_elements(server, "changed_tools");
    let Some(tool) = choice.tool else { return Ok(all) };
    let found: Vec<_> = all.into_iter().filter(|change| text(change, "tool") == tool).collect();
    let shown = found.first().map(|change| text(change, "sha256"));
    match (shown, choice.sha256) {
        (Some(shown), Some(sha256)) if !shown.eq_ignore_ascii_case(sha256) => {
            Err(CommandError::Refused(format!("the definition of {tool:?} is another one by now: {shown}")))
        }
        (None, _) => {
            // A tool that is trusted already needs no approval; one that the server does not have is a mistake.
            let listed = remote.rest(Method::GET, &["servers", choice.server, "tools"], &[]).await?;
            let is_listed = any_elements(&listed, "tools").iter().any(|one| text(one, "tool") == tool);
            let unknown =
                || CommandError::Refused(format!("no tool {tool:?} of {} has changed", choice.server));
            if is_listed { Ok(found) } else { Err(unknown()) }
        }
        _ => Ok(found),
    }
}

/// Describes one change: who, what, and the difference.
fn described(server: &str, change: &Raw) -> String {
    let changed: Vec<String> = change.get_as("changed").unwrap_or_default();
    let moved = change.text("previous_owner").map_or_else(String::new, |owner| {
        format!("its name belonged to the server {} before, and moves from it\n", visible::line(&owner))
    });
    let views: Vec<String> = change.get_as("held_in").unwrap_or_default();
    let views: Vec<_> = views.iter().map(|view| visible::line(view)).collect();
    let held =
        if views.is_empty() { String::new() } else { format!("held in the views: {}\n", views.join(", ")) };
    let now = change.get("definition").unwrap_or_else(Raw::empty_object);
    let difference = match change.get("trusted_definition") {
        Some(before) => public_diff(&lines(&before), &lines(&now)),
        None if changed == ["owner"] || changed == ["new"] => format!("{}\n", lines(&now)),
        None => format!(
            "the definition of before is not remembered; this is all of the new one:\n{}\n",
            lines(&now)
        ),
    };
    format!(
        "{server}: {} (changed: {})\n{moved}{held}{difference}SHA-256 {}\n",
        visible::line(&text(change, "tool")),
        changed.join(", "),
        visible::line(&text(change, "sha256"))
    )
}

/// Prints a definition with sorted keys, so that their order does not count. A text has its own line breaks.
fn lines(definition: &Raw) -> String {
    let sorted = Raw::parse(&canonical::text(definition).into()).unwrap_or_else(|_| definition.clone());
    json_text::indented(&sorted).lines().map(unfolded).collect::<Vec<_>>().join("\n")
}

fn unfolded(line: &str) -> String {
    let (mut out, mut letters) = (String::with_capacity(line.len()), line.chars());
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('n') => out.extend(["\n", WITHIN]),
            escaped => out.extend(std::iter::once(letter).chain(escaped)),
        }
    }
    out
}

fn agree(
    choice: &Choice<'_>,
    count: usize,
    input: &mut dyn BufRead,
    screen: &mut Screen<'_>,
) -> Result<(), CommandError> {
    if choice.is_agreed {
        return Ok(());
    }
    let refused = |why: &str| Err(CommandError::Refused(format!("nothing was approved{why}")));
    if !screen.can_ask {
        return refused(": without a terminal, add `--yes`");
    }
    let what = if count == 1 { "this tool".to_owned() } else { format!("these {count} tools") };
    write!(screen.err, "Approve {what} of {}? [y/N] ", choice.server)?;
    screen.err.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") { Ok(()) } else { refused("") }
}

/// Approves the definition that was shown. Returns the server.
async fn approve(remote: &Remote, server: &str, change: &Raw) -> Result<Raw, CommandError> {
    let [tool, sha256] = ["tool", "sha256"].map(|member| text(change, member));
    let owner = change.get("previous_owner").map(|owner| plain(&owner));
    let mut query = vec![("tool", tool.as_str()), ("sha256", sha256.as_str())];
    query.extend(owner.as_deref().map(|owner| ("previous_owner", owner)));
    remote.rest(Method::POST, &["servers", server, "tools", "approve"], &query).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(&text.to_owned().into()).expect("JSON")
    }

    #[test]
    fn difference_shows_every_changed_character() {
        let change = raw(
            r#"{"tool":"add","changed":["description"],"sha256":"ab","definition":{"name":"add","description":"Adds.\nRead \u202e\udb40\udc41it.\n\"x\": 1 \\n"},
                "trusted_definition":{"description":"Adds.","name":"add"}}"#,
        );
        let shown = described("one", &change);
        let expected = "one: add (changed: description)\n  {\n-   \"description\": \"Adds.\",\n+   \"description\": \"Adds.\n+       │ Read \\u202e\\udb40\\udc41it.\n+       │ \\\"x\\\": 1 \\\\n\",\n    \"name\": \"add\"\n  }\nSHA-256 ab\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn whole_definition_is_shown_if_the_former_one_is_not_known() {
        let change = raw(
            r#"{"tool":"t","changed":["definition"],"sha256":"ab","definition":{"token":"x","name":"t"}}"#,
        );
        assert!(described("one", &change).contains("\"token\": \"x\""), "no value of a definition is hidden");
        let moved = raw(
            r#"{"tool":"t","changed":["owner"],"previous_owner":"good","sha256":"ab","definition":{"name":"t"}}"#,
        );
        assert!(described("one", &moved).contains("belonged to the server good before"));
    }
}
