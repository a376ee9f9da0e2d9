//! Refusals of arguments that do not fit their schema.

use serde_json::Value;

use super::{Number, Shape, ShapeKind, WHOLE};
use crate::refusal::Refusal;
use json::Raw;
use settings::nearest;

const INVALID: &str = "invalid_argument";

/// Path and schema of a value.
pub(super) struct ValuePlace<'a> {
    pub field: &'a str,
    pub required: bool,
    pub shape: &'a Shape,
}

pub(super) fn no_object(raw: &Raw) -> Refusal {
    Refusal::new(INVALID, "arguments", raw)
        .because("The arguments are not a JSON object.")
        .valid("a JSON object")
        .suggest("Send {} or an object with the arguments by name.")
}

pub(super) fn twice(name: &str, value: Option<&Raw>) -> Refusal {
    Refusal::new(INVALID, name, &value)
        .because("This argument is given twice.")
        .valid("each argument at most once")
        .suggest("Give it once.")
}

pub(super) fn unknown(name: &str, value: &Raw, names: &[&str]) -> Refusal {
    let last = name.rsplit('.').next().unwrap_or(name);
    let refusal = Refusal::new(INVALID, clipped(name), value).because("There is no argument of this name.");
    let refusal = match names {
        [] => refusal.valid("no arguments"),
        names => refusal.valid(&format!("the arguments {}", names.join(", "))),
    };
    match nearest(last, names.iter().copied()) {
        Some(nearest) => refusal.suggest(&format!("Leave it out, or did you mean {nearest}?")),
        None => refusal.suggest("Leave it out."),
    }
}

/// Shortens a long name: its beginning suffices to recognize it, and comparing takes time.
fn clipped(name: &str) -> &str {
    &name[..name.floor_char_boundary(200)]
}

impl ValuePlace<'_> {
    /// Returns the end of a suggestion for an optional argument.
    const fn or_leave_out(&self) -> &'static str {
        if self.required { "." } else { ", or leave it out." }
    }

    fn example(&self) -> String {
        self.shape.example.as_ref().map_or_else(|| "a text".to_owned(), Value::to_string)
    }

    pub(super) fn missing(&self, given: Option<&Raw>) -> Refusal {
        let valid = match &self.shape.kind {
            ShapeKind::Text(_) => "a string with at least one character that is not white space",
            kind => described(kind),
        };
        Refusal::new(INVALID, self.field, &given)
            .because("This argument is required and must not be empty.")
            .valid(valid)
            .suggest(&format!("For example {}.", self.example()))
    }

    pub(super) fn unreadable(&self, given: &Raw, reason: &str) -> Refusal {
        if matches!(self.shape.kind, ShapeKind::Text(_)) && given.as_str().starts_with('"') {
            return Refusal::new(INVALID, self.field, given)
                .because("This text has an escape that is no character, such as half of a surrogate pair.")
                .valid("a text of Unicode characters")
                .suggest("Leave that escape out.");
        }
        if !matches!(self.shape.kind, ShapeKind::Free | ShapeKind::Object(_) | ShapeKind::List(_)) {
            return self.wrong_type(given);
        }
        Refusal::new(INVALID, self.field, given)
            .because(&format!("This argument cannot be read: {reason}."))
            .valid("JSON with each key once, nested at most 64 deep, whose numbers are of a usual size")
            .suggest("Send it without that.")
    }

    pub(super) fn wrong_type(&self, given: &Raw) -> Refusal {
        let refusal = Refusal::new(INVALID, self.field, given);
        let (because, suggestion) = match &self.shape.kind {
            ShapeKind::Text(_) => {
                ("This argument is not a text.", "Put the value in quotation marks.".to_owned())
            }
            ShapeKind::Number(number) => return self.no_number(given, *number),
            ShapeKind::Truth => ("This argument is neither true nor false.", self.use_this("true or false")),
            ShapeKind::List(_) => ("This argument is not a list.", self.use_this("a list such as []")),
            ShapeKind::Object(_) | ShapeKind::Free | ShapeKind::Any => {
                ("This argument is not a JSON object.", self.use_this("an object such as {}"))
            }
        };
        refusal.because(because).valid(described(&self.shape.kind)).suggest(&suggestion)
    }

    fn use_this(&self, what: &str) -> String {
        format!("Use {what}{}", self.or_leave_out())
    }

    pub(super) fn too_long(&self, given: &str, most: usize) -> Refusal {
        Refusal::new(INVALID, self.field, given)
            .because(&format!("This argument has {} characters.", given.chars().count()))
            .valid(&format!("at most {most} characters"))
            .suggest("Make it shorter.")
    }

    pub(super) fn no_such_word(&self, given: &str, words: &[String]) -> Refusal {
        let nearest = nearest(given, words.iter().map(String::as_str));
        let this = nearest.map_or_else(|| "one of these words".to_owned(), |word| format!("{word:?}"));
        Refusal::new(INVALID, self.field, given)
            .because("This argument is none of the words that are known.")
            .valid(&format!("one of {}", words.join(", ")))
            .suggest(&self.use_this(&this))
    }

    pub(super) fn no_uuid(&self, given: &str) -> Refusal {
        Refusal::new(INVALID, self.field, given)
            .because("This argument is not a UUID.")
            .valid("a UUID such as 0b8aa2e5-2b7c-4b5c-9f0e-3a1f2d4c5b6a")
            .suggest(&self.use_this("the id as another tool gave it"))
    }

    pub(super) fn no_number(&self, given: &Raw, number: Number) -> Refusal {
        let whole = if number.whole { "whole " } else { "" };
        Refusal::new(INVALID, self.field, given)
            .because(&format!("This argument must be a {whole}number {}.", range(number)))
            .between(number.least, number.most)
            .suggest(&self.use_this(&nearest_number(given, number).to_string()))
    }
}

fn range(number: Number) -> String {
    if number.most < WHOLE {
        format!("from {} to {}", number.least, number.most)
    } else {
        format!("of at least {}", number.least)
    }
}

/// Returns the number that was probably meant, or the nearest end of the range.
fn nearest_number(given: &Raw, number: Number) -> f64 {
    let fits = |value: &f64| number.least <= *value && *value <= number.most;
    let spelled = given.read::<String>().ok().and_then(|text| text.trim().parse::<f64>().ok());
    let spelled = spelled.filter(|value| fits(value) && (!number.whole || value.fract() == 0.0));
    let beyond = given.read::<f64>().is_ok_and(|value| value > number.most);
    spelled.unwrap_or(if beyond { number.most } else { number.least })
}

const fn described(kind: &ShapeKind) -> &'static str {
    match kind {
        ShapeKind::Text(_) => "a JSON string",
        ShapeKind::Number(_) => "a number",
        ShapeKind::Truth => "true or false",
        ShapeKind::List(_) => "a JSON array",
        ShapeKind::Object(_) | ShapeKind::Free | ShapeKind::Any => "a JSON object",
    }
}
