//! API keys in a file that commands change while the gateway runs (`keys_file`).

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::messages::texts_of;
use crate::revoked::{Open, bearer};
use crate::support::scripted::{Scripted, Tool};
use crate::support::{Gateway, Registry, Running, eventually};

const SETTINGS: &str = "server: {auth_mode: api_key, keys_file: keys.json}";

/// Runs `switchyard key` with `arguments`. Returns exit code, standard output and standard error.
fn key(gateway: &Gateway, arguments: &[&str]) -> (Option<i32>, String, String) {
    texts_of(&gateway.output(&[&["key"], arguments].concat()))
}

/// Waits until requests with `key` have `status`.
async fn has_status(gateway: &Running, key: &str, status: u16) {
    let client = reqwest::Client::new();
    eventually("the keys are read again", async || {
        let request = client.get(gateway.url("/api/v1/mcp/servers")).header("x-api-key", key);
        (request.send().await.expect("an answer").status() == status).then_some(())
    })
    .await;
}

#[tokio::test]
async fn keys_are_added_and_revoked_while_the_gateway_runs() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url()).setting(SETTINGS)).start().await;
    let of = |arguments: &[&str]| key(gateway.gateway(), arguments);
    let (code, out, err) = of(&["add", "goes", "--role", "superuser"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("goes: this key has the role superuser") && err.contains("X-API-Key"), "{err}");
    let goes = out.trim().to_owned();
    assert!(goes.starts_with("swy_goes_") && out.lines().count() == 1, "{out}");
    let stays = of(&["add", "stays", "--role", "reader", "--expires", "2099-01-01"]).1.trim().to_owned();
    has_status(&gateway, &goes, 200).await;
    has_status(&gateway, &stays, 200).await;
    gateway.offers_to("a", &bearer(&goes)).await;

    let path = gateway.folder().join("keys.json");
    let text = fs::read_to_string(&path).expect("written");
    assert!(!text.contains(&goes) && !text.contains(&stays), "no key is stored: {text}");
    assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
    let (_, table, _) = of(&["list"]);
    assert!(table.contains("goes") && table.contains("2099-01-01") && !table.contains("sha256"), "{table}");
    let (code, _, err) = of(&["add", "goes"]);
    assert!(code == Some(1) && err.contains("there is a key `goes` already"), "{err}");

    // Mistakes in the file do not keep a key alive.
    gateway
        .rewrite(&format!("{}, listn: \"${{NO_SUCH}}\"}}\nmcp_servers: 1\n", SETTINGS.trim_end_matches('}')));
    let mut open = Open::of(&gateway, &goes).await;
    let (code, _, err) = of(&["revoke", "goes"]);
    assert_eq!(code, Some(0), "{err}");
    open.ends().await;
    assert_eq!(open.next_requests().await, [401, 401]);
    has_status(&gateway, &goes, 401).await;
    has_status(&gateway, &stays, 200).await;
    let (code, _, err) = of(&["revoke", "goes"]);
    assert!(code == Some(1) && err.contains("there is no key `goes`"), "{err}");

    // A file that cannot be used changes nothing; without the file nobody comes in.
    fs::write(&path, "{").expect("written");
    let is_error = |line: &serde_json::Value| {
        line["message"].as_str().is_some_and(|text| text.contains("keys were not read again"))
    };
    gateway.logs("the mistake is logged", is_error).await;
    has_status(&gateway, &stays, 200).await;
    fs::remove_file(&path).expect("removed");
    has_status(&gateway, &stays, 401).await;
}

#[tokio::test]
async fn key_is_revoked_although_the_keys_of_tokens_cannot_be_read() {
    let set = r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "a", "use": "sig",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    let settings = "server:\n  auth_mode: any\n  keys_file: keys.json\n  jwt: {issuer: a, audience: b, algorithm: EdDSA, \
                    jwks_file: set.json}\nmcp_servers: {}\n";
    let gateway = Gateway::with_config(settings);
    let path = gateway.folder().join("set.json");
    fs::write(&path, set).expect("written");
    let made = |name: &str| key(&gateway, &["add", name]).1.trim().to_owned();
    let (goes, stays) = (made("goes"), made("stays"));
    let gateway = gateway.start().await;
    has_status(&gateway, &goes, 200).await;
    fs::remove_file(&path).expect("removed");
    assert_eq!(key(gateway.gateway(), &["revoke", "goes"]).0, Some(0));
    has_status(&gateway, &goes, 401).await;
    has_status(&gateway, &stays, 200).await;
}

#[test]
fn configuration_without_a_file_of_keys_is_told_what_to_write() {
    let open = Gateway::with_config("mcp_servers: {}\n");
    let (code, _, err) = key(&open, &["add", "a"]);
    assert!(code == Some(2) && err.contains("auth_mode: api_key") && err.contains("keys_file: "), "{err}");
    let (_, lines, _) = key(&open, &["new", "--id", "listed", "--role", "caller"]);
    let listed = Gateway::with_config(&format!("{lines}mcp_servers: {{}}\n"));
    let (code, _, err) = key(&listed, &["list"]);
    assert!(code == Some(2) && err.contains("keys_file: "), "{err}");
    let both = Gateway::with_config(&format!("{lines}  keys_file: keys.json\nmcp_servers: {{}}\n"));
    let (code, table, _) = key(&both, &["list"]);
    assert!(code == Some(0) && table.contains("listed") && table.contains("mcp_servers.yaml"), "{table}");
    for arguments in [["revoke", "listed"], ["add", "listed"]] {
        let (code, _, err) = key(&both, &arguments);
        assert!(code == Some(1) && err.contains("`listed` is one of `api_keys`"), "{err}");
    }
    let empty = Gateway::with_config(&format!("{SETTINGS}\nmcp_servers: {{}}\n"));
    let (code, out, _) = texts_of(&empty.output(&["check", "mcp_servers.yaml"]));
    assert!(
        code == Some(0) && out.contains("has no key") && out.contains("`switchyard key add NAME`"),
        "{out}"
    );
    let (_, doctor, _) = texts_of(&empty.output(&["doctor", "--offline", "--config", "mcp_servers.yaml"]));
    assert!(doctor.contains("has no key"), "{doctor}");
    key(&empty, &["add", "a"]);
    let path = empty.folder().join("keys.json");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).expect("allowed");
    let (code, _, err) = texts_of(&empty.output(&["check", "mcp_servers.yaml"]));
    assert!(code == Some(2) && err.contains("`chmod 600"), "{err}");
}

#[test]
fn client_that_starts_programs_gets_the_program_and_the_file() {
    let gateway = Gateway::with_config("mcp_servers: {}\n");
    fs::create_dir(gateway.folder().join(".cursor")).expect("made");
    let (code, _, err) = texts_of(&gateway.output(&["connect", "cursor", "--stdio", "--yes"]));
    assert_eq!(code, Some(0), "{err}");
    let text = fs::read_to_string(gateway.folder().join(".cursor/mcp.json")).expect("written");
    let file: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let entry = &file["mcpServers"]["switchyard"];
    assert_eq!(entry["command"], env!("CARGO_BIN_EXE_switchyard"), "{text}");
    let config = gateway.folder().canonicalize().expect("there").join("mcp_servers.yaml");
    assert_eq!(entry["args"], serde_json::json!(["stdio", "--config", config]), "{text}");
    assert!(entry.get("url").is_none(), "{text}");
    let (_, printed, _) = texts_of(&gateway.output(&["connect", "json", "--stdio"]));
    let printed: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(printed["mcpServers"]["switchyard"]["args"], entry["args"]);
    // The entry leads to Switchyard itself, and is no server to import.
    let (_, out, err) = texts_of(&gateway.output(&["import", ".cursor/mcp.json"]));
    assert!(!out.contains("stdio"), "{out}{err}");
}
