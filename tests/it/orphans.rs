//! A child whose gateway is killed: the program starts itself to become the child's program, which
//! then ends with its parent. Here a shell stands for the gateway.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_switchyard");

/// Whether the process is there and not only waiting to be reaped by its new parent.
fn is_alive(process: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(10), "it never happened: {what}");
        std::thread::yield_now();
    }
}

// RULES R19
#[test]
fn a_child_ends_when_its_gateway_is_killed() {
    let script = r#""$0" __become $$ - sleep 1000 & echo $!; read -r never"#;
    let mut gateway = Command::new("sh");
    gateway.args(["-c", script, PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut gateway = gateway.spawn().expect("sh starts");
    let mut child = String::new();
    BufReader::new(gateway.stdout.take().expect("piped")).read_line(&mut child).expect("a process id");
    let child = child.trim();
    let became =
        || std::fs::read(format!("/proc/{child}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep\0"));
    wait_until("the child became its program", became);
    gateway.kill().expect("killed");
    gateway.wait().expect("reaped");
    wait_until("the child ended", || !is_alive(child));
}

#[test]
fn a_child_without_its_parent_or_its_program_says_so() {
    let own = std::process::id().to_string();
    for (arguments, reason) in [
        (vec!["__become", "1", "-", "true"], "the parent is gone"),
        (vec!["__become", &own, "-", "/no/such/program"], "cannot start /no/such/program"),
        (vec!["__become"], "internal use"),
    ] {
        let output = Command::new(PROGRAM).args(arguments).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(126) && said.contains(reason), "{said}");
        assert!(output.stdout.is_empty(), "standard output belongs to MCP");
    }
    let became =
        Command::new(PROGRAM).args(["__become", &own, "-", "sh", "-c", "echo $1", "x", "yes"]).output();
    assert_eq!(became.expect("it starts").stdout, b"yes\n");
}
