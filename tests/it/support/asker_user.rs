//! A client in a legacy session that can be asked, and accepts whatever it is asked.

use serde_json::{Value, json};

use super::Running;
use super::client::{Client, Stream};

/// A legacy session whose client can be asked.
#[derive(Debug)]
pub struct User {
    client: Client,
    next: u64,
}

/// The result of a call: its text, and what its client was sent meanwhile.
#[derive(Debug)]
pub struct UserCall {
    /// The text of the result.
    pub text: String,
    /// The messages of what it was asked.
    pub asked: Vec<String>,
    /// The data of the log lines.
    pub logged: Vec<String>,
}

impl User {
    /// Opens a session.
    pub async fn of(gateway: &Running) -> Self {
        let client = gateway.mcp();
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "t", "version": "0"}});
        let hello = client.post(&client.envelope("initialize", &params.to_string()), &[]).await;
        let id = hello.header("mcp-session-id").expect("a session").to_owned();
        let client = client.with_header("mcp-session-id", &id);
        client.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, &[]).await;
        Self { client, next: 100 }
    }

    /// Calls `tool`; the id and the stream.
    async fn begin(&mut self, tool: &str, arguments: &Value) -> (u64, Stream) {
        self.next += 1;
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": self.next}});
        let body = json!({"jsonrpc": "2.0", "id": self.next, "method": "tools/call", "params": params});
        (self.next, self.client.post_stream(&body.to_string(), &[]).await)
    }

    /// A call that the server has and does not answer.
    pub async fn hangs(&mut self, nonce: &str, cancelled: &Value) -> (u64, Stream) {
        let arguments = json!({"nonce": nonce, "hangs": true, "cancelled": cancelled});
        let (id, mut stream) = self.begin("ask", &arguments).await;
        assert_eq!(stream.next().await.expect("progress")["method"], "notifications/progress");
        (id, stream)
    }

    /// A call that asks, of a client that never answers. The stream is open until it is dropped.
    pub async fn asks_and_leaves(&mut self, nonce: &str) -> Stream {
        let (_, mut stream) = self.begin("ask", &json!({"nonce": nonce, "asks": true})).await;
        while stream.next().await.expect("a question")["method"] != "elicitation/create" {}
        stream
    }

    /// Cancels a call.
    pub async fn cancel(&self, id: u64) {
        let told =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        assert_eq!(self.client.post(&told.to_string(), &[]).await.status, 202);
    }

    /// Reads to the end of a call and accepts whatever is asked.
    pub async fn finish(&self, stream: &mut Stream) -> UserCall {
        let mut called = UserCall { text: String::new(), asked: Vec::new(), logged: Vec::new() };
        while let Some(message) = stream.next().await {
            match message["method"].as_str() {
                Some("elicitation/create") => {
                    let nonce = message["params"]["message"].as_str().expect("a nonce").to_owned();
                    let result = json!({"action": "accept", "content": {"nonce": nonce}});
                    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                    assert_eq!(self.client.post(&answer.to_string(), &[]).await.status, 202);
                    called.asked.push(nonce);
                }
                Some("notifications/message") => {
                    called.logged.push(message["params"]["data"].as_str().expect("a nonce").to_owned());
                }
                Some(_) => {}
                None => {
                    called.text =
                        message["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
                }
            }
        }
        called
    }

    /// Calls `ask` and answers what is asked.
    pub async fn call(&mut self, arguments: &Value) -> UserCall {
        self.call_tool("ask", arguments).await
    }

    /// Calls `tool` and answers what is asked.
    pub async fn call_tool(&mut self, tool: &str, arguments: &Value) -> UserCall {
        let (_, mut stream) = self.begin(tool, arguments).await;
        self.finish(&mut stream).await
    }
}
