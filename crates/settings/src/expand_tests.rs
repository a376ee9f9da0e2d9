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

fn secret(name: &str) -> Result<SecretString, NoSecret> {
    match name {
        "TOKEN" => Ok("canary-token".to_owned().into()),
        "BROKEN" => Err(NoSecret::Refused("the vault is damaged".into())),
        _ => Err(NoSecret::Unset),
    }
}

fn sources() -> Sources<'static> {
    Sources {
        environment: &environment,
        secrets: &secret,
        without_secrets: &["server.vault_key"],
        takes_caller_values: |path| path.starts_with("headers."),
    }
}

fn expanded(text: &str) -> Result<String, Vec<String>> {
    let problems = Problems::default();
    let mut node = Node::from(Value::Text(Text::literal(text)));
    expand(&mut node, &sources(), &problems);
    match node.value {
        Value::Text(text) => Ok(text.value().to_owned()),
        _ => Err(problems.sorted().iter().map(ToString::to_string).collect()),
    }
}

#[test]
fn the_inserted_values_are_known_and_nothing_else_is_one() {
    for (text, expected) in [
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
        expand(&mut node, &sources(), &problems);
        let Value::Text(expanded) = node.value else { panic!("{text}") };
        let inserted: Vec<&str> = expanded.inserted().iter().map(ExposeSecret::expose_secret).collect();
        assert_eq!(inserted, expected, "{text}");
    }
}

#[test]
fn references_become_their_values() {
    for (text, expected) in [
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
        ("${my-var:-x}:${app.port:-8080}", "x:8080"),
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
        assert_eq!(expanded(text), Ok(expected.to_owned()), "{text}");
    }
}

#[test]
fn shown_reference_has_defaults_and_no_values() {
    for (text, expected) in [
        ("${A:-default}/$A/$$", "${A:-default}/$A/$"),
        ("http://${NONE:-localhost}:${EMPTY:-80}/${EMPTY}", "http://localhost:80/${EMPTY}"),
        ("~/docs", "~/docs"),
    ] {
        let mut node = Node::from(Value::Text(Text::literal(text)));
        expand(&mut node, &sources(), &Problems::default());
        let Value::Text(text) = node.value else { panic!("not a text") };
        assert_eq!(text.shown(), expected);
    }
}

#[test]
fn a_reference_that_means_nothing_is_refused_as_written() {
    for (text, expected) in [
        (
            "x ${NONE} y",
            "`${NONE}` is not set in the environment (hint: set NONE, or give a default: `${NONE:-…}`; `$$` is a dollar sign)",
        ),
        (
            "pa$word",
            "`$word` is not set in the environment (hint: set word, or give a default: `${word:-…}`; `$$` is a dollar sign)",
        ),
        ("${A", "`${` without its `}` (hint: write `$$` for a dollar sign)"),
        ("${env:A}", "`${env:A}` is not a reference of this file (hint: write `${A}`)"),
        ("${env.A:-x}", "`${env.A:-…}` is not a reference of this file (hint: write `${A:-…}`)"),
        ("${env:my-var}", "`${env:my-…}` is not a reference of this file (hint: write `${my-var}`)"),
        ("${ A }", "`${ A }` is not a reference of this file (hint: write `${A}`)"),
        ("${A-x y}", "`${A-…}` is not a reference of this file (hint: write `${A:-…}`)"),
        ("${A:?no}", "`${A:?…}` is not a reference of this file (hint: write `${A}`)"),
        (
            "${:-x}",
            "`${:-…}` is not a reference of this file (hint: write `${NAME}` or `${NAME:-default}`; `$$` is a dollar sign)",
        ),
        (
            "${A-b}",
            "`${A-b}` is not set in the environment (hint: set A-b, or give a default: `${A-b:-…}`; a default of A is `${A:-…}`; `$$` is a dollar sign)",
        ),
        (
            "${}",
            "`${}` is not a reference of this file (hint: write `${NAME}` or `${NAME:-default}`; `$$` is a dollar sign)",
        ),
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
        assert_eq!(expanded(text), Err(vec![expected.to_owned()]), "{text}");
    }
    assert_eq!(expanded("$ONE ${A} ${TWO}").expect_err("two are not set").len(), 2);
}

#[test]
fn foreign_reference_lacks_its_value_as_one_that_is_not_set() {
    for text in ["${NONE}", "${env:NONE}", "${env:NONE:-x}", "${NONE:?no}"] {
        let (problems, mut node) = (Problems::default(), Node::from(Value::Text(Text::literal(text))));
        expand(&mut node, &sources(), &problems);
        assert!(problems.sorted()[0].lacks_value, "{text}");
    }
}

#[test]
fn without_a_home_the_tilde_is_refused() {
    let problems = Problems::default();
    let mut node = Node::from(Value::Text(Text::literal("~/docs")));
    let sources = Sources { environment: &|_| Err(VarError::NotPresent), ..sources() };
    expand(&mut node, &sources, &problems);
    assert_eq!(problems.sorted()[0].message, "`~` is not known");
}

#[test]
fn keys_are_left_alone_and_paths_are_named() {
    let json = serde_json::json!({"$A": ["${A}", {"b": "$NONE"}]});
    let (mut node, problems) = (Node::from(json), Problems::default());
    expand(&mut node, &sources(), &problems);
    assert_eq!(problems.sorted()[0].path, "\"$A\"[1].b");
}

proptest::proptest! {
    /// `expanded` relies on this: Switchyard's scan and `shellexpand` find the same references.
    #[test]
    fn the_scan_sees_what_shellexpand_sees(text in "[${}A:_~é0-9 -]{0,40}") {
        let found: Vec<_> = references(&text).into_iter().filter(|reference| reference.written != "${").collect();
        let mut looked_up = Vec::new();
        let _ = shellexpand::env_with_context_no_errors(&text, |name| {
            looked_up.push(name.to_owned());
            Some("v")
        });
        let names: Vec<_> = found.iter().map(|reference| reference.name).collect();
        proptest::prop_assert_eq!(names, looked_up);
    }
}

#[test]
fn a_secret_of_the_vault_is_inserted_and_known_as_a_secret() {
    for (text, expected, shown) in [
        ("Bearer ${secret:TOKEN}", "Bearer canary-token", "Bearer ${secret:TOKEN}"),
        ("${secret:TOKEN:-none}", "canary-token", "${secret:TOKEN:-none}"),
        ("${secret:NONE:-none}", "none", "none"),
        ("$${secret:TOKEN}", "${secret:TOKEN}", "${secret:TOKEN}"),
    ] {
        let (problems, mut node) = (Problems::default(), Node::from(Value::Text(Text::literal(text))));
        expand(&mut node, &sources(), &problems);
        assert!(problems.is_empty(), "{:?}", problems.sorted());
        let Value::Text(expanded) = node.value else { panic!("{text}") };
        assert_eq!((expanded.value(), expanded.shown()), (expected, shown), "{text}");
        let inserted: Vec<&str> = expanded.inserted().iter().map(ExposeSecret::expose_secret).collect();
        assert_eq!(!inserted.is_empty(), expected.contains("canary"), "{text}");
        assert!(inserted.iter().all(|secret| *secret == "canary-token"));
    }
}

#[test]
fn a_secret_that_is_not_there_is_a_problem_that_says_how_to_set_it() {
    for (text, expected) in [
        ("${secret:NONE}", "`${secret:NONE}` is not in the vault (hint: run `switchyard secret set NONE`)"),
        ("${secret:BROKEN}", "`${secret:BROKEN}` has no value (hint: the vault is damaged)"),
        // A vault that cannot be read is no reason for a default.
        ("${secret:BROKEN:-x}", "`${secret:BROKEN:-…}` has no value (hint: the vault is damaged)"),
    ] {
        assert_eq!(expanded(text), Err(vec![expected.to_owned()]), "{text}");
    }
}

#[test]
fn settings_that_open_the_vault_refer_to_no_secret() {
    for (document, is_refused) in [
        (serde_json::json!({"server": {"vault_key": "${secret:TOKEN}"}}), true),
        (serde_json::json!({"server": {"vault_key": ["${A}", "${secret:TOKEN}"]}}), true),
        (serde_json::json!({"server": {"vault_key": "${A}"}}), false),
        (serde_json::json!({"server": {"vault_keys": "${secret:TOKEN}"}}), false),
    ] {
        let (problems, mut node) = (Problems::default(), Node::from(document.clone()));
        expand(&mut node, &sources(), &problems);
        let found: Vec<String> = problems.sorted().iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), usize::from(is_refused), "{document}: {found:?}");
        assert!(found.iter().all(|text| text.contains("this setting opens the vault")), "{found:?}");
    }
}
