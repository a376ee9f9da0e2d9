//! A child process: started in a group of its own, ended with all its group, always reaped.
//!
//! ```text
//! running ── end asked, output or input closed ──> input closed ── 2 s ──> SIGTERM ── 2 s ──> SIGKILL
//!    └────────────────── exited by itself ──────────────┴─────────────────────┴──────────────────┴──> reaped
//! ```
//!
//! Invariants: signals go to the group, so what the child started ends with it; whatever is left of
//! the group when the child is gone is killed; all children are forked by one thread that lives as
//! long as the program, because the parent-death signal follows the thread.

use std::io;
use std::process::{ExitStatus, Stdio as Pipe};
use std::sync::OnceLock;
use std::sync::mpsc as std_mpsc;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use rustix::process::Signal;
use tokio::net::unix::pipe;
use tokio::process::{ChildStderr, Command};
use tokio::sync::oneshot;

use super::{environment, parent_death};
use crate::upstream::config::Stdio;
use crate::worker;

/// How long a child may take to end after its input was closed, and again after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);

/// A running child and its pipes.
pub(super) struct Child {
    /// The process alone.
    pub(super) process: Process,
    /// Its input, which any thread may write to.
    pub(super) stdin: pipe::Sender,
    /// Its output, which any worker may read.
    pub(super) stdout: pipe::Receiver,
    /// Its other output.
    pub(super) stderr: ChildStderr,
}

/// A process without its pipes.
pub(super) struct Process(Box<dyn ChildWrapper>);

/// Starts the child that `config` describes, or says why it cannot be started.
pub(super) async fn start(config: &Stdio) -> Result<Child, String> {
    let mut process = spawn(command(config)?).await.map_err(|error| error.to_string())?;
    let pipes = (process.stdin().take(), process.stdout().take(), process.stderr().take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { return Err("it has no pipes".into()) };
    let stdin = stdin.into_owned_fd().and_then(pipe::Sender::from_owned_fd);
    let stdin = stdin.map_err(|error| format!("its input cannot be used: {error}"))?;
    let stdout = stdout.into_owned_fd().and_then(pipe::Receiver::from_owned_fd);
    let stdout = stdout.map_err(|error| format!("its output cannot be used: {error}"))?;
    Ok(Child { process: Process(process), stdin, stdout, stderr })
}

fn command(config: &Stdio) -> Result<CommandWrap, String> {
    let environment = environment::of(config, std::env::vars_os());
    let program = environment::program(config, &environment)?;
    let (program, arguments) = parent_death::through(&program, &config.args);
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment);
    command.stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::piped());
    if let Some(folder) = &config.cwd {
        command.current_dir(folder);
    }
    // The last resort, should the runtime go before the task that ends the child properly.
    command.kill_on_drop(true);
    let mut command = CommandWrap::from(command);
    command.wrap(ProcessGroup::leader());
    Ok(command)
}

type Job = Box<dyn FnOnce() + Send>;

/// Forks in the spawning thread.
async fn spawn(mut command: CommandWrap) -> io::Result<Box<dyn ChildWrapper>> {
    let runtime = tokio::runtime::Handle::current();
    let (sender, receiver) = oneshot::channel();
    let job: Job = Box::new(move || {
        let _entered = runtime.enter();
        // Nobody waits for it any more: it is killed at once, as the last resort of `command`.
        let _ = sender.send(command.spawn());
    });
    let gone = || io::Error::other("the thread that starts processes is gone");
    spawning_thread()?.send(job).map_err(|_| gone())?;
    receiver.await.unwrap_or_else(|_| Err(gone()))
}

/// The queue of the spawning thread. Its length is bounded by the connections that are being made.
fn spawning_thread() -> io::Result<&'static std_mpsc::Sender<Job>> {
    static THREAD: OnceLock<Option<std_mpsc::Sender<Job>>> = OnceLock::new();
    let start = || {
        let (sender, jobs) = std_mpsc::channel::<Job>();
        let work = move || {
            // What a worker is while many call is not for the programs of servers.
            worker::as_usual();
            for job in jobs {
                job();
            }
        };
        std::thread::Builder::new().name("spawn".into()).spawn(work).ok().map(|_| sender)
    };
    THREAD.get_or_init(start).as_ref().ok_or_else(|| io::Error::other("cannot start a thread"))
}

impl Process {
    /// Waits until the process has ended; may be dropped and called again.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.0.wait().await
    }

    /// Ends the process, whose input must be closed already, and all its group. Returns when it is
    /// reaped.
    pub(super) async fn end(&mut self) {
        if tokio::time::timeout(PATIENCE, self.0.wait()).await.is_err() {
            self.signal(Signal::TERM);
            if tokio::time::timeout(PATIENCE, self.0.wait()).await.is_err() {
                self.signal(Signal::KILL);
                if let Err(error) = self.0.wait().await {
                    tracing::error!(%error, "cannot wait for a child process");
                }
            }
        }
        self.end_group();
    }

    /// Kills what the process left behind.
    pub(super) fn end_group(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // It fails when nobody is left, which is the aim.
        let _ = self.0.signal(signal.as_raw());
    }
}

/// An exit status in words.
pub(super) fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the process exited with status {code}"),
        (None, Some(signal)) => format!("the process was ended by signal {signal}"),
        (None, None) => "the process ended".into(),
    }
}
