//! The program without a configuration file, and the commands that write one.

use serde_json::{Value, json};

use crate::support::{Gateway, eventually};

const TWO: &str = "mcp_servers:\n  one: {command: \"true\", enabled: false}\n";

#[tokio::test]
async fn without_a_file_the_documentation_is_served_until_there_is_one() {
    let gateway = Gateway::without_file().start().await;
    let page = eventually("the documentation is read", async || {
        let arguments = json!({"path": "getting-started.md"});
        let answer = gateway.call("handbook", "get_handbook_section", arguments).await.json().to_string();
        answer.contains("Getting started").then_some(answer)
    });
    assert!(page.await.contains("mcp_servers.yaml"));
    let is_hint =
        |line: &Value| line["message"].as_str().is_some_and(|text| text.contains("`switchyard init`"));
    gateway.logs("the start says how to go on", is_hint).await;
    let refused = gateway.post("/reload", "").await;
    assert_eq!(refused.status, 422, "{}", refused.json());
    assert!(
        refused.json()["detail"].as_str().expect("a text").contains("`switchyard init` writes a first one")
    );
    assert_eq!(gateway.get("/servers").await.json()["servers"][0]["name"], "handbook", "it stays");
    gateway.rewrite(TWO);
    let reloaded = gateway.post("/reload", "").await.json();
    assert_eq!((&reloaded["added"], &reloaded["removed"]), (&json!(["one"]), &json!(["handbook"])));
}

#[test]
fn a_client_on_standard_input_is_served_the_documentation_too() {
    let mut session = Gateway::without_file().start_stdio();
    let tools = session.modern("tools/list", json!({})).to_string();
    assert!(tools.contains("search_handbook"), "{tools}");
}

#[test]
fn a_file_that_is_named_and_not_there_stays_an_error() {
    let absent = Gateway::without_file();
    let told = absent.output(&["check"]);
    let out = String::from_utf8_lossy(&told.stdout);
    assert_eq!(told.status.code(), Some(0), "{out}");
    assert!(
        out.contains("serves its own documentation") && out.contains("`switchyard add NAME URL`"),
        "{out}"
    );
    let of_variable = Gateway::without_file().env("SWITCHYARD_CONFIG", "mcp_servers.yaml");
    for (gateway, arguments) in [
        (&absent, &["check", "mcp_servers.yaml"][..]),
        (&absent, &["check", "--config", "mcp_servers.yaml"]),
        (&absent, &["serve", "--config", "mcp_servers.yaml"]),
        (&absent, &["--config", "mcp_servers.yaml"]),
        (&absent, &["stdio", "--config", "mcp_servers.yaml"]),
        (&of_variable, &["stdio"]),
        (&of_variable, &["check"]),
    ] {
        let told = gateway.output(arguments);
        let err = String::from_utf8_lossy(&told.stderr);
        assert_eq!(told.status.code(), Some(2), "{arguments:?}: {err}");
        assert!(
            err.contains("mcp_servers.yaml: the configuration file cannot be read"),
            "{arguments:?}: {err}"
        );
    }
}

#[test]
fn init_disables_servers_whose_variables_have_no_value_and_check_accepts_the_file() {
    let gateway = Gateway::without_file().env("IS_SET", "x");
    let cursor = gateway.folder().join(".cursor");
    std::fs::create_dir(&cursor).expect("made");
    let servers = r#"{"mcpServers": {
        "plain": {"command": "true"},
        "with_value": {"command": "true", "env": {"A": "${env:IS_SET}"}},
        "issues": {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer ${env:ISSUES_TOKEN}"}},
        "tracker": {"command": "true", "env": {"A": "${env:TRACKER_KEY}", "B": "${env:TRACKER_KEY}", "C": "${env:OTHER}"}}
    }}"#;
    std::fs::write(cursor.join("mcp.json"), servers).expect("written");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let output = gateway.output(&["init", "--yes"]);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(
        err.contains("issues: it is disabled, because `${ISSUES_TOKEN}` is not set in the environment"),
        "{err}"
    );
    let file = std::fs::read_to_string(gateway.folder().join("mcp_servers.yaml")).expect("written");
    for part in [
        "  issues:\n    # Disabled, because `${ISSUES_TOKEN}` is not set in the environment.\n    enabled: false\n",
        "  tracker:\n    # Disabled, because `${TRACKER_KEY}` is not set in the environment.\n    # Disabled, because `${OTHER}` \
         is not set in the environment.\n    enabled: false\n",
        "  plain:\n    command",
        "  with_value:\n    command",
    ] {
        assert!(file.contains(part), "{part} is missing: {file}");
    }
    let checked = gateway.output(&["check"]);
    let out = text(&checked.stdout);
    assert_eq!(checked.status.code(), Some(0), "{out}{}", text(&checked.stderr));
    let states: Vec<_> = out
        .lines()
        .filter_map(|line| Some((line.split(' ').next()?, line.split(' ').next_back()?)))
        .collect();
    for (server, state) in [("plain", "enabled"), ("issues", "disabled"), ("tracker", "disabled")] {
        assert!(states.contains(&(server, state)), "{server}: {out}");
    }
    let with_values = gateway.env("ISSUES_TOKEN", "x").env("TRACKER_KEY", "x").env("OTHER", "x");
    std::fs::write(with_values.folder().join("mcp_servers.yaml"), file.replace("    enabled: false\n", ""))
        .expect("written");
    assert_eq!(with_values.output(&["check"]).status.code(), Some(0), "the entries are whole");
}

#[tokio::test]
async fn a_first_file_is_written_edited_and_applied() {
    let gateway = Gateway::without_file().start().await;
    let ran = |arguments: &[&str], input: &str| {
        let output = gateway.gateway().output_with_input(arguments, input.as_bytes());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let cursor = gateway.folder().join(".cursor");
    std::fs::create_dir(&cursor).expect("made");
    std::fs::write(cursor.join("mcp.json"), r#"{"mcpServers": {"files": {"command": "true"}}}"#)
        .expect("written");
    assert!(ran(&["init", "--yes"], "").contains("+   files:\n"));
    ran(&["add", "web", "http://127.0.0.1:1/mcp", "--yes"], "");
    let snippet = r#"{"servers": {"memory": {"type": "stdio", "command": "true", "args": ["-y"]}}}"#;
    ran(&["add", "--yes"], snippet);
    ran(&["remove", "web", "--yes"], "");
    assert!(ran(&["check"], "").contains("valid, 2 servers"));
    let reloaded = gateway.post("/reload", "").await.json();
    assert_eq!(reloaded["added"], json!(["files", "memory"]));
    let printed: Value = serde_json::from_str(&ran(&["schema"], "")).expect("JSON");
    let written = std::fs::read(gateway.folder().join("mcp_servers.schema.json")).expect("written by init");
    assert_eq!(serde_json::from_slice::<Value>(&written).expect("JSON"), printed);
    assert!(printed["properties"]["mcp_servers"]["additionalProperties"]["properties"]["url"].is_object());
}
