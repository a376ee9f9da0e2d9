//! The command with its questions, texts and exit codes.

use std::fs;

use clap::Parser;
use tempfile::TempDir;

use super::*;
use crate::cli::{self, EXIT_USAGE};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    connect: Connect,
}

fn nothing(_: &str) -> Result<String, std::env::VarError> {
    Err(std::env::VarError::NotPresent)
}

/// Runs a command line in `folder`, with an answer if there is a terminal.
fn ran(folder: &TempDir, line: &str, answer: Option<&str>) -> (ExitCode, String, String) {
    ran_with(folder, line, answer, &nothing)
}

/// Runs a command line with these variables.
fn ran_with(
    folder: &TempDir,
    line: &str,
    answer: Option<&str>,
    environment: &Lookup<'_>,
) -> (ExitCode, String, String) {
    let config = folder.path().join("mcp_servers.yaml");
    let line = format!("connect {line} --config {}", config.display());
    let arguments = Line::try_parse_from(line.split_whitespace()).expect("a command line").connect;
    let home = folder.path().to_owned();
    let host = Host { system: System::Linux, project: home.join("project"), home, variable: &|_| None };
    cli::tests::ran(answer, |streams| {
        let program = "/usr/bin/switchyard".into();
        run(&arguments, &mut Process { host, program, environment, streams })
    })
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join(".cursor")).expect("made");
    folder
}

fn written(folder: &TempDir) -> Option<String> {
    fs::read_to_string(folder.path().join(".cursor/mcp.json")).ok()
}

#[test]
fn only_a_yes_writes_and_the_diff_is_shown_before() {
    for (flags, answer, code, is_written) in [
        ("", None, ExitCode::FAILURE, false),
        ("", Some("\n"), ExitCode::FAILURE, false),
        ("", Some("no\n"), ExitCode::FAILURE, false),
        ("", Some("y\n"), ExitCode::SUCCESS, true),
        ("--yes", None, ExitCode::SUCCESS, true),
        ("--dry-run", None, ExitCode::SUCCESS, false),
    ] {
        let folder = folder();
        let (found, out, err) = ran(&folder, &format!("cursor {flags}"), answer);
        assert_eq!(found, code, "{flags} {answer:?}: {err}");
        assert!(out.contains("+     \"switchyard\": {"), "{out}");
        assert_eq!(written(&folder).is_some(), is_written, "{flags} {answer:?}");
        assert_eq!(err.contains("[y/N]"), answer.is_some(), "{err}");
    }
}

#[test]
fn connecting_listing_and_undoing_go_together() {
    let folder = folder();
    let (_, out, _) = ran(&folder, "", None);
    assert!(out.contains("cursor  user   not connected"), "{out}");
    fs::write(
        folder.path().join("mcp_servers.yaml"),
        "server: {listen: '0.0.0.0:9000', auth_mode: none, allow_unauthenticated: true}\n",
    )
    .expect("written");
    assert_eq!(ran(&folder, "cursor --yes", None).0, ExitCode::SUCCESS);
    let (_, out, _) = ran(&folder, "", None);
    assert!(out.contains("connected to http://127.0.0.1:9000/mcp"), "{out}");
    let (code, out, err) = ran(&folder, "cursor", None);
    assert!(
        code == ExitCode::SUCCESS && out.is_empty() && err.contains("is already connected"),
        "{out}{err}"
    );
    assert_eq!(ran(&folder, "cursor --undo", None).0, ExitCode::FAILURE, "it asks first");
    let (code, _, err) = ran(&folder, "cursor --undo --yes", None);
    assert!(code == ExitCode::SUCCESS && err.contains("did not exist before"), "{err}");
    assert_eq!(written(&folder), None);
    assert_eq!(ran(&folder, "cursor --undo --yes", None).0, ExitCode::from(EXIT_USAGE));
}

#[test]
fn wrong_arguments_are_refused_with_a_hint() {
    let folder = folder();
    let (code, _, err) = ran(&folder, "cusor", None);
    assert!(code == ExitCode::from(EXIT_USAGE) && err.contains("did you mean `cursor`?"), "{err}");
    let (code, _, err) = ran(&folder, "claude-desktop --view a", None);
    assert!(code == ExitCode::from(EXIT_USAGE) && err.contains("starts a program"), "{err}");
    for line in [
        "cursor --url ftp://a/mcp",
        "cursor --url http://u:p@a/mcp",
        "cursor --url http://a",
        "cursor --key-env A-B",
        "cursor --view a/b",
        "cursor --undo --import",
        "cursor --scope world",
    ] {
        assert!(Line::try_parse_from(format!("connect {line}").split(' ')).is_err(), "{line}");
    }
}

#[test]
fn an_option_then_a_variable_then_the_file_names_the_url() {
    let folder = folder();
    fs::write(folder.path().join("mcp_servers.yaml"), "server: {listen: '127.0.0.1:9000'}\n")
        .expect("written");
    let both = [("SWITCHYARD_URL", "https://gw.example/below/"), ("SWITCHYARD_LISTEN", "0.0.0.0:7000")];
    for (line, variables, expected) in [
        ("json", &both[..0], "http://127.0.0.1:9000/mcp"),
        ("json", &both[1..], "http://127.0.0.1:7000/mcp"),
        ("json", &both[..], "https://gw.example/below/mcp"),
        ("json", &[("SWITCHYARD_URL", "http://gw.example:1/mcp")], "http://gw.example:1/mcp"),
        ("json --url http://a/mcp", &both[..], "http://a/mcp"),
    ] {
        let environment = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned()).ok_or(std::env::VarError::NotPresent)
        };
        let (code, out, err) = ran_with(&folder, line, None, &environment);
        assert_eq!(code, ExitCode::SUCCESS, "{err}");
        assert!(out.contains(&format!("\"url\": \"{expected}\"")), "{line} {variables:?}: {out}");
    }
    let odd = |name: &str| match name {
        "SWITCHYARD_URL" => Ok("http://u:p@gw".to_owned()),
        _ => Err(std::env::VarError::NotPresent),
    };
    let (code, _, err) = ran_with(&folder, "json", None, &odd);
    assert!(code == ExitCode::from(EXIT_USAGE) && err.starts_with("SWITCHYARD_URL: expected"), "{err}");
}

#[test]
fn json_for_other_clients_is_printed() {
    let (code, out, _) = ran(&folder(), "json --view files --key-env KEY", None);
    assert_eq!(code, ExitCode::SUCCESS);
    let entry: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(entry["mcpServers"]["switchyard-files"]["url"], "http://127.0.0.1:8080/mcp/files");
    assert_eq!(entry["mcpServers"]["switchyard-files"]["headers"]["Authorization"], "Bearer ${KEY}");
}

#[test]
fn a_part_of_the_name_of_a_client_is_completed_by_a_hint() {
    let (code, _, err) = ran(&folder(), "claud", None);
    assert_eq!(code, ExitCode::from(EXIT_USAGE));
    assert!(err.ends_with("did you mean `claude-code` or `claude-desktop`?\n"), "{err}");
    assert!(ran(&folder(), "xx", None).2.contains("known clients: amazon-q, "));
}

#[test]
fn a_view_of_a_server_that_the_configuration_file_lacks_is_noted() {
    let folder = folder();
    let note = "has no server `notes`";
    assert!(!ran(&folder, "cursor --view notes --dry-run", None).2.contains(note), "there is no file");
    let file = folder.path().join("mcp_servers.yaml");
    fs::write(&file, "mcp_servers: {note: {command: note}}\n").expect("written");
    assert!(ran(&folder, "cursor --view notes --dry-run", None).2.contains(note));
    assert!(!ran(&folder, "cursor --view note --dry-run", None).2.contains(note));
    let elsewhere = "cursor --view notes --url http://gw.example/mcp --dry-run";
    assert!(!ran(&folder, elsewhere, None).2.contains(note), "another gateway has its own servers");
}

#[test]
fn a_client_that_starts_the_program_needs_a_configuration_file() {
    let folder = folder();
    let note = "which does not exist: write it with `switchyard init`";
    assert!(ran(&folder, "claude-desktop --dry-run", None).2.contains(note));
    assert!(!ran(&folder, "cursor --dry-run", None).2.contains(note), "it uses a URL");
    fs::write(folder.path().join("mcp_servers.yaml"), "mcp_servers: {}\n").expect("written");
    assert!(!ran(&folder, "claude-desktop --dry-run", None).2.contains(note));
}
