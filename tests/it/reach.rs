//! `switchyard check --connect`: what every server has, and why one can not be used.

use std::process::Output;

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
fn what_every_server_has_is_told_and_nothing_of_it_stays() {
    let server = Scripted::modern().tool(Tool::named("a")).tool(Tool::named("b")).start();
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("record");
    let registry = Registry::new()
        .http("one", &server.url())
        .with("tools: {deny: [bb]}")
        .child("two", &["--era", "legacy", "--tools", "x", "--record", &record.display().to_string()])
        .http("off", "http://127.0.0.1:1/mcp")
        .with("enabled: false");
    let (code, out, err) = connect(&registry);
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(row(&out, "one"), ["one", "ready", "2026-07-28", "2", "0", "0"], "{out}");
    assert_eq!(row(&out, "two"), ["two", "ready", "2025-11-25", "1", "0", "0"], "{out}");
    assert!(err.starts_with("warning: one: ") && err.contains("bb") && err.lines().count() == 1, "{err}");
    assert!(server.seen_calling("tools/call").is_empty());
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
fn a_file_that_is_wrong_has_nothing_connected_to() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let (code, out, err) = connect(&Registry::new().http("one", &server.url()).with("timeout: 0"));
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("timeout") && server.seen().is_empty(), "{err}");
}
