//! The arguments of the tools, read strictly: names, types and ranges.
//!
//! `null` for an argument that may be left out counts as left out, as language models write it.

use super::refusal::Refusal;
use crate::protocol::Raw;

/// Most hits of one search.
pub(super) const MOST_RESULTS: u32 = 20;
/// Hits when nothing is said.
pub(super) const DEFAULT_RESULTS: u32 = 10;
/// Furthest look back, in days.
pub(super) const MOST_DAYS: u32 = 3_650;
/// Days when nothing is said.
pub(super) const DEFAULT_DAYS: u32 = 7;

/// A call of one of the tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// `ping`
    Ping,
    /// `search_handbook`
    Search(Search),
    /// `get_handbook_section`
    Section {
        /// Which one.
        path: String,
    },
    /// `list_handbook_topics`
    Topics,
    /// `get_recent_updates`
    Updates {
        /// How far back.
        days: u32,
    },
}

/// What is searched for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Search {
    /// Any text with something in it; white space made even.
    pub query: String,
    /// Where.
    pub section: Option<String>,
    /// At most so many hits.
    pub n_results: usize,
}

impl Request {
    /// Reads a call; `None` when there is no tool of this name.
    pub(super) fn read(tool: &str, arguments: &Raw) -> Option<Result<Self, Refusal>> {
        Some(match tool {
            "ping" => Arguments::read(arguments, &[]).map(|_| Self::Ping),
            "search_handbook" => read_search(arguments).map(Self::Search),
            "get_handbook_section" => read_section(arguments),
            "list_handbook_topics" => Arguments::read(arguments, &[]).map(|_| Self::Topics),
            "get_recent_updates" => read_updates(arguments),
            _ => return None,
        })
    }
}

fn read_search(arguments: &Raw) -> Result<Search, Refusal> {
    let arguments = Arguments::read(arguments, &["query", "section", "n_results"])?;
    let query = arguments.required_text("query", "how do I add a server")?;
    let section = arguments.text("section")?.filter(|section| !section.trim().is_empty());
    let n_results = arguments.number("n_results", 1..=MOST_RESULTS)?.unwrap_or(DEFAULT_RESULTS);
    let query = query.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(Search { query, section, n_results: n_results as usize })
}

fn read_section(arguments: &Raw) -> Result<Request, Refusal> {
    let arguments = Arguments::read(arguments, &["path"])?;
    let path = arguments.required_text("path", "engineering/onboarding")?;
    Ok(Request::Section { path })
}

fn read_updates(arguments: &Raw) -> Result<Request, Refusal> {
    let arguments = Arguments::read(arguments, &["days"])?;
    let days = arguments.number("days", 1..=MOST_DAYS)?.unwrap_or(DEFAULT_DAYS);
    Ok(Request::Updates { days })
}

struct Arguments<'a>(&'a Raw);

impl<'a> Arguments<'a> {
    /// Checks that there are no names but these, and none twice.
    fn read(raw: &'a Raw, names: &[&str]) -> Result<Self, Refusal> {
        if !raw.is_object() {
            return Err(Refusal::new("invalid_argument", "arguments", raw)
                .because("The arguments are not a JSON object.")
                .valid("a JSON object")
                .suggest("Send {} or an object with the arguments by name."));
        }
        if let Some(name) = raw.duplicate_key() {
            return Err(Refusal::new("invalid_argument", &name, &raw.get(&name))
                .because("This argument is given twice.")
                .valid("each argument at most once")
                .suggest("Give it once."));
        }
        match raw.members().find(|(name, _)| !names.contains(&name.as_ref())) {
            Some((name, value)) => Err(unknown(&name, &value, names)),
            None => Ok(Self(raw)),
        }
    }

    fn get(&self, name: &str) -> Option<Raw> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<Option<String>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let wrong = |_| {
            Refusal::new("invalid_argument", name, &value)
                .because("This argument is not a text.")
                .valid("a JSON string")
                .suggest("Put the value in quotation marks.")
        };
        value.read::<String>().map(Some).map_err(wrong)
    }

    fn required_text(&self, name: &str, example: &str) -> Result<String, Refusal> {
        self.text(name)?.filter(|text| !text.trim().is_empty()).ok_or_else(|| {
            Refusal::new("invalid_argument", name, &self.0.get(name))
                .because("This argument is required and must not be empty.")
                .valid("a string with at least one character that is not white space")
                .suggest(&format!("For example {example:?}."))
        })
    }

    fn number(&self, name: &str, range: std::ops::RangeInclusive<u32>) -> Result<Option<u32>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.read::<f64>().ok().filter(|number| number.fract() == 0.0);
        let within =
            |number: &f64| f64::from(*range.start()) <= *number && *number <= f64::from(*range.end());
        match number.filter(within) {
            // In range and whole: nothing is lost.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Some(number) => Ok(Some(number as u32)),
            None => Err(Refusal::new("invalid_argument", name, &value)
                .because("This argument is not a whole number in range.")
                .valid(&format!("a whole number from {} to {}", range.start(), range.end()))
                .suggest(&nearest_number(&value, number, &range))),
        }
    }
}

fn nearest_number(value: &Raw, number: Option<f64>, range: &std::ops::RangeInclusive<u32>) -> String {
    let spelled = value.read::<String>().ok().and_then(|text| text.trim().parse::<u32>().ok());
    let end = if number.is_some_and(|number| number > f64::from(*range.end())) {
        range.end()
    } else {
        range.start()
    };
    let fits = spelled.filter(|number| range.contains(number));
    format!("Use {}, or leave it out.", fits.as_ref().unwrap_or(end))
}

fn unknown(name: &str, value: &Raw, names: &[&str]) -> Refusal {
    let nearest =
        names.iter().max_by(|a, b| strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b)));
    let refusal = Refusal::new("invalid_argument", name, value).because("There is no argument of this name.");
    match nearest {
        Some(nearest) => refusal
            .valid(&format!("the arguments {}", names.join(", ")))
            .suggest(&format!("Leave it out, or did you mean {nearest}?")),
        None => refusal.valid("no arguments").suggest("Leave it out."),
    }
}
