//! The questions of `init`.

use std::fs;

use clap::Parser;
use tempfile::TempDir;

use super::*;
use crate::cli;
use crate::connect::clients::System;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    init: Init,
}

/// A home folder with two clients.
fn home() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let cursor = r#"{"mcpServers": {"files": {"command": "npx"}, "switchyard": {"url": "http://127.0.0.1:8080/mcp"}, "gateway": {"url": "http://localhost:8080/mcp"}}}"#;
    let zed = r#"{"context_servers": {"issues": {"url": "https://i/mcp"}, "files": {"command": "other"}}}"#;
    for (path, text) in
        [(".cursor/mcp.json", cursor), (".config/zed/settings.json", zed), (".gemini/settings.json", "{]")]
    {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    folder
}

/// Runs a command line with these answers, if there is a terminal. Returns what was written too.
fn ran(home: &TempDir, line: &str, answers: Option<&str>) -> (ExitCode, String, String) {
    let path = home.path().join("mcp_servers.yaml");
    let line = format!("init {line} --config {}", path.display());
    let arguments = Line::try_parse_from(line.split_whitespace()).expect("a command line").init;
    let home = home.path().to_owned();
    let host = Host { system: System::Linux, project: home.join("project"), home, variable: &|_| None };
    let nothing = |_: &str| Err(std::env::VarError::NotPresent);
    let (code, _, err) = cli::tests::ran(answers, |streams| run(&arguments, &host, &nothing, streams));
    (code, fs::read_to_string(&path).unwrap_or_default(), err)
}

#[test]
fn servers_are_taken_from_the_clients_that_are_chosen() {
    let (cursor, zed) = (
        "  files:\n    command: npx\n",
        "  issues:\n    url: https://i/mcp\n  files-2:\n    command: other\n",
    );
    for (line, answers, expected) in [
        ("--yes", None, format!("mcp_servers:\n{cursor}{zed}")),
        ("--yes --import cursor", None, format!("mcp_servers:\n{cursor}")),
        ("--yes --no-import", None, "mcp_servers: {}\n".to_owned()),
        ("", Some("\n\ny\n"), format!("mcp_servers:\n{cursor}{zed}")),
        ("", Some("y\nn\ny\n"), format!("mcp_servers:\n{cursor}")),
        ("", Some("n\nn\ny\n"), "mcp_servers: {}\n".to_owned()),
    ] {
        let home = home();
        let (code, file, err) = ran(&home, line, answers);
        assert_eq!(code, ExitCode::SUCCESS, "{line}: {err}");
        assert!(file.ends_with(&format!("\n{expected}")), "{line} {answers:?}: {file}");
        assert!(file.starts_with("# yaml-language-server: $schema=mcp_servers.schema.json\n"), "{file}");
        let schema = fs::read_to_string(home.path().join("mcp_servers.schema.json")).expect("beside it");
        assert_eq!(schema, schema::TEXT);
        assert!(err.contains("Gemini CLI: left out: ") || line.contains("import"), "{err}");
        let own = "note: gateway: left out: it leads to Switchyard itself";
        assert_eq!(err.contains(own), expected.contains("npx"), "{err}");
        let other = "note: files: it is called `files-2` here, because the file has another `files`";
        assert_eq!(err.contains(other), expected.contains("issues"), "{err}");
    }
}

#[test]
fn nothing_is_written_without_a_yes_or_over_another_file() {
    for (line, answers, reason) in [
        ("", None, "without a terminal, add `--yes`"),
        ("", Some("y\ny\nn\n"), "nothing was written"),
        ("", Some(""), "nothing was written"),
        ("--yes --import cursr", None, "did you mean `cursor`?"),
        ("--yes --import codex", None, "codex has no servers on this machine"),
    ] {
        let home = home();
        let (code, file, err) = ran(&home, line, answers);
        assert!(code != ExitCode::SUCCESS && file.is_empty() && err.contains(reason), "{line}: {err}");
    }
    let home = home();
    let (code, file, _) = ran(&home, "--dry-run", None);
    assert!(code == ExitCode::SUCCESS && file.is_empty());
    fs::write(home.path().join("mcp_servers.yaml"), "# mine\n").expect("written");
    let (code, file, err) = ran(&home, "--yes", None);
    assert_eq!((code, file.as_str()), (ExitCode::from(super::super::EXIT_USAGE), "# mine\n"));
    assert!(err.contains("it exists already"), "{err}");
    let (_, _, err) = ran(&home, "", Some("y\ny\ny\n"));
    assert!(
        err.contains("it exists already") && !err.contains("Take the servers"),
        "no question first: {err}"
    );
    let (code, file, err) = ran(&home, "--yes --no-import --force", None);
    assert!(code == ExitCode::SUCCESS && file.ends_with("mcp_servers: {}\n"), "{err}");
    assert!(err.contains("the old content is in"), "{err}");
}

#[test]
fn servers_of_the_current_folder_are_taken_and_those_of_others_are_named() {
    let home = home();
    let project = home.path().join("project");
    let own = r#""files": {"command": "own"}, "notes": {"command": "notes"}"#;
    let claude = format!(
        r#"{{"mcpServers": {{"files": {{"command": "all"}}}}, "projects": {{
            "{}": {{"mcpServers": {{{own}}}, "disabledMcpServers": ["notes"]}},
            "/elsewhere": {{"mcpServers": {{"far": {{"command": "far"}}}}}}}}}}"#,
        project.display()
    );
    fs::write(home.path().join(".claude.json"), claude).expect("written");
    let (code, file, err) = ran(&home, "--yes --import claude-code", None);
    assert_eq!(code, ExitCode::SUCCESS, "{err}");
    let expected =
        "mcp_servers:\n  files:\n    command: own\n  notes:\n    enabled: false\n    command: notes\n";
    assert!(file.ends_with(expected), "{file}");
    let other = "note: /elsewhere: left out: it has servers of its own, which `switchyard import ";
    assert!(err.contains(other) && err.contains(".claude.json --project /elsewhere` prints"), "{err}");
}
