//! Test fixture: the built-in server of the techniques with a fake bridge, and its events.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Rag;
use super::double;
use crate::rag::config;
use crate::server_context;
use crate::{Builtin, Report};
use json::Raw;
use protocol::Reply;
use runtime::shutdown::Shutdown;
use upstream::api::{Error, Event, Events};

/// How long a test waits for an immediate event.
pub(super) const WAIT: Duration = Duration::from_secs(20);
/// Key of the bridge.
pub(super) const KEY: &str = "key-that-nobody-sees";

/// The fake bridge and the server.
pub(super) struct Fixture {
    pub bridge: double::Bridge,
    pub ours: Rag,
    events: mpsc::Receiver<Event>,
}

pub(super) fn options(bridge: &double::Bridge) -> config::RagOptions {
    config::RagOptions {
        url: bridge.url().parse().expect("a URL"),
        api_key: None,
        refresh: Duration::from_hours(1),
        max_techniques: 64,
    }
}

pub(super) async fn open(options: &config::RagOptions, events: Events) -> Result<Rag, Error> {
    let server_context = server_context(&Shutdown::new());
    Rag::open(&"rag".into(), options, &server_context, events).await
}

impl Fixture {
    pub(super) async fn new() -> Self {
        Self::with(|_, _| {}).await
    }

    pub(super) async fn with(change: impl FnOnce(&double::Bridge, &mut config::RagOptions)) -> Self {
        let bridge = double::Bridge::start();
        let mut options = options(&bridge);
        change(&bridge, &mut options);
        let (reported, events) = Events::channel();
        let ours = open(&options, reported).await.expect("it opens");
        Self { bridge, ours, events }
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.ours.tools().iter().map(|tool| tool.get_as("name").expect("a name")).collect()
    }

    pub(super) async fn reply(&self, tool: &str, arguments: &Value) -> Result<Reply, Error> {
        self.ours.call(tool, Raw::of(arguments), &Report::none()).await
    }

    /// Returns the complete result of a call.
    pub(super) async fn result(&self, tool: &str, arguments: Value) -> Raw {
        self.reply(tool, &arguments).await.expect("reached").expect("a result")
    }

    /// Returns the result of a call that succeeds.
    pub(super) async fn ask(&self, tool: &str, arguments: Value) -> Value {
        let result: Value = self.result(tool, arguments).await.read().expect("JSON");
        assert_eq!(result["isError"], false, "{tool}: {result}");
        let text = result["content"][0]["text"].as_str().expect("text");
        assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), result["structuredContent"]);
        result["structuredContent"].clone()
    }

    /// Returns the explanation of a call that is refused or failed.
    pub(super) async fn refused(&self, tool: &str, arguments: Value) -> Value {
        let result: Value = self.result(tool, arguments).await.read().expect("JSON");
        assert_eq!(result["isError"], true, "{tool}: {result}");
        assert!(result.get("structuredContent").is_none());
        serde_json::from_str(result["content"][0]["text"].as_str().expect("text")).expect("JSON")
    }

    /// Returns the error of a call whose service failed.
    pub(super) async fn failure(&self, tool: &str, arguments: Value) -> Error {
        self.reply(tool, &arguments).await.expect_err("it fails")
    }

    /// Waits for the next event.
    pub(super) async fn event(&mut self) -> Event {
        timeout(WAIT, self.events.recv()).await.expect("something is reported").expect("it lives")
    }

    /// Whether no event was reported since.
    pub(super) fn is_silent(&mut self) -> bool {
        self.events.try_recv().is_err()
    }

    /// Requests a read of the list, and waits until it is done.
    pub(super) async fn read_again(&self) {
        let before = self.bridge.count(double::LIST);
        self.ours.list.look_soon();
        self.after(|| self.bridge.count(double::LIST) > before).await;
        // A second read begins when the first one is over.
        self.ours.list.look_soon();
        self.after(|| self.bridge.count(double::LIST) > before + 1).await;
    }

    /// Waits until `is_so`.
    pub(super) async fn after(&self, is_so: impl Fn() -> bool) {
        let waiting = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(WAIT, waiting).await.expect("it happens");
    }
}
