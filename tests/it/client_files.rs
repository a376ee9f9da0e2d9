//! Files, lines and links of clients, as people have them: `init`, `add` and `import` read all of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::{Gateway, child, eventually};

/// The file of each client below the home folder, with a server of the client's name.
const FILES: [(&str, &str); 10] = [
    (
        ".codex/config.toml",
        "model = \"gpt\"\napproval_policy = \"never\"\n\n[tui]\ntheme = \"dark\"\n\n[mcp_servers.codex]\ncommand = \"true\"\nstartup_timeout_sec = 20\ntool_timeout_sec = 90\ndisabled_tools = [\"drop\"]\n",
    ),
    (
        ".gemini/settings.json",
        r#"{"theme": "x", "mcp": {"excluded": ["off"]}, "mcpServers": {"gemini": {"httpUrl": "http://127.0.0.1:9/mcp", "timeout": 2000, "excludeTools": ["drop"]}, "off": {"command": "false"}}}"#,
    ),
    (
        ".cursor/mcp.json",
        r#"{"mcpServers": {"files": {"command": "true", "args": ["a"]}, "cursor": {"command": "true -x", "env": {"T": "x"}}}}"#,
    ),
    (
        ".config/zed/settings.json",
        "// Zed\n{\"context_servers\": {\"files\": {\"command\": \"true\", \"args\": [\"b\"]}, \"zed\": {\"source\": \"custom\", \"command\": \"true\", \"env\": {}}}}",
    ),
    (
        ".config/goose/config.yaml",
        "GOOSE_MODEL: x\nextensions:\n  developer: {enabled: true, type: builtin, name: developer}\n  goose: {enabled: true, type: stdio, name: goose, cmd: \"true\", args: [], envs: {}, timeout: 300, available_tools: [read]}\n",
    ),
    (
        ".continue/config.yaml",
        "name: mine\nversion: 1\nmcpServers:\n  - name: files\n    command: \"true\"\n    args: [a]\n  - name: continue\n    type: streamable-http\n    url: http://127.0.0.1:9/mcp\n",
    ),
    (
        ".config/opencode/opencode.json",
        r#"{"tools": {"opencode_drop": false}, "mcp": {"opencode": {"type": "local", "command": ["true"], "timeout": 3000}}}"#,
    ),
    (
        ".codeium/windsurf/mcp_config.json",
        r#"{"mcpServers": {"windsurf": {"serverUrl": "http://127.0.0.1:9/mcp", "disabledTools": ["drop"]}}}"#,
    ),
    (
        ".config/Code/User/mcp.json",
        r#"{"servers": {"vscode": {"type": "stdio", "command": "true", "envFile": "${userHome}/one.env"}}}"#,
    ),
    (
        ".copilot/mcp-config.json",
        r#"{"mcpServers": {"copilot": {"type": "local", "command": "true", "tools": ["read"], "timeout": 30000}}}"#,
    ),
];

fn written(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}

/// A home folder with the file of each client.
fn home() -> Gateway {
    let gateway = Gateway::without_file();
    for (name, text) in FILES {
        written(gateway.folder(), name, text);
    }
    written(gateway.folder(), "one.env", "TOKEN=abc\n");
    gateway
}

/// Exit code, standard output and standard error.
fn ran(gateway: &Gateway, arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let output = gateway.output_with_input(arguments, input.as_bytes());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn init_takes_the_servers_of_ten_clients_and_check_accepts_the_file() {
    let gateway = home();
    let (code, _, err) = ran(&gateway, &["init", "--yes"], "");
    assert_eq!(code, Some(0), "{err}");
    let file = fs::read_to_string(gateway.folder().join("mcp_servers.yaml")).expect("written");
    has(
        &file,
        &[
            "  codex:\n    timeout: 90s\n    start_timeout: 20s\n    tools:\n      deny: [\"drop\"]\n",
            "  gemini:\n    timeout: 2s\n    tools:\n      deny: [\"drop\"]\n",
            "  \"off\":\n    enabled: false\n",
            "  files:\n    command: \"true\"\n    args: [\"a\"]\n",
            "  files-2:\n    command: \"true\"\n    args: [\"b\"]\n",
            "    command: \"true\"\n    args: [\"-x\"]\n    env:\n      T: \"x\"\n",
            "  goose:\n    timeout: 300s\n    tools:\n      allow: [\"read\"]\n",
            "  opencode:\n    timeout: 3s\n    tools:\n      deny: [\"drop\"]\n",
            "  windsurf:\n    tools:\n      deny: [\"drop\"]\n",
            "    env_file: \"${HOME}/one.env\"\n",
            "  copilot:\n    timeout: 30s\n    tools:\n      allow: [\"read\"]\n",
            "  continue:\n    url: http://127.0.0.1:9/mcp\n",
        ],
    );
    assert_eq!(file.matches("args: [\"a\"]").count(), 1, "an identical server is there once:\n{file}");
    has(&err, &["files: it is called `files-2` here, because the file has another `files`"]);
    let (code, out, err) = ran(&gateway, &["check"], "");
    assert_eq!(code, Some(0), "{out}{err}");
}

#[test]
fn import_reads_the_file_of_each_client() {
    let gateway = home();
    for (name, _) in FILES {
        let (code, out, err) = ran(&gateway, &["import", name], "");
        assert_eq!(code, Some(0), "{name}: {err}");
        written(gateway.folder(), "made.yaml", &out);
        let (code, told, err) = ran(&gateway, &["check", "made.yaml"], "");
        assert_eq!(code, Some(0), "{name}: {told}{err}\n{out}");
    }
}

#[test]
fn programs_get_the_variables_of_this_machine_that_they_had_in_their_client() {
    let gateway = home().env("SSL_CERT_FILE", "/etc/ca.pem").env("SSH_AUTH_SOCK", "/run/agent");
    let gateway = gateway.env("GITHUB_TOKEN", "s3cret").env("UV_CACHE_DIR", "/tmp/uv");
    let list = "pass_env: [\"SSH_AUTH_SOCK\", \"SSL_CERT_FILE\", \"UV_CACHE_DIR\"]";
    let note = "programs get these variables of this machine, as in a client: SSH_AUTH_SOCK, SSL_CERT_FILE, UV_CACHE_DIR";
    let (code, out, err) = ran(&gateway, &["import", ".cursor/mcp.json"], "");
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(out.matches(list).count(), 2, "{out}");
    has(&err, &[note]);
    assert_eq!(ran(&gateway, &["init", "--yes", "--import", "cursor"], "").0, Some(0));
    let (code, out, err) = ran(&gateway, &["add", "one", "--yes", "--", "true"], "");
    assert_eq!(code, Some(0), "{err}");
    has(&out, &[list]);
    has(&err, &[note]);
    let (code, out, err) = ran(&gateway, &["connect", "codex", "--import", "--yes"], "");
    assert_eq!(code, Some(0), "{err}");
    has(&out, &[list]);
    has(&err, &[note]);
    let (_, out, _) = ran(&gateway, &["add", "two", "http://127.0.0.1:9/mcp", "--yes"], "");
    assert!(!out.contains("+     pass_env"), "a URL has no variables: {out}");
}

#[test]
fn lines_and_links_of_clients_add_their_server() {
    let gateway = Gateway::without_file();
    for (name, text) in [
        ("one", "code --add-mcp '{\"name\":\"one\",\"command\":\"true\",\"args\":[\"x\"]}'"),
        ("two", "```sh\ngemini mcp add --timeout 3000 --exclude-tools drop two true x\n```\n"),
        ("three", "claude mcp add three -- true x"),
        (
            "four",
            "vscode:mcp/install?%7B%22name%22%3A%22four%22%2C%22command%22%3A%22true%22%2C%22args%22%3A%5B%22x%22%5D%7D",
        ),
        (
            "five",
            "cursor://anysphere.cursor-deeplink/mcp/install?name=five&config=eyJjb21tYW5kIjoidHJ1ZSB4In0%3D",
        ),
        ("six", "model = \"x\"\n[mcp_servers.six]\ncommand = \"true\"\nargs = [\"x\"]\n"),
    ] {
        let (code, out, err) = ran(&gateway, &["add", "--yes"], text);
        assert_eq!(code, Some(0), "{name}: {err}");
        has(&out, &[&format!("+   {name}:\n"), "+     command: \"true\"\n+     args: [\"x\"]\n"]);
    }
    assert_eq!(ran(&gateway, &["check"], "").0, Some(0));
}

#[test]
fn secrets_are_named_hidden_in_the_diff_and_moved_into_the_vault_on_request() {
    let file = r#"{"mcpServers": {
        "db": {"command": "true", "args": ["postgresql://me:canary-1@db/x", "--api-key", "canary-2"], "env": {"API_TOKEN": "canary-3", "MODE": "x"}},
        "web": {"url": "http://127.0.0.1:9/mcp?token=canary-4", "headers": {"Authorization": "Bearer canary-5"}}
    }}"#;
    let gateway = Gateway::without_file();
    written(gateway.folder(), ".cursor/mcp.json", file);
    let (code, out, err) = ran(&gateway, &["init", "--dry-run"], "");
    assert_eq!(code, Some(0), "{err}");
    assert!(!out.contains("canary") && !err.contains("canary"), "{out}{err}");
    has(&err, &["db: may hold a secret, as it is written: `args[0]`, `args[2]`, `env.API_TOKEN`"]);
    has(&err, &["web: may hold a secret, as it is written: `url`, `headers.Authorization`"]);
    let (code, out, err) = ran(&gateway, &["init", "--to-vault", "--yes"], "");
    assert_eq!(code, Some(0), "{err}");
    assert!(!out.contains("canary") && !err.contains("canary"), "{out}{err}");
    assert!(!err.contains("set the secret") && !err.contains("may hold a secret"), "{err}");
    let made = fs::read_to_string(gateway.folder().join("mcp_servers.yaml")).expect("written");
    assert!(!made.contains("canary"), "{made}");
    has(
        &made,
        &[
            "postgresql://me:${secret:DB_ARGUMENT}@db/x",
            "\"--api-key\", \"${secret:DB_API_KEY}\"",
            "API_TOKEN: \"${secret:DB_API_TOKEN}\"",
            "MODE: \"x\"",
            "?token=${secret:WEB_URL}",
            "Authorization: \"Bearer ${secret:WEB_AUTHORIZATION}\"",
        ],
    );
    let (code, out, _) = ran(&gateway, &["secret", "list"], "");
    assert_eq!(code, Some(0));
    has(&out, &["DB_ARGUMENT", "DB_API_KEY", "DB_API_TOKEN", "WEB_URL", "WEB_AUTHORIZATION"]);
    let (code, out, err) = ran(&gateway, &["check"], "");
    assert_eq!(code, Some(0), "{out}{err}");
}

/// A file in `tests/configs/clients`, its place in the home folder, its servers that are off, and whether its user switched
/// off the tool `book`. Its other servers are `asker`, and `notes` in that of Claude Code.
const RUN: [(&str, &str, &[&str], bool); 10] = [
    ("claude-code.json", ".claude.json", &["tracker"], false),
    ("codex.toml", ".codex/config.toml", &["docs", "old"], true),
    ("continue.yaml", ".continue/config.yaml", &["search"], false),
    ("cursor.json", ".cursor/mcp.json", &["linear"], false),
    ("gemini.json", ".gemini/settings.json", &["off", "web"], true),
    ("goose.yaml", ".config/goose/config.yaml", &["old"], false),
    ("opencode.json", ".config/opencode/opencode.json", &["old", "sentry"], true),
    ("vscode.json", ".config/Code/User/mcp.json", &["my-issues"], false),
    ("windsurf.json", ".codeium/windsurf/mcp_config.json", &["hub", "old"], true),
    ("zed.json", ".config/zed/settings.json", &["figma"], true),
];

#[tokio::test]
async fn file_of_each_client_runs_with_the_servers_and_tools_that_were_on() {
    for (name, place, off, is_book_off) in RUN {
        let gateway = Gateway::without_file();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs/clients").join(name);
        let text = fs::read_to_string(file).expect("readable").replace("@PEER@", &child::program());
        let home = gateway.folder().to_str().expect("UTF-8");
        written(gateway.folder(), place, &text.replace("@HOME@", home));
        let (code, _, err) = ran(&gateway, &["init", "--yes"], "");
        assert_eq!(code, Some(0), "{name}: {err}");
        assert_eq!(ran(&gateway, &["check"], "").0, Some(0), "{name}");
        let on: &[&str] = if name == "claude-code.json" { &["asker", "notes"] } else { &["asker"] };
        let states = |state: &'static str, names: &[&str]| -> BTreeMap<String, &str> {
            names.iter().map(|server| ((*server).to_owned(), state)).collect()
        };
        let mut expected = states("ready", on);
        expected.extend(states("disabled", off));
        let gateway = gateway.start().await;
        let echo = if on.len() == 1 { "echo" } else { "asker__echo" };
        let tools = gateway.offers(&[echo]).await;
        assert_eq!(tools.iter().any(|tool| tool.ends_with("book")), !is_book_off, "{name}: {tools:?}");
        eventually(&format!("{name} has the states {expected:?}"), async || {
            let servers = gateway.get("/servers").await.json();
            let found: BTreeMap<String, &str> = servers["servers"]
                .as_array()?
                .iter()
                .map(|server| Some((server["name"].as_str()?.to_owned(), server["state"].as_str()?)))
                .collect::<Option<_>>()?;
            (found == expected).then_some(())
        })
        .await;
        assert_eq!(gateway.call("asker", "echo", json!({"words": "hello"})).await.status, 200, "{name}");
    }
}
