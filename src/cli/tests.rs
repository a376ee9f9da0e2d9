//! Tests of the arguments, and how tests of commands run one.

use std::io::BufRead;

use super::confirm::CommandStreams;
use super::error::CommandError;
use super::*;

/// Runs `command` with this answer, if there is a terminal. Returns its exit code, its output and its messages.
pub(super) fn ran(
    answer: Option<&str>,
    command: impl FnOnce(&mut CommandStreams<'_>) -> Result<(), CommandError>,
) -> (ExitCode, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut answer = answer.map(str::as_bytes);
    let mut streams = CommandStreams {
        input: answer.as_mut().map(|input| input as &mut dyn BufRead),
        out: &mut out,
        width: None,
        err: &mut err,
    };
    let result = command(&mut streams);
    let code = streams.end(result);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (code, text(out), text(err))
}

fn parsed(line: &str) -> Command {
    let matches = <Arguments as CommandFactory>::command().get_matches_from(line.split(' '));
    Arguments::read(&matches).expect(line).command()
}

#[test]
fn the_arguments_are_sound() {
    <Arguments as CommandFactory>::command().debug_assert();
}

#[test]
fn serve_is_the_default_command() {
    for line in [
        "switchyard --config a.yaml --listen 127.0.0.1:9",
        "switchyard serve --listen 127.0.0.1:9 --config a.yaml",
    ] {
        let Command::Serve(serve) = parsed(line) else { panic!("not serve: {line}") };
        assert_eq!(serve.file.config.as_os_str(), "a.yaml");
        assert_eq!(serve.listen.map(|address| address.port()), Some(9));
        assert!(serve.listen_is_said, "{line}");
    }
    for line in ["switchyard", "switchyard serve --config a.yaml"] {
        let Command::Serve(serve) = parsed(line) else { panic!("not serve: {line}") };
        assert!(!serve.listen_is_said, "{line}");
    }
}

#[test]
fn other_commands_are_named() {
    assert!(
        matches!(parsed("switchyard stdio --config a.yaml"), Command::Stdio(stdio) if stdio.file.config.as_os_str() == "a.yaml")
    );
    for (line, connects) in
        [("switchyard check --config a.yaml", false), ("switchyard check --connect a.yaml", true)]
    {
        assert!(
            matches!(parsed(line), Command::Check(check) if check.path().as_os_str() == "a.yaml" && check.connect == connects)
        );
    }
    for (line, expected) in [("switchyard import a.json", "a.json"), ("switchyard import -", "-")] {
        assert!(
            matches!(parsed(line), Command::Import(Import { file, project: None }) if file.as_os_str() == expected)
        );
    }
    assert!(matches!(
        parsed("switchyard key new --id ci --role caller"),
        Command::Key(Key::New { id: Some(id), role: Role::Caller }) if id == "ci"
    ));
    let Command::Token(token) = parsed("switchyard token --sub alice --ttl 30m") else { panic!("not token") };
    assert_eq!((token.sub.as_str(), token.role, token.ttl), ("alice", Role::Reader, Duration::from_mins(30)));
    assert!(
        matches!(parsed("switchyard login notes --no-browser"), Command::Login(login) if login.no_browser)
    );
    for line in [
        "switchyard login",
        "switchyard logout --no-browser notes",
        "switchyard login notes --url gateway",
        "switchyard key",
        "switchyard key new --id C_I",
        "switchyard key new --role admin",
        "switchyard token",
        "switchyard token --sub a --ttl forever",
        "switchyard token --sub a --kid b",
        "switchyard secret",
        "switchyard secret set",
        "switchyard secret set A value",
        "switchyard secret set 9",
        "switchyard secret remove",
        "switchyard chek",
        "switchyard --listen nowhere",
        "switchyard check a b",
        "switchyard import",
        "switchyard stdio --listen 127.0.0.1:9",
    ] {
        assert!(Arguments::try_parse_from(line.split(' ')).is_err(), "{line}");
    }
}

#[test]
fn listed_secret_names_its_whole_principal_on_a_narrow_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = ConfigFile { config: folder.path().join("mcp_servers.yaml"), is_default: false };
    std::fs::write(&file.config, "server: {state_dir: state}\nmcp_servers: {}\n").expect("written");
    let environment = |_: &str| Err(std::env::VarError::NotPresent);
    let settings = crate::config::Config::load_vault(&file.config, &environment).expect("valid");
    let vault = auth::vault::Vault::open(settings.vault().expect("a vault")).expect("opened");
    let principal = "login:login.example.org/realms/people#6f1c2b9e-5a41-4f0e-9a55-b0a6f1c2d7e4";
    vault.put_blocking(&auth::vault::Entry::secret_of(principal, "CRM_KEY"), b"canary").expect("written");
    let list = Secret::List { principal: None, file };
    let (code, out, _) = ran(None, |streams| {
        streams.width = Some(40);
        secret::run(&list, &environment, streams)
    });
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(out.contains(principal), "{out}");
}
