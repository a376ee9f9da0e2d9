//! Expanding references: their values, rejected ones, and the text that is never shown.

use secrecy::ExposeSecret;

use super::*;

fn environment(name: &str) -> Result<String, VarError> {
    match name {
        "HOME" => Ok("/home/me".into()),
        "A" => Ok("alpha".into()),
        "EMPTY" => Ok(String::new()),
        "TRICKY" => Ok("${A} $A ~ \": [".into()),
        "TILDE" => Ok("~".into()),
        "BIG" => Ok("x".repeat(1 << 20)),
        #[cfg(unix)]
        "BYTES" => {
            Err(VarError::NotUnicode(std::os::unix::ffi::OsStringExt::from_vec(b"canary\xff".to_vec())))
        }
        _ => Err(VarError::NotPresent),
    }
}

fn expanded(text: &str) -> Result<String, Vec<String>> {
    let problems = Problems::default();
    let mut node = Node::from(Value::Text(Text::literal(text)));
    expand(&mut node, &environment, &problems);
    match node.value {
        Value::Text(text) => Ok(text.value().to_owned()),
        _ => Err(problems.sorted().iter().map(ToString::to_string).collect()),
    }
}

#[test]
fn the_inserted_values_are_known_and_nothing_else_is_one() {
    for (text, wanted) in [
        ("--key=${A}", &["alpha"] as &[&str]),
        ("${A}:$TILDE", &["alpha", "~"]),
        ("${A:-default}", &["alpha"]),
        ("${NONE:-default}", &[]),
        ("${EMPTY}", &[]),
        ("~/docs", &[]),
        ("$$A", &[]),
        ("plain", &[]),
    ] {
        let (problems, mut node) = (Problems::default(), Node::from(Value::Text(Text::literal(text))));
        expand(&mut node, &environment, &problems);
        let Value::Text(expanded) = node.value else { panic!("{text}") };
        let inserted: Vec<&str> = expanded.inserted().iter().map(ExposeSecret::expose_secret).collect();
        assert_eq!(inserted, wanted, "{text}");
    }
}

#[test]
fn references_become_their_values() {
    for (text, wanted) in [
        ("plain", "plain"),
        ("${A}", "alpha"),
        ("$A", "alpha"),
        ("<$A/${A}>", "<alpha/alpha>"),
        ("${NONE:-default}", "default"),
        ("${A:-default}", "alpha"),
        ("${EMPTY:-default}", "default"),
        ("${EMPTY}", ""),
        ("${NONE:-}", ""),
        ("${NONE:-http://localhost:8001}", "http://localhost:8001"),
        ("${NONE:-a:-b}", "a:-b"),
        ("~", "/home/me"),
        ("~/docs", "/home/me/docs"),
        ("~other/docs", "~other/docs"),
        ("a~", "a~"),
        ("$TILDE/x", "~/x"),
        ("$$A", "$A"),
        ("$${A}", "${A}"),
        ("a$", "a$"),
        ("5 $ each", "5 $ each"),
        ("${TRICKY}", "${A} $A ~ \": ["),
    ] {
        assert_eq!(expanded(text), Ok(wanted.to_owned()), "{text}");
    }
}

#[test]
fn what_is_shown_has_defaults_and_no_values() {
    for (text, wanted) in [
        ("${A:-default}/$A/$$", "${A:-default}/$A/$"),
        ("http://${NONE:-localhost}:${EMPTY:-80}/${EMPTY}", "http://localhost:80/${EMPTY}"),
        ("~/docs", "~/docs"),
    ] {
        let mut node = Node::from(Value::Text(Text::literal(text)));
        expand(&mut node, &environment, &Problems::default());
        let Value::Text(text) = node.value else { panic!("not a text") };
        assert_eq!(text.shown(), wanted);
    }
}

#[test]
fn a_reference_that_means_nothing_is_refused_as_written() {
    for (text, wanted) in [
        (
            "x ${NONE} y",
            "`${NONE}` is not set in the environment (hint: set NONE, or give a default: `${NONE:-…}`; `$$` is a dollar sign)",
        ),
        (
            "pa$word",
            "`$word` is not set in the environment (hint: set word, or give a default: `${word:-…}`; `$$` is a dollar sign)",
        ),
        ("${A", "`${` without its `}` (hint: write `$$` for a dollar sign)"),
        (
            "${NONE:-${A}}",
            "the default of `${NONE:-…}` holds a reference, which is not expanded (hint: a default is a plain text)",
        ),
        (
            "${BIG}${BIG}${BIG}${BIG}${BIG}",
            "`$BIG` makes this too long (hint: all references of a file expand to 4194304 bytes at most)",
        ),
        #[cfg(unix)]
        ("${BYTES}", "the value of `${BYTES}` is not UTF-8 (hint: set BYTES to a text)"),
    ] {
        assert_eq!(expanded(text), Err(vec![wanted.to_owned()]), "{text}");
    }
    assert_eq!(expanded("$ONE ${A} ${TWO}").expect_err("two are not set").len(), 2);
}

#[test]
fn without_a_home_the_tilde_is_refused() {
    let problems = Problems::default();
    let mut node = Node::from(Value::Text(Text::literal("~/docs")));
    expand(&mut node, &|_| Err(VarError::NotPresent), &problems);
    assert_eq!(problems.sorted()[0].message, "`~` is not known");
}

#[test]
fn keys_are_left_alone_and_paths_are_named() {
    let json = serde_json::json!({"$A": ["${A}", {"b": "$NONE"}]});
    let (mut node, problems) = (Node::from(json), Problems::default());
    expand(&mut node, &environment, &problems);
    assert_eq!(problems.sorted()[0].path, "\"$A\"[1].b");
}

proptest::proptest! {
    /// `expanded` relies on this: Switchyard's scan and `shellexpand` find the same references.
    #[test]
    fn the_scan_sees_what_shellexpand_sees(text in "[${}A:_~é0-9 -]{0,40}") {
        let found: Vec<_> = references(&text).into_iter().filter(|reference| reference.written != "${").collect();
        let mut asked = Vec::new();
        let _ = shellexpand::env_with_context_no_errors(&text, |name| {
            asked.push(name.to_owned());
            Some("v")
        });
        let names: Vec<_> = found.iter().map(|reference| reference.name).collect();
        proptest::prop_assert_eq!(names, asked);
    }
}
