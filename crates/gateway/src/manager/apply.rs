//! Applies a new configuration to a running manager.
//!
//! Invariants: a configuration applies completely or not at all, because all steps that can fail come
//! first. A server with unchanged settings keeps its connections, breaker and calls. A server with
//! changed settings is replaced by a new one: running calls end at the old server, and subscriptions
//! continue at the new one. While a server is replaced, its names stay: if both have the same target, the
//! old offer is used until the new server was asked.
//!
//! Not here: the sources of configurations (`app`).

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::config::Config;
use super::error::Error;
use super::known::{Known, KnownServers};
use super::not_configured::NotConfigured;
use super::registry::{Apply, Order};
use super::snapshot::Snapshot;
use super::{Manager, Scope, ServerStatus, failed_at};
use upstream::{Connector, Remembered, ServerContext, Upstream, transport};

/// The changes of the servers; each list has the order of the configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// New servers.
    pub added: Vec<Arc<str>>,
    /// Servers whose settings changed.
    pub changed: Vec<Arc<str>>,
    /// Removed servers.
    pub removed: Vec<Arc<str>>,
    /// Servers that were not changed.
    pub unchanged: Vec<Arc<str>>,
    /// Servers that run with their old settings, because their new entries have mistakes.
    pub retained: Vec<Arc<str>>,
    /// The entries that cannot be used, also those of `retained`.
    pub not_configured: Vec<NotConfigured>,
}

/// The change of one server of the new configuration.
enum Step {
    Keep(Arc<Upstream>),
    Replace(Arc<Upstream>, Arc<dyn Connector>),
    Add(Arc<dyn Connector>),
}

impl Manager {
    /// Applies the servers and names of `config`. Returns when every later call sees them. The cache
    /// stays where it was at the start.
    ///
    /// An error means that nothing changed.
    pub async fn apply(&self, config: Config) -> Result<Applied, upstream::Error> {
        let (vault, network) = (config.vault.clone(), config.network.clone());
        let (shutdown, store) = (self.shutdown.clone(), self.store.clone());
        let issuers = self.issuers.clone();
        let server_context = ServerContext { shutdown, store, is_inspection: false, vault, issuers, network };
        self.apply_with(config, |server| transport::connector(server, &server_context)).await
    }

    /// Applies `config`, with the connectors of `connect` for new and changed servers.
    pub(crate) async fn apply_with(
        &self,
        mut config: Config,
        connect: impl Fn(&upstream::Config) -> Result<Arc<dyn Connector>, upstream::Error>,
    ) -> Result<Applied, upstream::Error> {
        let _turn = self.applying.lock().await;
        let before = self.snapshot();
        let running = |name: &str| before.server(name).ok().map(|server| server.upstream.config().clone());
        let retained = config.keep(running);
        let step =
            |server: &upstream::Config| Step::of(server, retained.contains(&server.name), &before, &connect);
        let steps = config.servers.iter().map(step).collect::<Result<Vec<_>, _>>()?;
        let known = self.known(steps.iter().zip(&config.servers).filter(|(step, _)| !step.keeps())).await;
        let take = |(step, server): (Step, &upstream::Config)| {
            let known = known.get(&server.name).and_then(|known| known.remembered.as_ref());
            self.take(step, server.clone(), known)
        };
        let upstreams: Vec<_> = steps.into_iter().zip(&config.servers).map(take).collect();
        let applied = Applied::between(&before, &upstreams, &retained, &config.not_configured);
        config.not_configured.iter().for_each(|wrong| wrong.log(retained.contains(&wrong.name)));
        let limits = config.limits.clone();
        self.publish(Some(config), upstreams, (known, None)).await?;
        self.limits.configure(&limits);
        self.retire(&before);
        Ok(applied)
    }

    /// Enables or disables a server until the next configuration is applied. Running calls of a disabled
    /// server end where they began, and new calls are refused. Returns its status after the first attempt to
    /// connect.
    pub async fn set_enabled(&self, name: &str, enabled: bool) -> Result<ServerStatus, Error> {
        let turn = self.applying.lock().await;
        let before = self.snapshot();
        let old = Arc::clone(&before.server(name)?.upstream);
        if old.config().enabled != enabled {
            let next = old.switch(self.updates.clone(), &self.shutdown);
            self.replace(&before, (&old, &next), None).await?;
        }
        drop(turn);
        self.settled(&Scope::of_server(name), upstream::first_attempt_limit(old.config())).await;
        self.server(name)
    }

    /// Forgets what a server offered and showed, in files too, and starts it again. Running calls end where they began.
    /// The definitions that it offers next are trusted. Returns its status after the first attempt to connect.
    pub async fn forget(&self, name: &str) -> Result<ServerStatus, Error> {
        let turn = self.applying.lock().await;
        let before = self.snapshot();
        let old = Arc::clone(&before.server(name)?.upstream);
        let next = old.start_afresh(self.updates.clone(), &self.shutdown);
        self.replace(&before, (&old, &next), Some(name.into())).await?;
        if let Some(writer) = self.writer.clone() {
            let name = name.to_owned();
            // It fails only if the program ends.
            let _ = tokio::task::spawn_blocking(move || writer.forget(&name)).await;
        }
        drop(turn);
        self.settled(&Scope::of_server(name), upstream::first_attempt_limit(old.config())).await;
        self.server(name)
    }

    /// Publishes `next` in the place of `old`, and stops `old`. Nothing is kept about the server `forgotten`.
    async fn replace(
        &self,
        before: &Snapshot,
        (old, next): (&Arc<Upstream>, &Arc<Upstream>),
        forgotten: Option<Arc<str>>,
    ) -> Result<(), Error> {
        let all = before.servers().iter().map(|server| &server.upstream);
        let upstreams = all.map(|there| if Arc::ptr_eq(there, old) { next } else { there });
        let upstreams = upstreams.map(Arc::clone).collect();
        let remembered = (KnownServers::default(), forgotten);
        self.publish(None, upstreams, remembered).await.map_err(|source| failed_at(old, None, source))?;
        self.retire(before);
        Ok(())
    }

    /// Returns what is remembered of servers that are new or replaced. For the same server with other settings, it is the
    /// last offer, which the file may not have yet.
    async fn known(&self, servers: impl Iterator<Item = (&Step, &upstream::Config)>) -> KnownServers {
        let mut known = KnownServers::default();
        let Some(writer) = self.writer.clone() else { return known };
        let mut unread = Vec::new();
        for (step, server) in servers {
            match step {
                Step::Replace(old, _) if old.config().identity == server.identity => {
                    let last = Known { remembered: old.remembered(), ..Known::default() };
                    known.insert(Arc::clone(&server.name), last);
                }
                _ => unread.push(server.clone()),
            }
        }
        if !unread.is_empty() {
            let of = move |server: upstream::Config| {
                let known = writer.folder().read(&server.name, &server.identity);
                (server.name, known)
            };
            let read = move || unread.into_iter().map(of).collect::<Vec<_>>();
            // It fails only if the program ends.
            known.extend(tokio::task::spawn_blocking(read).await.unwrap_or_default());
        }
        known
    }

    fn take(&self, step: Step, server: upstream::Config, remembered: Option<&Remembered>) -> Arc<Upstream> {
        let updates = self.updates.clone();
        match step {
            Step::Keep(upstream) => upstream,
            Step::Replace(old, connector) => {
                old.succeed(server, connector, remembered, updates, &self.shutdown)
            }
            Step::Add(connector) => {
                Upstream::start_remembered(server, connector, remembered, updates, &self.shutdown)
            }
        }
    }

    async fn publish(
        &self,
        config: Option<Config>,
        upstreams: Vec<Arc<Upstream>>,
        (known, forgotten): (KnownServers, Option<Arc<str>>),
    ) -> Result<(), upstream::Error> {
        let gone = upstream::Error::Unavailable { state: "shutting down" };
        let (done, published) = oneshot::channel();
        let order = Order::Apply(Apply { config: config.map(Arc::new), upstreams, known, forgotten, done });
        self.orders.send(order).await.map_err(|_| gone.clone())?;
        published.await.map_err(|_| gone)
    }

    /// Stops the servers of `before` that are gone, each when its calls have ended.
    fn retire(&self, before: &Snapshot) {
        let now = self.snapshot();
        for old in before.servers().iter().map(|server| &server.upstream) {
            if is_in(old, &now) {
                continue;
            }
            let (old, shutdown) = (Arc::clone(old), self.shutdown.clone());
            self.shutdown.spawn(async move {
                tokio::select! {
                    // No call runs longer than this, unless its request asked for more time.
                    () = old.stop(old.config().max_timeout) => {}
                    () = shutdown.requested() => {}
                }
            });
        }
    }
}

impl Step {
    const fn keeps(&self) -> bool {
        matches!(self, Self::Keep(_))
    }

    fn of(
        server: &upstream::Config,
        is_kept: bool,
        before: &Snapshot,
        connect: impl Fn(&upstream::Config) -> Result<Arc<dyn Connector>, upstream::Error>,
    ) -> Result<Self, upstream::Error> {
        Ok(match before.server(&server.name).map(|found| Arc::clone(&found.upstream)) {
            // One that is kept may have to redact more.
            Ok(old) if old.config().source == server.source && (is_kept || !old.is_switched()) => {
                Self::Keep(old)
            }
            Ok(old) => Self::Replace(old, connect(server)?),
            Err(_) => Self::Add(connect(server)?),
        })
    }
}

impl Applied {
    /// The entries that have mistakes. Disabled servers without a value of a variable are not among them.
    pub fn mistakes(&self) -> impl Iterator<Item = &NotConfigured> {
        self.not_configured.iter().filter(|wrong| wrong.is_mistake())
    }

    fn between(
        before: &Snapshot,
        upstreams: &[Arc<Upstream>],
        retained: &HashSet<Arc<str>>,
        not_configured: &[NotConfigured],
    ) -> Self {
        let mut applied = Self { not_configured: not_configured.to_vec(), ..Self::default() };
        for upstream in upstreams {
            let name = &upstream.config().name;
            let list = match before.server(name) {
                Ok(_) if retained.contains(name) => &mut applied.retained,
                Ok(old) if Arc::ptr_eq(&old.upstream, upstream) => &mut applied.unchanged,
                Ok(_) => &mut applied.changed,
                Err(_) => &mut applied.added,
            };
            list.push(Arc::clone(name));
        }
        let names = before.servers().iter().map(|server| &server.upstream.config().name);
        let is_gone = |name: &&Arc<str>| upstreams.iter().all(|upstream| upstream.config().name != **name);
        // A server that is disabled now is still listed.
        let is_disabled = |name: &&Arc<str>| not_configured.iter().any(|wrong| wrong.name == **name);
        let (disabled, removed) = names.filter(is_gone).cloned().partition(|name| is_disabled(&name));
        applied.removed = removed;
        applied.changed.extend::<Vec<_>>(disabled);
        applied
    }
}

/// Whether `upstream` is a server of `snapshot`.
pub(super) fn is_in(upstream: &Arc<Upstream>, snapshot: &Snapshot) -> bool {
    snapshot.servers().iter().any(|server| Arc::ptr_eq(&server.upstream, upstream))
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
