//! Reading YAML: the positions of values, and rejected documents.

use std::fmt::Write as _;

use super::*;

/// Writes one line for each value: path, position, kind.
fn outline(node: &Node, path: &str, out: &mut String) {
    let kind = match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Integer { written, .. } => format!("int {written}"),
        Value::Float { written, .. } => format!("float {written}"),
        Value::Text(text) => format!("{:?}", text.value()),
        Value::List(_) => "list".into(),
        Value::Map(_) => "map".into(),
        Value::Unusable => "unusable".into(),
    };
    let _ = writeln!(out, "{path} {} {kind}", node.mark);
    match &node.value {
        Value::List(items) => {
            for (at, item) in items.iter().enumerate() {
                outline(item, &format!("{path}[{at}]"), out);
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                outline(&entry.node, &format!("{path}.{}@{}", entry.key, entry.key_mark), out);
            }
        }
        _ => {}
    }
}

fn read(text: &str) -> (String, Vec<String>) {
    let problems = Problems::default();
    let mut out = String::new();
    outline(&parse(text, &problems).root, "", &mut out);
    let found = problems.sorted().iter().map(|problem| format!("{} {problem}", problem.mark)).collect();
    (out, found)
}

#[track_caller]
fn good(text: &str, expected: &[&str]) {
    let (out, problems) = read(text);
    assert_eq!(problems, [""; 0], "{text}");
    assert_eq!(out.lines().collect::<Vec<_>>(), expected, "{text}");
}

#[track_caller]
fn bad(text: &str, expected: &[&str]) {
    assert_eq!(read(text).1, expected, "{text}");
}

#[test]
fn everything_has_its_place() {
    good(
        "a: 1\nb:\n  é: 'ü' # c\n  l: [x, \"y\"]\nt: |\n  one\n  two\nempty:\n",
        &[
            " 1:1 map",
            ".a@1:1 1:4 int 1",
            ".b@2:1 3:3 map",
            ".b@2:1.é@3:3 3:6 \"ü\"",
            ".b@2:1.l@4:3 4:6 list",
            ".b@2:1.l@4:3[0] 4:7 \"x\"",
            ".b@2:1.l@4:3[1] 4:10 \"y\"",
            ".t@5:1 6:3 \"one\\ntwo\\n\"",
            ".empty@8:1 8:1 null",
        ],
    );
    good("", &[" 1:1 null"]);
    good("# nothing\n---\n...\n", &[" 2:4 null"]);
    good("a: \"1\"\nb: !!str 1\n", &[" 1:1 map", ".a@1:1 1:4 \"1\"", ".b@2:1 2:10 \"1\""]);
}

#[test]
fn aliases_and_merge_keys_are_resolved() {
    good(
        "a: &x [1]\nb: *x\n",
        &[" 1:1 map", ".a@1:1 1:7 list", ".a@1:1[0] 1:8 int 1", ".b@2:1 1:7 list", ".b@2:1[0] 1:8 int 1"],
    );
    good(
        "a: &x {p: 1, q: 2}\nb: &y {q: 3, r: 4}\nc: {<<: [*x, *y], p: 5}\n\"<<\": 6\n",
        &[
            " 1:1 map",
            ".a@1:1 1:7 map",
            ".a@1:1.p@1:8 1:11 int 1",
            ".a@1:1.q@1:14 1:17 int 2",
            ".b@2:1 2:7 map",
            ".b@2:1.q@2:8 2:11 int 3",
            ".b@2:1.r@2:14 2:17 int 4",
            ".c@3:1 3:4 map",
            ".c@3:1.p@3:19 3:22 int 5",
            ".c@3:1.q@1:14 1:17 int 2",
            ".c@3:1.r@2:14 2:17 int 4",
            ".<<@4:1 4:7 int 6",
        ],
    );
    bad("a: {<<: 5}\n", &["1:9 a: `<<` merges mappings, this is none"]);
}

#[test]
fn input_that_is_not_one_plain_document_is_refused() {
    assert!(read("a: !env X\n").0.contains(".a@1:1 1:9 unusable"));
    bad(
        "a: 1\nb: {c: 1, c: 2}\na: 3\n",
        &[
            "2:11 b.c: this key stands twice, first in line 2, column 5",
            "3:1 a: this key stands twice, first in line 1, column 1",
        ],
    );
    bad("a: 1\n---\nb: 2\n", &["2:1 a second document begins here, only one is read"]);
    bad("a: !env X\n", &["1:4 a: tags are not supported"]);
    bad("a: !!int 5\n", &["1:4 a: tags are not supported"]);
    bad("? [a]\n: 1\n", &["1:3 a key must be a text"]);
    bad("a: &x [*x]\n", &["1:8 a[0]: this alias stands inside the value that it repeats"]);
    bad(
        "a: *x\n",
        &[
            "1:4 this is not valid YAML: while parsing node, found unknown anchor (hint: a text that begins with `*` needs quotes)",
        ],
    );
}

#[test]
fn nesting_and_repetition_are_bounded() {
    let deep = "[".repeat(100_000);
    bad(
        &deep,
        &["1:33 this is not valid YAML: recursion limit exceeded"]
            .map(|_| "1:33 nested deeper than 32 levels"),
    );
    let deep = format!("{}1", "a: {".repeat(20).replace("a: {", "{a: "));
    assert!(read(&deep).1[0].contains("unclosed") || !read(&deep).1.is_empty());
    let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..30 {
        let previous = format!("*a{},", level - 1).repeat(10);
        let _ = writeln!(laughs, "a{level}: &a{level} [{previous}]");
    }
    let (_, problems) = read(&laughs);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].ends_with("the document is too large, with its aliases resolved"), "{problems:?}");
}

#[test]
fn broken_syntax_gives_one_problem_and_no_values() {
    for (text, expected) in [
        ("a: b: c\n", "1:5 this is not valid YAML: mapping values are not allowed in this context"),
        ("a:\n\tb: 1\n", "2:2 this is not valid YAML: tabs disallowed within this context"),
        ("a: [1, 2\nb: 3\n", "2:2 this is not valid YAML: illegal placement of ':'"),
        ("a: \"x\n", "2:1 this is not valid YAML: invalid indentation in multiline quoted scalar"),
        ("a: {b: ${C}}\n", "1:9 this is not valid YAML"),
        ("a: @x\n", "1:4 this is not valid YAML: unexpected character"),
    ] {
        let (out, problems) = read(text);
        assert!(problems.len() == 1 && problems[0].starts_with(expected), "{text:?}: {problems:?}");
        assert_eq!(out, " 1:1 unusable\n");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[-a:&*!{}\\[\\]|>'\"%#, \n\t<~?é0-9]{0,80}") {
        let _ = read(&text);
    }
}

mod scalar {
    use super::*;

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        let kind = |text: &str| match plain_value(text) {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => format!("bool {value}"),
            Value::Integer { value, .. } => format!("int {value}"),
            Value::Float { value, .. } => format!("float {value}"),
            Value::Text(text) => format!("text {}", text.value()),
            other => format!("{other:?}"),
        };
        for (text, expected) in [
            ("", "null"),
            ("~", "null"),
            ("NULL", "null"),
            ("nUll", "text nUll"),
            ("true", "bool true"),
            ("yes", "text yes"),
            ("off", "text off"),
            ("0", "int 0"),
            ("-19", "int -19"),
            ("+12", "int 12"),
            ("0777", "int 777"),
            ("0o17", "int 15"),
            ("0x3C", "int 60"),
            ("0x", "text 0x"),
            ("0x-1", "text 0x-1"),
            ("0o8", "text 0o8"),
            ("30.0", "float 30"),
            (".5", "float 0.5"),
            ("5.", "float 5"),
            ("1e3", "float 1000"),
            ("1e", "text 1e"),
            (".", "text ."),
            ("-", "text -"),
            ("1_000", "text 1_000"),
            ("1:30", "text 1:30"),
            ("inf", "text inf"),
            ("nan", "text nan"),
            ("infinity", "text infinity"),
            ("-.INF", "float -inf"),
            (".nan", "float NaN"),
            ("18446744073709551616", "float 18446744073709552000"),
            ("1.2.3", "text 1.2.3"),
            ("http", "text http"),
        ] {
            assert_eq!(kind(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_time_is_a_number_with_a_unit() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("30s", 30_000),
            (" 1.5m ", 90_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        let long = format!("{}d", "9".repeat(400));
        for text in [
            "", "s", "30", "-1s", "+1s", ".5s", "5.s", "1.2.3s", "1e3s", "1 s", "1S", "1w", "infs", "nans",
            &long,
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
