//! `docs/reference/mcp_servers.schema.json` is what the readers of the configuration file accept.
//!
//! The readers read a file that has every setting, and record what they expect ([`settings::Recorded`]). A declaration
//! gives a setting its description. The tables of pages are made of the same record (`settings_tables`).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use settings::{Expected, Recorded};

use crate::config::Config;

/// The committed schema.
const PATH: &str = "docs/reference/mcp_servers.schema.json";
const DIALECT: &str = "http://json-schema.org/draft-07/schema#";

/// One setting, as the readers know it.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// The expected values.
    pub(super) expected: Vec<Expected>,
    /// Its meaning and its default, if it is declared.
    pub(super) described: Option<(String, String)>,
    /// The keys that a reader knows; `*` is any key, and `[]` any element of a list.
    pub(super) parts: BTreeMap<String, Tree>,
}

impl Tree {
    fn at(&mut self, path: &str) -> &mut Self {
        let names = path.split('.').filter(|name| !name.is_empty());
        names.fold(self, |tree, name| tree.parts.entry(name.to_owned()).or_default())
    }

    /// Returns what the readers know.
    pub(super) fn of(recorded: &Recorded) -> Self {
        let mut tree = Self::default();
        for (path, expected) in &recorded.expected {
            let known = &mut tree.at(path).expected;
            if !known.contains(expected) {
                known.push(expected.clone());
            }
        }
        for described in &recorded.described {
            let text = described.text.split_whitespace().collect::<Vec<_>>().join(" ");
            tree.at(&described.path).described.get_or_insert((text, described.default.clone()));
        }
        tree
    }

    /// The keys that a reader knows.
    fn fields(&self) -> impl Iterator<Item = (&String, &Self)> {
        self.parts.iter().filter(|(name, _)| !["*", "[]"].contains(&name.as_str()))
    }

    /// The JSON Schema of this setting.
    fn schema(&self) -> Value {
        let mut forms: Vec<Value> = Vec::new();
        for form in self.expected.iter().flat_map(|expected| self.forms(expected)) {
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
        let mut schema = match forms.len() {
            1 => forms.remove(0),
            _ => json!({"anyOf": forms}),
        };
        if let (Some((text, default)), Value::Object(members)) = (&self.described, &mut schema) {
            let text = without_links(&format!("{text} (default: {default})").replace('`', ""));
            members.insert("description".to_owned(), text.into());
        }
        schema
    }

    fn forms(&self, expected: &Expected) -> Vec<Value> {
        let reference = || json!({"$ref": "#/definitions/reference"});
        let number = |text: &String| text.parse::<u64>().expect("a number");
        let part = |name| self.parts.get(name).map_or(json!({}), Self::schema);
        match expected {
            Expected::Text | Expected::Path | Expected::Url => vec![json!({"type": "string"})],
            Expected::Boolean => vec![json!({"$ref": "#/definitions/boolean"})],
            Expected::Integer(least, most) => {
                let range = json!({"type": "integer", "minimum": number(least), "maximum": number(most)});
                vec![range, reference()]
            }
            Expected::Seconds(least, most) => {
                let range = json!({"type": "number", "minimum": least, "maximum": most});
                vec![range, json!({"$ref": "#/definitions/time"})]
            }
            Expected::Words(words) => vec![json!({"enum": words}), reference()],
            Expected::NumberOrText => vec![json!({"type": ["integer", "string"]})],
            Expected::List => vec![json!({"type": "array", "items": part("[]")})],
            Expected::OneOrMore => vec![part("[]"), json!({"type": "array", "items": part("[]")})],
            Expected::Nothing => vec![json!({"type": "null"})],
            Expected::Any => vec![json!({})],
            Expected::Fields(_) => Vec::new(),
            Expected::Mapping if self.fields().next().is_none() => {
                vec![json!({"type": ["object", "null"], "additionalProperties": part("*")})]
            }
            Expected::Mapping => {
                let fields = self.fields().filter(|(_, tree)| !tree.expected.is_empty());
                let fields: Map<_, _> = fields.map(|(name, tree)| (name.clone(), tree.schema())).collect();
                vec![json!({"type": ["object", "null"], "properties": fields, "additionalProperties": false})]
            }
        }
    }
}

/// Returns `text` with the titles of links in their place.
fn without_links(text: &str) -> String {
    let link = |text: &str| {
        let middle = text.find("](")?;
        let begin = text[..middle].rfind('[')?;
        let end = middle + text[middle..].find(')')?;
        Some(format!("{}{}{}", &text[..begin], &text[begin + 1..middle], &text[end + 1..]))
    };
    let mut text = text.to_owned();
    while let Some(shorter) = link(&text) {
        text = shorter;
    }
    text
}

#[test]
fn the_schema_is_what_the_readers_accept() {
    let mut schema = Tree::of(&Config::recorded()).schema();
    let members = schema.as_object_mut().expect("an object");
    members.insert("$schema".into(), DIALECT.into());
    members.insert("patternProperties".into(), json!({"^x-": {"description": "values for aliases"}}));
    members.insert("title".into(), "The configuration file of Switchyard".into());
    let definitions = json!({
        "reference": {"type": "string", "pattern": "\\$", "description": "a reference such as ${NAME}"},
        "boolean": {"anyOf": [{"type": "boolean"}, {"enum": ["yes", "no", "on", "off"]}, {"$ref": "#/definitions/reference"}]},
        "time": {"type": "string", "pattern": "\\$|^ *[0-9.]+ *(ms|s|m|h|d) *$", "description": "a time such as 30s"},
    });
    members.insert("definitions".into(), definitions);
    super::compare(PATH, &format!("{schema:#}\n"));
}
