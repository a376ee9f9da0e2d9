//! `switchyard secret` and `${secret:NAME}`: from the command line to the header that a server receives.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use serde_json::json;

use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running, eventually};

const CANARY: &str = "canary-91c4";
const KEY: &str = "the vault key of the tests: 32 bytes or more";
const OTHER: &str = "another key of the tests: 32 bytes or more";

/// Runs `switchyard secret set` with `value` on standard input.
fn set(gateway: &Gateway, name: &str, value: &[u8]) -> Output {
    gateway.output_with_input(&["secret", "set", name], value)
}

fn set_well(gateway: &Gateway, name: &str, value: &str) {
    let output = set(gateway, name, value.as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
}

/// Both outputs, which never contain a secret.
fn output_text(output: &Output) -> String {
    let told = [&output.stdout[..], &output.stderr].concat();
    let told = String::from_utf8(told).expect("UTF-8");
    assert!(!told.contains(CANARY), "a secret shows: {told}");
    told
}

fn secret(gateway: &Gateway, arguments: &[&str]) -> (Option<i32>, String) {
    let output = gateway.output(&[&["secret"], arguments].concat());
    (output.status.code(), output_text(&output))
}

fn state_of(folder: &Path) -> std::path::PathBuf {
    folder.join(".local/state/switchyard")
}

/// Asserts that no file below `folder` contains the canary.
fn assert_no_canary_below(folder: &Path) {
    for entry in std::fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            assert_no_canary_below(&path);
        } else {
            let bytes = std::fs::read(&path).expect("readable");
            assert!(!String::from_utf8_lossy(&bytes).contains(CANARY), "{}", path.display());
        }
    }
}

fn server() -> Server {
    Scripted::modern().tool(Tool::named("a")).start()
}

fn registry(server: &Server) -> Registry {
    Registry::new().http("one", &server.url()).with("auth: {bearer: \"${secret:API_TOKEN}\"}")
}

/// Waits until a call reaches the server with `token`.
async fn sends(gateway: &Running, server: &Server, token: &str) {
    let expected = format!("Bearer {token}");
    eventually("the server is sent the token", async || {
        gateway.call("one", "a", json!({})).await;
        let last = server.seen_calling("tools/call").pop()?;
        (last.header("authorization") == Some(expected.as_str())).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_secret_that_was_set_is_sent_to_the_server_and_is_shown_nowhere() {
    let server = server();
    let gateway = Gateway::of(&registry(&server));
    let checked = gateway.output(&["check", "mcp_servers.yaml"]);
    assert_eq!(checked.status.code(), Some(2));
    let problem = output_text(&checked);
    assert!(
        problem.contains("mcp_servers.yaml:") && problem.contains("switchyard secret set API_TOKEN"),
        "{problem}"
    );
    assert!(!state_of(gateway.folder()).exists(), "check makes no files");
    set_well(&gateway, "API_TOKEN", &format!("{CANARY}-1\n"));
    let checked = gateway.output(&["check", "mcp_servers.yaml"]);
    assert_eq!(checked.status.code(), Some(0), "{}", output_text(&checked));
    output_text(&checked);
    let gateway = gateway.start().await;
    sends(&gateway, &server, &format!("{CANARY}-1")).await;
    // The gateway runs, and the other process changes the vault.
    set_well(gateway.gateway(), "API_TOKEN", &format!("{CANARY}-2"));
    gateway.hang_up();
    sends(&gateway, &server, &format!("{CANARY}-2")).await;
    let log: Vec<String> = gateway.log().iter().map(ToString::to_string).collect();
    let servers = gateway.get("/servers").await.body;
    assert!(!log.join("\n").contains(CANARY) && !servers.contains(CANARY));
    assert_no_canary_below(gateway.folder());
}

#[test]
fn secrets_are_listed_by_name_and_removed() {
    let gateway = Gateway::with_config("mcp_servers: {}\n");
    assert_eq!(secret(&gateway, &["list"]), (Some(0), "NAME  FOR  SET\n".to_owned()));
    set_well(&gateway, "B", CANARY);
    set_well(&gateway, "A", &format!("{CANARY}\r\n"));
    let (code, listed) = secret(&gateway, &["list"]);
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!((code, names), (Some(0), vec!["NAME", "A", "B"]));
    assert!(listed.lines().skip(1).all(|line| line.ends_with('Z') && line.contains('T')), "{listed}");
    assert_eq!(secret(&gateway, &["remove", "A"]).0, Some(0));
    let (code, told) = secret(&gateway, &["remove", "A"]);
    assert!(code == Some(1) && told.contains("has no secret `A`"), "{told}");
    assert!(!secret(&gateway, &["list"]).1.contains("\nA "));
}

#[test]
fn a_value_that_cannot_be_a_secret_changes_nothing() {
    let gateway = Gateway::with_config("mcp_servers: {}\n");
    set_well(&gateway, "A", "good");
    let before = std::fs::read(state_of(gateway.folder()).join("vault.json")).expect("there");
    for (value, reason) in [
        (vec![], "the value is empty"),
        (b"\n".to_vec(), "the value is empty"),
        (b"\xff".to_vec(), "not UTF-8"),
        (vec![b'x'; 65_537], "at most 65536 bytes"),
    ] {
        let output = set(&gateway, "A", &value);
        assert_eq!(output.status.code(), Some(1), "{reason}");
        assert!(output_text(&output).contains(reason), "{reason}: {}", output_text(&output));
    }
    for arguments in [&["set", "A", "value"][..], &["set", "9"], &["set", "a b"], &["remove", ""], &["set"]] {
        assert_eq!(secret(&gateway, arguments).0, Some(2), "{arguments:?}");
    }
    assert_eq!(std::fs::read(state_of(gateway.folder()).join("vault.json")).expect("there"), before);
    let long = set(&gateway, "A", format!("{}\r\n", "x".repeat(65_536)).as_bytes());
    assert_eq!(long.status.code(), Some(0), "as long as allowed");
}

#[test]
fn the_vault_follows_its_settings_and_its_keys_rotate() {
    let file = |keys: &str| {
        format!(
            "server: {{state_dir: kept, vault_key: {keys}}}\nmcp_servers: {{one: {{url: \"http://localhost:1/${{secret:A}}\"}}}}\n"
        )
    };
    let gateway = Gateway::with_config(&file("\"${KEY}\"")).env("KEY", KEY).env("OTHER", OTHER);
    let check = |keys: &str| {
        std::fs::write(gateway.folder().join("mcp_servers.yaml"), file(keys)).expect("written");
        let output = gateway.output(&["check", "mcp_servers.yaml"]);
        (output.status.code(), output_text(&output))
    };
    set_well(&gateway, "A", CANARY);
    assert!(
        gateway.folder().join("kept/vault.json").exists()
            && !gateway.folder().join("kept/vault.key").exists()
    );
    assert_eq!(check("[\"${OTHER}\", \"${KEY}\"]").0, Some(0));
    let (code, problem) = check("\"${OTHER}\"");
    assert!(
        code == Some(2) && problem.contains("sealed with another key") && problem.contains("kept/vault.json")
    );
    check("[\"${OTHER}\", \"${KEY}\"]");
    set_well(&gateway, "B", "1");
    assert_eq!(check("\"${OTHER}\"").0, Some(0), "resealed by the write");
    let (code, problem) = check("\"${secret:A}\"");
    assert!(code == Some(2) && problem.contains("this setting opens the vault"), "{problem}");
    let (code, problem) = check(&format!("\"{KEY}\""));
    assert!(code == Some(2) && problem.contains("a key stands in the file itself") && !problem.contains(KEY));
}

#[test]
fn a_vault_that_cannot_be_read_stops_only_what_needs_it() {
    let gateway = Gateway::with_config("mcp_servers: {one: {url: \"http://localhost:1/${secret:A}\"}}\n");
    set_well(&gateway, "A", CANARY);
    let key = state_of(gateway.folder()).join("vault.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).expect("changed");
    let check = || {
        let output = gateway.output(&["check", "mcp_servers.yaml"]);
        (output.status.code(), output_text(&output))
    };
    let (code, problem) = check();
    assert!(code == Some(2) && problem.contains("chmod 600") && problem.contains("vault.key"), "{problem}");
    let (code, problem) = secret(&gateway, &["list"]);
    assert!(code == Some(1) && problem.contains("chmod 600"), "{problem}");
    let without = "mcp_servers: {one: {url: \"http://localhost:1/\"}}\n";
    std::fs::write(gateway.folder().join("mcp_servers.yaml"), without).expect("written");
    assert_eq!(check().0, Some(0), "the file refers to no secret");
}
