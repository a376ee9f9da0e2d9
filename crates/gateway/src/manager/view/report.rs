//! Counts the items that each rule of a view decides about, over all that the servers have.
//!
//! Invariant: [`verdict`] decides about each item, as it does where catalogs are built. So a count and a list of clients
//! cannot differ.
//!
//! Not here: which items there are (`manager::view_report`).

use super::{Key, Rule, RuleAt, Target, View, verdict};
use upstream::config::{Tools, is_match};

/// The most names of items that a rule is shown with.
const MAX_NAMES: usize = 20;

/// The items that a rule of a view decides about now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleUse {
    /// The setting, such as `views.support.allow`.
    pub setting: String,
    /// The text of the rule; none for items about which the setting decides without one of its rules.
    pub rule: Option<String>,
    /// Its line in the configuration file.
    pub line: Option<u32>,
    /// Whether clients get the items, or do not.
    pub is_offering: bool,
    /// The number of items that it matches, also where another rule decides.
    pub selects: usize,
    /// The number of items that it decides about.
    pub decides: usize,
    /// The first of those, as `server/name` by their names at the server.
    pub items: Vec<String>,
    /// Whether the offer of a server that it names is not known, so that it may select more.
    pub is_unsure: bool,
}

/// Counts what the rules of a view decide.
pub(in crate::manager) struct Tally<'a> {
    view: &'a View,
    /// The rules in the order of the file.
    rules: Vec<(&'a Rule, RuleUse)>,
    /// Settings that decide without one of their rules.
    others: Vec<RuleUse>,
}

impl RuleUse {
    fn of(setting: String, is_offering: bool) -> Self {
        let (rule, line, items) = (None, None, Vec::new());
        Self { setting, rule, line, is_offering, selects: 0, decides: 0, items, is_unsure: false }
    }

    /// Whether it selects nothing, and surely so. It is misspelled, or not needed any more.
    pub fn is_idle(&self) -> bool {
        self.selects == 0 && !self.is_unsure
    }

    fn decide(&mut self, target: Target<'_>) {
        self.decides += 1;
        if self.items.len() < MAX_NAMES {
            self.items.push(format!("{}/{}", target.server, target.name));
        }
    }
}

impl<'a> Tally<'a> {
    pub(in crate::manager) fn of(view: &'a View) -> Self {
        let used = |RuleAt { key, text, rule }: RuleAt<'a>| {
            let used = RuleUse::of(format!("views.{}.{key}", view.name), key != "deny");
            (rule, RuleUse { rule: Some(text), line: rule.line(), ..used })
        };
        let mut rules: Vec<_> = view.rules().map(used).collect();
        rules.sort_by_key(|(rule, _)| rule.line);
        Self { view, rules, others: Vec::new() }
    }

    /// Counts an item of a server with the selection `tools`. Returns whether the view holds it, as a new tool.
    pub(in crate::manager) fn count(&mut self, tools: &Tools, target: Target<'_>) -> bool {
        let (is_offered, key, decisive) = verdict(Some(self.view), tools, target);
        let is_held = matches!(key, Some(Key::View(_, "new_tools")));
        for (rule, used) in &mut self.rules {
            let is_decisive = decisive.is_some_and(|decisive| std::ptr::eq(decisive, *rule));
            used.selects += usize::from(is_decisive || rule.matches(target.server, target.name));
            if is_decisive {
                used.decide(target);
            }
        }
        let Some(setting) = key.filter(|_| decisive.is_none()).map(|key| key.setting(target.server)) else {
            return is_held;
        };
        let is_it = |other: &RuleUse| other.setting == setting && other.is_offering == is_offered;
        let at = self.others.iter().position(is_it).unwrap_or_else(|| {
            self.others.push(RuleUse::of(setting, is_offered));
            self.others.len() - 1
        });
        self.others[at].selects += 1;
        self.others[at].decide(target);
        is_held
    }

    /// Notes that the offer of `server` is not known.
    pub(in crate::manager) fn miss(&mut self, server: &str) {
        for (rule, used) in &mut self.rules {
            used.is_unsure |= is_match(&rule.server, server);
        }
    }

    pub(in crate::manager) fn finish(self) -> Vec<RuleUse> {
        self.rules.into_iter().map(|(_, used)| used).chain(self.others).collect()
    }
}
