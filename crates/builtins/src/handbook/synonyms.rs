//! Words of questions that mean about the same in the documents of software.
//!
//! Invariant: a word is in few groups, and each group is short, so that a query stays a few words. A synonym counts less than
//! the word itself (`query`).

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use super::words::words_of;

/// Groups of synonyms, one a line.
const GROUPS: &str = "\
abort cancel interrupt
again repeat retry twice
alert alarm notify
allow permit permission rights access role
alternative compare difference versus
app application
ask elicitation question
autostart boot startup reboot
backend upstream
backup copy restore
big large huge size maximum
block deny hide forbid
broken crash dead down fail fault
colleague person user people somebody human
company corporate
config configuration settings options
container docker image
cpu processor cores
crate library embed
credential password secret
delete remove uninstall erase
deprecated obsolete
directory folder
disk stored persist
doc documentation handbook wiki
downgrade rollback previous
encrypted https ssl tls
endpoint url
fast latency overhead performance slow speed
graph chart
hang stuck timeout wait
import migrate move
job task
leaked lost stolen
log logs
logout revoke
metric monitor observe watch
mistake typo misspelled wrong invalid
pricing cost
proxy forward
quota limit
ram memory
rate throttle
readonly reader
remote network
scale replica replicas
screen dashboard ui
selfsigned authority ca
sso login oauth
test verify check
update upgrade
";

/// The synonyms of each word.
static SYNONYMS: LazyLock<HashMap<String, BTreeSet<String>>> = LazyLock::new(|| {
    let mut found: HashMap<String, BTreeSet<String>> = HashMap::new();
    for group in GROUPS.lines() {
        let words: Vec<String> = words_of(group).map(|word| word.text).collect();
        for word in &words {
            let others = words.iter().filter(|other| *other != word).cloned();
            found.entry(word.clone()).or_default().extend(others);
        }
    }
    found
});

/// Returns the synonyms of a normalized word.
pub(super) fn synonyms_of(word: &str) -> impl Iterator<Item = &'static str> {
    SYNONYMS.get(word).into_iter().flatten().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synonyms_are_of_normalized_words_in_both_directions_and_few() {
        let of = |word: &str| synonyms_of(&words_of(word).next().expect("a word").text).collect::<Vec<_>>();
        assert_eq!(of("uninstalling"), of("uninstall"));
        assert!(of("memories").contains(&"ram") && of("ram").contains(&"memori"));
        assert!(SYNONYMS.values().all(|others| others.len() <= 8), "a query stays short");
    }
}
