//! `switchyard doctor`: each usual mistake is provoked, found by the program, and comes with what to type.

mod machine;
mod servers;

use std::process::Output;

use serde_json::Value;

use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Gateway, Registry};

/// A secret in files and in the environment; never in the output.
const CANARY: &str = "canary-0123456789";

/// Exit code, standard output and standard error of `doctor`.
struct DoctorOutput(Option<i32>, String, String);

impl DoctorOutput {
    fn of(Output { status, stdout, stderr }: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let told = Self(status.code(), text(stdout), text(stderr));
        eprintln!("{:?}\n{}{}", told.0, told.1, told.2);
        assert!(!format!("{}{}", told.1, told.2).contains("canary"), "a secret shows");
        told
    }

    /// The result of `arguments` beside `doctor --config mcp_servers.yaml`.
    fn by(gateway: &Gateway, arguments: &[&str]) -> Self {
        let named = ["doctor", "--config", "mcp_servers.yaml"];
        Self::of(gateway.output(&[&named[..], arguments].concat()))
    }

    /// Checks that a row of `check` with `state` has `found`, and that what to type has `fix`.
    #[track_caller]
    fn finds(&self, state: &str, check: &str, found: &str, fix: &str) {
        let mut lines = self.1.lines().peekable();
        while let Some(line) = lines.next() {
            let words: Vec<_> = line.split_whitespace().take(2).collect();
            if words == [state, check] && line.contains(found) {
                let next = lines.peek().filter(|next| next.trim_start().starts_with("fix: "));
                assert!(next.is_some_and(|next| next.contains(fix)), "{fix:?} is not in {next:?}");
                return;
            }
        }
        panic!("no `{state} {check}` has {found:?}");
    }

    /// Checks that a row without anything to type is there.
    #[track_caller]
    fn says(&self, state: &str, check: &str, found: &str) {
        let is_row = |line: &str| line.split_whitespace().take(2).eq([state, check]) && line.contains(found);
        assert!(self.1.lines().any(is_row), "no `{state} {check}` has {found:?}");
    }

    #[track_caller]
    fn ends_with(&self, code: i32) {
        assert_eq!(self.0, Some(code), "{}{}", self.1, self.2);
    }
}

fn server() -> Server {
    Scripted::modern().tool(Tool::named("a")).start()
}

/// A configuration that listens on a port that nobody uses.
fn quiet(registry: Registry) -> Gateway {
    Gateway::of(&registry.setting("server: {listen: \"127.0.0.1:0\"}"))
}

#[test]
fn a_file_without_mistakes_has_none() {
    let server = server();
    let gateway =
        quiet(Registry::new().http("one", &server.url()).command("two", "true", &[]).with("enabled: false"));
    let told = DoctorOutput::by(&gateway, &[]);
    told.ends_with(0);
    told.says("ok", "configuration", "mcp_servers.yaml: valid, 2 servers");
    told.finds("ok", "configuration", "two: it is disabled", "`enabled: true` below `two:`");
    told.says("ok", "permissions", "files and folders are as they should be");
    told.says("ok", "address", "127.0.0.1:0 is free");
    told.says("ok", "servers", "one: ready, 1 tool");
    told.says("ok", "clock", "agrees");
    told.says("ok", "clients", "`switchyard connect`");
    assert_eq!(told.2, "0 problems, 0 warnings\n");
    assert!(!gateway.folder().join(".local").exists(), "nothing is made");
    let before = server.seen().len();
    DoctorOutput::by(&gateway, &["--offline"]).ends_with(0);
    assert_eq!(server.seen().len(), before, "no server is contacted");
}

#[test]
fn every_mistake_of_the_file_is_listed_with_its_place() {
    let yaml = "mcp_servers:\n  one: {url: \"http://a/${NO_SUCH_VARIABLE}\", headers: {X: canary-0123456789}}\n  \
                two: {urk: x}\n  one: {command: b}\n";
    let gateway = Gateway::with_config(yaml);
    let told = DoctorOutput::by(&gateway, &[]);
    told.ends_with(2);
    told.finds(
        "problem",
        "configuration",
        "mcp_servers.yaml:2:14: mcp_servers.one.url: `${NO_SUCH_VARIABLE}`",
        "set NO_SUCH_VARIABLE, or give a default: `${NO_SUCH_VARIABLE:-…}`",
    );
    told.says("problem", "configuration", "mcp_servers.yaml:3:9: mcp_servers.two.urk: unknown key");
    told.says("problem", "configuration", "this key stands twice");
    assert!(told.2.contains("run `switchyard doctor` again"), "{}", told.2);
    let absent = DoctorOutput::of(gateway.output(&["doctor", "--config", "absent.yaml"]));
    absent.ends_with(2);
    absent.finds("problem", "configuration", "/absent.yaml: it cannot be read", "`switchyard init`");
    let none = DoctorOutput::of(
        Gateway::without_file().env("SWITCHYARD_LISTEN", "127.0.0.1:0").output(&["doctor", "--offline"]),
    );
    none.ends_with(0);
    none.finds("warning", "configuration", "there is no mcp_servers.yaml", "`switchyard init`");
    let keys = "server: {auth_mode: jwt, jwt: {issuer: i, audience: a, algorithm: RS256, jwks_file: missing.json}}\n";
    let keys = DoctorOutput::by(&Gateway::with_config(&format!("{keys}mcp_servers: {{}}\n")), &["--offline"]);
    keys.ends_with(2);
    keys.says("problem", "configuration", "missing.json");
}

#[test]
fn the_result_is_json_on_request_and_fits_a_terminal_otherwise() {
    let gateway = quiet(Registry::new().command("one", "no-such-program-anywhere-on-this-machine", &[]));
    let DoctorOutput(code, out, _) = DoctorOutput::by(&gateway, &["--offline", "-o", "json"]);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let problem =
        document["findings"].as_array().and_then(|all| all.iter().find(|one| one["state"] == "problem"));
    let problem = problem.expect("a problem");
    assert_eq!((code, &problem["check"]), (Some(1), &"programs".into()));
    assert!(problem["found"].as_str().is_some_and(|text| text.contains("it is not in PATH")), "{problem}");
    let DoctorOutput(_, names, _) = DoctorOutput::by(&gateway, &["--offline", "-o", "name"]);
    assert_eq!(names, "programs\n");
    let plain = DoctorOutput::by(&gateway, &["--offline"]).1;
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    let line = format!("stty cols 60; {} doctor --offline", env!("CARGO_BIN_EXE_switchyard"));
    let terminal = std::process::Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .env("HOME", gateway.folder())
        .current_dir(gateway.folder())
        .stdin(std::process::Stdio::null())
        .output()
        .expect("it runs");
    let shown = String::from_utf8(terminal.stdout).expect("UTF-8");
    eprintln!("{shown}");
    assert!(shown.contains("\u{1b}[31mproblem\u{1b}[0m"), "{shown:?}");
    let bare = shown
        .replace("\u{1b}[31m", "")
        .replace("\u{1b}[32m", "")
        .replace("\u{1b}[0m", "")
        .replace("\u{1b}[1m", "");
    let table: Vec<_> = bare.lines().skip_while(|line| !line.contains("STATE")).skip(1).collect();
    assert!(table.len() > 5 && table.iter().all(|line| line.trim_end().chars().count() <= 60), "{bare}");
    let letters: String = table.iter().flat_map(|line| line.split_whitespace()).collect();
    assert!(letters.contains("`no-such-program-anywhere-on-this-machine`cannotbestarted"), "{letters}");
}
