//! Tests that no message reaches another client: many clients over few connections, with progress and server
//! requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use gateway::manager::{self, Manager, Scope};
use json::Raw;
use protocol::Era;
use protocol::meta::Sender;
use runtime::shutdown::Shutdown;
use serde_json::{Value, json};
use upstream::config::{self, Config, Transport};
use upstream::{Call, CallEvent, EventReceiver, EventSender, Owner};

use crate::support::asking::Asking;
use crate::support::child;

const OWNERS: usize = 64;
const CALLS: usize = 500;
/// Concurrent calls of one owner.
const AT_A_TIME: usize = 5;
/// One call in this many gets a server request.
const ASKED: usize = 5;

fn config(transport: Transport) -> Config {
    let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
    Config {
        name: "asker".into(),
        target: String::new(),
        transport,
        enabled: true,
        description: None,
        timeout: minute * 2,
        max_timeout: std::time::Duration::from_mins(10),
        lifecycle: upstream::config::Lifecycle::default(),
        health_check_interval: minute,
        retry: config::Retry { attempts: 0, delay: second, max_delay: second },
        breaker: config::BreakerConfig { threshold: 5, successes: 1, timeout: second },
        limits: config::Limits {
            connections: 4,
            concurrent_calls: OWNERS * AT_A_TIME,
            waiting_calls: OWNERS,
            message_bytes: 1 << 20,
            requests_per_minute: None,
        },
        dial_policy: net::http::DialPolicy::Anywhere,
        sharing: config::Sharing::Shared,
        era: None,
        tools: config::Tools::default(),
        secrets: Vec::new(),
        network: net::http::Network::default(),
        source: settings::Fingerprint::default(),
        identity: settings::Fingerprint::ABSENT,
    }
}

/// Counts of messages.
#[derive(Debug, Default)]
struct Counts {
    answered: AtomicUsize,
    progress: AtomicUsize,
    questions: AtomicUsize,
    /// Server requests that Switchyard refused because their client was unknown.
    refused: AtomicUsize,
    misdelivered: AtomicUsize,
}

fn count(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::SeqCst)
}

fn more(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::SeqCst);
}

/// One client and its state.
struct Client<'a> {
    manager: &'a Manager,
    counts: &'a Counts,
    owner: Owner,
    number: usize,
    /// Whether a server request names its call, and not only its owner.
    names_calls: bool,
}

impl Client<'_> {
    async fn calls(&self) {
        for started in (0..CALLS).step_by(AT_A_TIME) {
            join_all((started..started + AT_A_TIME).map(|number| self.call(number))).await;
        }
    }

    async fn call(&self, number: usize) {
        let nonce = format!("{}:{number}", self.number);
        let asks = number.is_multiple_of(ASKED);
        let arguments = json!({"nonce": nonce, "asks": asks});
        let params = json!({"name": "ask", "arguments": arguments, "_meta": {"progressToken": 1}});
        let sender = Sender { capabilities: Raw::of(&json!({"elicitation": {}})), ..Sender::gateway() };
        let call = Call::of_gateway("tools/call", Some(Raw::of(&params)));
        let call = Call { sender, era: Era::Legacy, owner: self.owner, wants_progress: true, ..call };
        let (event_sender, receiver) = EventSender::new(16);
        let call = async {
            let request = self.manager.tool_request(&Scope::ALL, "ask", call, None).await.expect("a tool");
            let called = self.manager.call(&request, &event_sender).await;
            drop(event_sender);
            called.expect("answered").collect().await
        };
        let (called, ()) = tokio::join!(call, self.listen(receiver, &nonce));
        let reply = called.expect("answered").body.expect("a result");
        let text: Value = serde_json::from_str(reply.as_str()).expect("JSON");
        let text = text["content"][0]["text"].as_str().expect("a text").to_owned();
        if text == format!("{nonce}|error -32000") {
            more(&self.counts.refused);
        } else if text == nonce || text == format!("{nonce}|{nonce}") {
            more(&self.counts.answered);
        } else {
            more(&self.counts.misdelivered);
        }
    }

    /// Reads the messages during the call with `nonce`, and answers server requests.
    async fn listen(&self, mut receiver: EventReceiver, nonce: &str) {
        while let Some(said) = receiver.recv().await {
            let named = |params: Option<&Raw>| params.and_then(|params| params.get_as::<String>("message"));
            match said {
                CallEvent::Notice(notice) => {
                    let is_ours = named(notice.params.as_ref()).as_deref() == Some(nonce);
                    more(if is_ours { &self.counts.progress } else { &self.counts.misdelivered });
                }
                CallEvent::Question(question) => {
                    let asked = named(question.params.as_ref()).expect("a nonce");
                    let of_owner = asked.split(':').next() == nonce.split(':').next();
                    let is_ours = if self.names_calls { asked == nonce } else { of_owner };
                    more(if is_ours { &self.counts.questions } else { &self.counts.misdelivered });
                    question.answer(Ok(Raw::of(&json!({"action": "accept", "content": {"nonce": asked}}))));
                }
                CallEvent::Pause(_) => {}
            }
        }
    }
}

/// Runs all calls of all clients, and counts the messages.
async fn storm(transport: Transport, names_calls: bool) -> Counts {
    let shutdown = Shutdown::new();
    let config = manager::Config {
        servers: vec![config(transport)],
        tools_per_page: 10,
        ..manager::Config::default()
    };
    let manager: Arc<Manager> = Manager::initialize(config, &shutdown).expect("a configuration");
    manager.settled(&Scope::ALL, Duration::from_secs(20)).await;
    let counts = Counts::default();
    let clients: Vec<Client<'_>> = (0..OWNERS)
        .map(|number| Client { manager: &manager, counts: &counts, owner: Owner::new(), number, names_calls })
        .collect();
    join_all(clients.iter().map(Client::calls)).await;
    let status = manager.server("asker").expect("the server").status;
    assert_eq!((status.running, status.waiting), (0, 0), "every permit came back");
    assert!(manager.shutdown(Duration::from_secs(20)).await, "everything ends");
    counts
}

fn is_all_there(counts: &Counts) {
    assert_eq!(count(&counts.misdelivered), 0, "{counts:?}");
    assert_eq!(count(&counts.answered) + count(&counts.refused), OWNERS * CALLS, "{counts:?}");
    assert_eq!(count(&counts.progress), OWNERS * CALLS, "{counts:?}");
    // If a call ended first, its server request is repeated on another call of the client.
    let asked = count(&counts.questions) + count(&counts.refused);
    assert!(asked >= OWNERS * CALLS / ASKED, "{counts:?}");
}

fn http(server: &Asking, path: &str) -> config::Http {
    config::Http::at(server.url(path).parse().expect("a URL"))
}

// RULES S24
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_reaches_another_client_where_each_call_has_a_stream() {
    let server = Asking::start();
    let counts = storm(Transport::Http(http(&server, "/mcp")), true).await;
    is_all_there(&counts);
    assert_eq!(count(&counts.refused), 0, "{counts:?}");
}

// RULES S24
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_reaches_another_client_where_all_share_a_stream() {
    let server = Asking::start();
    let counts = storm(Transport::Sse(http(&server, "/sse")), false).await;
    is_all_there(&counts);
}

// RULES S24
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_reaches_another_client_where_all_share_a_child() {
    let stdio = config::Stdio {
        command: child::program(),
        args: vec!["--asks".into()],
        env: std::collections::BTreeMap::new(),
        pass_env: Vec::new(),
        cwd: None,
    };
    let counts = storm(Transport::Stdio(stdio), false).await;
    is_all_there(&counts);
}
