//! How a stream of notices ends on a channel that it shares with everything else.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, duplex};

use crate::stdio;
use gateway::manager::config::Config;
use gateway::manager::{Manager, Scope};
use protocol::Version;
use runtime::shutdown::Shutdown;
use upstream::fake::{self, Fake};

const MAX_LINE: usize = 1 << 16;

/// A client at the other end of the pipes.
struct Client {
    to: DuplexStream,
    from: Lines<BufReader<DuplexStream>>,
}

impl Client {
    async fn say(&mut self, message: &Value) {
        self.to.write_all(format!("{message}\n").as_bytes()).await.expect("somebody reads");
    }

    async fn listen(&mut self, id: &str, filter: &Value) {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let params = json!({"notifications": filter, "_meta": meta});
        let method = "subscriptions/listen";
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    /// The next message; none at the end.
    async fn hear(&mut self) -> Option<Value> {
        let line = self.from.next_line().await.expect("text")?;
        Some(serde_json::from_str(&line).expect("JSON"))
    }
}

/// Has `talk` talk to a gateway over pipes until it returns; then the gateway is asked to end.
async fn conversation<T: Future<Output = Lines<BufReader<DuplexStream>>>>(
    talk: impl FnOnce(Client) -> T,
) -> Vec<Value> {
    let config = Config::of(vec![fake::config("s")]);
    let tasks = Shutdown::new();
    let connectors = vec![Fake::new(Version::V2025_11_25).connector()];
    let manager = Manager::with_connectors(config, connectors, tasks.child());
    manager.settled(&Scope::ALL, Duration::from_secs(1)).await;
    let (to, input) = duplex(MAX_LINE);
    let (output, from) = duplex(MAX_LINE);
    let client = Client { to, from: BufReader::new(from).lines() };
    let talking = async {
        let mut rest = talk(client).await;
        tasks.begin();
        let mut heard = Vec::new();
        while let Some(line) = rest.next_line().await.expect("text") {
            heard.push(serde_json::from_str(&line).expect("JSON"));
        }
        heard
    };
    tokio::join!(stdio::serve((manager, None), Scope::ALL, (input, output), &tasks, MAX_LINE), talking).1
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_we_end_has_a_result_and_then_the_notice_that_it_is_cancelled() {
    let last = conversation(async |mut client: Client| {
        client.listen("kept", &json!({"toolsListChanged": true})).await;
        assert_eq!(client.hear().await.expect("first")["method"], "notifications/subscriptions/acknowledged");
        client.from
    })
    .await;
    let [result, notice] = last.as_slice() else { panic!("{last:?}") };
    assert_eq!((&result["id"], &result["result"]["resultType"]), (&json!("kept"), &json!("complete")));
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "kept"}});
    assert_eq!(*notice, cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_its_client_ends_or_that_never_began_is_not_cancelled_by_us() {
    let last = conversation(async |mut client: Client| {
        client.listen("ended", &json!({"toolsListChanged": true})).await;
        assert!(client.hear().await.expect("first")["method"].is_string());
        let over = json!({"requestId": "ended"});
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": over})).await;
        client.listen("odd", &json!("everything")).await;
        assert_eq!(client.hear().await.expect("a refusal")["error"]["code"], -32602);
        client.from
    })
    .await;
    assert_eq!(last, Vec::<Value>::new());
}
