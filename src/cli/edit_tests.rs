//! Command lines of `add` and `remove`.

use std::fs;

use clap::CommandFactory;
use tempfile::TempDir;

use super::*;
use crate::cli::{self, Arguments};

fn nothing(_: &str) -> Result<String, std::env::VarError> {
    Err(std::env::VarError::NotPresent)
}

/// Runs a command line with `input` on standard input, and `answer` on a terminal.
fn ran(
    folder: &TempDir,
    line: &[&str],
    input: Option<&str>,
    answer: Option<&str>,
) -> (ExitCode, String, String) {
    let config = folder.path().join("mcp_servers.yaml").display().to_string();
    let (verb, rest) = line.split_first().expect("a command");
    let line = ["switchyard", verb, "--config", &config].into_iter().chain(rest.iter().copied());
    let matches = <Arguments as CommandFactory>::command().try_get_matches_from(line).expect("arguments");
    let mut input = input.map(str::as_bytes);
    cli::tests::ran(answer, |streams| match Arguments::read(&matches).expect("valid").command() {
        cli::Command::Add(arguments) => {
            let input = input.as_mut().map(|input| input as &mut dyn Read);
            add(&arguments, input, &nothing, streams)
        }
        cli::Command::Remove(arguments) => remove(&arguments, &nothing, streams),
        _ => panic!("another command"),
    })
}

fn written(folder: &TempDir) -> String {
    fs::read_to_string(folder.path().join("mcp_servers.yaml")).unwrap_or_default()
}

#[test]
fn each_form_of_the_command_line_adds_its_server() {
    let url = "  a:\n    url: https://a/mcp\n    headers:\n      X-A: \"b: c\"\n";
    let program = "  a:\n    command: npx\n    args: [\"-y\", \"a b\"]\n    env:\n      K: \"v=w\"\n";
    let line = "$ claude mcp add --transport http --scope user \\\n  --header 'X-A: b: c' a https://a/mcp\n";
    for (line, input, expected) in [
        (&["add", "a", "https://a/mcp", "--header", "X-A: b: c", "--yes"][..], None, url),
        (&["add", "a", "--env", "K=v=w", "-y", "--", "npx", "-y", "a b"], None, program),
        (&["add", "-y"], Some(line), url),
        (
            &["add", "a", "https://a/mcp", "--oauth", "-H", "K: ${secret:K}", "-y"],
            None,
            "  a:\n    url: https://a/mcp\n    auth: oauth\n    headers:\n      K: \"${secret:K}\"\n",
        ),
        (
            &["add", "a", "-y", "-e", "K=${secret:a.b}${K:-d}", "--", "npx"],
            None,
            "  a:\n    command: npx\n    env:\n      K: \"${secret:a.b}${K:-d}\"\n",
        ),
        (
            &["add", "-y"],
            Some(r#"{"mcpServers": {"a": {"url": "https://a/mcp", "auth": "oauth", "timeout": 45000}}}"#),
            "  a:\n    # `timeout`: 45000 is read as 45s\n    timeout: 45s\n    url: https://a/mcp\n    auth: oauth\n",
        ),
        (
            &["add", "-y", "--from", "-"],
            Some(
                r#"claude mcp add-json a '{"type":"stdio","command":"npx","args":["-y","a b"],"env":{"K":"v=w"}}'"#,
            ),
            program,
        ),
        (&["add", "-y", "a"], Some("$ K=v=w npx -y 'a b'\n"), program),
        (&["add", "-y", "a"], Some(" https://a/mcp\n"), "  a:\n    url: https://a/mcp\n"),
        (
            &["add", "-y", "a", "https://a/mcp", "-H", "Authorization: Bearer $A_TOKEN"],
            None,
            "  a:\n    # `headers.Authorization`: `$A_TOKEN` is read as the variable `${A_TOKEN}`; write `$$A_TOKEN` if it is a text\n    url: https://a/mcp\n    headers:\n      Authorization: \"Bearer ${A_TOKEN}\"\n",
        ),
        (
            &["add", "-y"],
            Some(
                r#"{"mcpServers": {"a": {"description": "needs $A_C", "command": "sh", "args": ["-c", "x $A_B", "$A_C", "$A_K"], "env": {"A_K": "k", "A_D": "$A_D"}}}}"#,
            ),
            "  a:\n    # `args[2]`: `$A_C` is read as the variable `${A_C}`; write `$$A_C` if it is a text\n    # `env.A_D`: `$A_D` is read as the variable `${A_D}`; write `$$A_D` if it is a text\n    description: \"needs $$A_C\"\n    command: sh\n    args: [\"-c\", \"x $$A_B\", \"${A_C}\", \"$$A_K\"]\n    env:\n      A_K: \"k\"\n      A_D: \"${A_D}\"\n",
        ),
        (&["add", "-y", "a"], Some(r#"{"command":"npx","args":["-y","a b"],"env":{"K":"v=w"}}"#), program),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let (code, out, err) = ran(&folder, line, input, None);
        assert_eq!(code, ExitCode::SUCCESS, "{line:?}: {err}");
        assert!(out.contains("+   a:\n") && err.contains("written"), "{out}{err}");
        assert!(written(&folder).ends_with(&format!("\nmcp_servers:\n{expected}")), "{}", written(&folder));
    }
}

#[test]
fn only_a_yes_writes_and_the_difference_is_shown_before() {
    for (flag, answer, code) in [
        ("", None, ExitCode::FAILURE),
        ("", Some("\n"), ExitCode::FAILURE),
        ("--dry-run", None, ExitCode::SUCCESS),
        ("", Some("y\n"), ExitCode::SUCCESS),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let line: Vec<&str> =
            ["add", "a", "https://a/mcp", flag].into_iter().filter(|word| !word.is_empty()).collect();
        let (found, out, _) = ran(&folder, &line, None, answer);
        assert_eq!((found, written(&folder).is_empty()), (code, answer != Some("y\n")));
        assert!(out.contains("+     url: https://a/mcp\n"), "{out}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    ran(&folder, &["add", "a", "https://a/mcp", "-y"], None, None);
    let before = written(&folder);
    assert_eq!(ran(&folder, &["remove", "a"], None, Some("n\n")).0, ExitCode::FAILURE);
    assert_eq!(written(&folder), before);
    let (code, out, _) = ran(&folder, &["remove", "a"], None, Some("yes\n"));
    assert_eq!((code, written(&folder).contains("https")), (ExitCode::SUCCESS, false));
    assert!(out.contains("-     url: https://a/mcp\n"), "{out}");
}

#[test]
fn a_snippet_can_be_typed_on_a_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, _, err) =
        ran(&folder, &["add", "--yes"], None, Some("{\"a\": {\"url\": \"https://a/mcp\"}}\n"));
    assert_eq!(code, ExitCode::SUCCESS, "{err}");
    assert!(err.starts_with("Paste the snippet") && written(&folder).contains("https://a/mcp"), "{err}");
}

#[test]
fn invalid_server_is_refused_with_a_hint() {
    for (line, input, reason) in [
        (&["add", "a", "npx"][..], None, "`switchyard add a -- npx …`"),
        (&["add"], None, "standard input: it is empty"),
        (&["add"], Some("{\"x\": 1}"), "standard input: no servers were found in it"),
        (&["add", "a", "npx", "-y", "b"], None, "`switchyard add a -- npx …`"),
        (&["add", "a", "https://a/mcp", "b"], None, "`b` is not expected after the URL"),
        (&["add"], Some("npx -y b\n"), "`switchyard add NAME -- npx -y b`"),
        (&["add"], Some("https://a/mcp"), "`switchyard add NAME https://a/mcp`"),
        (&["add"], Some("a: b"), "no servers were found in it"),
        (&["add"], Some("claude mcp list"), "expected `claude mcp add`"),
        (&["add"], Some("claude mcp add a --odd -- npx x"), "the option `--odd` is not known here"),
        (&["add"], Some("claude mcp add a https://a\nclaude mcp add b -- npx"), "2 commands are in it"),
        (&["add", "--from", "/nowhere/at/all"], None, "/nowhere/at/all: it cannot be read"),
        (&["remove", "a"], None, "there is no server `a`"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let (code, _, err) = ran(&folder, line, input, None);
        assert_eq!(
            (code, written(&folder).as_str()),
            (ExitCode::from(super::super::EXIT_USAGE), ""),
            "{line:?}"
        );
        assert!(err.contains(reason), "{line:?}: {err}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    ran(&folder, &["add", "a", "https://a/mcp", "-y"], None, None);
    let (code, _, err) = ran(&folder, &["add", "a", "https://b/mcp", "-y"], None, None);
    assert!(code == ExitCode::FAILURE && err.contains("has another server `a`"), "{err}");
    let (code, _, err) = ran(&folder, &["add", "a", "https://a/mcp", "-y"], None, None);
    assert!(code == ExitCode::SUCCESS && err.contains("it has all of this already"), "{err}");
}

#[test]
fn options_that_the_server_cannot_have_are_refused() {
    for line in [
        &["add", "a", "https://a/mcp", "--env", "A=b"][..],
        &["add", "a", "--header", "A: b", "--", "npx"],
        &["add", "a", "--oauth", "--", "npx"],
        &["add", "a", "--from", "f", "--header", "A: b"],
        &["add", "a", "--from", "f", "--env", "A=b"],
        &["add", "a", "--from", "f", "--oauth"],
        &["add", "a", "--header", "A: b"],
        &["add", "a", "--env", "A=b"],
    ] {
        let line = std::iter::once(&"switchyard").chain(line);
        let refused = <Arguments as CommandFactory>::command().try_get_matches_from(line.clone());
        assert!(refused.is_err(), "{line:?}");
    }
}

#[test]
fn a_gateway_that_listens_is_named() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let folder = tempfile::tempdir().expect("a folder");
    let file = format!("server: {{listen: \"{address}\"}}\nmcp_servers: {{}}\n");
    fs::write(folder.path().join("mcp_servers.yaml"), file).expect("written");
    let gateway = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        assert!(stream.read(&mut [0; 4096]).expect("a request") > 0);
        let body = r#"{"status": "healthy", "version": "1.0.0"}"#;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close", body.len());
        stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).expect("written");
    });
    let (_, _, err) = ran(&folder, &["add", "a", "https://a/mcp", "-y"], None, None);
    gateway.join().expect("it answered");
    assert!(err.contains(&format!("listens on {address}")) && err.contains("`switchyard reload`"), "{err}");
    let (_, _, err) = ran(&folder, &["remove", "a", "-y"], None, None);
    assert!(err.contains("`switchyard` starts the gateway"), "{err}");
}
