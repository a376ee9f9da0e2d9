//! `switchyard tools` and `switchyard tool`: what the gateway offers, and one definition.
//!
//! Not here: running a tool (`call`).

use http::Method;

use super::super::error::CommandError;
use super::super::remote::Remote;
use super::super::visible;
use super::json_text;
use super::members::{elements, plain, text};
use super::screen::{OutputFormat, Screen, View};
use super::table::{Cell, Column, Table};
use json::Raw;

/// In the error of the gateway for a hidden tool.
const HIDDEN: &str = "hidden by `tools.";
/// Names in the error for an unknown tool.
const MAX_SUGGESTIONS: usize = 5;

const COLUMNS: &[Column] = &[
    ("TOOL", |tool| Cell::of(tool, "name")),
    ("SERVER", |tool| Cell::of(tool, "server")),
    ("DESCRIPTION", |tool| Cell::new(&description(tool))),
];

/// Lists the tools of `view`, or those of the own credential, of which name, server or description contain every word of
/// `query`.
pub(super) async fn list(
    remote: &Remote,
    query: &[String],
    view: Option<&str>,
    screen: &mut Screen<'_>,
) -> Result<(), CommandError> {
    let words: Vec<_> =
        query.iter().flat_map(|text| text.split_whitespace()).map(str::to_lowercase).collect();
    let tools: Vec<_> = all(remote, view).await?.into_iter().filter(|tool| has_all(tool, &words)).collect();
    screen.show(&View::of_items("tools", &tools, "name", COLUMNS))?;
    if tools.is_empty() {
        screen.note("no tool matches; `switchyard servers` shows which servers are connected")?;
    }
    Ok(())
}

/// Shows one tool: its server, its parameters and its annotations.
pub(super) async fn show(remote: &Remote, name: &str, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    let tool = match find(&all(remote, None).await?, name) {
        Ok(tool) => tool,
        Err(unknown) => return Err(hidden(remote, name).await.unwrap_or(unknown)),
    };
    let table = parameters(&tool);
    if screen.format != OutputFormat::Table {
        let names = vec![text(&tool, "name")];
        return Ok(screen.show(&View { document: tool, names, table })?);
    }
    let definition = tool.get("definition").unwrap_or_else(Raw::empty_object);
    let title = definition.text("title").unwrap_or_default();
    for (label, value) in [
        ("tool", text(&tool, "name")),
        ("title", title.into_owned()),
        ("server", text(&tool, "server")),
        ("name at the server", text(&tool, "tool")),
        ("annotations", annotations(&definition)),
        ("SHA-256", text(&tool, "sha256")),
    ] {
        if !value.is_empty() {
            screen.lines(&format!("{label}: {}", visible::line(&value)))?;
        }
    }
    if let Some(description) = definition.text("description") {
        screen.lines(&format!("\n{description}"))?;
    }
    if table.rows.is_empty() {
        return Ok(screen.lines("\nno parameters")?);
    }
    screen.lines("")?;
    screen.table(&table)?;
    if let Some(schema) = definition.get("outputSchema") {
        screen.lines(&format!("\noutput schema:\n{}", json_text::indented(&schema)))?;
    }
    Ok(())
}

/// Returns the input schema of a tool, if it is known.
pub(super) async fn schema(remote: &Remote, name: &str) -> Result<Option<Raw>, CommandError> {
    let Ok(tool) = find(&all(remote, None).await?, name) else { return Ok(None) };
    Ok(tool.get("definition").and_then(|definition| definition.get("inputSchema")))
}

/// Returns the refusal of the gateway for a tool that a setting hides. Only superusers get one.
async fn hidden(remote: &Remote, name: &str) -> Option<CommandError> {
    let refused = remote.rest(Method::GET, &["tools", name], &[]).await.err()?;
    matches!(&refused, CommandError::Refused(text) if text.contains(HIDDEN)).then_some(refused)
}

async fn all(remote: &Remote, view: Option<&str>) -> Result<Vec<Raw>, CommandError> {
    let query: Vec<(&str, &str)> = view.map(|view| ("view", view)).into_iter().collect();
    let answer = remote.rest(Method::GET, &["tools"], &query).await?;
    elements(&answer, "tools")
}

/// Finds a tool by its offered name, or by its name at its server if only one server has it.
fn find(tools: &[Raw], name: &str) -> Result<Raw, CommandError> {
    let called =
        |member: &str| tools.iter().filter(|tool| text(tool, member) == name).cloned().collect::<Vec<_>>();
    if let Some(tool) = called("name").pop() {
        return Ok(tool);
    }
    let bare = called("tool");
    if let [tool] = bare.as_slice() {
        return Ok(tool.clone());
    }
    let similar = || tools.iter().filter(|tool| text(tool, "name").contains(name)).cloned().collect();
    let candidates = if bare.is_empty() { similar() } else { bare };
    let names: Vec<_> = candidates.iter().take(MAX_SUGGESTIONS).map(|tool| text(tool, "name")).collect();
    let hint = if names.is_empty() {
        "`switchyard tools` lists all".to_owned()
    } else {
        format!("there are {}", names.join(", "))
    };
    Err(CommandError::Refused(visible::line(&format!("there is no tool called {name:?}; {hint}"))))
}

fn has_all(tool: &Raw, words: &[String]) -> bool {
    let described =
        tool.get("definition").map(|definition| text(&definition, "description")).unwrap_or_default();
    let all = ["name", "tool", "server"].map(|member| text(tool, member)).join(" ") + " " + &described;
    let all = all.to_lowercase();
    words.iter().all(|word| all.contains(word))
}

/// The first line of the description, or the title.
fn description(tool: &Raw) -> String {
    let definition = tool.get("definition").unwrap_or_else(Raw::empty_object);
    let text = definition.text("description").or_else(|| definition.text("title")).unwrap_or_default();
    text.trim().lines().next().unwrap_or_default().to_owned()
}

/// The annotations that are set, such as `readOnlyHint=true`.
fn annotations(definition: &Raw) -> String {
    let all = definition.get("annotations").unwrap_or_else(Raw::empty_object);
    let set = all.members().map(|(name, value)| format!("{name}={}", value.as_str()));
    set.collect::<Vec<_>>().join(", ")
}

fn parameters(tool: &Raw) -> Table {
    let mut table = Table::new(&["PARAMETER", "TYPE", "REQUIRED", "DESCRIPTION"]);
    let schema = tool.get("definition").and_then(|definition| definition.get("inputSchema"));
    let Some(schema) = schema else { return table };
    let required: Vec<String> = schema.get_as("required").unwrap_or_default();
    let properties = schema.get("properties").unwrap_or_else(Raw::empty_object);
    table.rows.extend(properties.members().map(|(name, property)| {
        let is_required = required.iter().any(|other| *other == name);
        let cells = [
            name.into_owned(),
            kind(&property),
            if is_required { "yes" } else { "no" }.to_owned(),
            text(&property, "description"),
        ];
        cells.iter().map(|text| Cell::new(text)).collect()
    }));
    table
}

/// The type of a parameter, or its allowed values.
pub(super) fn kind(property: &Raw) -> String {
    if let Some(values) = property.get("enum") {
        return values.elements().map(|value| plain(&value)).collect::<Vec<_>>().join("|");
    }
    match property.get("type") {
        Some(types) if types.as_part().text().is_none() => {
            types.elements().map(|name| plain(&name)).collect::<Vec<_>>().join("|")
        }
        Some(name) => plain(&name),
        None => "any".to_owned(),
    }
}
