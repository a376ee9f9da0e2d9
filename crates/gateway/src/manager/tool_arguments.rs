//! Arguments that a view gives a tool: fixed ones, which clients neither see nor send, and defaults.
//!
//! Invariants: what the client sends stays as it is, byte for byte, and given arguments come after it. A fixed argument is
//! in every call, and only with the value of the operator. Values may be secret: no text of this module quotes one.
//!
//! Not here: which tool gets which (`tool_change`), and how a value is checked (`protocol::definition`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use json::Raw;
use protocol::definition::ValueChecker;
use protocol::feature::Tool;
use protocol::sanitize::shown;
use settings::{DefaultText, FromSetting, Setting, nearest};

/// The keywords with schemas for the same arguments.
const ALTERNATIVES: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const CONDITIONS: [&str; 4] = ["if", "then", "else", "not"];
/// The keywords by which a schema has further arguments than `properties`.
const OPEN: [&str; 6] = ["allOf", "anyOf", "oneOf", "$ref", "patternProperties", "additionalProperties"];

/// The value of an argument as the operator writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArgumentValue {
    json: Raw,
    /// Whether it is text with a variable, which may stand for a number or a truth value.
    is_reference: bool,
}

impl ArgumentValue {
    /// A value without a variable.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn of(value: &Value) -> Self {
        Self { json: Raw::of(value), is_reference: false }
    }
}

impl DefaultText for ArgumentValue {}

impl FromSetting for ArgumentValue {
    fn from_setting(setting: &Setting<'_>) -> Option<Self> {
        Some(Self { json: Raw::of(&setting.json()?), is_reference: setting.is_reference() })
    }
}

/// The arguments that a view gives one tool, as they fit its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolArguments {
    fixed: Vec<(Arc<str>, Raw)>,
    defaults: Vec<(Arc<str>, Raw)>,
}

/// A call with the arguments of its view.
pub(super) struct Filled {
    /// The parameters for the server.
    pub params: Raw,
    /// The arguments that the client did not send.
    pub given: Vec<Arc<str>>,
}

impl ToolArguments {
    /// The given arguments for `tool`. The error says which of them does not fit, without its value.
    pub(super) fn of(
        fixed: &BTreeMap<String, ArgumentValue>,
        defaults: &BTreeMap<String, ArgumentValue>,
        tool: &Tool,
    ) -> Result<Self, String> {
        let definition = tool.repaired.as_ref().unwrap_or(&tool.definition);
        let schema = definition.get("inputSchema").unwrap_or_else(Raw::empty_object);
        let schema: Value = schema.read().map_err(|_| "its input schema has a number that is too large")?;
        let checked = |values: &BTreeMap<String, ArgumentValue>| {
            values
                .iter()
                .map(|(name, value)| Ok((Arc::from(name.as_str()), fitting(&schema, name, value)?)))
                .collect()
        };
        let (fixed, defaults): (Result<_, String>, Result<_, String>) = (checked(fixed), checked(defaults));
        Ok(Self { fixed: fixed?, defaults: defaults? })
    }

    /// The definition of the tool for clients: without the fixed arguments, and with the defaults.
    pub(super) fn applied(&self, definition: &Raw) -> Raw {
        let Some(schema) = definition.get("inputSchema").filter(Raw::is_object) else {
            return definition.clone();
        };
        let root: Value = schema.read().unwrap_or_default();
        let schema = Reduction { arguments: self, checker: ValueChecker::new(&root) }.reduced(&schema);
        let properties = schema.get("properties").filter(Raw::is_object);
        let with_defaults = properties.map(|properties| {
            let with_default = |(name, value): &(Arc<str>, Raw)| {
                let property = properties.get(name)?;
                let property = if property.is_object() { property } else { Raw::empty_object() };
                Some((Arc::clone(name), property.with("default", value)))
            };
            let changes: Vec<_> = self.defaults.iter().filter_map(with_default).collect();
            let changes: Vec<_> = changes.iter().map(|(name, property)| (&**name, Some(property))).collect();
            properties.edit(&changes)
        });
        let schema =
            with_defaults.map_or(schema.clone(), |properties| schema.with("properties", &properties));
        definition.with("inputSchema", &schema)
    }

    /// Adds the given arguments to `params` of a call. The error is a fixed argument that the client sends.
    pub(super) fn fill(&self, params: &Raw) -> Result<Filled, Arc<str>> {
        let arguments = params.get("arguments").unwrap_or_else(Raw::empty_object);
        let is_sent = |(name, _): &&(Arc<str>, Raw)| arguments.part(name).is_some();
        if let Some((name, _)) = self.fixed.iter().find(is_sent) {
            return Err(Arc::clone(name));
        }
        let missing = self.defaults.iter().filter(|default| !is_sent(default));
        let given: Vec<_> = self.fixed.iter().chain(missing).collect();
        let changes: Vec<_> = given.iter().map(|(name, value)| (&**name, Some(value))).collect();
        let params = params.with("arguments", &arguments.edit(&changes));
        Ok(Filled { params, given: given.into_iter().map(|(name, _)| Arc::clone(name)).collect() })
    }

    fn is_given(&self, name: &str) -> bool {
        self.fixed.iter().chain(&self.defaults).any(|(given, _)| **given == *name)
    }

    fn is_fixed(&self, name: &str) -> bool {
        self.fixed.iter().any(|(fixed, _)| **fixed == *name)
    }
}

/// Returns the value of the argument `name` as it fits `schema`.
fn fitting(schema: &Value, name: &str, value: &ArgumentValue) -> Result<Raw, String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let Some(property) = properties.and_then(|properties| properties.get(name)) else {
        let is_open =
            OPEN.iter().any(|keyword| schema.get(keyword).is_some_and(|value| *value != Value::Bool(false)));
        if is_open {
            return Ok(value.json.clone());
        }
        let names = properties.into_iter().flatten().map(|(name, _)| name.as_str());
        let near = nearest(name, names).map(|near| format!("; did you mean `{}`?", shown(near)));
        return Err(format!("the tool has no argument `{}`{}", shown(name), near.unwrap_or_default()));
    };
    let checker = ValueChecker::new(schema);
    let json: Value = value.json.read().map_err(|_| format!("`{}` cannot be read", shown(name)))?;
    let Some(misfit) = checker.misfit(name, property, &json) else { return Ok(value.json.clone()) };
    let scalar = || {
        serde_json::from_str::<Value>(json.as_str()?)
            .ok()
            .filter(|read| read.is_number() || read.is_boolean())
    };
    match scalar().filter(|read| value.is_reference && checker.misfit(name, property, read).is_none()) {
        Some(read) => Ok(Raw::of(&read)),
        None => Err(misfit),
    }
}

/// Takes given arguments out of a schema.
struct Reduction<'a> {
    arguments: &'a ToolArguments,
    checker: ValueChecker<'a>,
}

impl Reduction<'_> {
    /// The schema that the other arguments have to fit: fixed ones are left out, and no given one is required. The caller
    /// limits the depth. Schemas that references lead to stay as they are.
    fn reduced(&self, schema: &Raw) -> Raw {
        if !schema.is_object() {
            return schema.clone();
        }
        if self.refuses(schema) {
            return Raw::of(&false);
        }
        let mut changes: Vec<(&str, Option<Raw>)> = Vec::new();
        changes.extend(schema.get("properties").map(|all| ("properties", Some(self.without_fixed(&all)))));
        let dependent = ["dependentRequired", "dependencies"].map(|keyword| (keyword, schema.get(keyword)));
        let mut required = schema.get("required").map_or_else(Vec::new, |list| texts(&list));
        let was_required = required.len();
        for (keyword, lists) in &dependent {
            let Some(lists) = lists else { continue };
            let of_fixed = lists.members().filter(|(name, _)| self.arguments.is_fixed(name));
            required.extend(of_fixed.flat_map(|(_, list)| texts(&list)));
            changes.push((keyword, Some(self.dependent(lists))));
        }
        if was_required > 0 || !required.is_empty() {
            required.retain(|name| !self.arguments.is_given(name));
            let mut seen = std::collections::HashSet::new();
            required.retain(|name| seen.insert(name.clone()));
            changes.push(("required", (!required.is_empty()).then(|| Raw::of(&required))));
        }
        for keyword in ALTERNATIVES {
            let schemas = schema.get(keyword).filter(|list| list.as_str().starts_with('['));
            let list =
                schemas.map(|list| list.elements().map(|schema| self.reduced(&schema)).collect::<Vec<_>>());
            changes.extend(list.map(|list| (keyword, Some(Raw::of(&list)))));
        }
        for keyword in CONDITIONS {
            changes.extend(schema.get(keyword).map(|schema| (keyword, Some(self.reduced(&schema)))));
        }
        let changes: Vec<_> = changes.iter().map(|(name, value)| (*name, value.as_ref())).collect();
        if changes.is_empty() { schema.clone() } else { schema.edit(&changes) }
    }

    /// Whether a fixed argument fits no call that `schema` accepts.
    fn refuses(&self, schema: &Raw) -> bool {
        let Some(properties) = schema.get("properties") else { return false };
        self.arguments.fixed.iter().any(|(name, value)| {
            let read = |raw: &Raw| raw.read::<Value>().ok();
            let both = properties.get(name).and_then(|property| read(&property)).zip(read(value));
            both.is_some_and(|(property, value)| self.checker.misfit(name, &property, &value).is_some())
        })
    }

    fn without_fixed(&self, members: &Raw) -> Raw {
        let fixed: Vec<_> = self.arguments.fixed.iter().map(|(name, _)| (&**name, None)).collect();
        members.edit(&fixed)
    }

    /// Lists of arguments that others require, without given ones.
    fn dependent(&self, lists: &Raw) -> Raw {
        let lists = self.without_fixed(lists);
        let others = lists.members().filter(|(_, list)| list.as_str().starts_with('['));
        let shorter: Vec<_> = others
            .map(|(name, list)| {
                let mut names = texts(&list);
                names.retain(|name| !self.arguments.is_given(name));
                (name, Raw::of(&names))
            })
            .collect();
        let changes: Vec<_> = shorter.iter().map(|(name, list)| (&**name, Some(list))).collect();
        lists.edit(&changes)
    }
}

fn texts(list: &Raw) -> Vec<String> {
    list.elements().filter_map(|text| text.read().ok()).collect()
}

#[cfg(test)]
#[path = "tool_arguments_tests.rs"]
mod tests;
