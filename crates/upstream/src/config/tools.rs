//! The tools of a server that clients get, and their names, as the operator configured them.
//!
//! A name may contain stars, which match any characters: no name of a tool contains a star. Not here: the handling of a
//! tool whose definition changed (`manager::trust`).

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use settings::{FromSetting, Setting, one_line, read_sha256, settings, words};

use super::{PAUSE, Sharing};

/// The most names of a server that are compared for a hint. The next constant limits their length.
const MAX_COMPARED: usize = 1_000;
const MAX_COMPARED_BYTES: usize = 128;
/// The longest name of a tool that `rename` may set.
const MAX_TOOL_NAME: usize = 128;

settings! {
    /// Which tools are offered, and under which names.
    #[derive(Debug, Clone)]
    pub struct Tools {
        /// only these tools, by their names at the server; `*` stands for any characters, as in `["read_*"]`
        pub allow: Option<Vec<String>> => "all";
        /// never these tools, with `*` as above; `deny` takes precedence over `allow`
        pub deny: Vec<String>;
        /// name at the server → name towards clients
        pub rename: BTreeMap<String, String>, with renamed;
        /// How long results of read-only tools may be cached; `None` disables the cache.
        pub cache_ttl as "cache": Option<Duration>, with cache_ttl;
        /// applies if the definition of a tool differs from the one that was approved, or that its server showed first.
        /// `allow`: no effect; `warn`: operators are notified; `block`: the tool is blocked until it is approved. Not for
        /// built-in servers. See [Tools that change](security/changed-tools.md#tools-that-change-after-they-were-seen)
        pub on_change: OnChange => "`default_tools_on_change`";
        /// name at the server → `sha256:` and the hash of the definition that is trusted from the start, see
        /// [Tools that change](security/changed-tools.md#tools-that-change-after-they-were-seen)
        pub trusted: BTreeMap<String, [u8; 32]>, with trusted;
    }
    other {
        /// The lines of `deny` in the configuration file.
        pub deny_lines: Vec<u32>;
    }
    check Tools::check;
}

settings! {
    struct ToolCache {
        /// how long Switchyard caches answers of tools that only read; see [cached answers](servers.md#cached-answers)
        ttl: Duration => "none", required "add how many seconds, such as `ttl: 60`", in PAUSE;
    }
}

words! {
    /// The handling of a tool whose definition is not the one that its server sent first.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum OnChange {
        /// Definitions are not remembered or compared.
        Allow = "allow",
        /// The tool is offered, and operators are notified.
        #[default]
        Warn = "warn",
        /// The tool is neither listed nor called until an operator approves it.
        Block = "block",
    }
}

fn cache_ttl(setting: &Setting<'_>) -> Option<Duration> {
    ToolCache::from_setting(setting).map(|cache| cache.ttl)
}

fn renamed(setting: &Setting<'_>) -> Option<BTreeMap<String, String>> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    let parse = |name: &str| {
        let good = !name.is_empty() && name.len() <= MAX_TOOL_NAME && name.bytes().all(allowed);
        good.then(|| name.to_owned())
    };
    let mut renamed = BTreeMap::new();
    for (from, setting) in setting.entries()? {
        let Some(to) = setting.parsed("a name for a tool", parse) else { continue };
        if let Some((other, _)) = renamed.iter().find(|(_, taken)| **taken == to) {
            setting.problem(format!("{} is what `{other}` is renamed to already", setting.quoted()), None);
        }
        renamed.insert(from.to_owned(), to);
    }
    Some(renamed)
}

fn trusted(setting: &Setting<'_>) -> Option<BTreeMap<String, [u8; 32]>> {
    let expected = "`sha256:` and 64 hexadecimal digits, as GET /api/v1/mcp/servers/{name}/tools shows them";
    let hash = |(name, setting): &(&str, Setting<'_>)| {
        Some(((*name).to_owned(), setting.parsed(expected, read_sha256)?))
    };
    Some(setting.entries()?.iter().filter_map(hash).collect())
}

impl Tools {
    /// Reports names that are both allowed and denied, and notes the lines of `deny`.
    fn check(&mut self, setting: &Setting<'_>) {
        let both = |item: &Setting<'_>| item.text().is_some_and(|name| self.allows_by_name(name));
        let deny = setting.member("deny").and_then(|deny| deny.list()).unwrap_or_default();
        for item in deny.iter().filter(|item| both(item)) {
            item.problem(format!("{} is both allowed and denied", item.quoted()), None);
        }
        self.deny_lines = deny.iter().map(|item| item.mark().line).collect();
    }

    fn allows_by_name(&self, name: &str) -> bool {
        self.allow.as_ref().is_some_and(|allow| allow.iter().any(|allowed| allowed == name))
    }

    /// Sets what the rest of the settings of a server decides, and reports what does not go with it. `usual` is the
    /// default of `on_change`; `None` for a built-in server, whose tools are part of this program.
    pub(super) fn complete(&mut self, server: &Setting<'_>, sharing: Sharing, usual: Option<OnChange>) {
        let tools = server.member("tools");
        let given = |name| tools.as_ref().and_then(|tools| tools.member(name));
        let on_change = given("on_change");
        if on_change.is_none() {
            self.on_change = usual.unwrap_or(OnChange::Allow);
        }
        let refuse = |setting: Option<Setting<'_>>, is_wrong: bool, message: &str, hint: &str| {
            if let Some(setting) = setting.filter(|_| is_wrong) {
                setting.key_problem(message, Some(hint.into()));
            }
        };
        refuse(
            on_change,
            usual.is_none(),
            "`on_change` does not go with a built-in server",
            "its tools are part of this program and change with it; remove it",
        );
        refuse(
            given("trusted"),
            self.on_change == OnChange::Allow,
            "`trusted` is of no use here",
            "with `on_change: allow` nothing is compared with it; remove one of the two",
        );
        refuse(
            given("cache"),
            sharing == Sharing::PerSession,
            "`cache` does not go with `sharing: per_session`",
            "what a server answers there belongs to one session; remove one of the two",
        );
    }

    /// Whether the tool that the server calls `name` may be listed and called.
    pub fn let_through(&self, name: &str) -> bool {
        self.hidden_by(name).is_none()
    }

    /// Returns the setting that hides the tool that the server calls `name`, if one does. Only this method decides.
    pub fn hidden_by(&self, name: &str) -> Option<&'static str> {
        if self.denied_by(name).is_some() {
            Some("tools.deny")
        } else {
            let is = |listed: &String| is_match(listed, name);
            self.allow.as_ref().filter(|allow| !allow.iter().any(is)).map(|_| "tools.allow")
        }
    }

    /// Returns the text in `deny` that denies the tool, and its line in the configuration file if it is from one.
    pub fn denied_by(&self, name: &str) -> Option<(&str, Option<u32>)> {
        let at = self.deny.iter().position(|listed| is_match(listed, name))?;
        Some((&self.deny[at], self.deny_lines.get(at).copied()))
    }

    /// Describes the entries that match none of the `offered` names of the server. An operator must notice a misspelled
    /// name in `deny`.
    pub(crate) fn unmatched(&self, offered: &[&str]) -> Vec<String> {
        let lists = [
            ("allow", self.allow.iter().flatten().collect::<Vec<_>>()),
            ("deny", self.deny.iter().collect()),
            ("rename", self.rename.keys().collect()),
            ("trusted", self.trusted.keys().collect()),
        ];
        let mut found = Vec::new();
        for (list, written) in lists {
            for name in written.into_iter().filter(|name| !offered.iter().any(|tool| is_match(name, tool))) {
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

/// Whether `written`, which may contain stars, matches `name`.
pub fn is_match(written: &str, name: &str) -> bool {
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

/// Returns a hint with the nearest name of `offered`.
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
        for (written, name, expected) in [
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
            assert_eq!(is_match(written, name), expected, "{written} {name}");
        }
    }

    #[test]
    fn denying_pattern_wins_over_an_allowing_one() {
        assert_eq!(left(&choice(None, &["delete_*"])), ["read_file", "write_file"]);
        assert_eq!(left(&choice(Some(&["*_file"]), &["delete_*"])), ["read_file", "write_file"]);
        assert_eq!(left(&choice(Some(&["read_*"]), &[])), ["read_file"]);
    }

    #[test]
    fn entry_that_matches_no_tool_is_reported_with_the_nearest_one() {
        let mut wrong = choice(Some(&["*_file", "no*such"]), &["write_fil", "zzz"]);
        wrong.rename =
            [("read_file", "delete_file"), ("gone\n", "x")].map(|(a, b)| (a.into(), b.into())).into();
        wrong.trusted = [("read_fiel".into(), [0; 32])].into();
        assert_eq!(
            wrong.unmatched(&OFFERED),
            [
                "`tools.allow` names `no*such`, and it has no such tool",
                "`tools.deny` names `write_fil`, and it has no such tool; the nearest is `write_file`",
                "`tools.deny` names `zzz`, and it has no such tool",
                "`tools.rename` names `gone\\n`, and it has no such tool",
                "`tools.trusted` names `read_fiel`, and it has no such tool; the nearest is `read_file`",
                "`tools.rename` makes `delete_file` the name of two tools: the first one counts",
            ]
        );
        assert!(choice(Some(&["read_file", "delete_*"]), &["write_file"]).unmatched(&OFFERED).is_empty());
        assert!(Tools::default().unmatched(&[]).is_empty());
    }
}
