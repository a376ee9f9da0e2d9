//! Test fixture: the Chroma tools, connected to a Chroma in memory, with vectors that count letters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use serde_json::Value;
use tokio::time::Instant;

use super::double::Double;
use super::{ChromaClient, ChromaToken, DatabaseAddress, VectorStore};
use crate::chroma::config;
use crate::chroma::context::ChromaContext;
use crate::chunk::Chunking;
use crate::embedding::{self, Embedding, EmbeddingFuture, NoProvider, Window};
use crate::hostile::fits;
use crate::{Builtin, Report};
use json::Raw;
use protocol::Reply;
use runtime::shutdown::Shutdown;
use upstream::api::Error;

/// Counts each letter of a text.
pub(super) struct Letters {
    pub model: &'static str,
    pub dimension: usize,
    pub is_down: AtomicBool,
}

impl Letters {
    pub(super) fn new(model: &'static str, dimension: usize) -> Arc<Self> {
        Arc::new(Self { model, dimension, is_down: AtomicBool::new(false) })
    }

    fn vector(&self, text: &str) -> Vec<f32> {
        let mut vector = vec![0.01; self.dimension];
        for letter in text.to_lowercase().chars().filter(char::is_ascii_lowercase) {
            vector[letter as usize % self.dimension] += 1.0;
        }
        vector
    }
}

impl Embedding for Letters {
    fn embed<'a>(&'a self, texts: &'a [String], _: Instant) -> EmbeddingFuture<'a> {
        let failure = Error::Connect { reason: "connection refused".into() };
        let failed = embedding::Error::Failed { provider: "letters", model: self.model.into(), failure };
        let made = if self.is_down.load(Ordering::Relaxed) {
            Err(failed)
        } else {
            Ok(texts.iter().map(|text| self.vector(text)).collect())
        };
        std::future::ready(made).boxed()
    }

    fn provider(&self) -> &'static str {
        "letters"
    }

    fn model(&self) -> &str {
        self.model
    }

    fn window(&self) -> Window {
        Window::of_tokens(2_500)
    }
}

pub(super) fn options(url: &url::Url, who: Option<&str>) -> config::ChromaOptions {
    let token = who.map(|who| ChromaToken::Bearer(who.to_owned().into()));
    config::ChromaOptions {
        place: DatabaseAddress { token, ..DatabaseAddress::usual(url.clone()) },
        create_database: false,
        collection_prefix: "mcp_".into(),
        embedding: embedding::Config::None,
        chunking: Chunking::new(60, 0).expect("good"),
        markdown: false,
        max_results: 50,
    }
}

/// Makes the server, with `who` as its token.
pub(super) fn server(double: &Double, who: Option<&str>, embedding: Arc<dyn Embedding>) -> VectorStore {
    let options = options(&double.url, who);
    let chroma = ChromaClient::new(&options.place, &crate::server_context(&Shutdown::new())).expect("usable");
    VectorStore::new(ChromaContext::new(chroma, &options, embedding))
}

/// Both sides.
pub(super) struct Fixture {
    pub double: Double,
    pub ours: VectorStore,
    pub letters: Arc<Letters>,
}

impl Fixture {
    pub(super) async fn new() -> Self {
        let (double, letters) = (Double::start().await, Letters::new("m", 16));
        let ours = server(&double, None, Arc::clone(&letters) as Arc<dyn Embedding>);
        Self { double, ours, letters }
    }

    /// Makes another server, with another model or other credentials.
    pub(super) fn other(&self, who: Option<&str>, embedding: Arc<dyn Embedding>) -> VectorStore {
        server(&self.double, who, embedding)
    }

    pub(super) fn without_model(&self) -> VectorStore {
        server(&self.double, None, Arc::new(NoProvider::any()))
    }

    pub(super) async fn ask(&self, tool: &str, arguments: Value) -> Value {
        ask(&self.ours, tool, arguments).await
    }

    pub(super) async fn refused(&self, tool: &str, arguments: Value) -> Value {
        refused(&self.ours, tool, arguments).await
    }
}

pub(super) async fn reply(ours: &VectorStore, tool: &str, arguments: &Value) -> Result<Reply, Error> {
    ours.call(tool, Raw::of(arguments), &Report::none()).await
}

async fn result(ours: &VectorStore, tool: &str, arguments: &Value) -> Value {
    let reply = reply(ours, tool, arguments).await.expect("reached");
    reply.expect("a result").read().expect("JSON")
}

/// Returns the answer of a successful call, which must match the output schema.
pub(super) async fn ask(ours: &VectorStore, tool: &str, arguments: Value) -> Value {
    let result = result(ours, tool, &arguments).await;
    assert_eq!(result["isError"], false, "{tool} {arguments}: {result}");
    let answer = result["structuredContent"].clone();
    let tool = ours.tools.iter().find(|known| known.name() == tool).expect("a tool");
    let schema: Value = tool.definition().get("outputSchema").expect("a schema").read().expect("JSON");
    fits(&schema, &answer, "answer");
    answer
}

/// Returns the explanation of a refused call.
pub(super) async fn refused(ours: &VectorStore, tool: &str, arguments: Value) -> Value {
    let result = result(ours, tool, &arguments).await;
    assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
    assert!(result.get("structuredContent").is_none());
    let refusal: Value =
        serde_json::from_str(result["content"][0]["text"].as_str().expect("text")).expect("JSON");
    assert!(refusal["message"].as_str().is_some_and(|text| text.starts_with(tool)), "{tool}: {refusal}");
    refusal
}
