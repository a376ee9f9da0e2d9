//! Tests of the import: files of clients are converted to configuration files that load and mean the same.
//!
//! `tests/configs/import/NAME.json` is next to its expected output, `NAME.expected`: the YAML, then standard
//! error. `UPDATE_GOLDEN=1` writes the expected files again; review the difference before you commit it.

use std::collections::BTreeMap;
use std::env::VarError;
use std::path::PathBuf;

use proptest::prelude::*;
use secrecy::ExposeSecret;
use serde_json::json;

use super::*;
use upstream::config::Transport;

const CLIENTS: [&str; 4] = ["claude_desktop", "claude_code", "cursor", "vs_code"];

/// Values for every variable that the files name.
fn environment(name: &str) -> Result<String, VarError> {
    let found = match name {
        "HOME" => "/home/me",
        "API_KEY" => "key-1",
        "MCP_PORT" => "9000",
        "GITHUB_TOKEN" => "gh-1",
        "WORKSPACE_FOLDER" => "/own",
        "WORKSPACE_FOLDER_2" => "/srv",
        "PERPLEXITY_KEY" => "p-1",
        _ => return Err(VarError::NotPresent),
    };
    Ok(found.to_owned())
}

fn gateway() -> Url {
    Url::parse("http://127.0.0.1:8080/mcp").expect("a URL")
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs/import").join(name)
}

fn import(source: &str, content: &[u8], folder: Folder<'_>, gateway: &Url) -> Result<Imported, String> {
    crate::connect::import(source, content, folder, gateway, &[])
}

#[track_caller]
fn loaded(yaml: &str) -> BTreeMap<String, upstream::Config> {
    // The files of variables are not on this machine.
    let lines = yaml.lines().filter(|line| !line.starts_with("    env_file: "));
    let yaml: String = lines.flat_map(|line| [line, "\n"]).collect();
    let config = Config::parse(Path::new("c.yaml"), yaml.as_bytes(), &environment);
    let config = config.unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    config.manager.servers.into_iter().map(|server| (server.name.to_string(), server)).collect()
}

#[track_caller]
fn of(servers: &serde_json::Value) -> Imported {
    import("x.json", json!({"mcpServers": servers}).to_string().as_bytes(), Folder::none(), &gateway())
        .expect("read")
}

/// Program, arguments and environment of the child process.
fn child(server: &upstream::Config) -> (String, Vec<String>, BTreeMap<String, String>) {
    let Transport::Stdio(stdio) = &server.transport else { panic!("{} is not stdio", server.name) };
    let env = stdio.env.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned()));
    (stdio.command.clone(), stdio.args.clone(), env.collect())
}

#[test]
fn files_of_every_client_become_what_is_recorded() {
    for name in CLIENTS {
        let file = format!("{name}.json");
        let content = std::fs::read(path(&file)).expect("readable");
        let imported = import(&file, &content, Folder::none(), &gateway());
        let imported = imported.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!loaded(&imported.yaml).is_empty(), "{name}");
        let notes = imported.notes.join("\n");
        assert!(!notes.contains("s3cret"), "a secret shows:\n{notes}");
        let found = format!("{}---- standard error\n{notes}\n", imported.yaml);
        let golden = path(&format!("{name}.expected"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &found).expect("can be written");
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(found, expected, "{} differs; UPDATE_GOLDEN=1 writes it anew", golden.display());
    }
}

#[test]
fn one_that_can_not_be_taken_over_is_named_and_costs_no_other() {
    for (server, reason) in [
        (json!(7), "it is a number, expected an object"),
        (json!({}), "it has neither a `command` nor a `url`"),
        (json!({"type": "http"}), "it has no `url`"),
        (json!({"type": ["http"], "url": "http://a"}), "its `type` is a list"),
        (json!({"type": "ws", "url": "http://a"}), "its type, `ws`, is none of `http`, `sse` and `stdio`"),
        (json!({"command": "npx", "args": "-y"}), "`args` is a text, expected a list"),
        (json!({"command": "npx", "args": ["a", null]}), "`args[1]` is null, expected a text"),
        (json!({"command": "npx", "env": {"A": {}}}), "`env.A` is an object, expected a text"),
        (json!({"command": "npx", "env": ["A"]}), "`env` is a list, expected an object"),
        (json!({"command": "np\0x"}), "command: `np\\u{0}x` is not the name of a program"),
        (json!({"command": ""}), "command: `` is not the name of a program"),
        (json!({"url": "localhost"}), "url: `localhost` is not an http or https URL"),
        (
            json!({"url": "http://a", "headers": {"A b": "x"}}),
            "headers.\"A b\": this is not the name of a header",
        ),
    ] {
        let found = of(&json!({"bad\n": server, "good": {"command": "npx"}}));
        assert_eq!(found.notes, [format!("bad\\n: left out: {reason}")]);
        assert!(found.yaml.contains(&format!("\n  # bad\\n: left out: {reason}\n")), "{}", found.yaml);
        assert_eq!(loaded(&found.yaml).len(), 1);
    }
}

#[test]
fn omitted_settings_are_reported() {
    let found = of(&json!({
        "a": {"command": "npx", "x\ny": 1, "envFile": ".env", "url": null, "disabled": "yes"},
        "b": {"url": "http://a", "headers": {"mcp-version": "1", "X": "${A:-$b}"}},
    }));
    assert_eq!(
        found.notes,
        [
            "a: whether it is disabled is not `true` or `false`: it is enabled",
            "a: `env_file`: a relative path begins at the folder of the configuration file here",
            "a: not taken over: `x\\ny`",
            "b: `headers.X`: the default of `A` is left out: a default that holds a dollar sign cannot be written here",
            "b: `headers.mcp-version` is left out: the protocol sets this header",
            "set the variable A: needed by `b`",
        ]
    );
    for note in found.notes.iter().filter(|note| !note.starts_with("set the variable")) {
        let (_, remark) = note.split_once(": ").expect("a name");
        assert!(found.yaml.contains(&format!("    # {remark}\n")), "{}", found.yaml);
    }
    let root = json!({"servers": {}, "inputs": [], "$schema": "x", "numStartups": 3, "projects": {}});
    let found = import("x.json", root.to_string().as_bytes(), Folder::none(), &gateway()).expect("read");
    assert_eq!(found.notes, ["not taken over: `numStartups`, `projects`"]);
    assert!(loaded(&found.yaml).is_empty());
}

#[test]
fn names_are_made_valid_and_stay_apart() {
    let long = "x".repeat(80);
    let one = json!({"command": "npx"});
    let found =
        of(&json!({"a b": one, "a/b": one, "a-b": one, "": one, "é": one, "null": one, (long.clone()): one}));
    let servers = loaded(&found.yaml);
    let short = "x".repeat(64);
    let names: Vec<&str> = servers.keys().map(String::as_str).collect();
    assert_eq!(names, ["a-b", "a-b-2", "a-b-3", "null", "server", "server-2", &short]);
    assert_eq!(found.notes.len(), 6, "{:#?}", found.notes);
    assert!(found.notes.contains(&"a b: it is called `a-b` now".to_owned()), "{:#?}", found.notes);
}

#[test]
fn places_of_secrets_are_named_and_secrets_are_not() {
    let found = of(&json!({
        "a": {"command": "npx", "env": {"API_KEY": "canary", "MODE": "x", "OTHER_KEY": "${env:K}", "KEYS": "3", "ID": "ghp_canary"},
            "args": ["--token", "canary", "--key=canary", "-e", "PASSWORD=canary", "--auth", "-v", "plain"]},
        "b": {"url": "https://me:canary@example.org/", "headers": {"Authorization": "Bearer canary"}},
    }));
    let advice = "set a variable of the environment to it, and write `${NAME}` there; or run `switchyard secret set NAME`, and write `${secret:NAME}`";
    assert_eq!(
        found.notes,
        [
            format!(
                "a: may hold a secret, as it is written: `args[1]`, `args[2]`, `args[4]`, `env.API_KEY`, `env.ID`: {advice}"
            ),
            format!("b: may hold a secret, as it is written: `url`, `headers.Authorization`: {advice}"),
            "set the variable K: needed by `a`".to_owned(),
        ]
    );
    assert_eq!(found.yaml.matches("canary").count(), 7, "{}", found.yaml);
}

#[test]
fn a_file_that_is_none_is_refused() {
    let refused =
        |content: &[u8]| import("x.json", content, Folder::none(), &gateway()).expect_err("refused");
    for (content, expected) in [
        ("[]", "1:1: error: this is a list, expected an object"),
        (
            "{\n  \"servers\": {\n    a\n",
            "3:5: error: this is not valid JSON: expected string for object property",
        ),
    ] {
        assert_eq!(refused(content.as_bytes()), expected);
    }
    for content in ["{\"mcpServers\": []}", "{\"mcp_servers\": {}}", "model = \"x\"\n"] {
        let refusal = refused(content.as_bytes());
        assert!(
            refusal.starts_with("1:1: error: no servers were found in it: expected one of `amp.mcpServers`"),
            "{refusal}"
        );
    }
    assert_eq!(refused(b"{}\n\xff"), "2:1: error: the file is not UTF-8 from this line on");
    let large = json!({"command": "x".repeat(MAX_BYTES / 2)});
    let large = json!({"servers": {"a": large, "b": large}}).to_string();
    assert!(refused(large.as_bytes()).contains("of more than 1048576 bytes"));
    assert!(refused(&vec![b' '; MAX_JSON + 1]).contains("the file is larger than 16777216 bytes"));
    import("x.json", b"\xef\xbb\xbf// JSON\n{\"servers\": {}}", Folder::none(), &gateway())
        .expect("a byte order mark is no text");
}

#[test]
fn the_database_of_redis_becomes_the_path_of_its_url() {
    let file = std::fs::read_to_string(path("../foreign/r2r_mcp_config.yaml")).expect("readable");
    for (database, expected) in [("db: 0", "redis://localhost:6379"), ("db: 2", "redis://localhost:6379/2")] {
        let file = file.replace("db: 0", database);
        let found = import("x.yaml", file.as_bytes(), Folder::none(), &gateway()).expect("read");
        let line = found.yaml.lines().find(|line| line.contains("redis://")).expect("a URL");
        assert!(line.replace('"', "").ends_with(expected), "{line}");
    }
}

#[test]
fn the_documented_example_is_real() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/import.md");
    let page = std::fs::read_to_string(page).expect("readable");
    let (_, rest) = page.split_once("```json\n").expect("an example");
    let (json, rest) = rest.split_once("```").expect("its end");
    let found = import("mcp.json", json.as_bytes(), Folder::none(), &gateway()).expect("read");
    let notes = found.notes.iter().fold(String::new(), |notes, note| format!("{notes}mcp.json: {note}\n"));
    for block in [
        format!("```text\n$ switchyard import mcp.json > mcp_servers.yaml\n{notes}```"),
        format!("```yaml\n{}```", found.yaml),
    ] {
        assert!(rest.contains(&block), "not in docs/import.md:\n{block}");
    }
}

proptest! {
    #[test]
    fn any_text_means_the_same(text in any::<String>(), odd in "[$~{}\\[\\]\"'#:,&*!|>%@` a-cA-C0-9\\n\\t\u{85}\u{2028}\u{feff}-]{0,24}") {
        for text in [text, odd] {
            let text = text.replace("${", "$ {").replace('\0', "");
            // In front of a capital, a dollar sign may begin a variable.
            let capitals = ('A'..='Z').chain(['_']);
            let text = capitals.fold(text, |text, c| text.replace(&format!("${c}"), &format!("$.{c}")));
            prop_assume!(text != "~" && !text.starts_with("~/"));
            let found = of(&json!({"a": {"command": format!("x{text}"), "args": [text], "env": {"A": text}}}));
            let servers = loaded(&found.yaml);
            let (command, args, env) = child(&servers["a"]);
            prop_assert_eq!(command, format!("x{text}"));
            prop_assert_eq!(&args, &[text.as_str()]);
            prop_assert_eq!(&env["A"], &text);
        }
    }

    #[test]
    fn any_key_is_taken_or_its_server_named(name in any::<String>(), key in "[^=\0]{1,20}") {
        let found = of(&json!({(name): {"command": "x", "env": {(key.clone()): "v"}, "description": key.clone()}}));
        let servers = loaded(&found.yaml);
        prop_assert_eq!(servers.len(), 1);
        let server = servers.values().next().expect("one");
        prop_assert!(child(server).2.contains_key(&key), "{}", found.yaml);
    }
}
