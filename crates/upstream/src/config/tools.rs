//! Which of a server's tools clients get, and under which names: what an operator wrote, held against what the
//! server has.
//!
//! A name may have stars, which stand for any characters: no tool has one in its name. Not here: what becomes of
//! a tool that changed (`manager::trust`).

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use settings::one_line;

/// Names of a server that are compared for a hint, at most, and how long each may be.
const MAX_COMPARED: usize = 1_000;
const MAX_COMPARED_BYTES: usize = 128;

/// Which tools are offered, and under which names.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    /// If present, only these (names as the server has them, with stars).
    pub allow: Option<Vec<String>>,
    /// Never these, with stars.
    pub deny: Vec<String>,
    /// Name at the server → name to expose.
    pub rename: BTreeMap<String, String>,
    /// How long answers of those that only read may be given again; none: not at all.
    pub cache_ttl: Option<Duration>,
    /// What becomes of one whose definition is not the one that was approved.
    pub on_change: OnChange,
    /// Name at the server → SHA-256 of the definition that is trusted from the start.
    pub trusted: BTreeMap<String, [u8; 32]>,
}

/// What becomes of a tool whose definition is another one than its server showed first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnChange {
    /// Nothing: definitions are not remembered.
    Allow,
    /// It is offered, and operators are told.
    #[default]
    Warn,
    /// It is neither listed nor called until an operator approves it.
    Block,
}

impl OnChange {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Warn, Self::Block];

    /// The word in the registry file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Warn => "warn",
            Self::Block => "block",
        }
    }
}

impl Tools {
    /// Whether the tool that the server calls `name` may be seen and called. The only place that knows.
    pub fn let_through(&self, name: &str) -> bool {
        let is = |listed: &String| means(listed, name);
        self.allow.as_ref().is_none_or(|allow| allow.iter().any(is)) && !self.deny.iter().any(is)
    }

    /// What the operator wrote that fits nothing in `offered`, the names that the server has: who mistypes what is
    /// to be denied has to hear of it.
    pub(crate) fn misfits(&self, offered: &[&str]) -> Vec<String> {
        let lists = [
            ("allow", self.allow.iter().flatten().collect::<Vec<_>>()),
            ("deny", self.deny.iter().collect()),
            ("rename", self.rename.keys().collect()),
            ("trusted", self.trusted.keys().collect()),
        ];
        let mut found = Vec::new();
        for (list, written) in lists {
            for name in written.into_iter().filter(|name| !offered.iter().any(|tool| means(name, tool))) {
                found.push(format!(
                    "`tools.{list}` names `{}`, and it has no such tool{}",
                    one_line(name),
                    nearest(name, offered)
                ));
            }
        }
        let mut taken = HashSet::new();
        for tool in offered.iter().filter(|tool| self.let_through(tool)) {
            let shown = self.rename.get(*tool).map_or(*tool, String::as_str);
            if !taken.insert(shown) {
                found.push(format!(
                    "`tools.rename` makes `{}` the name of two tools: the first one counts",
                    one_line(shown)
                ));
            }
        }
        found
    }
}

/// Whether `written`, which may have stars, means the tool `name`.
fn means(written: &str, name: &str) -> bool {
    let Some((first, rest)) = written.split_once('*') else { return written == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, after)) = name.split_once(part) else { return false };
        name = after;
    }
    name.ends_with(last)
}

/// The one of `offered` that may have been meant.
fn nearest(name: &str, offered: &[&str]) -> String {
    let few = offered.iter().copied().filter(|tool| tool.len() <= MAX_COMPARED_BYTES).take(MAX_COMPARED);
    let nearest = settings::nearest(name, few);
    nearest.map_or_else(String::new, |tool| format!("; the nearest is `{}`", one_line(tool)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERED: [&str; 4] = ["read_file", "write_file", "delete_file", "delete_folder"];

    fn choice(allow: Option<&[&str]>, deny: &[&str]) -> Tools {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Tools { allow: allow.map(names), deny: names(deny), ..Tools::default() }
    }

    fn left(choice: &Tools) -> Vec<&'static str> {
        OFFERED.into_iter().filter(|name| choice.let_through(name)).collect()
    }

    #[test]
    fn stars_stand_for_any_characters_and_nothing_else_does() {
        for (written, name, wanted) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a.c", "abc", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a*", "a", true),
            ("a*", "ba", false),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("*ab*ab", "ab", false),
            ("a**b", "ab", true),
            ("*é*", "né", true),
        ] {
            assert_eq!(means(written, name), wanted, "{written} {name}");
        }
    }

    #[test]
    fn what_is_denied_by_a_pattern_is_gone_also_where_it_is_allowed_by_one() {
        assert_eq!(left(&choice(None, &["delete_*"])), ["read_file", "write_file"]);
        assert_eq!(left(&choice(Some(&["*_file"]), &["delete_*"])), ["read_file", "write_file"]);
        assert_eq!(left(&choice(Some(&["read_*"]), &[])), ["read_file"]);
    }

    #[test]
    fn what_fits_no_tool_is_told_with_the_nearest_one() {
        let mut wrong = choice(Some(&["*_file", "no*such"]), &["write_fil", "zzz"]);
        wrong.rename =
            [("read_file", "delete_file"), ("gone\n", "x")].map(|(a, b)| (a.into(), b.into())).into();
        wrong.trusted = [("read_fiel".into(), [0; 32])].into();
        assert_eq!(
            wrong.misfits(&OFFERED),
            [
                "`tools.allow` names `no*such`, and it has no such tool",
                "`tools.deny` names `write_fil`, and it has no such tool; the nearest is `write_file`",
                "`tools.deny` names `zzz`, and it has no such tool",
                "`tools.rename` names `gone\\n`, and it has no such tool",
                "`tools.trusted` names `read_fiel`, and it has no such tool; the nearest is `read_file`",
                "`tools.rename` makes `delete_file` the name of two tools: the first one counts",
            ]
        );
        assert!(choice(Some(&["read_file", "delete_*"]), &["write_file"]).misfits(&OFFERED).is_empty());
        assert!(Tools::default().misfits(&[]).is_empty());
    }
}
