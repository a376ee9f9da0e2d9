//! Servers of clients that move to the configuration file.

use std::fs;

use super::*;
use crate::connect::plan;
use crate::connect::tests::gateway;

/// Both files after an import of `theirs` into `ours`, and the notes.
fn moved(id: &str, theirs: &str, ours: Option<&str>) -> (String, Option<String>, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, registry) = (folder.path().join("client"), folder.path().join("mcp_servers.yaml"));
    fs::write(&file, theirs).expect("written");
    if let Some(ours) = ours {
        fs::write(&registry, ours).expect("written");
    }
    let client = Client::find(id).expect("a client");
    let plan = plan(
        client,
        &file,
        &gateway(),
        Some(&mut Registry { path: registry, inherited: Vec::new(), secrets: None }),
    )
    .expect("a plan");
    (plan.client.after, plan.registry.map(|change| change.after), plan.notes)
}

const JSON: &str = r#"{"mcpServers": {
  "files": {"command": "npx", "args": ["-y", "files"]},
  // a server of today
  "issues": {"url": "https://issues.example/mcp", "headers": {"X-Team": "a"}},
  "broken": {"x": 1},
  "again": {"url": "http://localhost:8080/sse"},
  "switchyard": {"url": "http://127.0.0.1:9/mcp"}
}}
"#;

#[test]
fn all_servers_move_to_a_new_file_and_one_url_stays() {
    let (client, registry, notes) = moved("cursor", JSON, None);
    let registry = registry.expect("a file");
    assert!(
        registry.contains("mcp_servers:\n  files:\n    command: npx\n    args: [\"-y\", \"files\"]\n"),
        "{registry}"
    );
    assert!(registry.contains("  issues:\n    url: https://issues.example/mcp\n"), "{registry}");
    assert!(!registry.contains("switchyard:") && !registry.contains("broken"), "{registry}");
    assert!(!client.contains("files") && !client.contains("issues"), "{client}");
    assert!(client.contains("\"broken\"") && client.contains("8080"), "{client}");
    let again = "again: it stays where it is: it leads to Switchyard itself";
    assert!(client.contains("again") && !registry.contains("again"), "{client}{registry}");
    assert!(notes.iter().any(|note| note == again), "{notes:?}");
    assert!(notes.iter().any(|note| note.starts_with("broken: it stays where it is: ")), "{notes:?}");
}

#[test]
fn an_existing_file_keeps_its_text_and_servers_of_the_same_name_are_compared() {
    let ours = "# mine\nserver:\n  listen: 127.0.0.1:8080\nmcp_servers:\n    files: # same\n        command: npx\n        args: [-y, files]\n\n    issues:\n        url: https://other.example/mcp\n\n# last\ntool_names: bare\n";
    let (client, registry, notes) = moved("cursor", JSON, Some(ours));
    let expected = "    issues:\n        url: https://other.example/mcp\n    issues-2:\n      url: https://issues.example/mcp\n";
    assert!(registry.as_ref().is_some_and(|text| text.contains(expected)), "{registry:?}");
    assert!(!client.contains("\"files\"") && !client.contains("\"issues\""), "{client}");
    let near = "issues: it is called `issues-2` here, because the file has another `issues`";
    assert!(notes.iter().any(|note| note == near), "{notes:?}");
    let (_, again, _) = moved("cursor", JSON, registry.as_deref());
    assert_eq!(again, None, "an identical server is there once");
    let ours = ours.replace("issues:", "tickets:");
    let (client, registry, _) = moved("cursor", JSON, Some(&ours));
    let expected = "    issues:\n      url: https://issues.example/mcp\n      headers:\n        X-Team: \"a\"\n\n# last\n";
    assert!(registry.as_ref().is_some_and(|text| text.contains(expected)), "{registry:?}");
    assert!(registry.is_some_and(|text| text.starts_with("# mine\n") && text.contains("files: # same\n")));
    assert!(!client.contains("\"issues\""), "{client}");
}

#[test]
fn references_to_variables_are_written_as_the_configuration_file_reads_them() {
    let server = "    url: https://a.example/mcp\n    headers:\n      Authorization: \"Bearer ${KEY}\"\n";
    for (id, theirs) in [
        (
            "opencode",
            r#"{"mcp": {"a": {"type": "remote", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer {env:KEY}"}}}}"#,
        ),
        ("codex", "[mcp_servers.a]\nurl = \"https://a.example/mcp\"\nbearer_token_env_var = \"KEY\"\n"),
        (
            "cursor",
            r#"{"mcpServers": {"a": {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${env:KEY}"}}}}"#,
        ),
        (
            "continue",
            "mcpServers:\n  - name: a\n    type: streamable-http\n    url: https://a.example/mcp\n    requestOptions:\n      headers:\n        Authorization: Bearer ${{ secrets.KEY }}\n",
        ),
    ] {
        let (_, registry, notes) = moved(id, theirs, None);
        assert!(registry.as_ref().is_some_and(|text| text.ends_with(server)), "{id}: {registry:?} {notes:?}");
        assert!(notes.iter().any(|note| note.starts_with("set the variable KEY")), "{id}: {notes:?}");
    }
}

#[test]
fn servers_inside_a_client_stay_there() {
    let theirs = "extensions:\n  developer:\n    enabled: true\n    type: builtin\n    name: developer\n";
    let (client, registry, notes) = moved("goose", theirs, None);
    assert!(client.starts_with(theirs), "{client}");
    assert_eq!(registry, None);
    assert!(notes.iter().any(|note| note.starts_with("developer: it stays where it is: ")), "{notes:?}");
}

#[test]
fn timeouts_and_switched_off_tools_come_along_in_the_unit_of_their_client() {
    for (id, theirs, expected) in [
        (
            "codex",
            "[mcp_servers.a]\ncommand = \"a\"\nstartup_timeout_sec = 20\ntool_timeout_sec = 2.5\ndisabled_tools = [\"x\"]\nenabled_tools = [\"x\", \"y\"]\nenv_vars = [\"A\", { name = \"B\", source = \"local\" }]\n",
            "    timeout: 2500ms\n    start_timeout: 20s\n    tools:\n      allow: [\"y\"]\n      deny: [\"x\"]\n    command: a\n    pass_env: [\"A\", \"B\"]\n",
        ),
        (
            "gemini",
            r#"{"mcpServers": {"a": {"command": "a", "timeout": 2000, "trust": true, "includeTools": ["x"]}}}"#,
            "    # not taken over: `trust`\n    timeout: 2s\n    tools:\n      allow: [\"x\"]\n    command: a\n",
        ),
        (
            "cline",
            r#"{"mcpServers": {"a": {"command": "a", "timeout": 1800, "autoApprove": ["x"]}}}"#,
            "    # `timeout`: 1800 is 600s here, the most that there is\n    # not taken over: `autoApprove`\n    timeout: 600s\n    max_timeout: 1800s\n    command: a\n",
        ),
        (
            "roo",
            r#"{"mcpServers": {"a": {"command": "a", "timeout": 90, "disabledTools": ["x"]}}}"#,
            "    timeout: 90s\n    tools:\n      deny: [\"x\"]\n    command: a\n",
        ),
        (
            "opencode",
            r#"{"mcp": {"a": {"type": "local", "command": ["a"], "timeout": 3000}}}"#,
            "    timeout: 3s\n    command: a\n",
        ),
        (
            "hermes",
            "mcp_servers:\n  a:\n    command: a\n    timeout: 120\n    connect_timeout: 60\n    tools: {exclude: x, prompts: false}\n",
            "    timeout: 120s\n    start_timeout: 60s\n    tools:\n      deny: [\"x\"]\n    command: a\n",
        ),
        (
            "goose",
            "extensions:\n  a:\n    type: stdio\n    cmd: a\n    timeout: 700\n    available_tools: [x]\n    env_keys: [KEY]\n",
            "    # `timeout`: 700 is 600s here, the most that there is\n    timeout: 600s\n    max_timeout: 700s\n    tools:\n      allow: [\"x\"]\n    command: a\n    env:\n      KEY: \"${KEY}\"\n",
        ),
        (
            "copilot-cli",
            r#"{"mcpServers": {"a": {"type": "local", "command": "a", "tools": ["x"], "timeout": 600}}}"#,
            "    # `timeout`: 600 is 1s here, the least that there is\n    timeout: 1s\n    tools:\n      allow: [\"x\"]\n    command: a\n",
        ),
        (
            "zed",
            r#"{"context_servers": {"a": {"command": {"path": "a", "args": ["b"], "env": {"C": "d"}}, "enabled": false}}}"#,
            "    enabled: false\n    command: a\n    args: [\"b\"]\n    env:\n      C: \"d\"\n",
        ),
    ] {
        let (client, registry, notes) = moved(id, theirs, None);
        let has_moved = ["\"a\"", "servers.a]", "  a:\n"].iter().all(|name| !client.contains(name));
        assert!(has_moved, "{id}: {client}");
        let registry = registry.unwrap_or_else(|| panic!("{id}: {notes:?}"));
        let expected = format!("mcp_servers:\n  a:\n{expected}");
        assert!(registry.ends_with(&expected), "{id}: {registry}");
    }
}
