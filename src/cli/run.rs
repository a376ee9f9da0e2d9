//! `serve` and `stdio`: configuration, log, runtime, signals and exit codes.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt, select};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::config_file::{ConfigFile, LoadedFile};
use super::{EXIT_USAGE, Serve, StdioArguments, environment, inherited_sockets, process_access};
use crate::app::{self, Load, Renewal, WatchedFile};
use crate::config::Config;
use crate::connect::served::ServedFile;
use admin::EditEntry;
use downstream::config::Transport;
use gateway::manager::Scope;
use runtime::{telemetry, worker};

/// Serves HTTP, or the channels that `server.transport` names, until SIGTERM or SIGINT.
pub(super) fn serve(arguments: &Serve) -> ExitCode {
    let sockets = match inherited_sockets::take() {
        Ok(sockets) => sockets,
        Err(error) => return refuse(&error),
    };
    // Looked at before it is read, so that no change is missed.
    let file = WatchedFile::at(&arguments.file.config);
    let LoadedFile { config, note, .. } = match arguments.file.load_or_documentation(&environment) {
        Ok(loaded) => loaded,
        Err(error) => return refuse(&error),
    };
    if config.server.transport == Transport::Stdio {
        return match arguments.listen.filter(|_| arguments.listen_is_said) {
            Some(address) => refuse(&opens_no_address(address, arguments)),
            None => serve_pipe(config, note.or_else(|| ignored(sockets.len())), Scope::ALL),
        };
    }
    let server = match arguments.listen.filter(|_| sockets.is_empty()) {
        Some(address) => config.server.clone().listening_on(address),
        None => listening_on(&sockets, config.server.clone()),
    };
    match server {
        Ok(server) => {
            let watched = config.is_watched.then_some(file);
            // If there was no file at the start, a reload reads one that was written since.
            let file = arguments.file.clone();
            let edit_entry = Some(editing(&file, &server));
            let load: Load = Arc::new(move || file.load());
            run(Config { server, ..config }, note, |config, Signals { stop, hangup }| {
                app::serve_on(
                    sockets,
                    config,
                    Some(Renewal { load, requests: hangup, watched, edit_entry }),
                    stop,
                )
            })
        }
        Err(exposed) => refuse(&exposed),
    }
}

/// Returns the function that changes servers of `file` on request. Behind a proxy, the clients are those of the proxy.
fn editing(file: &ConfigFile, server: &downstream::Config) -> EditEntry {
    let of_clients = ServedFile { path: file.config.clone(), environment };
    let is_local = server.listen.ip().is_loopback() && server.public_url.is_none();
    Arc::new(move |name, change, dry_run| of_clients.edit(name, change, is_local, dry_run))
}

/// Returns `server` with the addresses of `sockets`, if there are any. An address that others can reach counts for the
/// checks of exposed addresses.
fn listening_on(
    sockets: &[TcpListener],
    server: downstream::Config,
) -> Result<downstream::Config, downstream::config::Exposed> {
    let addresses: Vec<SocketAddr> = sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect();
    let exposed = addresses.iter().find(|address| !address.ip().is_loopback());
    match exposed.or(addresses.first()) {
        Some(address) => server.listening_on(*address),
        None => Ok(server),
    }
}

/// Note about the sockets of `LISTEN_FDS` with a configuration that has no listener.
fn ignored(sockets: usize) -> Option<String> {
    let note = "sockets of LISTEN_FDS are ignored, because `server.transport: stdio` serves standard input and output only: write `transport: both` (or `http`), or stop the .socket unit";
    (sockets > 0).then(|| format!("{sockets} {note}"))
}

/// Error for `--listen` with a configuration that has no listener.
fn opens_no_address(address: SocketAddr, arguments: &Serve) -> String {
    let file = arguments.file.config.display();
    format!(
        "--listen {address} asks for an address, and `server.transport: stdio` in {file} opens none: leave \
         --listen out, or write `transport: both` (or `http`) there"
    )
}

/// Serves one client on standard input and output. SIGHUP ends it too.
pub(super) fn stdio(arguments: &StdioArguments) -> ExitCode {
    match arguments.file.load_or_documentation(&environment) {
        Ok(LoadedFile { config, note, .. }) => match &arguments.view {
            Some(view) if config.manager.view(view).is_none() => refuse(&no_view(view, &config)),
            view => serve_pipe(config, note, view.as_deref().map_or(Scope::ALL, Scope::of_view)),
        },
        Err(error) => refuse(&error),
    }
}

/// Error for `--view` with a name that is not in the configuration.
fn no_view(view: &str, config: &Config) -> String {
    let views = config.views();
    match settings::nearest(view, views.iter().copied()) {
        Some(near) => format!("--view {view}: there is no such view; did you mean {near}?"),
        None if views.is_empty() => format!("--view {view}: the configuration file has no `views`"),
        None => format!("--view {view}: there is no such view; the views are {}", views.join(", ")),
    }
}

fn serve_pipe(config: Config, note: Option<String>, scope: Scope) -> ExitCode {
    run(config, note, |config, Signals { stop, hangup }| {
        app::stdio(config, scope, async move { _ = select(stop, hangup).next().await })
    })
}

/// Runs one of the two, with a log that begins with `note`, until a signal.
fn run<F>(config: Config, note: Option<String>, program: impl FnOnce(Config, Signals) -> F) -> ExitCode
where
    F: Future<Output = Result<(), app::Error>>,
{
    let log = match telemetry::init(&config.server.log) {
        Ok(log) => log,
        Err(error) => return refuse(&error),
    };
    process_access::warn_if_allowed();
    if let Some(note) = note {
        tracing::info!("{note}");
    }
    let fail = |error: &dyn std::fmt::Display| {
        log.print(error);
        ExitCode::FAILURE
    };
    // This thread is worker 0, the only one that one client needs.
    worker::ours();
    let runtime = match worker::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let ended = runtime.block_on(async {
        match Signals::listen() {
            Ok(signals) => {
                let ended = program(config, signals).await;
                ended.map_or_else(|error| failed(&log, &error), |()| ExitCode::SUCCESS)
            }
            Err(error) => fail(&error),
        }
    });
    // A thread reads standard input and cannot be interrupted, so the end does not wait for it.
    runtime.shutdown_background();
    ended
}

/// Logs a failed start. Errors that `check` would have found give its exit code.
fn failed(log: &telemetry::Log, error: &app::Error) -> ExitCode {
    log.print(error);
    match error {
        app::Error::Keys(_) | app::Error::Tls(_) => ExitCode::from(EXIT_USAGE),
        app::Error::Server(_)
        | app::Error::AuthorizationServer(_)
        | app::Error::Workers(_)
        | app::Error::Listen { .. } => ExitCode::FAILURE,
    }
}

/// Signals of the operating system.
struct Signals {
    /// Gives a value at each SIGTERM or SIGINT. The second one ends the shutdown delay; the drain has its own
    /// limits.
    stop: BoxStream<'static, ()>,
    /// Gives a value at each SIGHUP.
    hangup: BoxStream<'static, ()>,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        let received = |signal: Signal| {
            stream::unfold(signal, |mut signal| async { signal.recv().await.map(|()| ((), signal)) })
        };
        let [terminate, interrupt] = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
        let stop = select(received(terminate?), received(interrupt?));
        let hangup = received(signal(SignalKind::hangup())?);
        Ok(Self { stop: stop.boxed(), hangup: hangup.boxed() })
    }
}

/// Refuses invalid configuration or arguments before anything was started.
fn refuse(error: &dyn std::fmt::Display) -> ExitCode {
    // If standard error is closed, the exit code alone reports the failure.
    let _ = writeln!(io::stderr().lock(), "{error}");
    ExitCode::from(EXIT_USAGE)
}
