//! [`Template`]: decides whether a URI may have been made from a URI template (RFC 6570, levels 1 to 4).
//!
//! It only routes: the server checks the values of the variables. In doubt it matches: values may be empty, characters that need
//! escaping are accepted as they are, and names behind `?` are not compared. Prefix modifiers such as `:3` limit nothing.
//!
//! Invariants: no backtracking. The reachable positions pass from part to part as a few intervals, so that the cost
//! is at most one pass over the URI for each part. Every step is taken from a [`Work`] budget. A template or a URI
//! beyond the limits below is compared as plain text.

use super::{MAX_URI, scheme};

/// The longest template, in bytes.
const MAX_TEMPLATE: usize = 2 * 1024;
/// The most literals and variables of one template.
const MAX_PARTS: usize = 32;
/// Bytes of a literal that are compared in one step.
const STEP: usize = 32;

/// The matching steps that are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work(usize);

impl Work {
    /// A budget of `steps`.
    pub const fn of(steps: usize) -> Self {
        Self(steps)
    }

    /// Whether the budget was not enough: then "no match" may be wrong.
    pub const fn is_spent(self) -> bool {
        self.0 == 0
    }

    /// Subtracts the steps that another budget spent between `before` and `after`.
    pub const fn spend_as(&mut self, before: Self, after: Self) {
        self.0 = self.0.saturating_sub(before.0.saturating_sub(after.0));
    }

    /// Subtracts `steps`; `None` if there are not enough.
    const fn spend(&mut self, steps: usize) -> Option<()> {
        self.0 = self.0.saturating_sub(steps);
        if self.0 == 0 { None } else { Some(()) }
    }
}

/// Positions in a URI as sorted intervals, which do not touch. Both ends are included.
type Positions = Vec<(usize, usize)>;

/// A URI template, parsed once and matched against many URIs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    /// `None` if the text is not a template. Then it matches only itself.
    parts: Option<Vec<Part>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// Any number of bytes of the class.
    Run(Class),
    /// Nothing, or this byte and then a run.
    Led(u8, Class),
}

/// The bytes that the value of a variable can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// One segment of a path.
    Segment,
    /// Several segments.
    Path,
    /// Behind the question mark.
    Query,
    /// Any byte.
    Any,
}

impl Class {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Segment => !b"/?#".contains(&byte),
            Self::Path => !b"?#".contains(&byte),
            Self::Query => byte != b'#',
            Self::Any => true,
        }
    }
}

impl Template {
    /// Parses `text`. A text that is not a template, or is too long, matches only itself.
    pub fn parse(text: &str) -> Self {
        let parts = if text.len() <= MAX_TEMPLATE { parts(text) } else { None };
        let parts = parts.filter(|parts| parts.len() <= MAX_PARTS);
        Self { text: text.to_owned(), parts }
    }

    /// Makes the template of all URIs that begin with `root`, which is text.
    pub fn beneath(root: &str) -> Self {
        let parts = vec![Part::Literal(root.to_owned()), Part::Run(Class::Any)];
        Self { text: root.to_owned(), parts: Some(parts) }
    }

    /// The text of the template.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the reason if `text` exceeds the limits for a template that a server lists.
    pub fn excess(text: &str) -> Option<String> {
        if text.len() > MAX_TEMPLATE {
            return Some(format!("has {} bytes, at most {MAX_TEMPLATE} are accepted", text.len()));
        }
        let count = parts(text).map_or(0, |parts| parts.len());
        (count > MAX_PARTS).then(|| format!("has {count} parts, at most {MAX_PARTS} are accepted"))
    }

    /// Whether `uri` may have been made from this template. Without enough `work` it does not match.
    pub fn matches(&self, uri: &str, work: &mut Work) -> bool {
        let Some(parts) = self.parts.as_ref().filter(|_| uri.len() <= MAX_URI) else {
            return uri == self.text;
        };
        let is_possible = match parts.last() {
            Some(Part::Literal(end)) => uri.ends_with(end.as_str()),
            _ => true,
        };
        is_possible && reaches_the_end(parts, uri.as_bytes(), work).unwrap_or(false)
    }

    /// The beginning that all URIs of the template share.
    pub fn prefix(&self) -> &str {
        match self.parts.as_deref() {
            None => &self.text,
            Some([Part::Literal(text), ..]) => text,
            Some(_) => "",
        }
    }

    /// Whether all URIs of the template have the same scheme.
    pub fn has_scheme(&self) -> bool {
        scheme(self.prefix()).is_some()
    }
}

fn reaches_the_end(parts: &[Part], uri: &[u8], work: &mut Work) -> Option<bool> {
    let mut reached: Positions = vec![(0, 0)];
    for part in parts {
        work.spend(1)?;
        reached = part.step(uri, &reached, work)?;
        if reached.is_empty() {
            return Some(false);
        }
    }
    Some(reached.last().is_some_and(|(_, end)| *end == uri.len()))
}

impl Part {
    /// The positions reached behind this part, from those reached before it.
    fn step(&self, uri: &[u8], reached: &[(usize, usize)], work: &mut Work) -> Option<Positions> {
        match self {
            Self::Literal(text) => after_literal(uri, reached, text.as_bytes(), work),
            Self::Run(class) => after_run(uri, reached, *class, work),
            Self::Led(lead, class) => {
                let behind_lead = after_literal(uri, reached, &[*lead], work)?;
                let mut both = after_run(uri, &behind_lead, *class, work)?;
                both.extend_from_slice(reached);
                both.sort_unstable();
                Some(both.into_iter().fold(Positions::new(), add))
            }
        }
    }
}

/// Adds `more` to `positions`. It begins no earlier than the last of them.
fn add(mut positions: Positions, more: (usize, usize)) -> Positions {
    match positions.last_mut() {
        Some(last) if more.0 <= last.1 + 1 => last.1 = last.1.max(more.1),
        _ => positions.push(more),
    }
    positions
}

fn after_literal(uri: &[u8], reached: &[(usize, usize)], text: &[u8], work: &mut Work) -> Option<Positions> {
    let mut after = Positions::new();
    let Some(last) = uri.len().checked_sub(text.len()) else { return Some(after) };
    for (from, to) in reached {
        for at in *from..=last.min(*to) {
            work.spend(1 + text.len() / STEP)?;
            if uri[at..].starts_with(text) {
                after = add(after, (at + text.len(), at + text.len()));
            }
        }
    }
    Some(after)
}

fn after_run(uri: &[u8], reached: &[(usize, usize)], class: Class, work: &mut Work) -> Option<Positions> {
    let mut after = Positions::new();
    for (from, to) in reached {
        // An interval inside of the previous result reaches no further.
        if after.last().is_none_or(|(_, end)| end < to) {
            let length = uri[*to..].iter().take_while(|byte| class.has(**byte)).count();
            work.spend(1 + length)?;
            after = add(after, (*from, to + length));
        }
    }
    Some(after)
}

/// The parts of the template `text`; `None` if it is not a template.
fn parts(text: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find(['{', '}']) {
        let (literal, expression) = rest.split_at(open);
        let (expression, behind) = expression.strip_prefix('{')?.split_once('}')?;
        if !literal.is_empty() {
            parts.push(Part::Literal(literal.to_owned()));
        }
        add_expression(expression, &mut parts)?;
        rest = behind;
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(rest.to_owned()));
    }
    Some(parts)
}

/// Adds the parts of the text between two braces.
fn add_expression(text: &str, parts: &mut Vec<Part>) -> Option<()> {
    let operator = text.chars().next().filter(|first| "+#./;?&".contains(*first));
    let list = if operator.is_some() { &text[1..] } else { text };
    let are_exploded = list.split(',').map(is_exploded).collect::<Option<Vec<bool>>>()?;
    match operator {
        None => parts.push(Part::Run(Class::Segment)),
        Some('+') => parts.push(Part::Run(Class::Any)),
        Some('#') => parts.push(Part::Led(b'#', Class::Any)),
        Some('.') => parts.push(Part::Led(b'.', Class::Segment)),
        Some(';') => parts.push(Part::Led(b';', Class::Segment)),
        Some('/') => parts.extend(
            are_exploded
                .iter()
                .map(|is_exploded| Part::Led(b'/', if *is_exploded { Class::Path } else { Class::Segment })),
        ),
        // `{?a}` and `{&a}` differ only in the leading character.
        Some(lead) => parts.push(Part::Led(u8::try_from(lead).ok()?, Class::Query)),
    }
    Some(())
}

/// Whether a variable is exploded. Reads its name with its modifier, `*` or `:3`; `None` if it is not a variable.
fn is_exploded(text: &str) -> Option<bool> {
    let (name, modifier) = text.split_at(text.find(['*', ':']).unwrap_or(text.len()));
    // The RFC does not allow a hyphen, but servers write such names and accept them.
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-%".contains(&byte);
    if name.is_empty() || !name.bytes().all(allowed) {
        return None;
    }
    match modifier.strip_prefix(':') {
        Some(digits) => digits.parse().is_ok_and(|limit: u32| (1..10_000).contains(&limit)).then_some(false),
        None => matches!(modifier, "" | "*").then_some(modifier == "*"),
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
