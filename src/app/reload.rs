//! A running gateway under its registry file as it is now.
//!
//! Invariants: a file with a problem changes nothing and is named in the log with all its problems; one
//! reload at a time; nothing that is reachable from outside is ever left without authentication. What was
//! made of `cache:` and of `server:` but its keys at the start stays until a restart, and who asked is
//! told when they say something else by now.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::stream::{BoxStream, StreamExt};
use tokio::sync::Mutex;

use crate::admin::{Reload, Reloaded};
use crate::auth::{Authenticator, Keys};
use crate::config::{self, Config, Fixed};
use crate::downstream;
use crate::manager::Manager;

/// Reads the configuration again. It may block.
pub type Load = Arc<dyn Fn() -> Result<Config, config::Error> + Send + Sync>;

/// How a running gateway comes to another configuration.
pub struct Renewal {
    /// Where it comes from.
    pub load: Load,
    /// Gives a value whenever an operator wants it, beside those who ask over REST.
    pub wanted: BoxStream<'static, ()>,
}

/// What takes a new configuration over.
pub(super) struct Running {
    pub(super) manager: Arc<Manager>,
    pub(super) authenticator: Arc<Authenticator>,
    /// Where it listens and for whom, since the start.
    pub(super) server: downstream::Config,
    pub(super) fixed: Fixed,
}

impl Running {
    /// What reloads it.
    pub(super) fn reloading(self, load: Load) -> Reload {
        let (running, turn) = (Arc::new(self), Arc::new(Mutex::new(())));
        Arc::new(move || {
            let (running, turn, load) = (Arc::clone(&running), Arc::clone(&turn), Arc::clone(&load));
            async move {
                // The file that was read last is the one that holds.
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
                reloaded
            }
            .boxed()
        })
    }

    async fn reload(&self, load: Load) -> Result<Reloaded, String> {
        let server = self.server.clone();
        let read = tokio::task::spawn_blocking(move || read(&load, server)).await;
        let (config, keys) = read.map_err(|_| "reading the configuration failed".to_owned())??;
        let at_restart = self.fixed.changed(&config.fixed);
        let applied = self.manager.apply(config.manager).await.map_err(|error| error.to_string())?;
        self.authenticator.renew(keys);
        Ok(Reloaded { applied, at_restart })
    }
}

/// The configuration, and its keys, which are enough for where we listen.
fn read(load: &Load, server: downstream::Config) -> Result<(Config, Keys), String> {
    let config = load().map_err(|error| error.to_string())?;
    let auth = config.server.auth.clone();
    let server = server.authenticating(auth).map_err(|exposed| exposed.to_string())?;
    let keys = Keys::read(&server.auth).map_err(|error| error.to_string())?;
    Ok((config, keys))
}

/// Reloads whenever that is wanted.
pub(super) async fn follow(mut wanted: BoxStream<'static, ()>, reload: Reload) {
    while wanted.next().await.is_some() {
        let _ = reload().await; // the log tells
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
