//! `switchyard service` with a program in the place of `systemctl`, which keeps its arguments.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::messages::texts_of;
use crate::support::Gateway;

/// A program with a configuration, whose `systemctl` answers with `script`.
fn with_systemctl(yaml: &str, script: &str) -> Gateway {
    let gateway = Gateway::with_config(yaml);
    let programs = gateway.folder().join("programs");
    fs::create_dir(&programs).expect("made");
    let log = gateway.folder().join("systemctl.log");
    let path = programs.join("systemctl");
    fs::write(&path, format!("#!/bin/sh\necho \"$*\" >> '{}'\n{script}\n", log.display())).expect("written");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("allowed");
    gateway.path(&programs)
}

fn unit(gateway: &Gateway) -> PathBuf {
    gateway.folder().join(".config/systemd/user/switchyard.service")
}

/// The commands of `systemctl` since the last look.
fn commands(gateway: &Gateway) -> Vec<String> {
    let log = gateway.folder().join("systemctl.log");
    let lines = fs::read_to_string(&log).unwrap_or_default().lines().map(str::to_owned).collect();
    let _ = fs::remove_file(log);
    lines
}

const CONFIG: &str =
    "mcp_servers:\n  one: {command: \"true\", pass_env: [NVM_DIR, HTTPS_PROXY, MY_TOKEN, SSH_AUTH_SOCK]}\n";

#[test]
fn service_is_installed_shown_and_removed() {
    let gateway = with_systemctl(
        CONFIG,
        "[ \"$2\" = is-active ] && echo active; [ \"$2\" = is-enabled ] && echo enabled; exit 0",
    )
    .env("NVM_DIR", "/opt/nvm")
    .env("HTTPS_PROXY", "http://user:canary@proxy:3128")
    .env("MY_TOKEN", "canary")
    .env("SSH_AUTH_SOCK", "/tmp/canary");
    let (code, printed, _) = texts_of(&gateway.output(&["service", "install", "--dry-run", "--yes"]));
    assert_eq!(code, Some(0));
    assert!(!unit(&gateway).exists() && commands(&gateway).is_empty(), "nothing is written or started");
    let (code, _, err) = texts_of(&gateway.output(&["service", "install"]));
    assert!(code == Some(1) && err.contains("add `--yes`") && !unit(&gateway).exists(), "{err}");
    commands(&gateway);

    let (code, _, err) = texts_of(&gateway.output(&["service", "install", "--yes"]));
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("journalctl --user -u switchyard") && err.contains("starts at each login"), "{err}");
    let text = fs::read_to_string(unit(&gateway)).expect("written");
    assert_eq!(text, printed, "--dry-run prints the file");
    let config = gateway.folder().canonicalize().expect("there").join("mcp_servers.yaml");
    let program = env!("CARGO_BIN_EXE_switchyard");
    assert!(
        text.contains(&format!("ExecStart=\"{program}\" serve --config \"{}\"\n", config.display())),
        "{text}"
    );
    assert!(
        text.contains("Environment=\"NVM_DIR=/opt/nvm\"\n") && text.contains("Environment=\"PATH="),
        "{text}"
    );
    assert!(!text.contains("canary"), "a secret or a value of the session is in the unit: {text}");
    assert_eq!(
        commands(&gateway),
        [
            "--user show --property=Version",
            "--user daemon-reload",
            "--user enable switchyard",
            "--user restart switchyard"
        ]
    );
    let (code, out, _) = texts_of(&gateway.output(&["service", "status"]));
    assert_eq!(code, Some(0));
    assert!(out.contains("state  active, enabled at login") && out.contains("log    `journalctl"), "{out}");
    commands(&gateway);

    // A unit of the same make is replaced, and leaves nothing beside it.
    let gateway = gateway.env("NVM_DIR", "/opt/other");
    let (code, out, _) = texts_of(&gateway.output(&["service", "install", "--yes"]));
    assert!(code == Some(0) && out.contains("/opt/other"), "{out}");
    commands(&gateway);
    let (code, _, err) = texts_of(&gateway.output(&["service", "uninstall", "--yes"]));
    assert_eq!(code, Some(0), "{err}");
    let folder = unit(&gateway).parent().expect("a folder").to_owned();
    assert_eq!(fs::read_dir(folder).expect("readable").count(), 0, "nothing is left");
    assert_eq!(commands(&gateway), ["--user disable --now switchyard", "--user daemon-reload"]);
    let (code, _, err) = texts_of(&gateway.output(&["service", "status"]));
    assert!(code == Some(1) && err.contains("`switchyard service install`"), "{err}");
}

#[test]
fn unit_of_another_make_is_replaced_on_request_only_and_never_removed() {
    let gateway = with_systemctl(CONFIG, "exit 0");
    let theirs = "[Service]\nExecStart=/usr/bin/mine\n";
    fs::create_dir_all(unit(&gateway).parent().expect("a folder")).expect("made");
    fs::write(unit(&gateway), theirs).expect("written");
    let there = || fs::read_to_string(unit(&gateway)).expect("there");
    let (code, out, err) = texts_of(&gateway.output(&["service", "install"]));
    assert!(code == Some(1) && out.contains("ExecStart=/usr/bin/mine"), "{out}");
    assert!(err.contains("another program wrote this file") && err.contains("`--yes`"), "{err}");
    let (code, _, err) = texts_of(&gateway.output(&["service", "uninstall", "--yes"]));
    assert!(code == Some(1) && err.contains("did not write it"), "{err}");
    assert_eq!(there(), theirs);
    let (code, _, err) = texts_of(&gateway.output(&["service", "install", "--yes"]));
    assert!(code == Some(0) && err.contains("the old content is in "), "{err}");
    assert!(there().contains("switchyard service install"), "{}", there());
}

#[test]
fn missing_service_manager_and_missing_variables_are_told() {
    let gateway = with_systemctl(CONFIG, "echo 'Failed to connect to bus: No medium found' >&2; exit 1");
    let (code, _, err) = texts_of(&gateway.output(&["service", "install", "--yes"]));
    assert_eq!(code, Some(1));
    assert!(
        err.contains("Failed to connect to bus") && err.contains("loginctl") && err.contains("`su`"),
        "{err}"
    );
    assert!(!unit(&gateway).exists(), "nothing is written");

    let yaml = "mcp_servers:\n  one: {url: \"http://127.0.0.1:1/mcp\", headers: {A: \"${MY_TOKEN}\"}}\n";
    let gateway = with_systemctl(yaml, "exit 0").env("MY_TOKEN", "canary");
    let (code, out, err) = texts_of(&gateway.output(&["service", "install", "--dry-run"]));
    assert_eq!(code, Some(0));
    assert!(
        err.contains("note: one: ") && err.contains("MY_TOKEN") && err.contains("switchyard.env"),
        "{err}"
    );
    assert!(!format!("{out}{err}").contains("canary"));
    fs::write(gateway.folder().join("switchyard.env"), "MY_TOKEN=x\n").expect("written");
    let (_, _, err) = texts_of(&gateway.output(&["service", "install", "--dry-run"]));
    assert!(!err.contains("MY_TOKEN"), "{err}");
    let absent = Gateway::without_file();
    let (code, _, err) = texts_of(&absent.output(&["service", "install", "--dry-run"]));
    assert!(code == Some(2) && err.contains("`switchyard init`"), "{err}");
}

#[test]
fn start_at_a_terminal_names_the_endpoint_the_dashboard_and_the_next_command() {
    let gateway = Gateway::with_config("mcp_servers: {}\n");
    let line = format!("timeout 3 {} --listen 127.0.0.1:0 2>&1", env!("CARGO_BIN_EXE_switchyard"));
    let terminal = std::process::Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("HOME", gateway.folder())
        .current_dir(gateway.folder())
        .stdin(std::process::Stdio::null())
        .output()
        .expect("it runs");
    let shown = String::from_utf8_lossy(&terminal.stdout);
    eprintln!("{shown}");
    let url = |name: &str| {
        shown.lines().find_map(|line| line.trim().strip_prefix(name)).map(|url| url.trim().to_owned())
    };
    let (mcp, dashboard) =
        (url("MCP endpoint").expect("it is named"), url("Dashboard").expect("it is named"));
    assert!(mcp.starts_with("http://127.0.0.1:") && mcp.ends_with("/mcp") && !mcp.contains(":0/"), "{mcp}");
    assert_eq!(dashboard, mcp.replace("/mcp", "/ui/"));
    assert!(url("Next").is_some_and(|next| next.contains("`switchyard connect`")));
}
