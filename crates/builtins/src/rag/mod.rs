//! The techniques of a RAG service behind an HTTP bridge, as a built-in server with one tool for each.
//!
//! Invariants: the bridge's names are offered only if they are valid. Clients are notified of changes of the
//! list. If the list cannot be read, the last one stays. A question is never repeated automatically once it
//! was sent, because answers cost money.
//!
//! Not here: requests to the bridge (`bridge`), the choice of names, and the times at which the list is read
//! (`techniques`).

mod ask;
mod bridge;
pub(crate) mod config;
mod failed;
mod health;
mod techniques;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod list_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tools_tests;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use self::bridge::Bridge;
use self::techniques::TechniqueList;
use super::answer::{passing, reply, result};
use super::tool::Tool;
use super::{Builtin, BuiltinInfo, Declared, Report, no_tool};
use json::Raw;
use protocol::Reply;
use runtime::shutdown::Shutdown;
use upstream::api::{Error, Events, ServerContext};

#[cfg(test)]
use testkit::rag as double;

/// The techniques as a built-in server. Dropping it ends the task that follows the list.
pub(crate) struct Rag {
    bridge: Bridge,
    list: Arc<TechniqueList>,
    health: Tool,
    tasks: Shutdown,
}

impl Rag {
    /// Reads the list and checks the health of the bridge. An unhealthy bridge counts as unavailable.
    pub(super) async fn open(
        name: &Arc<str>,
        options: &config::RagOptions,
        server_context: &ServerContext,
        events: Events,
    ) -> Result<Self, Error> {
        let bridge = Bridge::new(options, server_context)?;
        let list = Arc::new(TechniqueList::open(name, &bridge, options, events).await?);
        bridge.health().await?;
        let tasks = server_context.shutdown.child();
        tasks.spawn_until_end(Arc::clone(&list).follow(options.refresh));
        Ok(Self { bridge, list, health: health::tool(), tasks })
    }

    /// Returns the offer before the bridge has answered: the techniques that are described here.
    pub(super) fn declared(options: &config::RagOptions) -> Declared {
        let (known, health) = (techniques::Offer::known(options.max_techniques), health::tool());
        let techniques = known.techniques.iter().map(|technique| &technique.tool);
        Declared::new(Self::INFO, techniques.chain([&health]))
    }

    async fn ask(&self, technique: &str, tool: &Tool, arguments: &Raw) -> Result<Reply, Error> {
        let requested = async { ask::ask(&self.bridge, technique, tool.read(arguments)?).await };
        match requested.await {
            Ok(answer) => Ok(Ok(result(&answer))),
            Err(failed) => {
                if failed.is_of_the_list() {
                    self.list.look_soon();
                }
                failed.reply(technique)
            }
        }
    }
}

const INSTRUCTIONS: &str = "Answers to questions from the documents of a RAG service. Each tool is one way to \
    find passages and to write an answer from them: begin with rag_basic where it is offered. Every call \
    costs time and a language model's tokens, so ask once and well. rag_health says how the service is.";

impl Builtin for Rag {
    const INFO: BuiltinInfo =
        BuiltinInfo { name: "rag", title: "RAG techniques", instructions: INSTRUCTIONS };

    fn tools(&self) -> Vec<Raw> {
        let offer = self.list.offer();
        let techniques = offer.techniques.iter().map(|technique| &technique.tool);
        techniques.chain([&self.health]).map(|tool| tool.definition().clone()).collect()
    }

    async fn call(&self, name: &str, arguments: Raw, _report: &Report) -> Result<Reply, Error> {
        if name == self.health.name() {
            let answered = health::answer(&self.bridge, &self.list, &self.health, &arguments).await;
            return reply(answered).map(passing);
        }
        let offer = self.list.offer();
        match offer.techniques.iter().find(|technique| technique.tool.name() == name) {
            Some(known) => self.ask(&known.name, &known.tool, &arguments).await,
            None => Ok(Err(no_tool(name))),
        }
    }

    async fn health(&self) -> Result<(), Error> {
        let health = self.bridge.health().await;
        // The list is read even if the bridge is unhealthy, because it shows whether the key is still
        // accepted.
        self.list.look_soon();
        health.map(drop)
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        self.list.refused().boxed()
    }
}

impl Drop for Rag {
    fn drop(&mut self) {
        self.tasks.begin();
    }
}
