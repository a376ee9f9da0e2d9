//! Reading settings: every type, its problems, and the text that is never shown.

use std::time::Duration;

use secrecy::ExposeSecret;
use serde_json::json;

use super::{Entry, Mark, Node, Problems, Setting, Text, Value};

fn problems_of(node: &Node, read: impl FnOnce(&Setting<'_>)) -> Vec<String> {
    let problems = Problems::default();
    read(&Setting::root(node, &problems));
    problems.sorted().iter().map(ToString::to_string).collect()
}

fn reference(written: &str, expanded: &str) -> Node {
    Value::Text(Text::expanded(written, expanded, written)).into()
}

#[test]
fn good_values_are_read_without_problems() {
    let node = Node::from(json!({
        "text": "a", "yes": true, "count": 3, "pause": 1.5, "whole": 2, "unit": "1500ms", "word": "http", "list": ["a", "b"],
        "secret": "s",
    }));
    let found = problems_of(&node, |setting| {
        let mut fields = setting.fields().expect("a mapping");
        assert_eq!(fields.text("text"), Some("a"));
        assert_eq!(fields.boolean("yes"), Some(true));
        assert_eq!(fields.integer("count", 0..=10_u32), Some(3));
        assert_eq!(fields.seconds("pause", 0.1..=300.0), Some(Duration::from_millis(1_500)));
        assert_eq!(fields.seconds("whole", 0.1..=300.0), Some(Duration::from_secs(2)));
        assert_eq!(fields.seconds("unit", 0.1..=300.0), Some(Duration::from_millis(1_500)));
        assert_eq!(fields.choice("word", &[("http", 1), ("sse", 2)]), Some(1));
        assert_eq!(fields.list_of_text("list"), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(fields.secret("secret").expect("a secret").expose_secret(), "s");
        assert_eq!(fields.text("absent"), None);
        fields.finish();
    });
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_wrong_value_says_what_was_found_and_what_was_expected() {
    let texts = |json: serde_json::Value, read: fn(&Setting<'_>)| problems_of(&Node::from(json), read);
    for (found, expected) in [
        (
            texts(json!("soon"), |s| assert_eq!(s.seconds(1.0..=600.0), None)),
            "expected a number of seconds from 1 to 600, or a time such as `30s`, found the text `soon`",
        ),
        (
            texts(json!("30"), |s| assert_eq!(s.seconds(0.1..=600.0), None)),
            "expected a number of seconds from 0.1 to 600, or a time such as `30s`, found the text `30` (hint: write it without quotes)",
        ),
        (
            texts(json!(900), |s| assert_eq!(s.seconds(1.0..=600.0), None)),
            "900 is out of range, expected 1 to 600 seconds",
        ),
        (
            texts(json!("15m"), |s| assert_eq!(s.seconds(1.0..=600.0), None)),
            "`15m` is out of range, expected 1 to 600 seconds",
        ),
        (
            texts(json!(-1), |s| assert_eq!(s.integer(0..=10_u8), None)),
            "-1 is out of range, expected 0 to 10",
        ),
        (
            texts(json!(1.5), |s| assert_eq!(s.integer(0..=10_u8), None)),
            "expected a whole number from 0 to 10, found the number 1.5",
        ),
        (
            texts(json!("yep"), |s| assert_eq!(s.boolean(), None)),
            "expected `true` or `false`, found the text `yep`",
        ),
        (
            texts(json!(null), |s| assert_eq!(s.text(), None)),
            "expected a text, found nothing (hint: give it a value, or remove the key)",
        ),
        (
            texts(json!(8080), |s| assert_eq!(s.text(), None)),
            "expected a text, found the number 8080 (hint: write it in quotes)",
        ),
        (
            texts(json!("htp"), |s| assert_eq!(s.choice(&[("http", 1), ("stdio", 2)]), None)),
            "`htp` is not one of `http`, `stdio` (hint: did you mean `http`?)",
        ),
        (
            texts(json!("a\u{1b}[2Jb"), |s| assert_eq!(s.parsed("a name", |_| None::<()>), None)),
            "`a\\u{1b}[2Jb` is not a name",
        ),
    ] {
        assert_eq!(found, [expected]);
    }
}

#[test]
fn all_problems_of_a_mapping_come_at_once_with_their_paths() {
    let node =
        Node::from(json!({"files": {"timeout": 900, "retry_attempt": 3, "my.name": 1, "args": ["a", 7]}}));
    let found = problems_of(&node, |setting| {
        let mut root = setting.fields().expect("a mapping");
        let read = |files: &Setting<'_>| -> Option<()> {
            let mut fields = files.fields()?;
            fields.seconds("timeout", 1.0..=600.0);
            fields.integer("retry_attempts", 0..=10_u32);
            fields.require("url", "add `url: http://…`");
            assert_eq!(fields.list_of_text("args"), Some(vec!["a".to_owned()]));
            fields.finish();
            None
        };
        assert_eq!(root.part("files", read), None);
        root.finish();
    });
    assert_eq!(
        found,
        [
            "files: `url` is missing (hint: add `url: http://…`)",
            "files.\"my.name\": unknown key",
            "files.args[1]: expected a text, found the number 7 (hint: write it in quotes)",
            "files.retry_attempt: unknown key (hint: did you mean `retry_attempts`?)",
            "files.timeout: 900 is out of range, expected 1 to 600 seconds",
        ]
    );
}

#[test]
fn booleans_of_older_yaml_are_booleans_where_one_is_wanted() {
    for (words, expected) in
        [(["yes", "Yes", "YES", "on", "On", "ON"], true), (["no", "No", "NO", "off", "Off", "OFF"], false)]
    {
        for word in words {
            let found = problems_of(&Node::from(json!(word)), |setting| {
                assert_eq!((setting.boolean(), setting.text()), (Some(expected), Some(word)));
            });
            assert!(found.is_empty(), "{found:?}");
        }
    }
    for word in ["y", "n", "yEs", "true ", "1", ""] {
        problems_of(&Node::from(json!(word)), |setting| assert_eq!(setting.boolean(), None, "{word}"));
    }
}

#[test]
fn a_reference_may_stand_for_a_number_or_a_boolean() {
    let found = problems_of(&reference("${T:-30}", " 30 "), |setting| {
        assert_eq!(setting.integer(1..=60_usize), Some(30));
        assert_eq!(setting.seconds(1.0..=60.0), Some(Duration::from_secs(30)));
    });
    assert_eq!(found, [""; 0]);
    let found = problems_of(&reference("$FLAG", "true"), |setting| assert_eq!(setting.boolean(), Some(true)));
    assert_eq!(found, [""; 0]);
}

#[test]
fn what_a_reference_expands_to_is_in_no_problem() {
    let node = reference("${TOKEN}", "canary");
    let found = problems_of(&node, |setting| {
        setting.integer(0..=1_u8);
        setting.seconds(0.0..=1.0);
        setting.boolean();
        setting.choice(&[("canari", 1)]);
        setting.parsed("a URL", |_| None::<()>);
        setting.list();
        setting.fields();
    });
    assert_eq!(found.len(), 7);
    assert!(found.iter().all(|text| !text.contains("canar") || text.contains("`canari`")), "{found:?}");
    assert!(found.iter().all(|text| !text.contains("did you mean")), "a hint tells of the value: {found:?}");
    assert!(found.contains(&"`${TOKEN}` is not a URL".to_owned()), "{found:?}");
    assert!(!format!("{node:?}").contains("canary"));
}

#[test]
fn a_secret_is_not_quoted_even_where_its_type_is_wrong() {
    let node = Node::from(json!({"number": 12345, "text": "hunter2"}));
    let found = problems_of(&node, |setting| {
        let mut fields = setting.fields().expect("a mapping");
        assert!(fields.secret("number").is_none());
        assert!(
            fields.take("text").expect("there").list().is_none(),
            "whoever puts a token in the wrong place"
        );
        fields.finish();
    });
    assert_eq!(
        found,
        [
            "number: expected a text, found a number (hint: write it in quotes)",
            "text: expected a list, found a text (hint: write a list, such as [\"one\", \"two\"])",
        ]
    );
    assert!(!format!("{node:?}").contains("hunter2") && !format!("{node:?}").contains("12345"));
}

#[test]
fn what_is_already_reported_is_not_reported_again() {
    let node = Node::from(Value::Map(vec![Entry {
        key: "url".into(),
        key_mark: Mark::START,
        node: Value::Unusable.into(),
    }]));
    let found = problems_of(&node, |setting| {
        let mut fields = setting.fields().expect("a mapping");
        assert!(fields.require("url", "").expect("it is there").text().is_none());
        fields.finish();
    });
    assert_eq!(found, [""; 0]);
}

#[test]
fn problems_come_in_the_order_of_the_document() {
    let (node, problems) = (Node::from(json!(1)), Problems::default());
    for (line, column) in [(9, 1), (2, 8), (2, 3)] {
        let node = Node { mark: Mark { line, column }, value: node.value.clone() };
        Setting::root(&node, &problems).problem("bad", None);
    }
    let marks: Vec<String> = problems.sorted().iter().map(|problem| problem.mark.to_string()).collect();
    assert_eq!(marks, ["2:3", "2:8", "9:1"]);
}

#[test]
fn a_path_is_seen_from_the_folder_from_the_root_or_from_home() {
    use std::path::{Path, PathBuf};
    let home = std::env::home_dir().expect("tests run at home");
    for (written, meant) in [
        ("docs", PathBuf::from("etc/docs")),
        ("/docs", PathBuf::from("/docs")),
        ("~/docs", home.join("docs")),
        ("~docs", PathBuf::from("etc/~docs")),
    ] {
        let node = Node::from(json!(written));
        let found =
            problems_of(&node, |setting| assert_eq!(setting.file_path(Path::new("etc")), Some(meant)));
        assert_eq!(found, [""; 0]);
    }
    for written in ["", "a\0b"] {
        let node = Node::from(json!(written));
        let found = problems_of(&node, |setting| assert_eq!(setting.file_path(Path::new("etc")), None));
        assert!(found.len() == 1 && found[0].contains("is not a path"), "{found:?}");
    }
}
