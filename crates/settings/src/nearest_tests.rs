//! Suggestions for a labeled list of a hundred misspelled names, with which the threshold was chosen.

use super::*;

/// The whole program is tested with it too (`tests/it/suggestions.rs`).
const TYPOS: &str = include_str!("../../../tests/it/typos.txt");

/// Returns the misspelled names with the correct ones, and all known names.
fn labelled() -> (Vec<(&'static str, Option<&'static str>)>, Vec<&'static str>) {
    let (typos, names) = TYPOS.split_once("--\n").expect("two parts");
    let pair = |line: &'static str| {
        let (asked, meant) = line.split_once(' ').expect("two names");
        (asked, (meant != "-").then_some(meant))
    };
    let typos = typos.lines().filter(|line| !line.starts_with('#')).map(pair).collect();
    (typos, names.lines().collect())
}

/// Precision and recall of the most likely name, if names less alike than `threshold` are not suggested.
fn measured(threshold: f64) -> (f64, f64, Vec<String>) {
    let (typos, names) = labelled();
    let (mut given, mut right, mut meant_any, mut wrong) = (0.0, 0.0, 0.0, Vec::new());
    for (asked, meant) in typos {
        let scored = nearest_from(threshold, asked, names.iter().copied()).first().copied();
        given += f64::from(u8::from(scored.is_some()));
        meant_any += f64::from(u8::from(meant.is_some()));
        right += f64::from(u8::from(scored.is_some() && scored == meant));
        if scored != meant {
            wrong.push(format!("{asked}: {scored:?} and not {meant:?}"));
        }
    }
    (right / given, right / meant_any, wrong)
}

#[test]
fn a_hundred_misspelled_names_get_the_name_that_was_meant_or_none() {
    let (typos, names) = labelled();
    assert_eq!((typos.len(), names.len()), (100, 79));
    for threshold in [0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95] {
        let (precision, recall, _) = measured(threshold);
        eprintln!("from {threshold}: precision {precision:.3}, recall {recall:.3}");
    }
    let (precision, recall, wrong) = measured(THRESHOLD);
    eprintln!("{}", wrong.join("\n"));
    assert!(precision >= 0.98 && recall >= 0.97, "precision {precision:.3}, recall {recall:.3}: {wrong:#?}");
}

#[test]
fn another_word_is_another_name() {
    for (asked, there) in [
        ("weather", "fetch"),
        ("run_shell", "browser_fill_form"),
        ("name", "arguments"),
        ("only_kb", "kb"),
        ("get_issue", "set_issue"),
        ("tool_10", "tool_1"),
        ("limit", "max_results"),
        ("collection_prefix", "collection"),
        ("", "a"),
        ("__", "a"),
    ] {
        assert_eq!(nearest(asked, [there].into_iter()), None, "{asked}");
    }
}

#[test]
fn the_most_likely_of_several_comes_first() {
    let names = ["list_issues", "list_issue_comments", "get_issue", "list_issue"];
    assert_eq!(nearest_few("list_isue", names.into_iter()), ["list_issue", "list_issues"]);
}

#[test]
fn long_names_and_many_names_cost_little() {
    let long = "x".repeat(100_000);
    assert_eq!(nearest(&long, ["x"].into_iter()), None);
    let many: Vec<String> = (0..100_000).map(|number| format!("search_documents_of_team_{number}")).collect();
    let started = std::time::Instant::now();
    nearest("serch_documents_of_team", many.iter().map(String::as_str));
    assert!(started.elapsed() < std::time::Duration::from_millis(200), "{:?}", started.elapsed());
}
