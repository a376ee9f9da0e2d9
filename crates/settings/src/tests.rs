//! Reading settings: every type, its problems, and the text that is never shown.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use super::{Entry, Expected, FromSetting, Mark, Node, Problems, Setting, Text, Value};
use crate::{settings, words};

fn problems_of(node: &Node, read: impl FnOnce(&Setting<'_>)) -> Vec<String> {
    let problems = Problems::default();
    read(&Setting::root(node, &problems));
    problems.sorted().iter().map(ToString::to_string).collect()
}

fn reference(written: &str, expanded: &str) -> Node {
    Value::Text(Text::expanded(written, expanded, written)).into()
}

words! {
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    enum Kind {
        #[default]
        Http = "http",
        Sse = "sse",
    }
}

settings! {
    /// A section with every form of a declaration.
    #[derive(Debug)]
    struct Section {
        /// a text that is
        /// long
        text: Option<String>;
        yes: bool = true;
        count as "number": usize = 7, in 0..=10;
        pause: Duration = Duration::from_secs(5), in 0.1..=300.0;
        most: Option<u32> => "no limit", in 1..=9;
        word: Kind;
        list: Vec<String>;
        secret: Option<SecretString>;
        even: usize => "zero", with even;
    }
    flat {
        inner: Inner;
    }
    other {
        sum: usize;
    }
    foreign &[("size", "write `number:`")];
    check Section::check;
}

settings! {
    #[derive(Debug)]
    struct Inner {
        unit: Duration, in 0.0..=1.0;
    }
}

settings! {
    #[derive(Debug)]
    struct Needed {
        /// what is needed
        url: String, required "add `url: http://…`";
        also: usize, required "add `also: 1`", in 1..=2;
    }
}

fn even(setting: &Setting<'_>) -> Option<usize> {
    setting.parsed("an even number", |text| text.parse().ok().filter(|number| number % 2 == 0))
}

impl Section {
    fn check(&mut self, setting: &Setting<'_>) {
        self.sum = self.count + self.even;
        if let (Kind::Sse, Some(word)) = (self.word, setting.member("word")) {
            word.key_problem("`sse` does not go with this", None);
        }
    }
}

fn section(value: serde_json::Value) -> (Section, Vec<String>) {
    let mut read = None;
    let found = problems_of(&Node::from(value), |setting| read = Section::from_setting(setting));
    (read.expect("nothing is required"), found)
}

#[test]
fn declared_settings_have_their_values_or_their_defaults() {
    let (read, found) = section(json!({
        "text": "a", "yes": false, "number": 3, "pause": "1500ms", "most": 9, "word": "http", "list": ["a", "b"],
        "secret": "s", "even": "4", "unit": 0.5,
    }));
    assert_eq!(found, [""; 0]);
    assert_eq!((read.text.as_deref(), read.yes, read.count, read.most), (Some("a"), false, 3, Some(9)));
    assert_eq!((read.pause, read.inner.unit), (Duration::from_millis(1_500), Duration::from_millis(500)));
    assert_eq!((read.word, read.list, read.even, read.sum), (Kind::Http, vec!["a".into(), "b".into()], 4, 7));
    assert_eq!(read.secret.expect("a secret").expose_secret(), "s");
    let (read, found) = section(json!(null));
    assert_eq!(found, [""; 0]);
    assert_eq!((read.text, read.yes, read.count, read.most), (None, true, 7, None));
    assert_eq!((read.pause, read.word, read.even, read.sum), (Duration::from_secs(5), Kind::Http, 0, 7));
    assert_eq!((Section::default().pause, Section::default().sum), (Duration::from_secs(5), 0));
}

#[test]
fn problems_of_declared_settings_come_at_once() {
    let (_, found) = section(json!({
        "yes": "yep", "number": 11, "word": "sse", "list": ["a", 1], "secret": 1, "even": "3", "unit": 2, "size": 1, "tex": 1,
    }));
    assert_eq!(
        found,
        [
            "even: `3` is not an even number",
            "list[1]: expected a text, found the number 1 (hint: write it in quotes)",
            "number: 11 is out of range, expected 0 to 10",
            "secret: expected a text, found a number (hint: write it in quotes)",
            "size: `size` is a key of another program (hint: write `number:`)",
            "tex: unknown key (hint: did you mean `text`?)",
            "unit: 2 is out of range, expected 0 to 1 seconds",
            "word: `sse` does not go with this",
            "yes: expected `true` or `false`, found the text `yep`",
        ]
    );
}

#[test]
fn missing_required_settings_are_all_reported() {
    let read = |value| {
        let mut read = None;
        let found = problems_of(&Node::from(value), |setting| read = Needed::from_setting(setting));
        (read.map(|needed| (needed.url, needed.also)), found)
    };
    assert_eq!(read(json!({"url": "u", "also": 2})), (Some(("u".to_owned(), 2)), vec![]));
    let missing = ["`url` is missing (hint: add `url: http://…`)", "`also` is missing (hint: add `also: 1`)"];
    assert_eq!(read(json!({})), (None, missing.map(str::to_owned).to_vec()));
    let (needed, found) = read(json!({"also": 3, "more": 1}));
    assert!(needed.is_none() && found.len() == 3, "{found:?}");
}

#[test]
fn readers_describe_themselves_without_an_example() {
    let problems = Problems::recording();
    let any = Setting::any(&problems);
    Section::from_setting(&any);
    Needed::from_setting(&any);
    let recorded = problems.into_recorded();
    let described = |path: &str| {
        let found = recorded.described.iter().find(|described| described.path == path).expect(path);
        (found.text, found.default.as_str())
    };
    assert_eq!(described("text"), (" a text that is\n long\n", "none"));
    assert_eq!((described("number").1, described("pause").1, described("most").1), ("7", "5", "no limit"));
    assert_eq!(
        (described("word").1, described("even").1, described("url").1),
        ("`http`", "zero", "required")
    );
    let expected = |path: &str| {
        let of = recorded.expected.iter().filter(|(known, _)| known == path);
        of.map(|(_, expected)| expected.clone()).collect::<Vec<_>>()
    };
    assert_eq!(expected("number"), [Expected::Integer("0".into(), "10".into())]);
    assert_eq!((expected("list"), expected("list.[]")), (vec![Expected::List], vec![Expected::Text]));
    assert_eq!(expected("word"), [Expected::Words(vec!["http".into(), "sse".into()])]);
    assert_eq!(expected("unit"), [Expected::Seconds(0.0, 1.0)]);
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
            fields.part("timeout", |setting| setting.seconds(1.0..=600.0));
            fields.part("retry_attempts", |setting| setting.integer(0..=10_u32));
            fields.require("url", "add `url: http://…`");
            assert_eq!(fields.part("args", Vec::<String>::from_setting), Some(vec!["a".to_owned()]));
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
fn expanded_value_appears_in_no_problem() {
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
        assert!(fields.part("number", Setting::secret).is_none());
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
fn problem_is_not_reported_twice() {
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
        let found = problems_of(&node, |setting| {
            assert_eq!(setting.clone().in_folder(Path::new("etc")).file_path(), Some(meant));
        });
        assert_eq!(found, [""; 0]);
    }
    for written in ["", "a\0b"] {
        let node = Node::from(json!(written));
        let found = problems_of(&node, |setting| {
            assert_eq!(setting.clone().in_folder(Path::new("etc")).file_path(), None);
        });
        assert!(found.len() == 1 && found[0].contains("is not a path"), "{found:?}");
    }
}
