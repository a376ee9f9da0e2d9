//! Checks arguments against the schema of a tool: types, names, ranges, lengths, enumerated values. They are read as strict
//! JSON, because they are checked and then printed again.
//!
//! Invariants: a refusal names the field, the valid values and advice. Arguments that pass fit the schema,
//! and can be read as the type that the schema was made from. An optional member with the value `null` counts
//! as missing. No object has duplicate keys, of which two readers may take different values, and no number changes on the way.
//! Only keywords that the built-in servers use are supported. A test of every server checks its schemas for that
//! ([`Shape::is_known`]).

mod refuse;

use serde_json::{Map, Value};

use self::refuse::ValuePlace;
use super::refusal::Refusal;
use json::Raw;

/// Limit for integers. Not every JSON reader keeps larger ones exact.
const WHOLE: f64 = 9_007_199_254_740_992.0;
/// Deepest nesting of an argument.
const DEEPEST: usize = 64;

/// Schema of one value.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    kind: ShapeKind,
    /// A valid value.
    example: Option<Value>,
}

#[derive(Debug, Clone)]
enum ShapeKind {
    Text(TextShape),
    Number(Number),
    Truth,
    List(Box<Shape>),
    /// An object with these members and no others.
    Object(ObjectMembers),
    /// Any object.
    Free,
    /// Any value, or one with an unsupported schema.
    Any,
}

#[derive(Debug, Clone)]
struct TextShape {
    least: usize,
    most: usize,
    not_blank: bool,
    uuid: bool,
    /// The valid values, or empty if any text is valid.
    words: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Number {
    whole: bool,
    least: f64,
    most: f64,
}

/// Required ones first, each group in the order of the schema.
type ObjectMembers = Vec<Member>;

#[derive(Debug, Clone)]
pub(crate) struct Member {
    name: String,
    shape: Shape,
    required: bool,
}

impl Shape {
    /// Reads a JSON schema.
    pub(super) fn of(schema: &Value) -> Self {
        let kind = match schema["type"].as_str() {
            Some("string") => ShapeKind::Text(TextShape::of(schema)),
            Some("integer") => ShapeKind::Number(Number::of(schema, true)),
            Some("number") => ShapeKind::Number(Number::of(schema, false)),
            Some("boolean") => ShapeKind::Truth,
            Some("array") => ShapeKind::List(Box::new(Self::of(&schema["items"]))),
            Some("object") => match schema["properties"].as_object() {
                Some(properties) => ShapeKind::Object(members(properties, &schema["required"])),
                None => ShapeKind::Free,
            },
            _ => ShapeKind::Any,
        };
        let example = schema["examples"].get(0).or(schema.get("default")).cloned();
        Self { kind, example }
    }

    /// Whether the schema is supported completely. Unsupported parts accept any value.
    #[cfg(test)]
    pub(super) fn is_known(&self) -> bool {
        match &self.kind {
            ShapeKind::Any => false,
            ShapeKind::List(items) => items.is_known(),
            ShapeKind::Object(members) => members.iter().all(|member| member.shape.is_known()),
            ShapeKind::Text(_) | ShapeKind::Number(_) | ShapeKind::Truth | ShapeKind::Free => true,
        }
    }

    /// Checks the arguments of a call. Integral numbers become integers.
    pub(super) fn arguments(&self, raw: &Raw) -> Result<Map<String, Value>, Refusal> {
        let ShapeKind::Object(members) = &self.kind else { return Ok(Map::new()) };
        if !raw.is_object() {
            return Err(refuse::no_object(raw));
        }
        if let Some(name) = raw.duplicate_key() {
            return Err(refuse::twice(&name, raw.get(&name).as_ref()));
        }
        let unknown = raw.members().find(|(name, _)| !members.iter().any(|member| member.name == *name));
        if let Some((name, value)) = unknown {
            return Err(refuse::unknown(&name, &value, &names(members)));
        }
        let mut checked = Map::new();
        for member in members {
            let given = raw.get(&member.name);
            let place = ValuePlace { field: &member.name, required: member.required, shape: &member.shape };
            match given.filter(|value| !value.is_null()) {
                Some(value) => {
                    let read = read_strictly(&value).map_err(|reason| place.unreadable(&value, &reason))?;
                    checked.insert(member.name.clone(), member.shape.check(&place, read)?);
                }
                None if member.required => return Err(place.missing(raw.get(&member.name).as_ref())),
                None => {}
            }
        }
        Ok(checked)
    }

    fn check(&self, place: &ValuePlace<'_>, value: Value) -> Result<Value, Refusal> {
        match (&self.kind, value) {
            (ShapeKind::Text(text), value) => text.check(place, value),
            (ShapeKind::Number(number), value) => number.check(place, value),
            (ShapeKind::List(items), Value::Array(list)) => items.check_items(place, list),
            (ShapeKind::Object(members), Value::Object(map)) => check_members(members, place, map),
            (ShapeKind::Truth, value @ Value::Bool(_))
            | (ShapeKind::Free, value @ Value::Object(_))
            | (ShapeKind::Any, value) => Ok(value),
            (_, value) => Err(place.wrong_type(&Raw::of(&value))),
        }
    }

    fn check_items(&self, place: &ValuePlace<'_>, list: Vec<Value>) -> Result<Value, Refusal> {
        let item = |(at, value): (usize, Value)| {
            let field = format!("{}[{at}]", place.field);
            self.check(&ValuePlace { field: &field, required: true, shape: self }, value)
        };
        list.into_iter().enumerate().map(item).collect::<Result<Vec<_>, _>>().map(Value::Array)
    }
}

fn check_members(
    members: &ObjectMembers,
    place: &ValuePlace<'_>,
    mut map: Map<String, Value>,
) -> Result<Value, Refusal> {
    let unknown = map.iter().find(|(name, _)| !members.iter().any(|member| member.name == **name));
    if let Some((name, value)) = unknown {
        return Err(refuse::unknown(&format!("{}.{name}", place.field), &Raw::of(value), &names(members)));
    }
    let mut checked = Map::new();
    for member in members {
        let field = format!("{}.{}", place.field, member.name);
        let inner = ValuePlace { field: &field, required: member.required, shape: &member.shape };
        match map.remove(&member.name).filter(|value| !value.is_null()) {
            Some(value) => {
                checked.insert(member.name.clone(), member.shape.check(&inner, value)?);
            }
            None if member.required => return Err(inner.missing(None)),
            None => {}
        }
    }
    Ok(Value::Object(checked))
}

fn names(members: &ObjectMembers) -> Vec<&str> {
    members.iter().map(|member| member.name.as_str()).collect()
}

fn members(properties: &Map<String, Value>, required: &Value) -> ObjectMembers {
    let required: Vec<&str> = required.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let member = |name: &str, required| {
        let shape = properties.get(name).map(Shape::of)?;
        Some(Member { name: name.to_owned(), shape, required })
    };
    let others = properties.keys().filter(|name| !required.contains(&name.as_str()));
    let others = others.filter_map(|name| member(name, false));
    required.iter().filter_map(|name| member(name, true)).chain(others).collect()
}

impl TextShape {
    fn of(schema: &Value) -> Self {
        let length = |name: &str| schema[name].as_u64().and_then(|length| usize::try_from(length).ok());
        let words = schema["enum"].as_array().into_iter().flatten();
        Self {
            least: length("minLength").unwrap_or(0),
            most: length("maxLength").unwrap_or(usize::MAX),
            not_blank: schema["pattern"] == NOT_BLANK,
            uuid: schema["format"] == "uuid",
            words: words.filter_map(|word| word.as_str().map(str::to_owned)).collect(),
        }
    }

    fn check(&self, place: &ValuePlace<'_>, value: Value) -> Result<Value, Refusal> {
        let Value::String(text) = &value else { return Err(place.wrong_type(&Raw::of(&value))) };
        let length = text.chars().count();
        if length < self.least || self.not_blank && text.trim().is_empty() {
            return Err(place.missing(Some(&Raw::of(text))));
        }
        if length > self.most {
            return Err(place.too_long(text, self.most));
        }
        if !self.words.is_empty() && !self.words.contains(text) {
            return Err(place.no_such_word(text, &self.words));
        }
        // Not every program knows other spellings of a UUID.
        if self.uuid && (text.len() != 36 || uuid::Uuid::try_parse(text).is_err()) {
            return Err(place.no_uuid(text));
        }
        Ok(value)
    }
}

/// The only supported pattern: at least one character that is not white space.
pub(super) const NOT_BLANK: &str = r"\S";

impl Number {
    fn of(schema: &Value, whole: bool) -> Self {
        let end = |name: &str, usual: f64| schema[name].as_f64().unwrap_or(usual);
        let far = if whole { WHOLE } else { f64::MAX };
        Self { whole, least: end("minimum", -far), most: end("maximum", far) }
    }

    fn check(&self, place: &ValuePlace<'_>, value: Value) -> Result<Value, Refusal> {
        let number = value.as_f64().filter(|number| !self.whole || number.fract() == 0.0);
        match number.filter(|number| self.least <= *number && *number <= self.most) {
            // Within the range and integral, so nothing is lost.
            #[allow(clippy::cast_possible_truncation)]
            Some(number) if self.whole => Ok((number as i64).into()),
            Some(_) => Ok(value),
            None => Err(place.no_number(&Raw::of(&value), *self)),
        }
    }
}

/// Reads `raw`. An error describes what is wrong.
fn read_strictly(raw: &Raw) -> Result<Value, String> {
    if raw.depth() > DEEPEST {
        return Err(format!("it is nested more than {DEEPEST} deep"));
    }
    if raw.numbers().any(is_rounded) {
        return Err("a whole number has more than 64 bits".to_owned());
    }
    if let Some(key) = raw.repeated_key() {
        return Err(format!("the key {:?} stands twice", clipped(&key)));
    }
    raw.read().map_err(|error| error.to_string())
}

/// Whether `number` is whole and would be read as the nearest one with a fraction.
fn is_rounded(number: &str) -> bool {
    let is_whole = number.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    is_whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err()
}

fn clipped(key: &str) -> &str {
    &key[..key.floor_char_boundary(80)]
}

#[cfg(test)]
#[path = "schema_validator/tests.rs"]
mod tests;
