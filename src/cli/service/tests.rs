//! Tests of the agent of launchd, with a program in the place of `launchctl`. The unit of systemd is tested from outside.

use std::cell::RefCell;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::*;

/// Runs the command on a Mac whose home is `home`. Returns the commands of launchd, and the outcome.
fn ran(home: &Path, command: &Service, stdout: &str) -> (Vec<String>, Result<(), CommandError>, String) {
    let commands = RefCell::new(Vec::new());
    let run_one = |words: &[&str]| {
        commands.borrow_mut().push(words.join(" "));
        Ok(Output { status: ExitStatus::from_raw(0), stdout: stdout.into(), stderr: Vec::new() })
    };
    let environment = |name: &str| match name {
        "PATH" => Ok("/usr/bin:/a & b".to_owned()),
        _ => Err(std::env::VarError::NotPresent),
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = CommandStreams { input: None, out: &mut out, width: None, err: &mut err };
    let host =
        Host { system: System::MacOs, home: home.to_owned(), project: home.to_owned(), variable: &|_| None };
    let program = PathBuf::from("/opt/switch yard");
    let done = run(
        command,
        &mut ServiceContext {
            host,
            program,
            environment: &environment,
            run: &run_one,
            streams: &mut streams,
        },
    );
    (commands.into_inner(), done, String::from_utf8_lossy(&out).into_owned())
}

#[test]
fn agent_of_launchd_is_written_started_shown_and_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("mcp_servers.yaml");
    std::fs::write(&config, "mcp_servers: {}\n").expect("written");
    let file = ConfigFile { config: config.clone(), is_default: false };
    let yes = WriteOptions { yes: true, dry_run: false };
    let install = Service::Install(Install { writing: yes.clone(), file });
    let user = rustix::process::geteuid().as_raw();
    let (commands, done, _) = ran(folder.path(), &install, "");
    assert!(done.is_ok(), "{done:?}");
    let path = folder.path().join("Library/LaunchAgents/switchyard.gateway.plist");
    let expected = [
        "launchctl version".to_owned(),
        format!("launchctl bootout gui/{user}/switchyard.gateway"),
        format!("launchctl enable gui/{user}/switchyard.gateway"),
        format!("launchctl bootstrap gui/{user} {}", path.display()),
    ];
    assert_eq!(commands, expected);
    let text = std::fs::read_to_string(&path).expect("written");
    for line in
        ["<string>/opt/switch yard</string>", "<string>/usr/bin:/a &amp; b</string>", "<key>RunAtLoad</key>"]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(text.contains(&format!("<string>{}</string>", config.display())), "{text}");
    let (_, done, out) = ran(folder.path(), &Service::Status, "\tstate = running\n");
    assert!(
        done.is_ok() && out.contains("state  running") && out.contains("Library/Logs/switchyard.log"),
        "{out}"
    );
    let (_, done, _) = ran(folder.path(), &Service::Status, "\tstate = waiting\n");
    assert!(done.is_err(), "it does not run");
    let (commands, done, _) = ran(folder.path(), &Service::Uninstall(yes), "");
    assert!(done.is_ok() && !path.exists(), "{done:?}");
    assert_eq!(commands, [format!("launchctl bootout gui/{user}/switchyard.gateway")]);
}
