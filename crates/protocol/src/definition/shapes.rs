//! The members of definitions and their types, as in the schema of the protocol. Values are checked against them, and what is
//! optional is repaired.
//!
//! Members of later revisions are checked in every revision, because the SDKs check them in every revision. Required
//! members that identify an item are not listed: they are read before (`feature`). A member that is `null` or of another type is
//! left out, and so is such an element of a list. A list of which nothing remains is left out.

use std::fmt;
use std::fmt::Display;

use super::text;
use crate::sanitize;
use json::Raw;

/// The type of a value.
#[derive(Debug)]
pub(super) enum Shape {
    Text,
    Flag,
    /// A number from 0 to 1.
    Fraction,
    /// A number without a fraction.
    Whole,
    /// A date and time with an offset (RFC 3339).
    Time,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    AnyObject,
    /// An object whose members are objects.
    ObjectsByName,
    Object(&'static [Field]),
    List(&'static Self),
}

/// One member of an object.
#[derive(Debug)]
pub(super) struct Field {
    pub name: &'static str,
    pub shape: Shape,
    pub is_required: bool,
}

const fn optional(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, is_required: false }
}

const fn required(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, is_required: true }
}

static ICONS: Shape = Shape::Object(&[
    required("src", Shape::Text),
    optional("mimeType", Shape::Text),
    optional("sizes", Shape::List(&Shape::Text)),
    optional("theme", Shape::OneOf(&["light", "dark"])),
]);

static ARGUMENT: Shape = Shape::Object(&[
    required("name", Shape::Text),
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("required", Shape::Flag),
]);

static ANNOTATIONS: [Field; 3] = [
    optional("audience", Shape::List(&Shape::OneOf(&["user", "assistant"]))),
    optional("priority", Shape::Fraction),
    optional("lastModified", Shape::Time),
];

static TOOL_ANNOTATIONS: [Field; 5] = [
    optional("title", Shape::Text),
    optional("readOnlyHint", Shape::Flag),
    optional("destructiveHint", Shape::Flag),
    optional("idempotentHint", Shape::Flag),
    optional("openWorldHint", Shape::Flag),
];

static EXECUTION: [Field; 1] =
    [optional("taskSupport", Shape::OneOf(&["required", "optional", "forbidden"]))];

/// `Tool`, without its schemas.
pub(super) static TOOL: [Field; 6] = [
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("annotations", Shape::Object(&TOOL_ANNOTATIONS)),
    optional("execution", Shape::Object(&EXECUTION)),
    optional("icons", Shape::List(&ICONS)),
    optional("_meta", Shape::AnyObject),
];

pub(super) static RESOURCE: [Field; 7] = [
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("mimeType", Shape::Text),
    optional("size", Shape::Whole),
    optional("annotations", Shape::Object(&ANNOTATIONS)),
    optional("icons", Shape::List(&ICONS)),
    optional("_meta", Shape::AnyObject),
];

pub(super) static TEMPLATE: [Field; 6] = [
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("mimeType", Shape::Text),
    optional("annotations", Shape::Object(&ANNOTATIONS)),
    optional("icons", Shape::List(&ICONS)),
    optional("_meta", Shape::AnyObject),
];

pub(super) static PROMPT: [Field; 5] = [
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("arguments", Shape::List(&ARGUMENT)),
    optional("icons", Shape::List(&ICONS)),
    optional("_meta", Shape::AnyObject),
];

/// `Implementation`. Switchyard never passes it on as its own, so nothing in it is required.
pub(super) static IMPLEMENTATION: [Field; 6] = [
    optional("name", Shape::Text),
    optional("version", Shape::Text),
    optional("title", Shape::Text),
    optional("description", Shape::Text),
    optional("websiteUrl", Shape::Text),
    optional("icons", Shape::List(&ICONS)),
];

static CHANGES: [Field; 1] = [optional("listChanged", Shape::Flag)];
static RESOURCES: [Field; 2] = [optional("subscribe", Shape::Flag), optional("listChanged", Shape::Flag)];
static TASK_TOOLS: [Field; 1] = [optional("call", Shape::AnyObject)];
static TASK_REQUESTS: [Field; 1] = [optional("tools", Shape::Object(&TASK_TOOLS))];
static TASKS: [Field; 3] = [
    optional("list", Shape::AnyObject),
    optional("cancel", Shape::AnyObject),
    optional("requests", Shape::Object(&TASK_REQUESTS)),
];

/// `ServerCapabilities`.
pub(super) static CAPABILITIES: [Field; 8] = [
    optional("experimental", Shape::ObjectsByName),
    optional("extensions", Shape::ObjectsByName),
    optional("logging", Shape::AnyObject),
    optional("completions", Shape::AnyObject),
    optional("prompts", Shape::Object(&CHANGES)),
    optional("resources", Shape::Object(&RESOURCES)),
    optional("tools", Shape::Object(&CHANGES)),
    optional("tasks", Shape::Object(&TASKS)),
];

/// The most repairs of one definition that are named.
const MAX_NAMED: usize = 4;

/// The repairs of one definition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repairs {
    named: Vec<String>,
    more: usize,
}

impl Repairs {
    /// Whether nothing was repaired.
    pub const fn is_none(&self) -> bool {
        self.named.is_empty()
    }
}

impl Display for Repairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.named.join("; "))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// Checks one definition.
#[derive(Debug, Default)]
pub(super) struct Checker {
    pub(super) repairs: Repairs,
}

/// The result of checking one value.
pub(super) enum Fit {
    Fits,
    Repaired(Raw),
    /// The value must be something else.
    Unfit(String),
}

impl Checker {
    pub(super) fn record(&mut self, repair: impl Into<String>) {
        if self.repairs.named.len() < MAX_NAMED {
            self.repairs.named.push(repair.into());
        } else {
            self.repairs.more += 1;
        }
    }

    /// The changes that make `object` valid. The error names the required member that is not valid.
    pub(super) fn changes(
        &mut self,
        object: &Raw,
        fields: &[Field],
        path: &str,
    ) -> Result<Vec<(&'static str, Option<Raw>)>, String> {
        let is_twice = object.duplicate_key();
        if let Some(name) = &is_twice {
            self.record(format!("{path}{} stands twice, the first one counts", sanitize::shown(name)));
        }
        let mut changes = Vec::new();
        for field in fields {
            let Some(value) = object.get(field.name) else {
                if field.is_required {
                    return Err(format!("{path}{} is missing", field.name));
                }
                continue;
            };
            let at = format!("{path}{}", field.name);
            match self.fit(&value, &field.shape, &at) {
                Fit::Repaired(value) => changes.push((field.name, Some(value))),
                Fit::Unfit(why) if field.is_required => return Err(format!("{at} {why}")),
                Fit::Unfit(why) => {
                    self.record(format!("{at} {why} and was left out"));
                    changes.push((field.name, None));
                }
                // A client that reads the last of two equal members must read the one that was checked.
                Fit::Fits if is_twice.is_some() => changes.push((field.name, Some(value))),
                Fit::Fits => {}
            }
        }
        Ok(changes)
    }

    pub(super) fn fit(&mut self, value: &Raw, shape: &Shape, at: &str) -> Fit {
        let expected = match shape {
            _ if value.is_null() => return Fit::Unfit("is null".to_owned()),
            Shape::Object(fields) if value.is_object() => return self.fit_object(value, fields, at),
            Shape::List(shape) if value.as_str().starts_with('[') => return self.fit_list(value, shape, at),
            Shape::ObjectsByName if value.is_object() => return self.fit_objects(value, at),
            Shape::Text if value.as_part().text().is_some() => return Fit::Fits,
            Shape::Flag if matches!(value.as_str(), "true" | "false") => return Fit::Fits,
            Shape::Fraction if text::number(value).is_some_and(|number| (0.0..=1.0).contains(&number)) => {
                return Fit::Fits;
            }
            Shape::Whole if text::is_whole(value) => return Fit::Fits,
            Shape::Time if value.as_part().text().is_some_and(|text| text::is_time(&text)) => {
                return Fit::Fits;
            }
            Shape::OneOf(words) if words.iter().any(|word| value.as_part().says(word)) => return Fit::Fits,
            Shape::AnyObject if value.is_object() => return Fit::Fits,
            Shape::Text => "a string",
            Shape::Flag => "true or false",
            Shape::Fraction => "a number from 0 to 1",
            Shape::Whole => "a whole number",
            Shape::Time => "a date and time with an offset, such as 2026-01-31T12:00:00Z",
            Shape::OneOf(_) => "one of the values of its type",
            Shape::AnyObject | Shape::ObjectsByName | Shape::Object(_) => "an object",
            Shape::List(_) => "an array of valid values",
        };
        Fit::Unfit(format!("is not {expected}"))
    }

    fn fit_object(&mut self, value: &Raw, fields: &[Field], at: &str) -> Fit {
        match self.changes(value, fields, &format!("{at}.")) {
            Ok(changes) => super::edited(value, &changes).map_or(Fit::Fits, Fit::Repaired),
            Err(why) => Fit::Unfit(format!("is not complete ({why})")),
        }
    }

    fn fit_list(&mut self, list: &Raw, shape: &Shape, at: &str) -> Fit {
        let (mut retained, mut is_changed, mut is_empty) = (Vec::new(), false, true);
        for (index, element) in list.elements().enumerate() {
            is_empty = false;
            let at = format!("{at}[{index}]");
            match self.fit(&element, shape, &at) {
                Fit::Fits => retained.push(element),
                Fit::Repaired(element) => {
                    is_changed = true;
                    retained.push(element);
                }
                Fit::Unfit(why) => {
                    is_changed = true;
                    self.record(format!("{at} {why} and was left out"));
                }
            }
        }
        match (is_changed, retained.is_empty() && !is_empty) {
            (false, _) => Fit::Fits,
            (true, false) => Fit::Repaired(Raw::of(&retained)),
            (true, true) => Fit::Unfit("has no valid element".to_owned()),
        }
    }

    fn fit_objects(&mut self, objects: &Raw, at: &str) -> Fit {
        let members: Vec<_> = objects.members().collect();
        let retained: Vec<(&str, Option<&Raw>)> = members
            .iter()
            .filter(|(_, value)| value.is_object())
            .map(|(name, value)| (&**name, Some(value)))
            .collect();
        if retained.len() == members.len() {
            return Fit::Fits;
        }
        self.record(format!(
            "{} of the members of {at} are no objects and were left out",
            members.len() - retained.len()
        ));
        Fit::Repaired(Raw::empty_object().edit(&retained))
    }
}
