//! The arguments of a tool or prompt, as they stand on the command line.
//!
//! ```text
//! key=text   a string; a number or `true` or `false`, unless the tool wants a string
//! key:=JSON  any value
//! --json T   the whole object; `-` reads it from standard input
//! ```
//!
//! Invariants: numbers and objects keep the bytes that the user typed. A name that is given twice is refused.
//!
//! Source: the syntax of `=` and `:=` is that of `HTTPie`.

use std::io::Read;

use super::super::error::CommandError;
use json::Raw;

/// Bytes of an object on standard input.
const MAX_INPUT: u64 = 64 * 1024 * 1024;

/// Arguments as they were typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TypedArguments {
    Pairs(Vec<(String, Typed)>),
    Whole(Raw),
}

/// A value on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    /// A string.
    Text(String),
    /// A number, `true` or `false`; a string if the tool wants one.
    Literal(String),
    /// Any value.
    Json(Raw),
}

impl TypedArguments {
    /// Reads `words` (`key=value`, `key:=JSON`, or `-` alone), or the object in `json`.
    pub(super) fn read(
        words: &[String],
        json: Option<&str>,
        input: &mut dyn Read,
    ) -> Result<Self, CommandError> {
        match (words, json) {
            ([], Some("-")) => whole(&read_all(input)?),
            ([], Some(text)) => whole(text),
            ([word], None) if word == "-" => whole(&read_all(input)?),
            (words, None) => pairs(words),
            (_, Some(_)) => {
                Err(CommandError::Usage("give the arguments as key=value or with --json, not both".into()))
            }
        }
    }

    /// Whether a value depends on the type that the tool wants.
    pub(super) fn depends_on_schema(&self) -> bool {
        let Self::Pairs(pairs) = self else { return false };
        pairs.iter().any(|(_, value)| matches!(value, Typed::Literal(_)))
    }

    /// Returns the object for a tool with this input schema.
    pub(super) fn object(&self, schema: Option<&Raw>) -> Raw {
        let pairs = match self {
            Self::Whole(object) => return object.clone(),
            Self::Pairs(pairs) => pairs,
        };
        let properties = schema.and_then(|schema| schema.get("properties"));
        let wants_text = |name: &str| {
            let property = properties.as_ref().and_then(|all| all.get(name));
            property.is_some_and(|property| wants_only_text(&property))
        };
        let values = pairs.iter().map(|(name, value)| match value {
            Typed::Literal(literal) if !wants_text(name) => {
                (name, raw(literal.clone()).unwrap_or_else(|| Raw::of(literal)))
            }
            Typed::Text(text) | Typed::Literal(text) => (name, Raw::of(text)),
            Typed::Json(value) => (name, value.clone()),
        });
        object_of(values)
    }

    /// Returns the object for a prompt, whose arguments are strings.
    pub(super) fn strings(&self) -> Result<Raw, CommandError> {
        let pairs = match self {
            Self::Whole(object) => return Ok(object.clone()),
            Self::Pairs(pairs) => pairs,
        };
        let texts = pairs.iter().map(|(name, value)| match value {
            Typed::Text(text) | Typed::Literal(text) => Ok((name, Raw::of(text))),
            Typed::Json(_) => {
                Err(CommandError::Usage(format!("arguments of prompts are strings: write {name}=…")))
            }
        });
        Ok(object_of(texts.collect::<Result<Vec<_>, _>>()?.into_iter()))
    }
}

fn object_of<'a>(members: impl Iterator<Item = (&'a String, Raw)>) -> Raw {
    let members: Vec<_> =
        members.map(|(name, value)| format!("{}:{}", Raw::of(name).as_str(), value.as_str())).collect();
    raw(format!("{{{}}}", members.join(","))).unwrap_or_else(Raw::empty_object)
}

/// Whether a property takes strings, and neither numbers nor booleans.
fn wants_only_text(property: &Raw) -> bool {
    let types = match property.get("type") {
        Some(types) if types.bytes().first() == Some(&b'[') => types.elements().collect(),
        Some(name) => vec![name],
        None => {
            return property.get("enum").is_some_and(|values| values.elements().all(|value| is_text(&value)));
        }
    };
    types.iter().any(|name| name.as_part().says("string"))
        && !types
            .iter()
            .any(|name| ["number", "integer", "boolean"].iter().any(|other| name.as_part().says(other)))
}

fn is_text(value: &Raw) -> bool {
    value.bytes().first() == Some(&b'"')
}

fn raw(text: String) -> Option<Raw> {
    Raw::parse(&text.into()).ok()
}

fn read_all(input: &mut dyn Read) -> Result<String, CommandError> {
    let mut text = String::new();
    let read = input.take(MAX_INPUT).read_to_string(&mut text);
    read.map_err(|error| {
        CommandError::Usage(format!("cannot read the arguments from standard input: {error}"))
    })?;
    Ok(text)
}

fn whole(text: &str) -> Result<TypedArguments, CommandError> {
    let value = Raw::parse(&text.trim().to_owned().into())
        .map_err(|error| CommandError::Usage(format!("the arguments are not JSON: {error}")))?;
    if value.is_object() {
        return Ok(TypedArguments::Whole(value));
    }
    Err(CommandError::Usage("the arguments are not a JSON object, such as {\"query\": \"text\"}".into()))
}

fn pairs(words: &[String]) -> Result<TypedArguments, CommandError> {
    let mut pairs: Vec<(String, Typed)> = Vec::with_capacity(words.len());
    for word in words {
        let (name, value) = pair(word)?;
        if pairs.iter().any(|(other, _)| *other == name) {
            return Err(CommandError::Usage(format!(
                "the argument {name} is given twice; write a list as {name}:='[…]'"
            )));
        }
        pairs.push((name, value));
    }
    Ok(TypedArguments::Pairs(pairs))
}

fn pair(word: &str) -> Result<(String, Typed), CommandError> {
    let expected =
        || CommandError::Usage(format!("{word:?} is not an argument: write key=value, or key:=JSON"));
    let (name, text) = word.split_once('=').ok_or_else(expected)?;
    if let Some(name) = name.strip_suffix(':').filter(|name| !name.is_empty()) {
        let value = Raw::parse(&text.trim().to_owned().into());
        let value = value
            .map_err(|error| CommandError::Usage(format!("the value of {name} is not JSON: {error}")))?;
        return Ok((name.to_owned(), Typed::Json(value)));
    }
    if name.is_empty() {
        return Err(expected());
    }
    let is_literal = match text.as_bytes().first() {
        Some(b'-' | b'0'..=b'9') => raw(text.to_owned()).is_some() && text.trim() == text,
        _ => matches!(text, "true" | "false"),
    };
    let value = if is_literal { Typed::Literal } else { Typed::Text };
    Ok((name.to_owned(), value(text.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str], json: Option<&str>, input: &str) -> Result<TypedArguments, CommandError> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        TypedArguments::read(&words, json, &mut input.as_bytes())
    }

    #[test]
    fn values_have_the_type_that_they_look_like() {
        let words = [
            "a=x y",
            "b=5",
            "c=1.50",
            "d=true",
            "e=",
            "f=null",
            "g=a=b",
            "h=007",
            "i=-1e400",
            "j:=[1, {}]",
            "k:=\"5\"",
        ];
        let object = read(&words, None, "").expect("pairs").object(None);
        let expected = r#"{"a":"x y","b":5,"c":1.50,"d":true,"e":"","f":"null","g":"a=b","h":"007","i":-1e400,"j":[1, {}],"k":"5"}"#;
        assert_eq!(object.as_str(), expected);
    }

    #[test]
    fn a_tool_that_wants_a_string_gets_a_string() {
        let schema = r#"{"properties":{"s":{"type":"string"},"n":{"type":["string","null"]},"b":{"type":["string","integer"]},"e":{"enum":["1","2"]}}}"#;
        let schema = Raw::parse(&schema.to_owned().into()).expect("JSON");
        let given = read(&["s=5", "n=true", "b=5", "e=1", "u=5"], None, "").expect("pairs");
        assert!(given.depends_on_schema());
        assert_eq!(given.object(Some(&schema)).as_str(), r#"{"s":"5","n":"true","b":5,"e":"1","u":5}"#);
        assert!(!read(&["s=a", "j:=5"], None, "").expect("pairs").depends_on_schema());
        assert_eq!(given.strings().expect("strings").get("b").expect("b").as_str(), r#""5""#);
    }

    #[test]
    fn a_whole_object_keeps_its_bytes() {
        let text = r#"{"z":1e400,"a":[ 1.0 ]}"#;
        for given in [read(&[], Some(text), ""), read(&[], Some("-"), text), read(&["-"], None, text)] {
            assert_eq!(given.expect("an object").object(None).as_str(), text);
        }
        assert_eq!(read(&[], None, "").expect("nothing").object(None).as_str(), "{}");
    }

    #[test]
    fn a_mistake_is_named() {
        for (words, json, part) in [
            (&["a"][..], None, "key=value"),
            (&["=a"], None, "key=value"),
            (&["a=1", "a=2"], None, "given twice"),
            (&["a:=x"], None, "not JSON"),
            (&["a=1"], Some("{}"), "not both"),
            (&[], Some("[]"), "not a JSON object"),
            (&[], Some("{"), "not JSON"),
            (&["-"], None, "not JSON"),
        ] {
            let failed = read(words, json, "").expect_err(part);
            assert!(matches!(&failed, CommandError::Usage(text) if text.contains(part)), "{failed}");
        }
    }
}
