//! The built-in server of `docs/built-ins.md`, compiled and called, so that the page stays correct.
//!
//! This file contains every block of code of the page unchanged, and the first test checks that.

use std::sync::Arc;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::answer::{Failure, reply};
use super::connection::Declared;
use super::tool::{Effect, Tool, ToolInfo};
use super::{Builtin, BuiltinInfo, Report, hostile, no_tool, sample, server_context};
use json::Raw;
use protocol::{Reply, method};
use runtime::shutdown::Shutdown;
use settings::{Node, Problems, Setting};
use upstream::api::{
    BuiltinKind, BuiltinOptions, Call, Connector, Defaults, Dialect, Error, EventSender, Events, Kinds,
    ServerContext,
};
use upstream::config::{Config, Transport};

/// The arguments of `count_words`.
#[derive(Debug, Deserialize, JsonSchema)]
struct Input {
    /// The text.
    #[schemars(length(min = 1, max = 100_000))]
    text: String,
    /// Shorter words are not counted.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 50))]
    least_letters: u32,
}

const fn one() -> u32 {
    1
}

/// The result of `count_words`.
#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// How many there are.
    words: usize,
}

const ABOUT: ToolInfo = ToolInfo {
    name: "count_words",
    title: "Count words",
    description: "Count the words of a text. Use it instead of counting yourself.",
    effect: Effect::Reads,
};

struct Sample {
    count: Tool,
}

impl Sample {
    fn new() -> Self {
        Self { count: Tool::new::<Input, Output>(&ABOUT) }
    }

    #[allow(clippy::unused_async)] // a real one connects here
    async fn open(
        _name: &str,
        _options: &Options,
        _server_context: &ServerContext,
        _events: Events,
    ) -> Result<Self, Error> {
        Ok(Self::new())
    }

    /// Returns the offer that is listed before the server is open.
    fn declared(_options: &Options) -> Declared {
        Declared::new(Self::INFO, &[Tool::new::<Input, Output>(&ABOUT)])
    }

    fn count(&self, arguments: &Raw) -> Result<Raw, Failure> {
        let Input { text, least_letters } = self.count.read(arguments)?;
        let is_counted = |word: &&str| word.chars().count() >= least_letters as usize;
        Ok(Raw::of(&Output { words: text.split_whitespace().filter(is_counted).count() }))
    }
}

impl Builtin for Sample {
    const INFO: BuiltinInfo =
        BuiltinInfo { name: "sample", title: "Sample", instructions: "Counts the words of a text." };

    fn tools(&self) -> Vec<Raw> {
        vec![self.count.definition().clone()]
    }

    async fn call(&self, name: &str, arguments: Raw, _report: &Report) -> Result<Reply, Error> {
        if name == ABOUT.name { reply(self.count(&arguments)) } else { Ok(Err(no_tool(name))) }
    }
}

/// The fields under `sample`: none.
#[derive(Debug, Clone)]
struct Options;

impl BuiltinOptions for Options {
    fn connector(&self, name: &Arc<str>, server_context: &ServerContext) -> Arc<dyn Connector> {
        crate::connect!(Sample, self, name, server_context)
    }
}

mod config {
    use super::*;

    /// Reads `sample`, which has no fields yet.
    pub(super) fn read(server: &Setting<'_>) -> Option<Arc<dyn BuiltinOptions>> {
        server.require("sample", "add `sample: {}`")?.fields()?.finish();
        Some(Arc::new(Options))
    }
}

const KINDS: Kinds = &[BuiltinKind { name: "sample", fields: &["sample"], read: sample::config::read }];

#[test]
fn any_request_is_answered_or_refused_by_name() {
    hostile::judges::<Input>(&Sample::new().count, 256);
}

/// Returns the connector for a configuration with `builtin: sample`.
fn opened_by(kinds: Kinds) -> Arc<dyn Connector> {
    let written = json!({"transport": "builtin", "builtin": "sample", "sample": {}});
    let (server, empty, problems) = (Node::from(written), Node::from(json!({})), Problems::default());
    let mut globals = Setting::root(&empty, &problems).fields().expect("a mapping");
    let defaults = Defaults::from_fields(&mut globals, kinds);
    let config = Config::from_settings(&Setting::root(&server, &problems), "words", &defaults);
    let Some(Config { transport: Transport::Builtin(options), name, .. }) = config else {
        panic!("{:?}", problems.sorted())
    };
    options.connector(&name, &server_context(&Shutdown::new()))
}

#[test]
fn the_page_shows_what_is_compiled_here() {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (page, here) = (include_str!("../../../docs/built-ins.md"), squeezed(include_str!("sample.rs")));
    let blocks: Vec<&str> =
        page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 5);
    for block in blocks {
        assert!(here.contains(&squeezed(block)), "the page has what is not compiled:\n{block}");
    }
}

#[tokio::test]
async fn it_is_reached_like_any_other_server() {
    let connector = opened_by(KINDS);
    let connection = connector.connect(Events::channel().0, Dialect::base()).await.expect("it opens");
    let call = |params: &str| {
        let params = Raw::parse(&Bytes::copy_from_slice(params.as_bytes())).expect("JSON");
        Call::of_gateway(method::TOOLS_CALL, Some(params))
    };
    let ask = async |params: &str| {
        let body = connection.request(&call(params), &EventSender::none()).await.expect("no fault");
        body.collect().await.expect("no fault")
    };
    let counted = ask(r#"{"name":"count_words","arguments":{"text":"a bc def","least_letters":2}}"#).await;
    let counted = counted.expect("a result");
    assert_eq!(counted.get("structuredContent").expect("structure").as_str(), r#"{"words":2}"#);
    let refused = ask(r#"{"name":"count_words","arguments":{"text":"a","least_letters":0}}"#).await;
    let refused: serde_json::Value = refused.expect("a result").read().expect("JSON");
    assert_eq!(refused["isError"], json!(true));
    assert!(refused["content"][0]["text"].as_str().expect("text").contains("least_letters"), "{refused}");
    assert_eq!(ask(r#"{"name":"nothing"}"#).await.expect_err("no tool").code(), -32602);
}
