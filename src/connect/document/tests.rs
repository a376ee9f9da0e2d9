//! Layouts of files that golden files do not have.

use super::*;

fn entry(url: &str) -> Json {
    Json::Object(vec![("url".to_owned(), Json::Text(url.to_owned()))])
}

fn edited(
    format: Syntax,
    key: &'static [&'static str],
    text: &str,
    remove: &[&str],
) -> Result<String, String> {
    let remove: Vec<String> = remove.iter().map(|name| (*name).to_owned()).collect();
    let edit = Edit { name: "new", entry: &entry("http://a/mcp"), remove: &remove };
    ServersPlace { format, key }.apply(text, &edit)
}

#[test]
fn json_of_many_layouts_keeps_all_other_bytes() {
    for (text, expected) in [
        ("{\"s\":{}}", "{\"s\":{\n  \"new\": {\n    \"url\": \"http://a/mcp\"\n  }\n}}"),
        ("{}", "{\n  \"s\": {\n    \"new\": {\n      \"url\": \"http://a/mcp\"\n    }\n  }\n}"),
    ] {
        let result = edited(Syntax::Json, &["s"], text, &[]).expect(text);
        let blanks = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(blanks(&result), blanks(expected), "{result}");
    }
    let text = "{\n\t// c\n\t\"s\": {\n\t\t\"a\": {\"x\": 1},\n\t\t\"b\": {\"x\": 2},\n\t},\n}\n";
    let result = edited(Syntax::Json, &["s"], text, &["a"]).expect("valid");
    assert!(!result.contains("\"a\""), "{result}");
    assert!(result.contains("\t\t\"b\": {\"x\": 2},\n\t\t\"new\": {\n\t\t\t\"url\""), "{result}");
    for text in ["// only a comment\n", "", "null-less {"] {
        assert_eq!(edited(Syntax::Json, &["s"], text, &[]).is_ok(), !text.contains('{'), "{text}");
    }
    assert!(edited(Syntax::Json, &["s"], "{\"s\": null}", &[]).is_ok());
}

#[test]
fn toml_tables_inline_tables_and_dotted_keys_are_edited() {
    for text in
        ["s = {}\n", "s = { a = { x = 1 } } # c\n", "s.a.x = 1\n", "[s]\n", "[s.a]\nx = 1\n", "", "# c\n"]
    {
        let result = edited(Syntax::Toml, &["s"], text, &[]).expect(text);
        assert!(result.contains("http://a/mcp"), "{result}");
        let result = edited(Syntax::Toml, &["s"], text, &["a"]).expect(text);
        assert!(!result.contains("x = 1"), "{result}");
    }
}

#[test]
fn yaml_of_many_layouts_is_edited_or_refused() {
    for (text, expected) in [
        ("", "s:\n  new:\n    url: http://a/mcp\n"),
        ("# c\n", "# c\ns:\n  new:\n    url: http://a/mcp\n"),
        ("a: 1", "a: 1\ns:\n  new:\n    url: http://a/mcp\n"),
        ("s: {} # c\nb: 1\n", "s: # c\n  new:\n    url: http://a/mcp\nb: 1\n"),
        ("s: {a: {x: 1}} # c\nb: 1\n", "s: # c\n  a: {x: 1}\n  new:\n    url: http://a/mcp\nb: 1\n"),
        ("s: {a: {x: 1},\n b: 1} # d\n", "s: # d\n  a: {x: 1}\n  b: 1\n  new:\n    url: http://a/mcp\n"),
        ("s:\n  {a: 1}\n", "s:\n  a: 1\n  new:\n    url: http://a/mcp\n"),
        ("s: {\n}\n", "s:\n  new:\n    url: http://a/mcp\n"),
        ("s: null # c\nb: 1\n", "s: # c\n  new:\n    url: http://a/mcp\nb: 1\n"),
        ("s:\n\n# about b\nb: 1\n", "s:\n  new:\n    url: http://a/mcp\n\n# about b\nb: 1\n"),
        ("s:\n a:\n  x: 1\nb: 1\n", "s:\n a:\n  x: 1\n new:\n   url: http://a/mcp\nb: 1\n"),
        ("s:\n  new: {url: old} # c\n  z: {}\n", "s:\n  new:\n    url: http://a/mcp\n  z: {}\n"),
    ] {
        assert_eq!(edited(Syntax::Yaml, &["s"], text, &[]).as_deref(), Ok(expected), "{text}");
    }
    for text in [
        "s: {a: {x: 1}, b}\n",
        "s: [{x: 1}]\n",
        "s: [\n  {x: 1}]\n",
        "s: &x {a: 1}\n",
        "{s: {}}\n",
        "- 1\n",
        "s: &x\n  a: 1\nb: *x\nc: [",
        "a: 1\n---\nb: 2\n",
    ] {
        assert!(edited(Syntax::Yaml, &["s"], text, &[]).is_err(), "{text}");
    }
    let text = "s:\n  a:\n    x: 1\n\n  # about b\n  b:\n    x: 2\n  c: {}\n";
    let expected = "s:\n\n  # about b\n  c: {}\n  new:\n    url: http://a/mcp\n";
    assert_eq!(edited(Syntax::Yaml, &["s"], text, &["a", "b"]).as_deref(), Ok(expected));
}

#[test]
fn an_edit_that_changes_something_else_is_refused() {
    // The anchor is in an entry that goes, so the alias would lose its value.
    let text = "s:\n  a: &x {y: 1}\n  b: *x\n";
    assert!(edited(Syntax::Yaml, &["s"], text, &["a"]).is_err());
    let block = "note: |\n  s:\ns:\n  a: {x: 1}\nlast: |\n  text\n";
    let result = edited(Syntax::Yaml, &["s"], block, &[]).expect("edited");
    assert_eq!(result, "note: |\n  s:\ns:\n  a: {x: 1}\n  new:\n    url: http://a/mcp\nlast: |\n  text\n");
}
