//! A running manager under another configuration.
//!
//! Invariants: all or nothing: what can fail comes before anything is changed. A server whose settings
//! are the same goes on untouched, with its connections, breaker and calls. One whose settings changed is
//! another server in its place: calls that run at the old one end there, and its subscriptions go on at
//! the new one. Names of tools do not go away because their server is being replaced: what the old one
//! offered stays known until the new one was asked, where both are the same target.
//!
//! Not here: where configurations come from (`app`).

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Manager;
use super::config::Config;
use super::registry::{Apply, Order};
use super::snapshot::Snapshot;
use upstream::{Connector, Means, Upstream, transport};

/// What became of the servers, each list in the order of its registry file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Those that are new.
    pub added: Vec<Arc<str>>,
    /// Those that were there with other settings.
    pub changed: Vec<Arc<str>>,
    /// Those that are gone.
    pub removed: Vec<Arc<str>>,
    /// Those that go on as they were.
    pub unchanged: Vec<Arc<str>>,
}

/// What is to be done about one server of the new configuration.
enum Step {
    Keep(Arc<Upstream>),
    Replace(Arc<Upstream>, Arc<dyn Connector>),
    Add(Arc<dyn Connector>),
}

impl Manager {
    /// Has the servers and names be those of `config` from now on; returns when every later call sees
    /// them. Where the cache is stays as it was at the start.
    ///
    /// On an error nothing was changed.
    pub async fn apply(&self, config: Config) -> Result<Applied, upstream::Error> {
        let means = Means { shutdown: self.shutdown.clone(), store: self.store.clone(), only_looks: false };
        self.apply_with(config, |server| transport::connector(server, &means)).await
    }

    /// The same with connectors of the caller's choice for servers that are new or changed.
    pub async fn apply_with(
        &self,
        config: Config,
        connect: impl Fn(&upstream::Config) -> Result<Arc<dyn Connector>, upstream::Error>,
    ) -> Result<Applied, upstream::Error> {
        let _turn = self.applying.lock().await;
        let before = self.snapshot();
        let step = |server| Step::of(server, &before, &connect);
        let steps = config.servers.iter().map(step).collect::<Result<Vec<_>, _>>()?;
        let take = |(step, server): (Step, &upstream::Config)| self.take(step, server.clone());
        let upstreams: Vec<_> = steps.into_iter().zip(&config.servers).map(take).collect();
        let applied = Applied::between(&before, &upstreams);
        self.publish(config, upstreams).await?;
        self.retire(&before);
        Ok(applied)
    }

    fn take(&self, step: Step, server: upstream::Config) -> Arc<Upstream> {
        let updates = self.updates.clone();
        match step {
            Step::Keep(upstream) => upstream,
            Step::Replace(old, connector) => old.succeed(server, connector, updates, &self.shutdown),
            Step::Add(connector) => Upstream::start(server, connector, updates, &self.shutdown),
        }
    }

    async fn publish(&self, config: Config, upstreams: Vec<Arc<Upstream>>) -> Result<(), upstream::Error> {
        let gone = upstream::Error::Unavailable { state: "shutting down" };
        let (done, published) = oneshot::channel();
        let order = Order::Apply(Apply { config: Arc::new(config), upstreams, done });
        self.orders.send(order).await.map_err(|_| gone.clone())?;
        published.await.map_err(|_| gone)
    }

    /// Stops the servers of `before` that are there no more, each when its calls have ended.
    fn retire(&self, before: &Snapshot) {
        let now = self.snapshot();
        for old in before.servers().iter().map(|server| &server.upstream) {
            if is_in(old, &now) {
                continue;
            }
            let (old, shutdown) = (Arc::clone(old), self.shutdown.clone());
            self.shutdown.spawn(async move {
                tokio::select! {
                    // No call is given longer, unless it asked for that itself.
                    () = old.stop(old.config().max_timeout) => {}
                    () = shutdown.requested() => {}
                }
            });
        }
    }
}

impl Step {
    fn of(
        server: &upstream::Config,
        before: &Snapshot,
        connect: impl Fn(&upstream::Config) -> Result<Arc<dyn Connector>, upstream::Error>,
    ) -> Result<Self, upstream::Error> {
        Ok(match before.server(&server.name).map(|found| Arc::clone(&found.upstream)) {
            Ok(old) if old.config().source == server.source => Self::Keep(old),
            Ok(old) => Self::Replace(old, connect(server)?),
            Err(_) => Self::Add(connect(server)?),
        })
    }
}

impl Applied {
    fn between(before: &Snapshot, upstreams: &[Arc<Upstream>]) -> Self {
        let mut applied = Self::default();
        for upstream in upstreams {
            let name = &upstream.config().name;
            let list = match before.server(name) {
                Ok(old) if Arc::ptr_eq(&old.upstream, upstream) => &mut applied.unchanged,
                Ok(_) => &mut applied.changed,
                Err(_) => &mut applied.added,
            };
            list.push(Arc::clone(name));
        }
        let names = before.servers().iter().map(|server| &server.upstream.config().name);
        let is_gone = |name: &&Arc<str>| upstreams.iter().all(|upstream| upstream.config().name != **name);
        applied.removed = names.filter(is_gone).cloned().collect();
        applied
    }
}

/// Whether `upstream` is one of those that are called now.
pub(super) fn is_in(upstream: &Arc<Upstream>, snapshot: &Snapshot) -> bool {
    snapshot.servers().iter().any(|server| Arc::ptr_eq(&server.upstream, upstream))
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
