//! A running gateway under its registry file as it is now.
//!
//! Invariants: a file with a problem changes nothing and is named in the log with all its problems; one
//! reload at a time. What was made of `server:` and `cache:` at the start stays until a restart, and who
//! asked is told when they say something else by now.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::stream::{BoxStream, StreamExt};
use tokio::sync::Mutex;

use crate::admin::{Reload, Reloaded};
use crate::config::{self, Config, Fixed};
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

/// What reloads `manager`, which was started with `fixed`.
pub(super) fn over(manager: &Arc<Manager>, load: Load, fixed: Fixed) -> Reload {
    let (manager, fixed, turn) = (Arc::clone(manager), Arc::new(fixed), Arc::new(Mutex::new(())));
    Arc::new(move || {
        let (manager, load) = (Arc::clone(&manager), Arc::clone(&load));
        let (fixed, turn) = (Arc::clone(&fixed), Arc::clone(&turn));
        async move {
            // The file that was read last is the one that holds.
            let _turn = turn.lock_owned().await;
            let reloaded = reload(&manager, load, &fixed).await;
            match &reloaded {
                Ok(reloaded) => log(reloaded),
                Err(reason) => {
                    tracing::error!("the configuration was not reloaded, the running one stays\n{reason}");
                }
            }
            reloaded
        }
        .boxed()
    })
}

/// Reloads whenever that is wanted.
pub(super) async fn follow(mut wanted: BoxStream<'static, ()>, reload: Reload) {
    while wanted.next().await.is_some() {
        let _ = reload().await; // the log tells
    }
}

async fn reload(manager: &Manager, load: Load, fixed: &Fixed) -> Result<Reloaded, String> {
    let loaded = tokio::task::spawn_blocking(move || load()).await;
    let config = loaded.map_err(|_| "reading the configuration failed".to_owned())?;
    let config = config.map_err(|error| error.to_string())?;
    let at_restart = fixed.changed(&config.fixed);
    let applied = manager.apply(config.manager).await.map_err(|error| error.to_string())?;
    Ok(Reloaded { applied, at_restart })
}

fn log(Reloaded { applied, at_restart }: &Reloaded) {
    let (added, changed, removed) = (&applied.added, &applied.changed, &applied.removed);
    let unchanged = applied.unchanged.len();
    tracing::info!(?added, ?changed, ?removed, unchanged, "configuration reloaded");
    for part in at_restart {
        tracing::warn!("`{part}` was changed, which takes effect when the gateway is restarted");
    }
}
