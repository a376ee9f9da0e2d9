//! The tools of an R2R retrieval service (REST API v3).

#[allow(dead_code)] // what the tools use, and they come next
mod client;
#[allow(dead_code)] // the same
mod session;
mod token;

#[cfg(test)]
mod client_tests;
#[cfg(test)]
#[allow(dead_code, unreachable_pub)] // the integration tests use it too, each some of it
#[path = "../../../../tests/it/support/r2r/mod.rs"]
mod double;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::{Builtin, Report, no_tool};
use crate::protocol::{Raw, Reply};
use crate::upstream::connection::Events;
use crate::upstream::error::Error;
use crate::upstream::{Means, config};
use client::Client;

/// R2R as one of our own servers.
pub(super) struct R2r {
    name: Arc<str>,
    client: Client,
}

impl R2r {
    /// Logs in.
    pub(super) async fn open(
        name: &Arc<str>,
        config: &config::R2r,
        means: &Means,
        _events: Events,
    ) -> Result<Self, Error> {
        Ok(Self { name: Arc::clone(name), client: Client::open(config, means).await? })
    }
}

impl Builtin for R2r {
    fn info(&self) -> Raw {
        Raw::of(&*self.name)
    }

    fn instructions(&self) -> Option<String> {
        None
    }

    fn tools(&self) -> Vec<Raw> {
        Vec::new()
    }

    fn call<'a>(
        &'a self,
        name: &'a str,
        _arguments: Raw,
        _report: &'a Report,
    ) -> BoxFuture<'a, Result<Reply, Error>> {
        std::future::ready(Ok(Err(no_tool(name)))).boxed()
    }

    fn health(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.client.health().boxed()
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        self.client.refused()
    }
}
