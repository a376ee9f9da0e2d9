//! Questions of a tool to the person who calls it (elicitation), on the terminal.
//!
//! Invariants: a server gets only what the user typed after its question, and nothing before the user agreed. The end of
//! the input cancels. Texts of servers are visible text.
//!
//! Source: 2026-07-28 `client/elicitation`. Not here: the call that is repeated with the answers (`call`).

use std::io::{self, BufRead, Read as _, Write};

use url::Url;

use super::super::error::CommandError;
use super::super::{browser, visible};
use super::members::{list_of, plain};
use super::tools::kind;
use json::Raw;
use protocol::method;

/// The longest answer, in bytes.
const MAX_ANSWER: u64 = 64 * 1024;

/// The person at the terminal.
pub(super) struct Person<'p> {
    pub(super) input: &'p mut dyn BufRead,
    pub(super) out: &'p mut dyn Write,
}

impl Person<'_> {
    /// Asks all that an `input_required` result asks for. Returns the `inputResponses`.
    pub(super) fn answer(&mut self, result: &Raw) -> Result<Raw, CommandError> {
        let requests = result.get("inputRequests").unwrap_or_else(Raw::empty_object);
        let mut responses = Raw::empty_object();
        for (key, request) in requests.members() {
            let expected = request.text("method").unwrap_or_default();
            if expected != method::ELICITATION_CREATE {
                let text = format!("the tool asks for {expected}, which this command cannot give");
                return Err(CommandError::Refused(visible::line(&text)));
            }
            let params = request.get("params").unwrap_or_else(Raw::empty_object);
            responses = responses.with(&key, &self.elicited(&params)?);
        }
        Ok(responses)
    }

    fn elicited(&mut self, params: &Raw) -> io::Result<Raw> {
        writeln!(self.out, "The tool asks: {}", visible::lines(&params.text("message").unwrap_or_default()))?;
        let (action, content) = match params.text("url") {
            Some(url) => (self.page(&url)?, None),
            None => self.form(&params.get("requestedSchema").unwrap_or_else(Raw::empty_object))?,
        };
        let action = ("action", &Raw::of(action));
        Ok(match &content {
            Some(content) => Raw::object(&[action, ("content", content)]),
            None => Raw::object(&[action]),
        })
    }

    /// Asks whether to open a page.
    fn page(&mut self, url: &str) -> io::Result<&'static str> {
        let action = self.agreed(&format!("Open {}?", visible::line(url)), false)?;
        let is_open = || Url::parse(url).is_ok_and(|url| browser::open(&url));
        if action == "accept" && !is_open() {
            writeln!(self.out, "Open it in a browser.")?;
        }
        Ok(action)
    }

    /// Asks for each field, and whether to send them.
    fn form(&mut self, schema: &Raw) -> io::Result<(&'static str, Option<Raw>)> {
        let required: Vec<String> = schema.get_as("required").unwrap_or_default();
        let properties = schema.get("properties").unwrap_or_else(Raw::empty_object);
        let mut content = Raw::empty_object();
        for (name, property) in properties.members() {
            match self.field(&name, &property, required.iter().any(|other| *other == name))? {
                Field::Given(value) => content = content.with(&name, &value),
                Field::LeftOut => {}
                Field::Cancelled => return Ok(("cancel", None)),
            }
        }
        let is_empty = properties.members().next().is_none();
        let action = self.agreed(if is_empty { "Accept?" } else { "Send this?" }, !is_empty)?;
        Ok((action, (action == "accept").then_some(content)))
    }

    /// Asks for one field until its value fits.
    fn field(&mut self, name: &str, property: &Raw, is_required: bool) -> io::Result<Field> {
        let title = property.text("title").unwrap_or_else(|| name.into());
        if let Some(about) = property.text("description") {
            writeln!(self.out, "  {}", visible::line(&about))?;
        }
        let choices = choices(property);
        for (at, (value, title)) in (1..).zip(&choices) {
            let title = if title == value { String::new() } else { format!(" ({title})") };
            writeln!(self.out, "  {at}: {}", visible::line(&format!("{value}{title}")))?;
        }
        let default = property.get("default");
        let hint = match &default {
            Some(default) => format!(", default {}", plain(default)),
            None if is_required => String::new(),
            None => ", may be empty".to_owned(),
        };
        let kind = if choices.is_empty() { kind(property) } else { "a number or a value of these".into() };
        let prompt = visible::line(&format!("{title} [{kind}{hint}]: "));
        loop {
            let Some(text) = self.line(&prompt)? else { return Ok(Field::Cancelled) };
            match (text.as_str(), &default) {
                ("", Some(default)) => return Ok(Field::Given(default.clone())),
                ("", None) if !is_required => return Ok(Field::LeftOut),
                _ => {}
            }
            match value(property, &choices, &text) {
                Ok(value) => return Ok(Field::Given(value)),
                Err(expected) => writeln!(self.out, "  expected {expected}")?,
            }
        }
    }

    /// Asks whether the user agrees, and returns the action.
    fn agreed(&mut self, question: &str, default: bool) -> io::Result<&'static str> {
        let choice = if default { "[Y/n]" } else { "[y/N]" };
        let Some(text) = self.line(&format!("{question} {choice} "))? else { return Ok("cancel") };
        Ok(match text.to_ascii_lowercase().as_str() {
            "y" | "yes" => "accept",
            "" if default => "accept",
            _ => "decline",
        })
    }

    /// Reads a line; none at the end of the input.
    fn line(&mut self, prompt: &str) -> io::Result<Option<String>> {
        write!(self.out, "{prompt}")?;
        self.out.flush()?;
        let mut line = String::new();
        let read = (&mut *self.input).take(MAX_ANSWER).read_line(&mut line)?;
        Ok((read > 0).then(|| line.trim().to_owned()))
    }
}

enum Field {
    Given(Raw),
    LeftOut,
    Cancelled,
}

/// The values that a field allows, with their titles; empty if it allows others.
fn choices(property: &Raw) -> Vec<(String, String)> {
    let of = property.get("items").unwrap_or_else(|| property.clone());
    if let Some(titled) = of.get("oneOf").or_else(|| of.get("anyOf")) {
        let choice = |one: Raw| {
            let value = plain(&one.get("const")?);
            let title = one.text("title").map_or_else(|| value.clone(), std::borrow::Cow::into_owned);
            Some((value, title))
        };
        return titled.elements().filter_map(choice).collect();
    }
    let values =
        of.get("enum").map(|values| values.elements().map(|value| plain(&value)).collect::<Vec<_>>());
    let names: Vec<String> = of.get_as("enumNames").unwrap_or_default();
    let titled = |(at, value): (usize, String)| (value.clone(), names.get(at).cloned().unwrap_or(value));
    values.unwrap_or_default().into_iter().enumerate().map(titled).collect()
}

/// Reads a value that was typed, or returns what is expected.
fn value(property: &Raw, choices: &[(String, String)], text: &str) -> Result<Raw, &'static str> {
    let is = |name: &str| property.get("type").is_some_and(|kind| kind.as_part().says(name));
    if !choices.is_empty() {
        let chosen = |text: &str| {
            let numbered = text.parse::<usize>().ok().and_then(|at| choices.get(at.checked_sub(1)?));
            let named = choices.iter().find(|(value, title)| value == text || title == text);
            named.or(numbered).map(|(value, _)| Raw::of(value)).ok_or("one of these values, or its number")
        };
        if !is("array") {
            return chosen(text);
        }
        let all: Result<Vec<_>, _> = text.split(',').map(|one| chosen(one.trim())).collect();
        return Ok(list_of(&all?));
    }
    let number = || Raw::parse(&text.to_owned().into()).ok().filter(|_| text.parse::<f64>().is_ok());
    match text.to_ascii_lowercase().as_str() {
        "y" | "yes" | "true" if is("boolean") => Ok(Raw::of(&true)),
        "n" | "no" | "false" if is("boolean") => Ok(Raw::of(&false)),
        _ if is("boolean") => Err("y or n"),
        _ if is("integer") => number().filter(|_| text.parse::<i64>().is_ok()).ok_or("a whole number"),
        _ if is("number") => number().ok_or("a number"),
        "" => Err("a value"),
        _ => Ok(Raw::of(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = r#"{"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"Where\u001b[2J to?",
        "requestedSchema":{"type":"object","required":["city"],"properties":{
            "city":{"type":"string","title":"City"},
            "class":{"type":"string","oneOf":[{"const":"e","title":"Economy"},{"const":"b","title":"Business"}]},
            "bags":{"type":"integer","default":1},
            "extras":{"type":"array","items":{"enum":["meal","seat"]}},
            "window":{"type":"boolean"}}}}}}}"#;

    fn answered(request: &str, typed: &str) -> (Result<Raw, CommandError>, String) {
        let mut out = Vec::new();
        let mut person = Person { input: &mut typed.as_bytes(), out: &mut out };
        let answer = person.answer(&Raw::parse(&request.to_owned().into()).expect("JSON"));
        (answer, String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn a_form_is_asked_field_by_field_and_sent_after_the_user_agreed() {
        for (typed, expected) in [
            (
                "Oslo\n2\n\nmeal, 2\ny\n\n",
                r#"{"q":{"action":"accept","content":{"city":"Oslo","class":"b","bags":1,"extras":["meal","seat"],"window":true}}}"#,
            ),
            (
                "\nOslo\nThird\nEconomy\n1.5\n2\n\n\ny\n",
                r#"{"q":{"action":"accept","content":{"city":"Oslo","class":"e","bags":2}}}"#,
            ),
            ("Oslo\n1\n\n\n\nn\n", r#"{"q":{"action":"decline"}}"#),
            ("Oslo\n1\n", r#"{"q":{"action":"cancel"}}"#),
        ] {
            let (answer, shown) = answered(FORM, typed);
            assert_eq!(answer.map(|answer| answer.as_str().to_owned()), Ok(expected.to_owned()), "{shown}");
            assert!(shown.starts_with("The tool asks: Where\\u{1b}[2J to?\nCity [string]: "), "{shown}");
            assert!(shown.contains("  2: b (Business)\n") || typed.len() < 3, "{shown}");
        }
    }

    #[test]
    fn a_question_without_fields_is_declined_unless_the_user_agrees() {
        let bare = r#"{"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"Sure?"}}}}"#;
        for (typed, action) in [
            ("y\n", r#""accept","content":{}"#),
            ("\n", r#""decline""#),
            ("no\n", r#""decline""#),
            ("", r#""cancel""#),
        ] {
            let (answer, shown) = answered(bare, typed);
            let expected = format!(r#"{{"q":{{"action":{action}}}}}"#);
            assert_eq!(answer.map(|answer| answer.as_str().to_owned()), Ok(expected), "{shown}");
        }
    }

    #[test]
    fn a_page_is_shown_before_it_is_opened() {
        let page = r#"{"inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"url","message":"Log in",
            "url":"https://login.example/\u202ex"}}}}"#;
        let (answer, shown) = answered(page, "n\n");
        assert_eq!(answer.expect("an answer").as_str(), r#"{"q":{"action":"decline"}}"#);
        assert!(shown.contains(r"Open https://login.example/\u{202e}x? [y/N] "), "{shown}");
        let other = r#"{"inputRequests":{"q":{"method":"sampling/createMessage","params":{}}}}"#;
        let (answer, _) = answered(other, "y\n");
        let expected = "the tool asks for sampling/createMessage, which this command cannot give";
        assert_eq!(answer, Err(CommandError::Refused(expected.into())));
    }
}
