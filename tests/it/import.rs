//! `switchyard import` with the files that people bring along, and what `check` says of the outcome.

use std::process::Output;

use serde_json::{Value, json};

use crate::support::Gateway;

/// Exit code, standard output and standard error of an import of `file`.
fn import(file: &Value) -> (Option<i32>, String, String) {
    let gateway = Gateway::with_config("");
    std::fs::write(gateway.folder().join("mcp.json"), file.to_string()).expect("it can be written");
    let Output { status, stdout, stderr } = gateway.output(&["import", "mcp.json"]);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

/// Exit code and text of `check` of `yaml`, where the environment has nothing.
fn check(yaml: &str) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = Gateway::with_config(yaml).output(&["check", "mcp_servers.yaml"]);
    (status.code(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

// Issue 18, item 13: before, the outcome was refused because `AUTH_HEADER` is not set in the environment.
#[test]
fn a_variable_of_env_in_args_stays_for_the_program() {
    let args = json!(["some-bridge", "https://example.org/mcp", "--header", "Authorization:${AUTH_HEADER}"]);
    let env = json!({"AUTH_HEADER": "Bearer tok-1"});
    let (code, out, err) =
        import(&json!({"mcpServers": {"kb": {"command": "npx", "args": args, "env": env}}}));
    eprintln!("{out}{err}");
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("\"Authorization:$${AUTH_HEADER}\""), "{out}");
    assert!(err.contains("`args[3]`: `${AUTH_HEADER}` stays as it is"), "{err}");
    let (code, told) = check(&out);
    eprintln!("{told}");
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn a_bridge_becomes_the_server_behind_it_unless_it_has_other_options() {
    let (code, out, err) = import(&json!({"mcpServers": {
        "kb": {
            "command": "npx",
            "args": ["-y", "mcp-remote", "https://example.org/mcp", "--header", "Authorization:${AUTH_HEADER}"],
            "env": {"AUTH_HEADER": "Bearer ${KB_TOKEN}"},
        },
        "notion": {"command": "npx", "args": ["mcp-remote@latest", "https://mcp.notion.com/mcp"]},
        "fixed": {"command": "npx", "args": ["mcp-remote", "https://example.org/mcp", "9696"]},
    }}));
    eprintln!("{out}{err}");
    assert_eq!(code, Some(0), "{err}");
    assert!(
        out.contains(
            "    url: https://example.org/mcp\n    headers:\n      Authorization: \"Bearer ${KB_TOKEN}\"\n"
        ),
        "{out}"
    );
    assert!(out.contains("    url: https://mcp.notion.com/mcp\n"), "{out}");
    assert!(out.contains("    args: [\"mcp-remote\", \"https://example.org/mcp\", \"9696\"]\n"), "{out}");
    for name in ["kb", "notion"] {
        assert!(err.contains(&format!("{name}: the bridge `mcp-remote` is left out")), "{err}");
    }
    assert!(!err.contains("fixed:") && err.contains("set the variable KB_TOKEN: needed by `kb`"), "{err}");
    let (code, told) = check(&out.replace("${KB_TOKEN}", "x"));
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn a_login_and_a_timeout_of_a_client_are_imported() {
    let (code, out, err) = import(&json!({"mcpServers": {
        "a": {"url": "https://a.example/mcp", "auth": "oauth", "timeout": 90},
        "b": {"command": "x", "timeout": 20_500, "auth": "oauth"},
        "c": {"url": "https://c.example/mcp", "auth": "tok-1", "timeout": 1_000},
    }}));
    eprintln!("{out}{err}");
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("timeout: 90s\n    url: https://a.example/mcp\n    auth: oauth\n"), "{out}");
    assert!(out.contains("timeout: 20500ms\n    command: x\n"), "{out}");
    for note in [
        "a: `timeout`: 90 is read as 90s",
        "b: not taken over: `auth`",
        "c: not taken over: `auth`, `timeout`",
    ] {
        assert!(err.contains(note), "{note}: {err}");
    }
    let (code, told) = check(&out);
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn an_entry_that_leads_to_switchyard_itself_is_left_out() {
    let (code, out, err) = import(&json!({"mcpServers": {
        "switchyard": {"url": "https://gateway.example/mcp"},
        "by-url": {"url": "http://localhost:8080/mcp/files"},
        "by-program": {"command": "/usr/bin/switchyard", "args": ["stdio"]},
        "by-package": {"command": "npx", "args": ["-y", "switchyard-mcp", "stdio"]},
        "other": {"url": "http://localhost:8081/mcp"},
    }}));
    eprintln!("{out}{err}");
    assert_eq!(code, Some(0), "{err}");
    for name in ["switchyard", "by-url", "by-program", "by-package"] {
        assert!(err.contains(&format!("{name}: left out: it leads to Switchyard itself")), "{err}");
        assert!(!out.contains(&format!("  {name}:\n")), "{out}");
    }
    assert!(out.contains("  other:\n    url: http://localhost:8081/mcp\n"), "{out}");
}

#[test]
fn variables_that_have_to_be_set_are_listed_once_and_only_for_servers_that_remain() {
    let (code, out, err) = import(&json!({"mcpServers": {
        "a": {"url": "https://a.example/mcp", "headers": {"X-Key": "${A_KEY}", "Y-Key": "${env:B_KEY}"}},
        "b": {"command": "x", "args": ["${A_KEY}", "${HOME}", "${C_KEY:-c}"], "env": {"D_KEY": "${D_KEY}"}},
        "left": {"command": "x", "args": ["${E_KEY}", {}]},
    }}));
    eprintln!("{out}{err}");
    assert_eq!(code, Some(0), "{err}");
    let listed: Vec<&str> = err.lines().filter(|line| line.contains("set the variable")).collect();
    assert_eq!(
        listed,
        [
            "mcp.json: set the variable A_KEY: needed by `a`",
            "mcp.json: set the variable B_KEY: needed by `a`",
            "mcp.json: set the variable D_KEY: needed by `b`",
        ]
    );
    assert!(out.contains("#   B_KEY: needed by `a`\n"), "{out}");
}

#[test]
fn urls_of_gemini_and_windsurf_are_servers() {
    let (code, out, err) = import(&json!({"mcpServers": {
        "gemini": {"httpUrl": "https://g.example/mcp", "headers": {"X": "1"}},
        "windsurf": {"serverUrl": "https://w.example/mcp"},
    }}));
    eprintln!("{out}{err}");
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let (code, told) = check(&out);
    assert_eq!(code, Some(0), "{told}");
    for url in ["https://g.example/mcp", "https://w.example/mcp", "valid, 2 servers"] {
        assert!(told.contains(url), "{told}");
    }
}

#[test]
fn global_lists_of_gemini_switch_servers_off_and_are_not_reported_as_lost() {
    let servers = json!({"a": {"command": "a"}, "b": {"command": "b"}, "c": {"command": "c"}});
    for (lists, lost) in [
        (json!({"allowed": ["a", "b"], "excluded": ["b"]}), "not taken over: `ui`\n"),
        (json!({"allowed": ["a"], "serverCommand": "x"}), "not taken over: `mcp`, `ui`\n"),
    ] {
        let (code, out, err) = import(&json!({"mcp": lists, "mcpServers": servers, "ui": {"theme": "x"}}));
        assert_eq!(code, Some(0), "{err}");
        let is_off = ["a", "b", "c"].map(|name| out.contains(&format!("  {name}:\n    enabled: false\n")));
        assert_eq!(is_off, [false, true, true], "{out}");
        assert!(err.contains(lost), "{err}");
    }
}

#[test]
fn a_file_that_yields_no_server_is_not_a_success() {
    for file in [json!({"mcpServers": {}}), json!({"mcpServers": {"a": {"type": "ws"}}})] {
        let (code, out, err) = import(&file);
        eprintln!("{code:?}: {err}");
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        assert!(err.ends_with("no server could be imported, so nothing is printed\n"), "{err}");
    }
}

/// A file of others must not name the secrets of the vault, wherever a reference may stand.
#[test]
fn a_reference_to_a_secret_in_a_file_of_others_is_a_text() {
    let (code, out, err) = import(&json!({"mcpServers": {
        "child": {
            "command": "some-server",
            "args": ["--key=${secret:stripe}", "${secret:stripe:-none}"],
            "env": {"KEY": "${secret:stripe}"},
        },
        "remote": {
            "url": "https://example.org/${secret:stripe}/mcp",
            "headers": {"Authorization": "Bearer ${secret:stripe}"},
        },
    }}));
    eprintln!("{out}{err}");
    assert_eq!(code, Some(0), "{err}");
    let written = out.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<String>();
    assert_eq!(written.matches("$${secret:stripe").count(), 5, "{out}");
    assert_eq!(written.matches("${secret:stripe").count(), 5, "{out}");
    assert_eq!(err.matches("is a text here").count(), 5, "{err}");
    let (_, told) = check(&out);
    assert!(!told.contains("secret set"), "nothing asks for the secret: {told}");
}
