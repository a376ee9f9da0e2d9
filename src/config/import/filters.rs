//! The tools that a person allowed or switched off in a client, as `tools.allow` and `tools.deny`.
//!
//! Invariant: a tool that was switched off in the client is not offered. Members that only skip the
//! question before a call (`alwaysAllow`, `autoApprove`, `trust`) are no filters.
//!
//! Sources: the pages of the table of clients (`connect::clients`), read on 2026-11-28.

use std::fmt::Write as _;

use super::json::{Json, Members, Unread, member};
use super::yaml;

/// Members with the only tools. An empty list is a list of no tool, except where that means all.
const ALLOWED: [(&str, EmptyList); 6] = [
    ("includeTools", EmptyList::None),
    ("enabled_tools", EmptyList::None),
    ("enabledTools", EmptyList::None),
    ("allowed_tools", EmptyList::None),
    ("allowedTools", EmptyList::None),
    ("available_tools", EmptyList::All),
];
/// Members with tools that are switched off.
const DENIED: [&str; 4] = ["excludeTools", "disabledTools", "disabled_tools", "excluded_tools"];

/// The meaning of an empty list.
#[derive(Clone, Copy, PartialEq)]
enum EmptyList {
    None,
    All,
}

/// The tools of one server.
#[derive(Default)]
struct Filters {
    /// The only tools; `None` for all.
    allow: Option<Vec<String>>,
    deny: Vec<String>,
}

/// Takes the filters from `left`, and returns the lines of `tools`.
pub(super) fn take(left: &mut Unread<'_>) -> String {
    let mut filters = Filters::default();
    left.retain(|(name, value)| !filters.takes(name, value));
    filters.lines()
}

impl Filters {
    /// Whether a member is a filter, which then is one of these.
    fn takes(&mut self, name: &str, value: &Json) -> bool {
        if name == "tools" {
            return self.takes_tools(value);
        }
        if DENIED.contains(&name) {
            return names(value).map(|names| self.deny.extend(names)).is_some();
        }
        let allowed = ALLOWED.iter().find(|(known, _)| *known == name);
        allowed.is_some_and(|(_, empty)| names(value).map(|names| self.allow(names, *empty)).is_some())
    }

    /// Reads `tools`: a list of the only ones, lists by their names, or a switch for each tool.
    fn takes_tools(&mut self, value: &Json) -> bool {
        if let Some(names) = names(value) {
            self.allow(names, EmptyList::None);
            return true;
        }
        let Json::Object(members) = value else { return false };
        let list = |name: &[&str]| name.iter().find_map(|name| names(member(members, name)?));
        let (allow, deny) = (list(&["include", "allow"]), list(&["exclude", "deny"]));
        let off = members.iter().filter(|(_, value)| is_off(value)).map(|(name, _)| plain(name));
        let off: Vec<_> = off.collect();
        // Members such as `resources` of Hermes are no tools.
        let is_read = allow.is_some() || deny.is_some();
        if let Some(allow) = allow {
            self.allow(allow, EmptyList::All);
        }
        let off = if is_read { Vec::new() } else { off };
        let has_only_switches = !off.is_empty() && members.iter().all(|(_, value)| is_switch(value));
        self.deny.extend(deny.unwrap_or_default().into_iter().chain(off));
        is_read || has_only_switches
    }

    fn allow(&mut self, names: Vec<String>, empty: EmptyList) {
        let is_all = names.is_empty() && empty == EmptyList::All || names.iter().any(|name| name == "*");
        if !is_all {
            self.allow.get_or_insert_default().extend(names);
        }
    }

    fn lines(self) -> String {
        let Self { allow, deny } = self;
        let mut lines = String::new();
        if let Some(mut allow) = allow {
            // A tool in both lists is switched off.
            allow.retain(|name| !deny.contains(name));
            let _ = writeln!(lines, "      allow: {}", yaml::list(&allow));
        }
        if !deny.is_empty() {
            let _ = writeln!(lines, "      deny: {}", yaml::list(&deny));
        }
        if lines.is_empty() { lines } else { format!("    tools:\n{lines}") }
    }
}

/// The names in a list, or the only name.
fn names(value: &Json) -> Option<Vec<String>> {
    match value {
        Json::Text(name) => Some(vec![plain(name)]),
        Json::List(items) => items.iter().map(|item| item.text().map(plain)).collect(),
        _ => None,
    }
}

/// A name as the configuration file has it. In Gemini CLI, arguments may follow it.
fn plain(name: &str) -> String {
    name.split('(').next().unwrap_or_default().replace('$', "$$")
}

/// Whether a switch is off: `false`, or a mapping that says so.
fn is_off(value: &Json) -> bool {
    let says = |members: &Members, name, state| member(members, name) == Some(&Json::Bool(state));
    match value {
        Json::Bool(value) => !value,
        Json::Object(members) => says(members, "enabled", false) || says(members, "disabled", true),
        _ => false,
    }
}

fn is_switch(value: &Json) -> bool {
    matches!(value, Json::Bool(_) | Json::Object(_))
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;

    /// The lines of an entry, and the names of its members that are left.
    fn of(entry: &str) -> (String, Vec<String>) {
        let Ok(Json::Object(members)) = json::read(entry) else { panic!("an object: {entry}") };
        let mut left = members.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let lines = take(&mut left).split_whitespace().collect::<Vec<_>>().join(" ");
        (lines, left.iter().map(|(name, _)| (*name).to_owned()).collect())
    }

    #[test]
    fn a_tool_that_was_switched_off_is_denied_and_the_only_tools_are_allowed() {
        for (entry, lines) in [
            (r#"{"disabledTools": ["a", "b"]}"#, r#"tools: deny: ["a", "b"]"#),
            (r#"{"disabled_tools": ["a"]}"#, r#"tools: deny: ["a"]"#),
            (
                r#"{"includeTools": ["a", "b(x)"], "excludeTools": ["a"]}"#,
                r#"tools: allow: ["b"] deny: ["a"]"#,
            ),
            (r#"{"enabled_tools": []}"#, "tools: allow: []"),
            (r#"{"available_tools": []}"#, ""),
            (r#"{"available_tools": ["a$b"]}"#, r#"tools: allow: ["a$$b"]"#),
            (r#"{"tools": ["*"]}"#, ""),
            (r#"{"tools": []}"#, "tools: allow: []"),
            (r#"{"tools": ["a"]}"#, r#"tools: allow: ["a"]"#),
            (r#"{"tools": {"include": [], "exclude": "a", "resources": false}}"#, r#"tools: deny: ["a"]"#),
            (r#"{"tools": {"a": false, "b": true, "c": {"enabled": false}}}"#, r#"tools: deny: ["a", "c"]"#),
        ] {
            assert_eq!(of(entry), (lines.to_owned(), Vec::new()), "{entry}");
        }
    }

    #[test]
    fn setting_that_only_skips_a_question_is_no_filter() {
        for (entry, left) in [
            (r#"{"alwaysAllow": ["a"]}"#, "alwaysAllow"),
            (r#"{"autoApprove": ["a"]}"#, "autoApprove"),
            (r#"{"trust": true}"#, "trust"),
            (r#"{"tools": {"a": {"approval_mode": "approve"}}}"#, "tools"),
            (r#"{"disabledTools": [1]}"#, "disabledTools"),
        ] {
            assert_eq!(of(entry), (String::new(), vec![left.to_owned()]), "{entry}");
        }
    }
}
