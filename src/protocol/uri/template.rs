//! [`Template`]: tells whether a URI may have been made from a URI template (RFC 6570, levels 1 to 4).
//!
//! It only routes: which values the variables have, and whether they are good, the server finds out.
//! So in doubt it matches: values may be empty (a variable may be undefined), characters that should
//! have been escaped are taken as they are, and what stands behind `?` is not compared with names,
//! because servers ignore parameters they do not know.
//!
//! Cost: one pass over the URI for each part of the template, whatever both contain. There is no
//! backtracking; the set of positions that can be reached goes from part to part. A template or a
//! URI beyond the caps below is compared as plain text.

/// The longest template that is read as one, in bytes.
const MAX_TEMPLATE: usize = 2 * 1024;
/// The longest URI that is held against a template, in bytes.
const MAX_URI: usize = 16 * 1024;
/// Into how many literals and variables a template may fall.
const MAX_PARTS: usize = 64;

/// A URI template, read once and held against many URIs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    /// None when the text is not a template: then it is only itself.
    parts: Option<Vec<Part>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// Any number of bytes that the class has, of at most so many characters.
    Run(Class, Option<usize>),
    /// Nothing, or this byte and then a run.
    Led(u8, Class, Option<usize>),
}

/// Which bytes the value of a variable can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// One segment of a path.
    Segment,
    /// Several segments.
    Path,
    /// Behind the question mark.
    Query,
    /// Anything.
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
    /// Reads `text`. What is not a template, or too long for one, matches only itself.
    pub fn parse(text: &str) -> Self {
        let parts = if text.len() <= MAX_TEMPLATE { parts(text) } else { None };
        Self { text: text.to_owned(), parts }
    }

    /// The text it was read from.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether `uri` may have been made from this template.
    pub fn matches(&self, uri: &str) -> bool {
        let Some(parts) = self.parts.as_ref().filter(|_| uri.len() <= MAX_URI) else {
            return uri == self.text;
        };
        let mut reached = vec![false; uri.len() + 1];
        reached[0] = true;
        for part in parts {
            reached = part.step(uri.as_bytes(), &reached);
            if !reached.contains(&true) {
                return false;
            }
        }
        reached[uri.len()]
    }

    /// How many bytes of it stand in every URI made from it. Of several templates that match, the
    /// one with most is meant.
    pub fn specificity(&self) -> usize {
        let literal = |part: &Part| if let Part::Literal(text) = part { text.len() } else { 0 };
        self.parts.as_ref().map_or(self.text.len(), |parts| parts.iter().map(literal).sum())
    }
}

impl Part {
    /// The positions reached behind this part, from those reached before it.
    fn step(&self, uri: &[u8], reached: &[bool]) -> Vec<bool> {
        match self {
            Self::Literal(text) => after_literal(uri, reached, text.as_bytes()),
            Self::Run(class, limit) => after_run(uri, reached, *class, *limit),
            Self::Led(lead, class, limit) => {
                let begun = after_literal(uri, reached, &[*lead]);
                let run = after_run(uri, &begun, *class, *limit);
                run.iter().zip(reached).map(|(run, skipped)| *run || *skipped).collect()
            }
        }
    }
}

fn after_literal(uri: &[u8], reached: &[bool], text: &[u8]) -> Vec<bool> {
    let mut after = vec![false; reached.len()];
    for (at, _) in reached.iter().enumerate().filter(|(_, is_reached)| **is_reached) {
        if uri[at..].starts_with(text) {
            after[at + text.len()] = true;
        }
    }
    after
}

fn after_run(uri: &[u8], reached: &[bool], class: Class, limit: Option<usize>) -> Vec<bool> {
    let mut after = vec![false; reached.len()];
    // Of all places where the run can have begun the last one leaves the most room.
    let mut length: Option<usize> = None;
    for (at, is_reached) in reached.iter().enumerate() {
        if *is_reached {
            length = Some(0);
        }
        after[at] = length.is_some_and(|length| limit.is_none_or(|limit| length <= limit));
        length = match uri.get(at) {
            Some(byte) if class.has(*byte) => length.map(|length| length + usize::from(begins_char(uri, at))),
            _ => None,
        };
    }
    after
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

/// The parts of the template `text`; none when it is not one.
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
    (parts.len() <= MAX_PARTS).then_some(parts)
}

/// The parts of what stands between two braces.
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
        // Of `{?a}` and `{&a}` only the sign in front differs; a limit would count the name too.
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
        // More than the RFC allows (a hyphen), because servers print such names and understand them.
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
