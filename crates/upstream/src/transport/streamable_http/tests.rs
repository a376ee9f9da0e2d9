//! Tests of Streamable HTTP against small servers on loopback.

mod cuts;
mod eras;
mod flows;
mod session;

use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::config::Transport;
use crate::connection::{Call, Event, EventSender, Owner};
use crate::transport::testing::config;
use json::Raw;
use protocol::feature::Effect;
use protocol::{Reply, method};
use testkit::scripted::{ReceivedRequest, Step, TestServer, json, result};

const DISCOVERED: &str = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#;
const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}}}"#;

struct Bench {
    server: TestServer,
    connector: ToUrl,
    shutdown: Shutdown,
}

impl Bench {
    async fn new(script: impl Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let server = TestServer::new(script).await;
        let headers = vec![(http::header::AUTHORIZATION, "Bearer k".into())];
        let http = Http { headers, ..Http::at(server.url.clone()) };
        let shutdown = Shutdown::new();
        let connector =
            ToUrl::new(&config(Transport::Http(http.clone())), &http, &ServerContext::alone(&shutdown))
                .expect("a client");
        Self { server, connector, shutdown }
    }

    /// Starts a modern server that answers each call with `script`.
    async fn modern(script: impl Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::new(move |seen| match seen.method().as_str() {
            method::DISCOVER => vec![result(seen, DISCOVERED)],
            _ => script(seen),
        })
        .await
    }

    /// Starts a legacy server with a session that answers everything except the handshake with `script`.
    async fn legacy(script: impl Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::new(move |seen| match seen.method().as_str() {
            method::DISCOVER => vec![json(400, r#"{"error":"no session"}"#)],
            method::INITIALIZE => {
                let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{INITIALIZED}}}"#, seen.id());
                let headers = "content-type: application/json\r\nMcp-Session-Id: s-1\r\n";
                vec![testkit::scripted::full(200, headers, &body)]
            }
            method::INITIALIZED => vec![json(202, "")],
            _ => script(seen),
        })
        .await
    }

    async fn connect(&self) -> (Arc<dyn Connection>, mpsc::Receiver<Event>) {
        let (events, receiver) = Events::channel();
        (self.connector.connect(events, Dialect::base()).await.expect("connects"), receiver)
    }

    async fn refusal(&self) -> Error {
        let (events, _receiver) = Events::channel();
        self.connector.connect(events, Dialect::base()).await.err().expect("it connected")
    }

    /// Returns the result of a call to this server.
    async fn outcome(&self) -> Result<Reply, Error> {
        let (connection, _events) = self.connect().await;
        connection.request(&call("t"), &EventSender::none()).await?.collect().await
    }
}

fn call(name: &str) -> Call {
    let params = Raw::of(&json!({"name": name, "arguments": {"n": 1.0}}));
    let call = Call::of_gateway(method::TOOLS_CALL, Some(params));
    Call { wants_progress: true, effect: Effect::Unsafe, owner: Owner::new(), ..call }
}

async fn ask(connection: &Arc<dyn Connection>, name: &str) -> Result<Raw, Error> {
    result_of(connection, &call(name), &EventSender::none()).await
}

/// Returns the result of `call`.
async fn result_of(
    connection: &Arc<dyn Connection>,
    call: &Call,
    event_sender: &EventSender,
) -> Result<Raw, Error> {
    Ok(connection.request(call, event_sender).await?.collect().await?.expect("a result"))
}
