//! Changes of a tool by a view: its name, its texts, its annotations, its arguments, and hints for clients.
//!
//! Invariants: an operator's word about a tool counts instead of its server's. Digests of definitions that operators
//! approve are those of the server's definition, so a change of a view needs no approval.
//!
//! Not here: which tools a view has (`view`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::tool_arguments::{ArgumentValue, ToolArguments};
use json::Raw;
use protocol::feature::{Effect, Tool};
use settings::{FromSetting, Setting, settings, words};

/// The longest name of a tool. Model services refuse longer ones.
const MAX_NAME: usize = 64;
/// The longest description, in bytes. Claude Code cuts what is longer.
const MAX_DESCRIPTION: usize = 2 * 1024;

words! {
    /// The person that has to agree to each call.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Ask {
        /// The client asks its user.
        Client = "client",
    }
}

settings! {
    /// The changes of a tool by a view.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(super) struct ToolChange {
        /// its name towards clients of the view: 1 to 64 letters, digits, `-` and `_`
        name: Option<String> => "that of the server", with read_name;
        /// its title
        title: Option<String> => "that of the server";
        /// its description
        description: Option<String> => "that of the server", with read_description;
        /// whether it changes nothing. This and the next three count instead of the server's annotations, also for retries,
        /// the cache, and `read_only` of the view
        read_only: Option<bool> => "`readOnlyHint` of the server";
        /// whether it may destroy something
        destructive: Option<bool> => "`destructiveHint` of the server";
        /// whether a second call with the same arguments changes nothing more
        idempotent: Option<bool> => "`idempotentHint` of the server";
        /// whether it reaches what is outside of its server
        open_world: Option<bool> => "`openWorldHint` of the server";
        /// a hint for Claude Code: the tool is always loaded (`anthropic/alwaysLoad`)
        pinned: bool;
        /// `client`: a hint for Claude Code, that its user agrees to each call (`anthropic/requiresUserInteraction`)
        ask: Option<Ask>;
        /// a hint for Claude Code: the longest result in characters (`anthropic/maxResultSizeChars`)
        max_result_chars: Option<u32>, in 1..=10_000_000;
        /// arguments of each call, by name. Clients do not see them, and cannot send them
        fixed_arguments: BTreeMap<String, ArgumentValue>;
        /// arguments of calls in which the client does not send them, by name. Clients see them in the schema
        default_arguments: BTreeMap<String, ArgumentValue>, with read_defaults;
    }
    check ToolChange::check;
}

impl ToolChange {
    /// The name towards clients.
    pub(super) fn name(&self) -> Option<&String> {
        self.name.as_ref()
    }

    /// The arguments for `tool`, if the view gives it some. The error says why they do not fit, without a value of them.
    pub(super) fn arguments_for(&self, tool: &Tool) -> Result<Option<Arc<ToolArguments>>, String> {
        if self.fixed_arguments.is_empty() && self.default_arguments.is_empty() {
            return Ok(None);
        }
        ToolArguments::of(&self.fixed_arguments, &self.default_arguments, tool).map(Arc::new).map(Some)
    }

    /// Fixes an argument.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn fix(&mut self, argument: &str, value: &serde_json::Value) {
        self.fixed_arguments.insert(argument.to_owned(), ArgumentValue::of(value));
    }

    fn check(change: &mut Self, setting: &Setting<'_>) {
        let both = change.fixed_arguments.keys().find(|name| change.default_arguments.contains_key(*name));
        if let Some(name) = both {
            setting
                .key_problem(format!("`{name}` is both fixed and a default"), Some("write it once".into()));
        }
    }

    /// The effect of the tool, as the operator and its server declare it.
    pub(super) fn effect(&self, tool: &Tool) -> Effect {
        let annotations = self.annotations(&tool.definition);
        annotations.map_or(tool.effect, |annotations| {
            Effect::of(&Raw::empty_object().with("annotations", &annotations))
        })
    }

    /// The definition as clients of the view get it.
    pub(super) fn applied(&self, definition: &Raw) -> Raw {
        let text = |text: &Option<String>| text.as_ref().map(Raw::of);
        let (title, description) = (text(&self.title), text(&self.description));
        let (annotations, meta) = (self.annotations(definition), self.meta(definition));
        let members = [
            ("title", title.as_ref()),
            ("description", description.as_ref()),
            ("annotations", annotations.as_ref()),
            ("_meta", meta.as_ref()),
        ];
        let changes: Vec<_> = members.into_iter().filter(|(_, value)| value.is_some()).collect();
        if changes.is_empty() { definition.clone() } else { definition.edit(&changes) }
    }

    /// The annotations, if there is a word of the operator about one.
    fn annotations(&self, definition: &Raw) -> Option<Raw> {
        let hints = [
            ("readOnlyHint", self.read_only),
            ("destructiveHint", self.destructive),
            ("idempotentHint", self.idempotent),
            ("openWorldHint", self.open_world),
        ];
        let hints = hints.map(|(name, value)| (name, value.map(|value| Raw::of(&value))));
        edited(definition, "annotations", &hints)
    }

    fn meta(&self, definition: &Raw) -> Option<Raw> {
        let yes = |is: bool| is.then(|| Raw::of(&true));
        let hints = [
            ("anthropic/alwaysLoad", yes(self.pinned)),
            ("anthropic/requiresUserInteraction", yes(self.ask == Some(Ask::Client))),
            ("anthropic/maxResultSizeChars", self.max_result_chars.map(|most| Raw::of(&most))),
        ];
        edited(definition, "_meta", &hints)
    }
}

/// Returns the object `member` of `definition` with the given ones of `values`; none if there are none.
fn edited<const N: usize>(
    definition: &Raw,
    member: &str,
    values: &[(&'static str, Option<Raw>); N],
) -> Option<Raw> {
    let given: Vec<_> = values.iter().filter(|(_, value)| value.is_some()).collect();
    let changes: Vec<_> = given.iter().map(|(name, value)| (*name, value.as_ref())).collect();
    let there = definition.get(member).filter(Raw::is_object).unwrap_or_else(Raw::empty_object);
    (!changes.is_empty()).then(|| there.edit(&changes))
}

fn read_name(setting: &Setting<'_>) -> Option<String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    setting.parsed("a name of 1 to 64 letters, digits, `-` and `_`", |name| {
        ((1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_allowed)).then(|| name.to_owned())
    })
}

/// Clients see defaults, so a value that may be secret is refused.
fn read_defaults(setting: &Setting<'_>) -> Option<BTreeMap<String, ArgumentValue>> {
    if !setting.secrets().is_empty() {
        let hint = "write the value itself, or make it one of `fixed_arguments`";
        setting.key_problem("clients see a default, so it cannot have a variable", Some(hint.into()));
    }
    BTreeMap::from_setting(setting)
}

fn read_description(setting: &Setting<'_>) -> Option<String> {
    let text = String::from_setting(setting)?;
    if text.len() > MAX_DESCRIPTION {
        let message = format!(
            "these are {} bytes, and clients such as Claude Code cut what is longer than {MAX_DESCRIPTION}",
            text.len()
        );
        setting.problem(message, Some("say what matters first, and less".into()));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn definition() -> Raw {
        Raw::of(&json!({
            "name": "t", "description": "d", "inputSchema": {"type": "object"},
            "annotations": {"title": "x", "readOnlyHint": true}, "_meta": {"own": 1},
        }))
    }

    #[test]
    fn operator_changes_texts_annotations_and_hints_and_nothing_else() {
        let change = ToolChange {
            title: Some("Title".to_owned()),
            description: Some("Description".to_owned()),
            read_only: Some(false),
            idempotent: Some(true),
            pinned: true,
            ask: Some(Ask::Client),
            max_result_chars: Some(500),
            ..ToolChange::default()
        };
        let applied: Value = change.applied(&definition()).read().expect("JSON");
        let expected = json!({
            "name": "t", "title": "Title", "description": "Description", "inputSchema": {"type": "object"},
            "annotations": {"title": "x", "readOnlyHint": false, "idempotentHint": true},
            "_meta": {
                "own": 1, "anthropic/alwaysLoad": true, "anthropic/requiresUserInteraction": true,
                "anthropic/maxResultSizeChars": 500,
            },
        });
        assert_eq!(applied, expected);
        let tool = Tool::from_definition(definition()).expect("a tool");
        assert_eq!((tool.effect, change.effect(&tool)), (Effect::ReadOnly, Effect::Idempotent));
    }

    #[test]
    fn tool_that_is_not_changed_keeps_its_bytes() {
        let (change, definition) = (ToolChange::default(), definition());
        assert_eq!(change.applied(&definition).bytes(), definition.bytes());
        let tool = Tool::from_definition(definition).expect("a tool");
        assert_eq!(change.effect(&tool), tool.effect);
    }
}
