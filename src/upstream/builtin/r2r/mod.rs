//! The tools of an R2R retrieval service (REST API v3) as a server of ours.
//!
//! One file per tool: its arguments and answer as types, from which its definition is made, and what is
//! asked of R2R for it. `desk` is what they share: the client, the project's collection, the answers that
//! are kept.
//!
//! Not here: how R2R is spoken to (`client`, `session`), which file goes where (`ingest`).

mod answers;
mod client;
mod collections;
mod desk;
mod documents;
mod filters;
mod history;
mod id;
mod ingest;
mod mapping;
mod model;
mod project;
mod rag;
mod resources;
mod search;
mod session;
mod settings;
mod telling;
mod titles;
mod token;

#[cfg(test)]
mod client_tests;
#[cfg(test)]
#[allow(dead_code, unreachable_pub)] // the integration tests use it too, each some of it
#[path = "../../../../tests/it/support/r2r/mod.rs"]
mod double;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod project_tests;
#[cfg(test)]
mod searching_tests;
#[cfg(test)]
mod taking_in_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tools_tests;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use self::desk::Desk;
use self::ingest::Ingest;
use super::answer::{Failure, passing, reply};
#[cfg(test)]
use super::served; // for the double
use super::tool::Tool;
use super::{Builtin, Declared, Report, info, no_tool};
use crate::protocol::{Raw, Reply};
use crate::upstream::config::AdvancedSearch;
use crate::upstream::connection::Events;
use crate::upstream::error::Error;
use crate::upstream::{Means, config};

/// R2R as one of our own servers.
pub(super) struct R2r {
    desk: Arc<Desk>,
    ingest: Ingest,
    tools: Vec<Tool>,
}

impl R2r {
    /// Logs in.
    pub(super) async fn open(
        name: &Arc<str>,
        options: &config::R2r,
        means: &Means,
        events: Events,
    ) -> Result<Self, Error> {
        let desk = Arc::new(Desk::open(name, options, means).await?);
        let mapping = desk.project.mapping().filter(|_| !means.only_looks);
        let journal = mapping.map(|mapping| ingest::journal_beside(mapping.path(), name));
        let ingest = Ingest::open(
            desk.client.clone(),
            ingest::Opening {
                options,
                journal: journal.unwrap_or_default(),
                answers: desk.answers.clone(),
                events,
                shutdown: &means.shutdown,
            },
        );
        Ok(Self { desk, ingest, tools: tools(options.advanced_search) })
    }

    /// Its offer before it logged in.
    pub(super) fn declared(options: &config::R2r) -> Declared {
        Declared::new(about(), INSTRUCTIONS, &tools(options.advanced_search))
            .with_resources(resources::definitions(), true)
    }

    async fn take_in(&self, input: ingest::Arguments, report: &Report) -> Result<Raw, Failure> {
        let project = &self.desk.project;
        let collection = project.or_own(input.collection_id).await?;
        let is_own = match input.collection_id {
            Some(_) => matches!(project.peek().await, Ok(Some(own)) if own == collection),
            None => true,
        };
        let target = ingest::Target {
            collection,
            is_known: input.collection_id.is_none(),
            resource: is_own.then_some(resources::CONTEXT),
        };
        self.ingest.ingest(input, target, report).await.map(|answer| Raw::of(&answer))
    }

    async fn run(&self, tool: &Tool, arguments: &Raw, report: &Report) -> Result<Raw, Failure> {
        let desk = &*self.desk;
        match tool.name() {
            "r2r_search" => {
                let input: search::Input = tool.read(arguments)?;
                desk.history.note(report.home(), search::ABOUT.name, &input.query);
                search::search(desk, input).await
            }
            "r2r_rag_query" => {
                let input: rag::Input = tool.read(arguments)?;
                desk.history.note(report.home(), rag::ABOUT.name, &input.question);
                rag::ask(desk, input, report).await
            }
            "r2r_ingest_document" => self.take_in(tool.read(arguments)?, report).await,
            "r2r_list_documents" => documents::list(desk, &self.ingest, tool.read(arguments)?).await,
            "r2r_monitor_task" => {
                let input: documents::MonitorInput = tool.read(arguments)?;
                // Before R2R is asked: it may be done in between.
                let ours = self.ingest.ours(input.document_id);
                documents::monitor(desk, input, ours).await
            }
            _ => collections::list(desk, tool.read(arguments)?).await,
        }
    }
}

/// All tools, in the order they are listed.
fn tools(advanced_search: AdvancedSearch) -> Vec<Tool> {
    vec![
        Tool::new::<search::Input, search::Output>(&search::about(advanced_search)),
        Tool::new::<rag::Input, rag::Output>(&rag::ABOUT),
        Tool::new::<ingest::Arguments, ingest::Ingested>(&ingest::ABOUT),
        Tool::new::<documents::ListInput, documents::ListOutput>(&documents::ABOUT_LIST),
        Tool::new::<documents::MonitorInput, documents::MonitorOutput>(&documents::ABOUT_MONITOR),
        Tool::new::<collections::Input, collections::Output>(&collections::ABOUT),
    ]
}

const INSTRUCTIONS: &str = "Documents of a project, kept in R2R. r2r_search finds passages and \
    r2r_rag_query answers a question from them; both use the project's own collection unless another \
    one is named. r2r_ingest_document takes a file in, r2r_monitor_task follows that.";

fn about() -> Raw {
    info("r2r", "R2R")
}

impl Builtin for R2r {
    fn info(&self) -> Raw {
        about()
    }

    fn instructions(&self) -> Option<String> {
        Some(INSTRUCTIONS.to_owned())
    }

    fn tools(&self) -> Vec<Raw> {
        self.tools.iter().map(|tool| tool.definition().clone()).collect()
    }

    fn call<'a>(
        &'a self,
        name: &'a str,
        arguments: Raw,
        report: &'a Report,
    ) -> BoxFuture<'a, Result<Reply, Error>> {
        async move {
            match self.tools.iter().find(|tool| tool.name() == name) {
                Some(tool) if tool.name() == documents::ABOUT_MONITOR.name => {
                    reply(self.run(tool, &arguments, report).await).map(passing)
                }
                Some(tool) => reply(self.run(tool, &arguments, report).await),
                None => Ok(Err(no_tool(name))),
            }
        }
        .boxed()
    }

    fn resources(&self) -> Option<Vec<Raw>> {
        Some(resources::definitions())
    }

    fn told_resources(&self) -> &[&str] {
        &[resources::CONTEXT]
    }

    fn read<'a>(&'a self, uri: &'a str, report: &'a Report) -> BoxFuture<'a, Result<Reply, Error>> {
        resources::read(&self.desk, &self.ingest, uri, report).boxed()
    }

    fn health(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.desk.client.health().boxed()
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        self.desk.client.refused()
    }
}
