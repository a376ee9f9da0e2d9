//! `switchyard login` and `switchyard logout`: a person logs in to a server of the running gateway.
//!
//! ```text
//! login ──POST──▶ gateway: a link ──▶ browser ──▶ GET every second: logged in, refused, or ten minutes over
//! ```
//!
//! Invariants: no token passes through this command. The link goes to standard output, so that another program can open
//! it.
//!
//! Exit codes: 0 logged in or out, 1 not, 2 invalid arguments or configuration file, 3 no gateway answered, 4 the
//! gateway refused the credential.
//!
//! Not here: requests to the gateway (`remote`), opening a page (`browser`).

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use http::Method;
use serde::Deserialize;
use tokio::time::{Instant, sleep};
use url::Url;

use super::error::{CommandError, exit, exit_unless_done};
use super::remote::{Remote, RunningGateway, block_on};
use super::{browser, visible};
use gateway::login_links::LIFETIME;

/// Between two looks at the login.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks in a row that may fail, such as during a restart of the gateway.
const MAX_FAILED_LOOKS: usize = 5;

/// The end of `login --help`.
pub(super) const HELP: &str = "\
Examples:
  switchyard login issues
  switchyard login issues --url https://gateway.example.org --no-browser

Exit codes: 0 logged in, 1 not, 2 invalid arguments, 3 the gateway cannot be reached, 4 it refuses the credential";

/// Arguments of `login`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Login {
    /// The server to log in to, as the configuration file names it.
    pub server: String,
    /// Which gateway.
    #[command(flatten)]
    pub running: RunningGateway,
    /// Print the link and do not open it.
    #[arg(long)]
    pub no_browser: bool,
}

/// Arguments of `logout`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Logout {
    /// The server to log out of, as the configuration file names it.
    pub server: String,
    /// Which gateway.
    #[command(flatten)]
    pub running: RunningGateway,
}

/// The link of the gateway.
#[derive(Deserialize)]
struct Link {
    url: String,
}

/// The login as the gateway shows it.
#[derive(Deserialize)]
struct LoginView {
    state: String,
    account: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
    per: Option<String>,
    /// The last attempt, if it failed.
    failure: Option<FailureView>,
}

/// A failed attempt as the gateway shows it.
#[derive(Deserialize, PartialEq)]
struct FailureView {
    reason: String,
    at: String,
}

impl LoginView {
    fn is_logged_in(&self) -> bool {
        self.state == "logged_in"
    }

    /// Account, scopes and users in one line.
    fn line(&self) -> String {
        let account = self.account.as_deref().unwrap_or("an account that the login service does not name");
        let scopes = if self.scopes.is_empty() { "none named".to_owned() } else { self.scopes.join(" ") };
        let users = if self.per.as_deref() == Some("shared") { "everybody here" } else { "you" };
        visible::line(&format!("{account} (scopes: {scopes}; used by {users})"))
    }
}

/// The output of a command, and how it opens a page.
struct LoginTerminal<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    open: &'a dyn Fn(&Url) -> bool,
}

/// Logs in to a server.
pub(super) fn run(arguments: &Login) -> ExitCode {
    let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
    let no_browser = arguments.no_browser;
    let open = |url: &Url| !no_browser && browser::open(url);
    let mut terminal = LoginTerminal { out: &mut out, err: &mut err, open: &open };
    let ended = block_on(log_in(&arguments.running, &arguments.server, &mut terminal));
    exit_unless_done(ended, &mut err)
}

/// Logs out of a server.
pub(super) fn end(arguments: &Logout) -> ExitCode {
    let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
    let ended = block_on(log_out(&arguments.running, &arguments.server, &mut out));
    exit(ended, &mut err)
}

async fn log_in(
    running: &RunningGateway,
    server: &str,
    terminal: &mut LoginTerminal<'_>,
) -> Result<(), CommandError> {
    let remote = Remote::of(running)?;
    log_in_at(&remote, server, terminal).await.map_err(|error| error.of(&remote))
}

async fn log_in_at(
    remote: &Remote,
    server: &str,
    terminal: &mut LoginTerminal<'_>,
) -> Result<(), CommandError> {
    let before: LoginView = remote.login(Method::GET, server).await?;
    if before.is_logged_in() {
        let line = before.line();
        let text = format!("already logged in to {server} as {line}; `switchyard logout` ends that login");
        return report(terminal.out, &text);
    }
    let link: Link = remote.login(Method::POST, server).await?;
    let url = Url::parse(&link.url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url =
        url.ok_or_else(|| CommandError::Refused("the gateway gave a link that is no web address".into()))?;
    say(terminal.out, url.as_str())?;
    let is_open = (terminal.open)(&url);
    let place =
        if is_open { "in the browser that was opened" } else { "in a browser, under the address above" };
    say(terminal.err, &format!("log in to {server} {place}; waiting for at most ten minutes"))?;
    let shown = finished(remote, server, before.failure.as_ref()).await?;
    report(terminal.out, &format!("logged in to {server} as {}", shown.line()))
}

/// Waits until a person has logged in, or until an attempt after `before` has failed.
async fn finished(
    remote: &Remote,
    server: &str,
    before: Option<&FailureView>,
) -> Result<LoginView, CommandError> {
    let (started, mut failed) = (Instant::now(), 0);
    while started.elapsed() < LIFETIME {
        sleep(LOOK_EVERY).await;
        match remote.login::<LoginView>(Method::GET, server).await {
            Ok(shown) if shown.is_logged_in() => return Ok(shown),
            Ok(LoginView { failure: Some(failure), .. }) if Some(&failure) != before => {
                let reason = visible::line(&failure.reason);
                return Err(CommandError::Refused(format!("the login to {server} failed: {reason}")));
            }
            Ok(_) => failed = 0,
            Err(CommandError::Unreachable { .. }) if failed + 1 < MAX_FAILED_LOOKS => failed += 1,
            Err(error) => return Err(error),
        }
    }
    Err(CommandError::Refused(format!(
        "nobody has logged in to {server} within ten minutes; begin again for a new link"
    )))
}

async fn log_out(running: &RunningGateway, server: &str, out: &mut dyn Write) -> Result<(), CommandError> {
    let remote = Remote::of(running)?;
    let ended = remote.login::<LoginView>(Method::DELETE, server).await;
    ended.map_err(|error| error.of(&remote))?;
    say(out, &format!("logged out of {server}"))
}

/// Writes the result. If its reader has gone, the command has succeeded all the same.
fn report(out: &mut dyn Write, text: &str) -> Result<(), CommandError> {
    match say(out, text) {
        Err(CommandError::Closed) => Ok(()),
        said => said,
    }
}

/// Writes a line, so that the user sees it at once.
fn say(out: &mut dyn Write, text: &str) -> Result<(), CommandError> {
    writeln!(out, "{}", visible::line(text))?;
    Ok(out.flush()?)
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
