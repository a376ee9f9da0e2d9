//! [`Template`]: decides whether a URI may have been made from a URI template (RFC 6570, levels 1 to 4).
//!
//! It only routes: the server checks the values of the variables. In doubt it matches: values may be empty,
//! characters that need escaping are accepted as they are, and names behind `?` are not compared.
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
    /// Any number of bytes of the class, with at most so many characters.
    Run(Class, Option<usize>),
    /// Nothing, or this byte and then a run.
    Led(u8, Class, Option<usize>),
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
        let parts = vec![Part::Literal(root.to_owned()), Part::Run(Class::Any, None)];
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
            Self::Run(class, limit) => after_run(uri, reached, (*class, *limit), work),
            Self::Led(lead, class, limit) => {
                let behind_lead = after_literal(uri, reached, &[*lead], work)?;
                let mut both = after_run(uri, &behind_lead, (*class, *limit), work)?;
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

fn after_run(
    uri: &[u8],
    reached: &[(usize, usize)],
    (class, limit): (Class, Option<usize>),
    work: &mut Work,
) -> Option<Positions> {
    let mut after = Positions::new();
    for (from, to) in reached {
        // Without a limit, an interval inside of the previous result reaches no further.
        let is_covered = limit.is_none() && after.last().is_some_and(|(_, end)| end >= to);
        if !is_covered {
            let end = run_end(uri, *to, (class, limit), work)?;
            after = add(after, (*from, end));
        }
    }
    Some(after)
}

/// The last position that a run of `class` from `start` reaches.
fn run_end(
    uri: &[u8],
    start: usize,
    (class, limit): (Class, Option<usize>),
    work: &mut Work,
) -> Option<usize> {
    let (mut at, mut length) = (start, 0);
    while uri.get(at).is_some_and(|byte| class.has(*byte)) {
        work.spend(1)?;
        if let Some(limit) = limit {
            length += usize::from(begins_char(uri, at));
            if length > limit {
                break;
            }
        }
        at += 1;
    }
    Some(at)
}

/// Whether a character begins at `at`: not inside UTF-8, plain or percent-encoded, nor inside `%XX`.
fn begins_char(uri: &[u8], at: usize) -> bool {
    let inside_escape = (1..=2).any(|back| {
        at.checked_sub(back).is_some_and(|start| uri[start] == b'%')
            && (1..back).all(|step| uri[at - step].is_ascii_hexdigit())
            && uri[at].is_ascii_hexdigit()
    });
    let continues = match uri[at] {
        b'%' => matches!(uri.get(at + 1), Some(b'8' | b'9' | b'a' | b'b' | b'A' | b'B')),
        byte => byte & 0xC0 == 0x80,
    };
    !inside_escape && !continues
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
    let variables = list.split(',').map(Variable::parse).collect::<Option<Vec<_>>>()?;
    let limit = if let [only] = &*variables { only.limit } else { None };
    match operator {
        None => parts.push(Part::Run(Class::Segment, limit)),
        Some('+') => parts.push(Part::Run(Class::Any, limit)),
        Some('#') => parts.push(Part::Led(b'#', Class::Any, limit)),
        Some('.') => parts.push(Part::Led(b'.', Class::Segment, limit)),
        Some(';') => parts.push(Part::Led(b';', Class::Segment, None)),
        Some('/') => parts.extend(variables.iter().map(|variable| {
            let class = if variable.is_exploded { Class::Path } else { Class::Segment };
            Part::Led(b'/', class, variable.limit)
        })),
        // `{?a}` and `{&a}` differ only in the leading character. A limit would count the name too, so it is ignored.
        Some(lead) => parts.push(Part::Led(u8::try_from(lead).ok()?, Class::Query, None)),
    }
    Some(())
}

/// A name with its modifier, `*` or `:3`.
struct Variable {
    is_exploded: bool,
    limit: Option<usize>,
}

impl Variable {
    fn parse(text: &str) -> Option<Self> {
        let (name, modifier) = text.split_at(text.find(['*', ':']).unwrap_or(text.len()));
        // The RFC does not allow a hyphen, but servers write such names and accept them.
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-%".contains(&byte);
        if name.is_empty() || !name.bytes().all(allowed) {
            return None;
        }
        let limit = match modifier.strip_prefix(':') {
            Some(digits) => Some(digits.parse().ok().filter(|limit| (1..10_000).contains(limit))?),
            None if modifier.is_empty() || modifier == "*" => None,
            None => return None,
        };
        Some(Self { is_exploded: modifier == "*", limit })
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
