//! `serve` and `stdio`: configuration, log, runtime, signals, and the exit code of the end.

use std::io::{self, Write};
use std::process::ExitCode;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{EXIT_USAGE, Serve, Stdio};
use crate::app;
use crate::config::Config;
use crate::telemetry;

/// Serves HTTP until SIGTERM or SIGINT.
pub(super) fn serve(arguments: &Serve) -> ExitCode {
    let config = match arguments.file.load() {
        Ok(config) => config,
        Err(error) => return refuse(&error),
    };
    let server = match arguments.listen {
        Some(address) => config.server.clone().listening_on(address),
        None => Ok(config.server.clone()),
    };
    match server {
        Ok(server) => run(Config { server, ..config }, app::serve),
        Err(exposed) => refuse(&exposed),
    }
}

/// Serves one client on standard input and output.
pub(super) fn stdio(arguments: &Stdio) -> ExitCode {
    match arguments.file.load() {
        Ok(config) => run(config, app::stdio),
        Err(error) => refuse(&error),
    }
}

/// Runs one of the two, with a log and until a signal.
fn run<F>(config: Config, program: impl FnOnce(Config, Stop) -> F) -> ExitCode
where
    F: Future<Output = Result<(), app::Error>>,
{
    if let Err(error) = telemetry::init(config.server.log_format) {
        return refuse(&error);
    }
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let ended = runtime.block_on(async {
        let stop = stop_requested()?;
        program(config, stop).await.map_err(io::Error::other)
    });
    // Reading standard input happens in a thread that nothing can interrupt; do not wait for it.
    runtime.shutdown_background();
    ended.map_or_else(|error| fail(&error), |()| ExitCode::SUCCESS)
}

/// The runtime of worker 0, which is all there is for one client.
fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

type Stop = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Resolves at SIGTERM or SIGINT. A second one is not waited for: the drain has its own limits.
fn stop_requested() -> io::Result<Stop> {
    let (mut terminate, mut interrupt): (Signal, Signal) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(Box::pin(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }))
}

/// The configuration or the arguments are wrong: nothing was started.
fn refuse(error: &dyn std::fmt::Display) -> ExitCode {
    say(error);
    ExitCode::from(EXIT_USAGE)
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    say(error);
    ExitCode::FAILURE
}

fn say(error: &dyn std::fmt::Display) {
    // Where standard error is closed there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{error}");
}
