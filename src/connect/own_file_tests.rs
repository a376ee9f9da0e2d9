//! Changes of the configuration file.

use std::fs;

use super::*;

fn nothing(_: &str) -> Result<String, std::env::VarError> {
    Err(std::env::VarError::NotPresent)
}

/// A folder with a configuration file, and the path of that file.
fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mcp_servers.yaml");
    fs::write(&path, text).expect("written");
    (folder, path)
}

fn notion() -> Offer {
    Offer::url("notion", "https://mcp.notion.com/mcp", &[], false)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const FILE: &str = "# mine\nserver: {listen: \"127.0.0.1:9\"} # here\n\nmcp_servers:\n    # about a\n    a: {url: \"http://a/mcp\"} # one line\n\n    b:\n        # inside\n        command: b\n        env: {T: \"${T}\"}\n\n# last\ntool_names: prefixed\n";

#[test]
fn a_server_is_added_and_removed_and_all_else_stays() {
    for (before, expected) in [
        (
            FILE.to_owned(),
            FILE.replace("\n\n# last", "\n    notion:\n      url: https://mcp.notion.com/mcp\n\n# last"),
        ),
        (
            FILE.replace('\n', "\r\n"),
            FILE.replace("\n\n# last", "\n    notion:\n      url: https://mcp.notion.com/mcp\n\n# last")
                .replace('\n', "\r\n"),
        ),
        (
            "mcp_servers: {} # none\n".to_owned(),
            "mcp_servers: # none\n  notion:\n    url: https://mcp.notion.com/mcp\n".to_owned(),
        ),
    ] {
        let (_folder, path) = file(&before);
        let added = add(&path, &[notion()], &nothing).expect("added");
        assert_eq!((added.change.after.as_str(), added.refused.len()), (expected.as_str(), 0));
        added.change.write_own().expect("written");
        assert!(add(&path, &[notion()], &nothing).expect("there").change.is_empty(), "twice is once");
        let removed = remove(&path, &words(&["notion"]), &nothing).expect("removed");
        assert_eq!(removed.change.after.replace("mcp_servers: # none", "mcp_servers: {} # none"), before);
    }
    let (_folder, path) = file(FILE);
    let removed = remove(&path, &words(&["b", "a"]), &nothing).expect("removed");
    let rest = "# mine\nserver: {listen: \"127.0.0.1:9\"} # here\n\nmcp_servers:\n\n\n# last\ntool_names: prefixed\n";
    assert_eq!(removed.change.after, rest);
}

#[test]
fn servers_in_braces_get_lines_of_their_own_and_keep_their_text_and_comments() {
    let notion_lines = "  notion:\n    url: https://mcp.notion.com/mcp\n";
    for (before, expected) in [
        ("mcp_servers: {a: {url: \"http://a/mcp\"}}\n", "mcp_servers:\n  a: {url: \"http://a/mcp\"}\n+"),
        (
            "# mine\nmcp_servers: { \"a\": {command: \"ä}\", args: [\"a, b\", '}']} , b: {command: b}, } # two }\nserver: {}\n",
            "# mine\nmcp_servers: # two }\n  \"a\": {command: \"ä}\", args: [\"a, b\", '}']}\n  b: {command: b}\n+server: {}\n",
        ),
        (
            "mcp_servers: { # all, {of} them\n\n  # about a\n  a: {command: a}, # it's a\n    b: {\n      # in b, \"\n      command: b,\n      args: [it's, '}''{', \"\\\"}\"]\n  }\n  # about c\n  , c: {command: c} # c\n  # last\n} # end\n\nserver: {}\n",
            "mcp_servers: # all, {of} them # end\n  # about a\n  a: {command: a} # it's a\n  b: {\n        # in b, \"\n        command: b,\n        args: [it's, '}''{', \"\\\"}\"]\n    }\n  # about c\n  c: {command: c} # c\n+  # last\n\nserver: {}\n",
        ),
        (
            "mcp_servers: {\n  \"a\":{\"command\":\"a\"},\n  'b':{\"command\":\"b\"}\n}\n",
            "mcp_servers:\n  \"a\": {\"command\":\"a\"}\n  'b': {\"command\":\"b\"}\n+",
        ),
        ("mcp_servers: {a: # of a\n  {command: a}}\n", "mcp_servers:\n  a: # of a\n    {command: a}\n+"),
        ("mcp_servers: {\n  # none\n}\n", "mcp_servers:\n+  # none\n"),
    ] {
        let (_folder, path) = file(before);
        let added = add(&path, &[notion()], &nothing).unwrap_or_else(|error| panic!("{before}{error}"));
        assert_eq!(added.change.after, expected.replace('+', notion_lines));
    }
    let (_folder, path) = file("mcp_servers: {a: {command: a}, # about a\n # about b\n b: {command: b}}\n");
    let removed = remove(&path, &words(&["b"]), &nothing).expect("removed");
    assert_eq!(removed.change.after, "mcp_servers:\n  a: {command: a} # about a\n");
}

#[test]
fn the_comment_right_above_a_server_goes_with_it_and_no_other() {
    let before = "mcp_servers:\n  # all of them\n\n  # about a\n  # and more\n  a: {command: a}\n  # about b\n  b: {command: b}\n    # deeper\n  c: {command: c}\n";
    for (name, gone) in [
        ("a", "  # about a\n  # and more\n  a: {command: a}\n"),
        ("b", "  # about b\n  b: {command: b}\n"),
        ("c", "  c: {command: c}\n"),
    ] {
        let (_folder, path) = file(before);
        let removed = remove(&path, &words(&[name]), &nothing).expect("removed");
        assert_eq!(removed.change.after, before.replace(gone, ""), "{name}");
    }
}

#[test]
fn a_mistake_leaves_the_file_as_it_was() {
    let secret = "mcp_servers:\n  a: {url: \"http://a/mcp\", auth: {bearer: \"${secret:A}\"}}\n";
    let (_folder, path) = file(secret);
    assert!(add(&path, &[notion()], &nothing).is_ok(), "a secret that is not set yet is no mistake");
    for (text, offer, reason) in [
        (FILE, Offer::url("a", "http://other/mcp", &[], false), ""),
        ("{mcp_servers: {a: {command: a}}}\n", notion(), "is written in brackets"),
        (
            "mcp_servers:\n  a:\n    command: a\n    description: \"x\n      # y\"\n",
            notion(),
            "cannot be added to its layout",
        ),
        (&format!("# {}\n{FILE}", "x".repeat((1 << 20) - FILE.len() - 10)), notion(), "larger than"),
        ("mcp_servers: [\n", notion(), "mcp_servers.yaml"),
        (FILE, Offer::url("new", "not a URL", &[], false), ""),
    ] {
        let (_folder, path) = file(text);
        match add(&path, &[offer], &nothing) {
            Ok(added) => {
                assert!(
                    reason.is_empty() && added.change.is_empty() && added.refused.len() == 1,
                    "{added:?}"
                );
            }
            Err(error) => {
                let shown = error.to_string();
                assert!(!reason.is_empty() && shown.contains(reason), "{shown}");
                assert!(shown.ends_with("nothing was changed"), "{shown}");
            }
        }
        assert_eq!(fs::read_to_string(&path).expect("there"), text);
    }
    let (_folder, path) = file(FILE);
    let error = remove(&path, &words(&["a", "c"]), &nothing).expect_err("absent").to_string();
    assert!(error.contains("there is no server `c`"), "{error}");
}

#[test]
fn a_first_file_has_the_servers_and_replaces_another_one_only_on_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mcp_servers.yaml");
    let env = [("A_TOKEN".to_owned(), "ghp_1".to_owned())];
    let program = Offer::program("files", &words(&["npx", "-y", "files"]), &env);
    let made = first(&path, "# first\n", &[notion(), program], false, &nothing).expect("a file");
    let servers = "mcp_servers:\n  notion:\n    url: https://mcp.notion.com/mcp\n  files:\n";
    assert!(
        made.change.after.starts_with("# first\n# The servers") && made.change.after.contains(servers),
        "{made:?}"
    );
    assert!(
        made.notes.iter().any(|note| note.contains("`env.A_TOKEN`") && note.contains("secret set")),
        "{made:?}"
    );
    made.change.write_own().expect("written");
    assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1, "no mark is left");
    assert!(
        first(&path, "# first\n", &[], false, &nothing).expect_err("there").to_string().contains("`--force`")
    );
    let empty = first(&path, "# first\n", &[], true, &nothing).expect("asked for");
    assert!(empty.change.after.ends_with("\nmcp_servers: {}\n"));
    assert!(empty.change.write_own().expect("written").is_some(), "the old content is kept");
}

#[test]
fn servers_of_the_own_format_keep_their_settings_and_their_secrets_are_named() {
    let text = "mcp_servers:\n  a:\n    url: http://a/mcp\n    auth: {bearer: \"${T}\"}\n    headers: {X-Key: \"sk-1\"}\n    limits: {concurrent_calls: 3}\n";
    let (_folder, path) = file("");
    let offer = Offer::snippet("snippet", text, None).expect("servers");
    let added = add(&path, &[offer], &nothing).expect("added");
    assert!(
        added.change.after.contains("    limits:\n      concurrent_calls: 3\n"),
        "{}",
        added.change.after
    );
    assert!(added.notes.iter().any(|note| note.contains("`headers.X-Key`")), "{:?}", added.notes);
}
