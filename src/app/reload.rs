//! Reloads the configuration file of a running instance.
//!
//! Invariants: a file with a mistake outside of the entries of servers changes nothing, and the log names all its mistakes.
//! Reloads run one at a time. No reachable listener is ever left without authentication. The `cache:` settings, and the `server:`
//! settings except its keys, stay as they were at the start. If they changed in the file, the result of the
//! reload says so.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use futures_util::stream::{BoxStream, StreamExt};
use tokio::sync::{Mutex, oneshot, watch};

use super::watch::WatchedFile;
use crate::config::{self, Config, RestartSettings};
use admin::{Configuration, EditEntry, Loaded, NotReloaded, Reload, Reloaded};
use auth::{Action, Authenticator, Keys, Role};
use downstream::config::Exposed;
use downstream::tls::Certificates;
use gateway::manager::Manager;
use gateway::manager::live_events::LiveEvents;
use runtime::shutdown::Shutdown;
use runtime::telemetry::audit::{self, Actor};

/// Loads the configuration again. It may block.
pub type Load = Arc<dyn Fn() -> Result<Config, config::Error> + Send + Sync>;

/// The sender of a signal, whom the operating system allowed to send it.
const SIGNAL: Actor<'_> = Actor { principal: "signal", role: Role::Superuser.as_str(), request: None };
/// The writer of the file, whom the operating system allowed to write it.
const FILE: Actor<'_> = Actor { principal: "file", role: Role::Superuser.as_str(), request: None };

/// How a running instance gets a new configuration.
pub struct Renewal {
    /// Loads the configuration.
    pub load: Load,
    /// Gives a value whenever an operator requests a reload by other means than REST.
    pub requests: BoxStream<'static, ()>,
    /// The file whose changes are applied without a request.
    pub watched: Option<WatchedFile>,
    /// Changes servers of the file on request of operators.
    pub edit_entry: Option<EditEntry>,
}

/// Error if the new file disables authentication of a running instance.
const OPENS_AT_RESTART: &str =
    "`auth_mode: none` with `allow_unauthenticated: true` takes effect when the gateway is restarted";

/// The running parts that a new configuration is applied to.
pub(super) struct ReloadTarget {
    pub(super) manager: Arc<Manager>,
    pub(super) authenticator: Arc<Authenticator>,
    /// The certificates of the listener, if it speaks TLS.
    pub(super) certificates: Option<Arc<Certificates>>,
    /// The settings of the listener since the start.
    pub(super) server: downstream::Config,
    pub(super) fixed: RestartSettings,
    /// The configuration for operators.
    pub(super) loaded: watch::Sender<Loaded>,
}

/// The configuration for operators, loaded now.
pub(super) fn loaded(settings: json::Raw, file: &Path) -> watch::Sender<Loaded> {
    watch::Sender::new(now(settings, file))
}

fn now(settings: json::Raw, file: &Path) -> Loaded {
    Loaded { settings, at: SystemTime::now(), file: file.display().to_string() }
}

impl ReloadTarget {
    /// Returns options of the admin API that show the configuration, and reload it if there is a `renewal`.
    pub(super) fn of_file(self, renewal: Option<Renewal>, tasks: &Shutdown) -> admin::Options {
        let loaded = self.loaded.subscribe();
        let configuration: Configuration = Arc::new(move || loaded.borrow().clone());
        let certificate_views = self.server.certificate_views();
        let edit_entry = renewal.as_ref().and_then(|renewal| renewal.edit_entry.clone());
        let reload = renewal.map(|renewal| self.follow(renewal, tasks));
        let configuration = Some(configuration);
        admin::Options { reload, configuration, edit_entry, certificate_views, ..admin::Options::default() }
    }

    /// Reloads the configuration whenever it is requested or the file changed, and returns the function that reloads it.
    fn follow(self, Renewal { load, requests, watched, .. }: Renewal, tasks: &Shutdown) -> Reload {
        let events = Arc::clone(self.manager.live_events());
        let reload = self.reloading(load, tasks);
        if let Some(file) = watched {
            tasks.spawn_until_end(follow(FILE, file.changes(), Arc::clone(&reload), Arc::clone(&events)));
        }
        tasks.spawn_until_end(follow(SIGNAL, requests, Arc::clone(&reload), events));
        reload
    }

    /// Returns the function that reloads the configuration. A reload continues even if its caller goes away, so
    /// that servers and keys are always from the same file.
    fn reloading(self, load: Load, tasks: &Shutdown) -> Reload {
        let (running, turn, tasks) = (Arc::new(self), Arc::new(Mutex::new(())), tasks.clone());
        Arc::new(move || {
            let (running, turn, load) = (Arc::clone(&running), Arc::clone(&turn), Arc::clone(&load));
            let (reply, response) = oneshot::channel();
            tasks.spawn_until_end(async move {
                // Reloads run in turn, so the file that was read last is in effect.
                let _turn = turn.lock_owned().await;
                let reloaded = running.reload(load).await;
                match &reloaded {
                    Ok(reloaded) => log(reloaded),
                    Err(reason) => {
                        tracing::error!(
                            "the configuration was not reloaded, the running one stays\n{reason}"
                        );
                    }
                }
                // The caller may be gone.
                let _ = reply.send(reloaded);
            });
            async { response.await.unwrap_or(Err(NotReloaded::Ending)) }.boxed()
        })
    }

    async fn reload(&self, load: Load) -> Result<Reloaded, NotReloaded> {
        let server = self.server.clone();
        let read = tokio::task::spawn_blocking(move || read(&load, server)).await;
        let (config, keys) = read.map_err(|_| NotReloaded::Panicked)?.map_err(NotReloaded::File)?;
        let at_restart = self.fixed.changed(&config.fixed);
        let applied = self.manager.apply(config.manager).await.map_err(|error| match error {
            // This error does not come from a server of the file.
            upstream::Error::Unavailable { .. } => NotReloaded::Ending,
            error => NotReloaded::File(error.to_string()),
        })?;
        self.authenticator.renew(keys);
        self.loaded.send_replace(now(config.shown, &config.file));
        if let Some(certificates) = &self.certificates {
            certificates.look().await;
        }
        Ok(Reloaded { applied, at_restart })
    }
}

/// Loads the configuration and its keys. The keys must suffice for the address of the running listener.
fn read(load: &Load, server: downstream::Config) -> Result<(Config, Keys), String> {
    let config = load().map_err(|error| error.to_string())?;
    let auth = config.server.auth.clone();
    // The running listener keeps the setting of its start, which the log names.
    let is_opened = config.server.allow_unauthenticated;
    let refused =
        |exposed: Exposed| if is_opened { OPENS_AT_RESTART.to_owned() } else { exposed.to_string() };
    let server = server.authenticating(auth).map_err(refused)?;
    let keys = Keys::read(&server.auth).map_err(|error| error.to_string())?;
    // Those of the start. The running listener keeps the views of its certificates, and the keys are those of the file.
    for warning in server.without_view(&config.views()).into_iter().chain(config.limits_without_effect()) {
        tracing::warn!("{warning}");
    }
    Ok((config, keys))
}

/// The pause before a reload whose audit line had no room is tried again.
const AUDIT_PAUSE: Duration = Duration::from_secs(5);

/// Reloads whenever `requests` gives a value, on behalf of `actor`.
async fn follow(
    actor: Actor<'static>,
    mut requests: BoxStream<'static, ()>,
    reload: Reload,
    events: Arc<LiveEvents>,
) {
    while requests.next().await.is_some() {
        let record = loop {
            match audit::operation(actor, Action::Reload.as_str(), None) {
                Ok(record) => break record,
                Err(full) => {
                    tracing::error!(reason = %full, "the configuration is not reloaded before that ends");
                    tokio::time::sleep(AUDIT_PAUSE).await;
                }
            }
        };
        let reloaded = reload().await; // the log has the details
        let outcome = reloaded.map_or_else(|reason| reason.outcome().into(), |_| Cow::Borrowed(audit::DONE));
        events.operated(actor.principal, (Action::Reload.as_str(), None), &outcome, None);
        if let Some(record) = record {
            record.ended(outcome);
        }
    }
}

fn log(Reloaded { applied, at_restart }: &Reloaded) {
    let (added, changed, removed) = (&applied.added, &applied.changed, &applied.removed);
    let unchanged = applied.unchanged.len();
    tracing::info!(?added, ?changed, ?removed, unchanged, "configuration reloaded");
    for part in at_restart {
        tracing::warn!("`{part}` was changed, which takes effect when the gateway is restarted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Result<Config, config::Error> {
        Config::parse(Path::new("mcp_servers.yaml"), b"mcp_servers: {}\n", &|_| {
            Err(std::env::VarError::NotPresent)
        })
    }

    fn running() -> ReloadTarget {
        let Config { manager, server, fixed, shown, file, .. } = config().expect("a configuration");
        let manager = Manager::initialize(manager, &Shutdown::new()).expect("no server");
        let authenticator = Arc::new(Authenticator::new(&server.auth).expect("no files"));
        ReloadTarget {
            manager,
            authenticator,
            certificates: None,
            server,
            fixed,
            loaded: loaded(shown, &file),
        }
    }

    #[tokio::test]
    async fn each_reason_is_told_apart() {
        let tasks = Shutdown::new();
        let bad: Load = Arc::new(|| {
            Config::parse(Path::new("bad.yaml"), b"mcp_servers: 1\n", &|_| {
                Err(std::env::VarError::NotPresent)
            })
        });
        let reason = running().reloading(bad, &tasks)().await.expect_err("it has a problem");
        assert!(matches!(&reason, NotReloaded::File(text) if text.contains("bad.yaml:1")), "{reason}");
        assert_eq!(reason.outcome(), "invalid_configuration");
        let panics: Load = Arc::new(|| panic!("on purpose"));
        let reason = running().reloading(panics, &tasks)().await.expect_err("it panics");
        assert_eq!((reason.outcome().as_str(), reason), ("internal_error", NotReloaded::Panicked));
        let gone = running();
        gone.manager.shutdown(Duration::from_secs(5)).await;
        let reason = gone.reloading(Arc::new(config), &tasks)().await.expect_err("nobody takes it over");
        assert_eq!((reason.outcome().as_str(), reason), ("server_unavailable", NotReloaded::Ending));
        tasks.begin();
        let reason = running().reloading(Arc::new(config), &tasks)().await.expect_err("it is ending");
        assert_eq!(reason, NotReloaded::Ending);
    }

    #[tokio::test]
    async fn started_reload_completes_though_nobody_waits_for_it() {
        let (tasks, running) = (Shutdown::new(), running());
        let mut renewals = running.authenticator.renewals();
        let reload = running.reloading(Arc::new(config), &tasks);
        let mut reload_request = reload();
        assert!((&mut reload_request).now_or_never().is_none(), "it takes a while");
        drop(reload_request);
        let done = tokio::time::timeout(Duration::from_secs(30), renewals.changed()).await;
        assert!(done.is_ok_and(|changed| changed.is_ok()), "the keys were renewed");
        assert!(reload().await.is_ok(), "and the next one goes on");
    }
}
