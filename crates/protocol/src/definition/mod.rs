//! Checks definitions of servers against the schema of the protocol, and repairs them.
//!
//! Clients check a whole list at once, so one invalid definition makes them refuse the definitions of all servers. A
//! repair loses nothing that a client could use: an optional member that is invalid is left out, and a schema gets the
//! `type` that it must have. A definition that cannot be repaired is not offered.
//!
//! Invariants: a valid definition is not changed. Every repair is named. The check is as strict as the strictest of the
//! official SDKs, because one refusal costs the whole list. The definition that the server sent stays available.
//!
//! Not here: the names and URIs that clients see (`manager`), limits on sizes and depth (`discover`).
//!
//! Source: `Tool`, `Prompt`, `Resource`, `ResourceTemplate`, `Implementation` and `ServerCapabilities` of `schema.ts`,
//! and the extension `io.modelcontextprotocol/skills`.

mod json_schema;
mod shapes;
mod text;
mod tool_schema;
mod values;

pub use self::values::ValueChecker;
pub use crate::definition::shapes::Repairs;
use crate::output_schema::LegacyForm;

use self::shapes::Field;
use crate::definition::shapes::Checker;
use crate::feature::Kind;
use crate::{Version, sanitize, skill};
use json::Raw;

const INPUT: &str = "inputSchema";
const OUTPUT: &str = "outputSchema";

/// A definition that can be offered.
#[derive(Debug, Default)]
pub struct Checked {
    /// The repaired definition; `None` if the server's own is valid.
    pub repaired: Option<Raw>,
    /// The changes that clients of the legacy revisions need.
    pub legacy: LegacyForm,
    /// The repairs, for operators.
    pub repairs: Repairs,
    /// The first keyword of the `inputSchema` that no validator accepts. The tool is offered nevertheless.
    pub schema_flaw: Option<String>,
}

/// Checks the definition of an item with `key` that a server of the revision `server` sent. The error says why it
/// cannot be offered.
pub fn check(kind: Kind, key: &str, definition: &Raw, server: Version) -> Result<Checked, String> {
    text::check_numbers(definition)?;
    if kind == Kind::Skills {
        return check_skill(definition);
    }
    let mut checker = Checker::default();
    let readable = text::without_lone_surrogates(definition);
    if readable.is_some() {
        checker.record("a text has half of a surrogate pair, which was replaced");
    }
    let sent = readable.as_ref().unwrap_or(definition);
    let mut changes = checker.changes(sent, fields(kind), "")?;
    if matches!(kind, Kind::Resources | Kind::Templates) && sent.text("name").is_none() {
        checker.record("name is missing or is no text, and is now the URI");
        changes.push(("name", Some(Raw::of(key))));
    }
    let mut outcome = Checked::default();
    if kind == Kind::Tools {
        check_schemas(sent, server, &mut checker, (&mut changes, &mut outcome))?;
    }
    outcome.repaired = edited(sent, &changes).or(readable);
    outcome.repairs = checker.repairs;
    Ok(outcome)
}

/// Checks the entry of a skill. It is never repaired, because hosts compare it with the files of the skill.
fn check_skill(entry: &Raw) -> Result<Checked, String> {
    if text::without_lone_surrogates(entry).is_some() {
        return Err("a text has half of a surrogate pair".to_owned());
    }
    if let Some(name) = entry.duplicate_key() {
        return Err(format!("{} stands twice", sanitize::shown(&name)));
    }
    skill::problem(entry).map_or_else(|| Ok(Checked::default()), Err)
}

/// Members to set or to remove.
type MemberChanges = Vec<(&'static str, Option<Raw>)>;

fn check_schemas(
    sent: &Raw,
    server: Version,
    checker: &mut Checker,
    (changes, outcome): (&mut MemberChanges, &mut Checked),
) -> Result<(), String> {
    let input = tool_schema::input(sent.get(INPUT), checker)?;
    let output = tool_schema::output(sent.get(OUTPUT), server, checker);
    let offered_input = input.changed.as_ref().map_or_else(|| sent.get(INPUT), Clone::clone);
    outcome.schema_flaw = offered_input.and_then(|schema| json_schema::flaw(&schema));
    let offered_output = output.changed.as_ref().map_or_else(|| sent.get(OUTPUT), Clone::clone);
    outcome.legacy = LegacyForm {
        wraps_output: offered_output.is_some_and(|schema| crate::output_schema::is_wrapped(&schema)),
        replaces_booleans: input.has_booleans || output.has_booleans,
    };
    for (name, change) in [(INPUT, input.changed), (OUTPUT, output.changed)] {
        match change {
            Some(change) => changes.push((name, change)),
            // A client that reads the last of two equal members must read the one that was checked.
            None if sent.as_part().count(name) > 1 => changes.push((name, sent.get(name))),
            None => {}
        }
    }
    Ok(())
}

/// Checks what a server says about itself. Returns the repaired object, and the repairs.
pub fn check_info(info: &Raw) -> (Option<Raw>, Repairs) {
    check_object(info, &shapes::IMPLEMENTATION)
}

/// Checks the capabilities of a server. Returns the repaired object, and the repairs.
pub fn check_capabilities(capabilities: &Raw) -> (Option<Raw>, Repairs) {
    check_object(capabilities, &shapes::CAPABILITIES)
}

fn check_object(object: &Raw, fields: &[Field]) -> (Option<Raw>, Repairs) {
    let mut checker = Checker::default();
    let readable = text::without_lone_surrogates(object);
    let sent = readable.as_ref().unwrap_or(object);
    // No member of these is required here.
    let changes = checker.changes(sent, fields, "").unwrap_or_default();
    (edited(sent, &changes).or(readable), checker.repairs)
}

fn edited(object: &Raw, changes: &[(&'static str, Option<Raw>)]) -> Option<Raw> {
    let changes: Vec<(&str, Option<&Raw>)> =
        changes.iter().map(|(name, value)| (*name, value.as_ref())).collect();
    (!changes.is_empty()).then(|| object.edit(&changes))
}

const fn fields(kind: Kind) -> &'static [Field] {
    match kind {
        Kind::Tools => &shapes::TOOL,
        Kind::Resources => &shapes::RESOURCE,
        Kind::Templates => &shapes::TEMPLATE,
        Kind::Prompts => &shapes::PROMPT,
        Kind::Skills => &[],
    }
}

#[cfg(test)]
mod tests;
