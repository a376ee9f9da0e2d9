//! The user unit of systemd.
//!
//! Source: systemd.unit(5), systemd.service(5), systemd.exec(5).

use std::path::{Path, PathBuf};

use super::{CommandError, MARK, ServiceContext, ServiceManager, ServiceSpec, plain, reason_of};
use crate::connect::clients::{Base, Host};

pub(super) const MANAGER: ServiceManager = ServiceManager {
    path,
    text: |spec, _| text(spec),
    log: |_| format!("`journalctl --user -u {UNIT}`"),
    probe: (&["systemctl", "--user", "show", "--property=Version"], ADVICE),
    start: |_, process| start(process),
    stop: |process| process.command(&["systemctl", "--user", "disable", "--now", UNIT]),
    forget: |process| process.command(&READ_AGAIN),
    state,
    note: " `loginctl enable-linger` lets it run without a login.",
};

/// The name of the unit.
const UNIT: &str = "switchyard";
const ADVICE: &str = "\
A user unit needs systemd and a login of this user, for instance over ssh and not with `su` or `sudo`; `sudo loginctl
enable-linger USER` starts its service manager without a login. Without systemd, start `switchyard` with the program that starts
others at login here. For all users there is the unit deploy/switchyard.service. `--dry-run` prints the file.";
const READ_AGAIN: [&str; 3] = ["systemctl", "--user", "daemon-reload"];

fn path(host: &Host<'_>) -> PathBuf {
    host.folder(Base::Config).join("systemd/user").join(format!("{UNIT}.service"))
}

fn text(spec: &ServiceSpec) -> Option<String> {
    let path = |path: &Path| plain(path.to_str()?);
    let [program, config] = [&spec.program, &spec.config].map(|file| Some(quoted(&path(file)?, true)));
    let folder = path(spec.folder())?.replace('%', "%%");
    let file = path(&spec.environment_file())?.replace('%', "%%");
    let variable = |(name, value): &(String, String)| {
        Some(format!("Environment={}\n", quoted(&plain(&format!("{name}={value}"))?, false)))
    };
    let variables: String = spec.variables.iter().map(variable).collect::<Option<_>>()?;
    let (program, config) = (program?, config?);
    Some(format!(
        "# {MARK}\n\
         [Unit]\n\
         Description=Switchyard, a gateway for MCP servers\n\n\
         [Service]\n\
         Type=exec\n\
         ExecStart={program} serve --config {config}\n\
         ExecReload=/bin/kill -HUP $MAINPID\n\
         WorkingDirectory={folder}\n\
         {variables}\
         # NAME=value lines for ${{NAME}} in the configuration file; `chmod 600` it.\n\
         EnvironmentFile=-{file}\n\
         UMask=0077\n\
         Restart=on-failure\n\
         RestartSec=1\n\
         # The arguments or the configuration file are wrong: starting again would not correct that.\n\
         RestartPreventExitStatus=2\n\
         # The gateway ends its children itself.\n\
         KillMode=mixed\n\
         TimeoutStopSec=30\n\n\
         [Install]\n\
         WantedBy=default.target\n"
    ))
}

/// A word of a unit. In a command line, `$` begins a variable.
fn quoted(text: &str, is_command: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{}\"", if is_command { text.replace('$', "$$") } else { text })
}

/// Starts the unit now and at each login. One that runs is started again.
fn start(process: &ServiceContext<'_, '_>) -> Result<(), CommandError> {
    process.command(&READ_AGAIN)?;
    process.command(&["systemctl", "--user", "enable", UNIT])?;
    process.command(&["systemctl", "--user", "restart", UNIT])
}

/// Whether the unit runs, and its state in words.
fn state(process: &ServiceContext<'_, '_>) -> (bool, String) {
    let word = |what| match (process.run)(&["systemctl", "--user", what, UNIT]) {
        Ok(output) => reason_of(&output),
        Err(error) => error.to_string(),
    };
    let (active, enabled) = (word("is-active"), word("is-enabled"));
    (active == "active", format!("{active}, {enabled} at login"))
}
