//! `switchyard check --connect`: the offer of every server, and why a server cannot be used.

use std::process::Output;

use crate::support::r2r::{EMAIL, PASSWORD, R2r};
use crate::support::scripted::{Scripted, Tool};
use crate::support::{Gateway, Registry};

fn connect(registry: &Registry) -> (Option<i32>, String, String) {
    let gateway = Gateway::of(registry).env("TOKEN", "canary-of-the-token");
    let Output { status, stdout, stderr } = gateway.output(&["check", "--connect", "mcp_servers.yaml"]);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

/// The cells of the last row that begins with `name`.
fn row(out: &str, name: &str) -> Vec<String> {
    let mut rows = out.lines().map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    rows.rfind(|row| row.first().is_some_and(|cell| cell == name)).unwrap_or_default()
}

#[test]
fn connect_check_reports_every_server_and_leaves_nothing_behind() {
    let server = Scripted::modern().tool(Tool::named("a")).tool(Tool::named("b")).start();
    let legacy = Scripted::legacy().tool(Tool::named("c")).start();
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("record");
    let registry = Registry::new()
        .http("one", &server.url())
        .with("tools: {deny: [bb]}")
        .child("two", &["--era", "legacy", "--tools", "x", "--record", &record.display().to_string()])
        .http("three", &legacy.url())
        .http("off", "http://127.0.0.1:1/mcp")
        .with("enabled: false");
    let (code, out, err) = connect(&registry);
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(row(&out, "one"), ["one", "ready", "2026-07-28", "2", "0", "0"], "{out}");
    assert_eq!(row(&out, "two"), ["two", "ready", "2025-11-25", "1", "0", "0"], "{out}");
    assert!(err.starts_with("warning: one: ") && err.contains("bb") && err.lines().count() == 1, "{err}");
    assert!(server.seen_calling("tools/call").is_empty());
    assert_eq!(row(&out, "three")[..2], ["three", "ready"], "{out}");
    assert!(
        !legacy.seen_calling("initialize").is_empty() && legacy.sessions() == 0,
        "it has a session still"
    );
    let record = std::fs::read_to_string(record).expect("it was started");
    let id = record.lines().find_map(|line| line.strip_prefix("started ")).expect("its process");
    assert!(!std::path::Path::new("/proc").join(id).exists(), "it still runs: {record}");
}

#[test]
fn a_server_that_can_not_be_used_is_named_with_the_reason_and_no_secret() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let registry = Registry::new()
        .http("fine", &server.url())
        .http("away", "http://127.0.0.1:1/mcp")
        .with("auth: {bearer: \"${TOKEN}\"}")
        .command("dumb", "sh", &["-c", "echo canary-of-the-token >&2; exit 3"])
        .with("env: {T: \"${TOKEN}\"}")
        .command("gone", "no-such-program-here", &[]);
    let (code, out, err) = connect(&registry);
    assert_eq!(code, Some(1), "{out}{err}");
    assert_eq!(row(&out, "fine")[1], "ready", "the others are told all the same: {out}");
    for (name, reason) in [("away", "refused"), ("dumb", "exit"), ("gone", "PATH")] {
        assert_eq!(row(&out, name), [name, "failed", "-", "-", "-", "-"], "{out}");
        let told = err.lines().find(|line| line.starts_with(&format!("{name}: "))).unwrap_or_default();
        assert!(told.contains(reason), "{name}: {err}");
    }
    assert!(!format!("{out}{err}").contains("canary-of-the-token"), "{out}{err}");
}

#[test]
fn server_whose_entry_is_wrong_is_not_connected_to_and_the_others_are() {
    let servers = ["a", "b"].map(|tool| Scripted::modern().tool(Tool::named(tool)).start());
    let [wrong, right] = &servers;
    let registry = Registry::new().http("one", &wrong.url()).with("timeout: 0").http("two", &right.url());
    let (code, out, err) = connect(&registry);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("timeout") && wrong.seen().is_empty(), "{err}");
    assert_eq!(row(&out, "two")[1], "ready", "{out}");
}

#[test]
fn connect_check_does_not_resume_unfinished_work_of_a_gateway() {
    let r2r = R2r::start();
    let options = format!(
        "r2r: {{email: {EMAIL:?}, password: {PASSWORD:?}, project: p, collection_mapping_file: projects.json}}"
    );
    let url = format!("url: {}", r2r.url());
    let lines = ["transport: builtin", "builtin: r2r", &url, &options].map(str::to_owned);
    let gateway = Gateway::of(&Registry::new().server("r2r", &lines));
    let output = gateway.output(&["check", "--connect", "mcp_servers.yaml"]);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert_eq!(row(&out, "r2r")[1], "ready", "{out}");
    let files = std::fs::read_dir(gateway.folder()).expect("its folder");
    let files: Vec<_> = files.map(|file| file.expect("readable").file_name()).collect();
    assert_eq!(files, ["mcp_servers.yaml"], "the list of what is under way belongs to a gateway");
}
