//! A child process that cannot outlive its test, and its standard error.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// How long a process may take to end by itself.
const GRACE: Duration = Duration::from_secs(10);

/// A running child. When dropped, it gets SIGTERM, and SIGKILL if it does not end.
#[derive(Debug)]
pub struct Process {
    child: Child,
    errors: Lines,
    /// Closed when standard error ended, that is, when the process ended.
    ended: mpsc::Receiver<()>,
}

/// The lines that a process has written so far.
#[derive(Debug, Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    /// The lines so far.
    pub fn so_far(&self) -> Vec<String> {
        self.0.lock().expect("no panic holds it").clone()
    }

    fn collect(&self, from: impl Read) {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            self.0.lock().expect("no panic holds it").push(line);
        }
    }
}

impl Process {
    /// Starts `command` and collects its standard error.
    pub fn start(mut command: Command) -> Self {
        let program = command.get_program().to_owned();
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let stderr = child.stderr.take().expect("it is piped");
        let (end, ended) = mpsc::channel();
        let errors = Lines::default();
        let lines = errors.clone();
        std::thread::spawn(move || {
            lines.collect(stderr);
            drop(end);
        });
        Self { child, errors, ended }
    }

    /// Returns what it wrote to standard error so far.
    pub fn errors(&self) -> Vec<String> {
        self.errors.so_far()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the writing end of its standard input, once.
    pub fn take_stdin(&mut self) -> std::process::ChildStdin {
        self.child.stdin.take().expect("standard input is piped")
    }

    /// Returns the reading end of its standard output, once.
    pub fn take_stdout(&mut self) -> std::process::ChildStdout {
        self.child.stdout.take().expect("standard output is piped")
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// Sends it SIGTERM.
    pub fn ask_to_end(&self) {
        self.send(Signal::TERM);
    }

    /// Sends it SIGHUP.
    pub fn hang_up(&self) {
        self.send(Signal::HUP);
    }

    fn send(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        // An error means that it has already ended.
        let _ = kill_process(id, signal);
    }

    /// Kills it, and returns when it has ended.
    pub fn kill(mut self) {
        let _ = self.child.kill(); // it has already ended
        let _ = self.child.wait();
    }

    /// Waits for its end, and kills it after `GRACE`; the status tells which.
    pub fn wait(&mut self) -> ExitStatus {
        if self.ended.recv_timeout(GRACE) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = self.child.kill();
        }
        self.child.wait().expect("it is our child")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.ask_to_end();
            self.wait();
        }
        if std::thread::panicking() {
            let errors = self.errors();
            let last = errors.len().saturating_sub(40);
            eprintln!("--- standard error of the process ---\n{}", errors[last..].join("\n"));
        }
    }
}
