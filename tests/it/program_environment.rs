//! The environment of a program: variables of `env_file`, and those of this machine that an import names.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::{Gateway, Registry, eventually};

/// A program that writes the variables `A` and `B` to the file `seen` of `folder`, complains about them, and ends.
fn showing(folder: &Path) -> Registry {
    let seen = folder.join("seen");
    let script = format!("echo \"$$A $$B\" > {}; echo \"bad keys $$A $$B\" >&2; exit 1", seen.display());
    Registry::new().command("one", "sh", &["-c", &script])
}

fn output(gateway: &Gateway, arguments: &[&str]) -> (Option<i32>, String) {
    let (status, text) = gateway.printed(arguments);
    (status.code(), text)
}

#[tokio::test]
async fn a_program_gets_the_variables_of_its_file_and_a_reload_reads_them_again() {
    let gateway = Gateway::with_config("");
    let folder = gateway.folder().to_owned();
    let file = folder.join("one.env");
    fs::write(&file, "# of one\nexport A='first value'\nB=from-the-file\n").expect("written");
    let registry = showing(&folder).with("env_file: one.env").with("env: {B: from-the-entry}");
    fs::write(folder.join("mcp_servers.yaml"), registry.yaml()).expect("written");
    let seen = || fs::read_to_string(folder.join("seen")).unwrap_or_default();

    let (_, told) = output(&gateway, &["check", "--connect", "mcp_servers.yaml"]);
    assert_eq!(seen(), "first value from-the-entry\n", "`env` takes precedence: {told}");
    assert!(told.contains("bad keys *** ***"), "its values are secrets: {told}");

    let running = gateway.start().await;
    fs::write(&file, "A=\"second value\"\n").expect("written");
    let reloaded = running.post("/reload", "").await.json();
    assert_eq!(reloaded["changed"], json!(["one"]), "{reloaded}");
    eventually("the new value arrives", async || seen().starts_with("second value").then_some(())).await;
    let unchanged = running.post("/reload", "").await.json();
    assert_eq!(unchanged["changed"], json!([]), "{unchanged}");

    fs::write(&file, "A=b\ns3cret\n").expect("written");
    let (code, told) = output(running.gateway(), &["check", "mcp_servers.yaml"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains("mcp_servers.yaml:5:") && told.contains("line 2 of the file: it has no `=`"),
        "{told}"
    );
    assert!(!told.contains("s3cret"), "{told}");
    fs::remove_file(&file).expect("removed");
    let (code, told) = output(running.gateway(), &["check", "mcp_servers.yaml"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("one.env") && told.contains("the file cannot be read"), "{told}");
}
