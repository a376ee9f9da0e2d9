//! A legacy server whose tool `ask` sends a request to its client before it answers. It has no transport: a
//! message goes in, and the outgoing messages come out with their streams.
//!
//! A call has a nonce, which progress and request repeat. The answer is the nonce of the call and that in the
//! client's answer, `n|n`; `n|error CODE` if the request was refused; or `n` if the call disabled the request.
//! No other module is used here, because the child process includes this file.
//!
//! A call with `hangs` is not answered. Other calls act on it: `then` is a list of `[ACTION, NONCE]` that is
//! done after the answer of its call. `cancelled` is one such pair, done when the call itself is cancelled.
//! Actions: `ask` sends a request to the client, `log` a log message, `answer` the answer of the hanging call.

use std::collections::HashMap;

use serde_json::{Value, json};

/// The server. `S` identifies a stream: that of a call, or the only one.
#[derive(Debug)]
pub struct Asker<S> {
    asked: u64,
    waiting: HashMap<u64, Waiting<S>>,
    hanging: Vec<Hanging<S>>,
}

#[derive(Debug, Clone)]
struct Hanging<S> {
    call: Value,
    nonce: String,
    stream: S,
    cancelled: Value,
}

#[derive(Debug)]
struct Waiting<S> {
    call: Value,
    nonce: String,
    stream: S,
}

impl<S> Default for Asker<S> {
    fn default() -> Self {
        Self { asked: 0, waiting: HashMap::new(), hanging: Vec::new() }
    }
}

impl<S: Clone> Asker<S> {
    /// Handles a message that came on `stream`.
    pub fn take(&mut self, message: &str, stream: &S) -> Vec<(S, String)> {
        let Ok(message) = serde_json::from_str::<Value>(message) else { return Vec::new() };
        let (id, params) = (&message["id"], &message["params"]);
        let said = |body: Value| vec![(stream.clone(), body.to_string())];
        let result = |result: Value| said(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        match (message["method"].as_str(), id) {
            (None, id) => self.answered(id, &message),
            (Some("notifications/cancelled"), _) => self.cancelled(&params["requestId"]),
            (_, Value::Null) => Vec::new(),
            (Some("initialize"), _) => result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "asker", "version": "1"}
            })),
            (Some("ping"), _) => result(json!({})),
            (Some("tools/list"), _) => {
                result(json!({"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]}))
            }
            (Some("tools/call"), _) => self.called(id, params, stream),
            _ => said(
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}}),
            ),
        }
    }

    fn called(&mut self, id: &Value, params: &Value, stream: &S) -> Vec<(S, String)> {
        let arguments = &params["arguments"];
        let nonce = arguments["nonce"].as_str().unwrap_or_default().to_owned();
        let mut out = Vec::new();
        let token = &params["_meta"]["progressToken"];
        if !token.is_null() {
            let params = json!({"progressToken": token, "progress": 1, "message": nonce});
            out.push(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
        }
        if arguments["asks"] == true {
            out.push(self.ask(id, nonce, stream));
        } else if arguments["hangs"] == true {
            let (call, stream, cancelled) = (id.clone(), stream.clone(), arguments["cancelled"].clone());
            self.hanging.push(Hanging { call, nonce, stream, cancelled });
        } else {
            out.push(text(id, &nonce));
        }
        let mut out: Vec<_> = out.into_iter().map(|body| (stream.clone(), body.to_string())).collect();
        out.extend(self.act(&arguments["then"]));
        out
    }

    fn ask(&mut self, call: &Value, nonce: String, stream: &S) -> Value {
        self.asked += 1;
        let params = json!({"message": nonce, "requestedSchema": {"type": "object", "properties": {}}});
        let waiting = Waiting { call: call.clone(), nonce, stream: stream.clone() };
        self.waiting.insert(self.asked, waiting);
        json!({"jsonrpc": "2.0", "id": self.asked, "method": "elicitation/create", "params": params})
    }

    fn cancelled(&mut self, call: &Value) -> Vec<(S, String)> {
        let actions = self.hanging.iter().find(|hanging| hanging.call == *call);
        let actions = actions.map(|hanging| hanging.cancelled.clone()).unwrap_or_default();
        self.act(&actions)
    }

    /// Runs each `[ACTION, NONCE]` in order.
    fn act(&mut self, actions: &Value) -> Vec<(S, String)> {
        let mut out = Vec::new();
        for action in actions.as_array().into_iter().flatten() {
            let Some(on) = self.hanging.iter().find(|hanging| hanging.nonce == action[1]).cloned() else {
                continue;
            };
            let said = match action[0].as_str() {
                Some("ask") => self.ask(&on.call, on.nonce, &on.stream),
                Some("answer") => text(&on.call, &on.nonce),
                _ => json!({"jsonrpc": "2.0", "method": "notifications/message",
                    "params": {"level": "error", "data": on.nonce}}),
            };
            out.push((on.stream, said.to_string()));
        }
        out
    }

    /// Handles the client's answer to a request.
    fn answered(&mut self, id: &Value, answer: &Value) -> Vec<(S, String)> {
        let waiting = id.as_u64().and_then(|id| self.waiting.remove(&id));
        let Some(Waiting { call, nonce, stream }) = waiting else { return Vec::new() };
        let said = match answer["result"]["content"]["nonce"].as_str() {
            Some(said) => said.to_owned(),
            None => format!("error {}", answer["error"]["code"]),
        };
        vec![(stream, text(&call, &format!("{nonce}|{said}")).to_string())]
    }
}

fn text(id: &Value, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
}
