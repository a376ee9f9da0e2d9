//! The agent of launchd.
//!
//! Source: launchd.plist(5), launchctl(1).

use std::path::{Path, PathBuf};

use super::{CommandError, MARK, ServiceContext, ServiceManager, ServiceSpec, plain, reason_of};
use crate::connect::clients::Host;

/// The name of the agent.
const LABEL: &str = "switchyard.gateway";

pub(super) const MANAGER: ServiceManager = ServiceManager {
    path,
    text,
    log: |host| log(host).display().to_string(),
    probe: (
        &["launchctl", "version"],
        "An agent needs launchd and a login at the screen. `--dry-run` prints the file.",
    ),
    start,
    stop,
    forget: |_| Ok(()),
    state,
    note: "",
};

fn path(host: &Host<'_>) -> PathBuf {
    host.home.join("Library/LaunchAgents").join(format!("{LABEL}.plist"))
}

/// The file of the log.
fn log(host: &Host<'_>) -> PathBuf {
    host.home.join("Library/Logs/switchyard.log")
}

fn text(spec: &ServiceSpec, host: &Host<'_>) -> Option<String> {
    let path = |path: &Path| escaped(path.to_str()?);
    let (program, config, folder) = (path(&spec.program)?, path(&spec.config)?, path(spec.folder())?);
    let log = path(&log(host))?;
    let variable = |(name, value): &(String, String)| {
        let (name, value) = (escaped(name)?, escaped(value)?);
        Some(format!("    <key>{name}</key>\n    <string>{value}</string>\n"))
    };
    let variables: String = spec.variables.iter().map(variable).collect::<Option<_>>()?;
    Some(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!-- {MARK} -->\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n\
         <dict>\n\
         \x20 <key>Label</key>\n\
         \x20 <string>{LABEL}</string>\n\
         \x20 <key>ProgramArguments</key>\n\
         \x20 <array>\n\
         \x20   <string>{program}</string>\n\
         \x20   <string>serve</string>\n\
         \x20   <string>--config</string>\n\
         \x20   <string>{config}</string>\n\
         \x20 </array>\n\
         \x20 <key>WorkingDirectory</key>\n\
         \x20 <string>{folder}</string>\n\
         \x20 <key>EnvironmentVariables</key>\n\
         \x20 <dict>\n\
         {variables}\
         \x20 </dict>\n\
         \x20 <key>RunAtLoad</key>\n\
         \x20 <true/>\n\
         \x20 <key>KeepAlive</key>\n\
         \x20 <dict>\n\
         \x20   <key>SuccessfulExit</key>\n\
         \x20   <false/>\n\
         \x20 </dict>\n\
         \x20 <key>ExitTimeOut</key>\n\
         \x20 <integer>30</integer>\n\
         \x20 <key>Umask</key>\n\
         \x20 <integer>63</integer>\n\
         \x20 <key>StandardErrorPath</key>\n\
         \x20 <string>{log}</string>\n\
         </dict>\n\
         </plist>\n"
    ))
}

/// A text in XML, which has no control characters.
fn escaped(text: &str) -> Option<String> {
    Some(plain(text)?.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}

/// The domain of the user's session.
fn domain() -> String {
    format!("gui/{}", rustix::process::geteuid().as_raw())
}

/// The agent in the domain of the user.
fn target() -> String {
    format!("{}/{LABEL}", domain())
}

/// Stops the agent.
fn stop(process: &ServiceContext<'_, '_>) -> Result<(), CommandError> {
    process.command(&["launchctl", "bootout", &target()])
}

/// Starts the agent now and at each login. One that runs is started again.
fn start(path: &Path, process: &ServiceContext<'_, '_>) -> Result<(), CommandError> {
    // It fails unless the agent runs.
    let _ = stop(process);
    process.command(&["launchctl", "enable", &target()])?;
    process.command(&["launchctl", "bootstrap", &domain(), &path.display().to_string()])
}

fn state(process: &ServiceContext<'_, '_>) -> (bool, String) {
    match (process.run)(&["launchctl", "print", &target()]) {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            let state = text.lines().find_map(|line| line.trim().strip_prefix("state = "));
            let state = state.unwrap_or("loaded").to_owned();
            (state == "running", state)
        }
        Ok(output) => (false, reason_of(&output)),
        Err(error) => (false, error.to_string()),
    }
}
