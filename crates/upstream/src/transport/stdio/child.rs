//! A child process: started in its own process group, ended with all its group, always reaped.
//!
//! ```text
//! running ── end asked, output or input closed ──> input closed ── 2 s ──> SIGTERM ── 2 s ──> SIGKILL
//!    └────────────────── exited by itself ──────────────┴─────────────────────┴──────────────────┴──> reaped
//! ```
//!
//! Invariants: signals go to the process group, so processes that the child started end with it. The rest of the
//! process group and of the control group is killed when the child is gone. All children are forked by one thread that
//! lives as long as the program, because the parent-death signal follows the thread.

use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio as Pipe};
use std::sync::{OnceLock, mpsc as std_mpsc};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use rustix::process::Signal;
use tokio::net::unix::pipe;
use tokio::process::{ChildStderr, Command};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::cgroup::ControlGroup;
use super::stderr::StderrTail;
use super::{environment, parent_death};
use crate::config::Stdio;
use crate::connection::Starting;
use crate::error::Error;
use crate::transport::handshake;
use runtime::worker;

/// How long a child may take to end after its input was closed, and again after SIGTERM.
const EXIT_WAIT: Duration = Duration::from_secs(2);

/// A running child and its pipes.
pub(super) struct Child {
    /// The process without its pipes.
    pub(super) process: Process,
    /// The standard input, which any thread may write to.
    pub(super) stdin: pipe::Sender,
    /// The standard output, which any worker may read.
    pub(super) stdout: pipe::Receiver,
    /// The standard error.
    pub(super) stderr: ChildStderr,
}

/// A process without its pipes.
pub(super) struct Process {
    child: Box<dyn ChildWrapper>,
    /// The control group of all processes that it started, if the system delegates control groups.
    group: Option<ControlGroup>,
}

/// Starts the child that `config` describes, or says why it cannot be started.
pub(super) async fn start(config: &Stdio) -> Result<Child, String> {
    let mut process = spawn(config.clone()).await?;
    let child = &mut process.child;
    let pipes = (child.stdin().take(), child.stdout().take(), child.stderr().take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { return Err("it has no pipes".into()) };
    let stdin = stdin.into_owned_fd().and_then(pipe::Sender::from_owned_fd);
    let stdin = stdin.map_err(|error| format!("its input cannot be used: {error}"))?;
    let stdout = stdout.into_owned_fd().and_then(pipe::Receiver::from_owned_fd);
    let stdout = stdout.map_err(|error| format!("its output cannot be used: {error}"))?;
    Ok(Child { process, stdin, stdout, stderr })
}

fn command(config: &Stdio, group: Option<&ControlGroup>) -> Result<CommandWrap, String> {
    let environment = environment::of(config, std::env::vars_os());
    let program = environment::program(config, &environment)?;
    let (program, arguments) = parent_death::through(&program, &config.args, group.map(ControlGroup::path));
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment);
    command.stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::piped());
    if let Some(folder) = &config.cwd {
        command.current_dir(folder);
    }
    // Kills the child if the runtime ends before the task that ends it properly.
    command.kill_on_drop(true);
    let mut command = CommandWrap::from(command);
    command.wrap(ProcessGroup::leader());
    Ok(command)
}

type Job = Box<dyn FnOnce() + Send>;

/// Forks in the spawning thread.
async fn spawn(config: Stdio) -> Result<Process, String> {
    let runtime = tokio::runtime::Handle::current();
    let (sender, receiver) = oneshot::channel();
    let job: Job = Box::new(move || {
        let _entered = runtime.enter();
        // If the receiver is gone, the process is dropped and so killed at once.
        let _ = sender.send(fork(&config));
    });
    let gone = || "the thread that starts processes is gone".to_owned();
    spawning_thread().map_err(|error| error.to_string())?.send(job).map_err(|_| gone())?;
    receiver.await.unwrap_or_else(|_| Err(gone()))
}

fn fork(config: &Stdio) -> Result<Process, String> {
    let group = if parent_death::is_entered() { ControlGroup::new() } else { None };
    let child = command(config, group.as_ref())?.spawn().map_err(|error| error.to_string())?;
    Ok(Process { child, group })
}

/// The queue of the spawning thread. Its length is bounded by the connections that are being made.
fn spawning_thread() -> io::Result<&'static std_mpsc::Sender<Job>> {
    static THREAD: OnceLock<Option<std_mpsc::Sender<Job>>> = OnceLock::new();
    let start = || {
        let (sender, jobs) = std_mpsc::channel::<Job>();
        let work = move || {
            // A worker may have the batch policy, which programs of servers must not inherit.
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
        self.child.wait().await
    }

    /// Ends the process, whose input must be closed already, and all its group. Returns when it is
    /// reaped.
    pub(super) async fn end(&mut self) {
        if tokio::time::timeout(EXIT_WAIT, self.child.wait()).await.is_err() {
            self.signal(Signal::TERM);
            if tokio::time::timeout(EXIT_WAIT, self.child.wait()).await.is_err() {
                self.signal(Signal::KILL);
                if let Err(error) = self.child.wait().await {
                    tracing::error!(%error, "cannot wait for a child process");
                }
            }
        }
        self.end_group();
        if let Some(group) = self.group.take() {
            // A panic there would be logged, and the next start of Switchyard would remove the group.
            let _ = tokio::task::spawn_blocking(move || group.remove()).await;
        }
    }

    /// Kills the remaining processes of the group.
    pub(super) fn end_group(&self) {
        self.signal(Signal::KILL);
        if let Some(group) = &self.group {
            group.kill();
        }
    }

    fn signal(&self, signal: Signal) {
        // It fails if no process is left, which is the goal.
        let _ = self.child.signal(signal.as_raw());
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

/// How long the start of a child may take.
///
/// Invariant: a child that writes to standard error is installing or compiling, so it may take longer, up to a limit
/// that no output extends.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartLimits {
    /// From the start, and again from each output.
    pub silence: Duration,
    /// From the start.
    pub whole: Duration,
}

impl StartLimits {
    /// Returns the result of `connecting`, or an error at the limit.
    pub(super) async fn applied<T>(
        self,
        connecting: impl Future<Output = Result<T, Error>>,
        tail: &StderrTail,
    ) -> Result<T, Error> {
        let (started, mut connecting) = (Instant::now(), pin!(connecting));
        let limit = || {
            let quiet_since = tail.heard().map_or(started, |heard| heard.max(started));
            (quiet_since + self.silence).min(started + self.whole)
        };
        loop {
            let due = limit();
            tokio::select! {
                biased;
                connected = &mut connecting => return connected,
                () = sleep_until(due) => {}
            }
            if limit() <= Instant::now() {
                let seconds = started.elapsed().as_secs_f64();
                return Err(handshake::refused(&format!("no handshake within {seconds:.0} s")));
            }
        }
    }
}

/// Reports a start until it is dropped.
pub(super) struct StartReport<'a>(&'a watch::Sender<Option<Starting>>);

impl<'a> StartReport<'a> {
    pub(super) fn begin(report: &'a watch::Sender<Option<Starting>>) -> Self {
        report.send_replace(Some(Starting { since: Instant::now(), last_line: None }));
        Self(report)
    }
}

impl Drop for StartReport<'_> {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}
