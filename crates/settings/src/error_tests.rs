//! The format of problems, and the text that they hide.

use super::super::document;
use super::super::problem::*;
use crate::{Problem, Problems};

fn rendered(text: &str, line: u32, column: u32, shown: Shown) -> String {
    let tokens = document::parse(text, &Problems::default()).tokens;
    let problem = Problem {
        mark: Mark { line, column },
        path: "a.b".into(),
        message: "bad".into(),
        hint: Some("do better".into()),
        shown,
        lacks_value: false,
    };
    let report = Source { file: "f.yaml", text, tokens: &tokens }.report(vec![problem]);
    report.to_string()
}

fn excerpt(text: &str, line: u32, column: u32, shown: Shown) -> String {
    let rendered = rendered(text, line, column, shown);
    let lines: Vec<&str> = rendered.lines().filter(|line| line.contains(" | ")).collect();
    lines.join("\n")
}

#[test]
fn a_problem_looks_like_a_compilers() {
    assert_eq!(
        rendered("a:\n  b: 900 # secret\n", 2, 6, Shown::Value),
        "f.yaml:2:6: error: a.b: bad\n  2 |   b: 900\n    |      ^^^\n    hint: do better\n\nf.yaml: 1 problem"
    );
}

#[test]
fn only_the_value_in_question_is_shown() {
    let text = "h: {A: \"s1\", B: s2, n: 5} # s3\nlist: [s4, s5]\n";
    assert_eq!(excerpt(text, 1, 17, Shown::Keys), "  1 | h: {A: …, B: …, n: …}\n    |              ^");
    assert_eq!(excerpt(text, 1, 24, Shown::Value), "  1 | h: {A: …, B: …, n: 5}\n    |                    ^");
    assert_eq!(excerpt(text, 1, 14, Shown::Keys), "  1 | h: {A: …, B: …, n: …}\n    |           ^");
    assert_eq!(excerpt(text, 2, 12, Shown::Value), "  2 | list: […, s5]\n    |           ^^");
}

#[test]
fn a_value_of_many_lines_shows_none_of_them() {
    let text = "a: \"s1\n  s2\", b: 1\nt: |\n  s3\n  s4\n";
    for line in 1..=5 {
        let shown = excerpt(text, line, 3, Shown::Keys);
        assert!(!shown.contains(['1', '2', '3', '4'].map(|n| n)) || !shown.contains('s'), "{shown}");
    }
}

#[test]
fn text_behind_broken_syntax_is_hidden() {
    let text = "a: 1\nb: [s1, s2: s3: s4\nc: \"s5\n";
    let tokens = document::parse(text, &Problems::default()).tokens;
    let source = Source { file: "f", text, tokens: &tokens };
    for line in 1..=4 {
        for column in 1..=20 {
            let mark = Mark { line, column };
            let (path, message) = (String::new(), String::new());
            let mut out = String::new();
            let shown = Shown::Keys;
            source.render(&Problem { mark, path, message, hint: None, shown, lacks_value: false }, &mut out);
            assert!(!["s1", "s3", "s4", "s5"].iter().any(|secret| out.contains(secret)), "{out}");
        }
    }
}

#[test]
fn long_lines_and_odd_places_do_no_harm() {
    let long = format!("{}: 1\n", "k".repeat(500));
    assert!(excerpt(&long, 1, 1, Shown::Keys).lines().all(|line| line.chars().count() < 140));
    assert_eq!(excerpt(&long, 1, 503, Shown::Value), "", "the mark would be out of sight");
    assert_eq!(excerpt("a: 1\r\nb: 2\r\n", 2, 4, Shown::Value), "  2 | b: 2\n    |    ^");
    assert_eq!(excerpt("a: 1", 9, 9, Shown::Value), "");
    assert_eq!(excerpt("é: ü\n", 1, 4, Shown::Value), "  1 | é: ü\n    |    ^");
}

#[test]
fn many_problems_are_counted() {
    let problem = Problem {
        mark: Mark::START,
        path: String::new(),
        message: "bad".into(),
        hint: None,
        shown: Shown::Keys,
        lacks_value: false,
    };
    let report = Source { file: "f", text: "", tokens: &[] }.report(vec![problem; 60]);
    assert_eq!(report.to_string().matches("error: bad").count(), 50);
    assert!(report.to_string().ends_with("f: 60 problems, the first 50 are shown"));
}

proptest::proptest! {
    /// The problems of any file can be shown.
    #[test]
    fn every_text_can_be_shown(text in "[-a:&*!{}\\[\\]|>'\"%#, \n\r\t<~?é$0-9]{0,120}", line in 1_u32..9, column in 1_u32..60) {
        for shown in [Shown::Keys, Shown::Value] {
            let _ = rendered(&text, line, column, shown);
        }
    }
}
