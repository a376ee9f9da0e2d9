//! A server that exists only in memory, for tests of everything above a transport.
//!
//! It counts what reaches it, and fails as requested: it can refuse, hang, answer late or die. It keeps the
//! invariants of [`Connection`]: dropping a request cancels it, and a dead connection ends every request.

mod dialects;
mod subscription_log;
mod unanswered;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::{BoxFuture, pending};
use tokio::sync::watch;
use tokio::time::sleep;

use self::subscription_log::SubscriptionLog;
use self::unanswered::Unanswered;
use super::config::{self, Config, Retry};
use super::connection::{
    Call, Connection, Connector, Dialect, Event, EventSender, Events, Owner, RequestFuture, ServerRequests,
};
use super::dialect::Eras;
use super::{Error, ResponseBody};
use json::Raw;
use protocol::feature::{Effect, List};
use protocol::{ErrorObject, Method, Reply, Version, lifecycle::Peer, method};

/// Outcome of a connect.
#[derive(Debug, Clone, Copy)]
pub enum Dial {
    /// It succeeds at once.
    Accept,
    /// It succeeds after this time.
    AcceptAfter(Duration),
    /// It fails at once.
    Refuse,
    /// It never ends.
    Hang,
}

/// Outcome of a request that reached the server.
#[derive(Debug, Clone)]
pub enum Answer {
    /// It is answered.
    Reply(Reply),
    /// It is answered after this time.
    After(Duration, Reply),
    /// It fails. It counts as executed unless the error says that it was not sent.
    Fail(Error),
    /// The client gets this server request, and its answer is the result.
    Ask(&'static str),
    /// It is never answered.
    Silence,
    /// It is acknowledged unchanged and stays open.
    Listen,
    /// The connection closes.
    Die,
    /// A function handles it, which can send server requests and notifications.
    Work(Work),
}

/// A function that handles a call.
#[derive(Clone)]
pub struct Work(Arc<dyn Fn(Call, EventSender) -> BoxFuture<'static, Reply> + Send + Sync>);

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Work")
    }
}

impl Answer {
    /// A result.
    pub fn result(json: &serde_json::Value) -> Self {
        Self::Reply(Ok(Raw::of(json)))
    }

    /// Answers with the result of `work`.
    pub fn work<F>(work: impl Fn(Call, EventSender) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        Self::Work(Work(Arc::new(move |call, event_sender| Box::pin(work(call, event_sender)))))
    }
}

type Script = Box<dyn Fn(&Call) -> Option<Answer> + Send + Sync>;

/// The server. Clones share its state.
#[derive(Clone)]
pub struct Fake(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    capacity: AtomicUsize,
    connects: AtomicUsize,
    open_requests: AtomicUsize,
    cancelled: AtomicUsize,
    unanswered: Unanswered,
}

struct State {
    peer: Peer,
    dial: Dial,
    script: Script,
    tools: Vec<&'static str>,
    subscription_log: SubscriptionLog,
    executed: Vec<Method>,
    live: Vec<watch::Sender<Option<String>>>,
    eras: Eras,
    also: Option<Version>,
    is_exact: bool,
    is_process: bool,
    dialects: Vec<Dialect>,
    events: Option<Events>,
}

impl Fake {
    /// Makes a server of `version` with one tool, `echo`, that accepts and answers at once.
    pub fn new(version: Version) -> Self {
        let peer = Peer {
            version,
            info: Raw::of(&serde_json::json!({"name": "fake"})),
            capabilities: Raw::of(&serde_json::json!({"tools": {}})),
            instructions: None,
        };
        let state = State {
            peer,
            dial: Dial::Accept,
            script: Box::new(|_| None),
            tools: vec!["echo"],
            subscription_log: SubscriptionLog::default(),
            executed: Vec::new(),
            live: Vec::new(),
            eras: Eras::default(),
            also: None,
            is_exact: false,
            is_process: false,
            dialects: Vec::new(),
            events: None,
        };
        Self(Arc::new(Inner {
            state: Mutex::new(state),
            capacity: AtomicUsize::new(usize::MAX),
            connects: AtomicUsize::new(0),
            open_requests: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
            unanswered: Unanswered::default(),
        }))
    }

    /// Returns a connector to the server.
    pub fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(self.clone())
    }

    /// Sets the outcome of later connects.
    pub fn dial(&self, dial: Dial) {
        self.lock().dial = dial;
    }

    /// Sets the capabilities that the server declares on later connects.
    pub fn capabilities(&self, json: &serde_json::Value) {
        self.lock().peer.capabilities = Raw::of(json);
    }

    /// Sets the answers to later requests. `None` selects the default answer.
    pub fn answer(&self, script: impl Fn(&Call) -> Option<Answer> + Send + Sync + 'static) {
        self.lock().script = Box::new(script);
    }

    /// Sets the answer to later tool calls.
    pub fn answer_calls(&self, answer: Answer) {
        self.answer(move |call| (call.method == method::TOOLS_CALL).then(|| answer.clone()));
    }

    /// Sets the tools.
    pub fn tools(&self, names: &[&'static str]) {
        self.lock().tools = names.to_vec();
    }

    /// Sets how many requests one connection carries before the pool opens another.
    pub fn capacity(&self, requests: usize) {
        self.0.capacity.store(requests, Ordering::SeqCst);
    }

    /// Reports a change of the tools.
    pub fn say_changed(&self) {
        self.say(Event::Changed(List::Tools));
    }

    /// Reports an event.
    pub fn say(&self, event: Event) {
        self.lock().events.as_ref().expect("somebody connected").report(event);
    }

    /// Ends all connections from the side of the server.
    pub fn die(&self, reason: &str) {
        self.lock().subscription_log.forget();
        for connection in self.lock().live.drain(..) {
            connection.send_replace(Some(reason.to_owned()));
        }
    }

    /// Returns the number of connects, failed ones included.
    pub fn connects(&self) -> usize {
        self.0.connects.load(Ordering::SeqCst)
    }

    /// Returns the number of executed requests with `method`.
    pub fn executed(&self, method: &str) -> usize {
        self.lock().executed.iter().filter(|executed| executed.as_str() == method).count()
    }

    /// Returns the number of requests that are neither answered nor cancelled.
    pub fn open_requests(&self) -> usize {
        self.0.open_requests.load(Ordering::SeqCst)
    }

    /// Returns the number of requests that were dropped before their answer.
    pub fn cancelled(&self) -> usize {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// Returns the number of open connections.
    pub fn live(&self) -> usize {
        self.lock().live.iter().filter(|live| live.borrow().is_none()).count()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no test panics while it holds this")
    }

    fn decide(&self, call: &Call) -> Answer {
        let mut state = self.lock();
        let scripted = (state.script)(call);
        let answer = scripted.unwrap_or_else(|| match call.method.as_str() {
            method::TOOLS_LIST => {
                let tool = |name| serde_json::json!({"name": name, "inputSchema": {"type": "object"}});
                let tools: Vec<_> = state.tools.iter().map(tool).collect();
                Answer::result(&serde_json::json!({"tools": tools}))
            }
            method::RESOURCES_SUBSCRIBE | method::RESOURCES_UNSUBSCRIBE => {
                state.subscription_log.subscribe(call);
                Answer::result(&serde_json::json!({}))
            }
            method::SUBSCRIPTIONS_LISTEN => Answer::Listen,
            _ => Answer::result(&serde_json::json!({})),
        });
        if !matches!(&answer, Answer::Fail(Error::NotSent { .. } | Error::Connect { .. })) {
            state.executed.push(call.method.clone());
        }
        answer
    }
}

struct FakeConnection {
    server: Fake,
    peer: Peer,
    end: watch::Sender<Option<String>>,
    ended: watch::Receiver<Option<String>>,
}

impl FakeConnection {
    async fn end(&self) -> String {
        let mut ended = self.ended.clone();
        let reason = ended.wait_for(Option::is_some).await.expect("the sender is ours");
        reason.clone().unwrap_or_default()
    }
}

impl Connection for FakeConnection {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn request<'a>(&'a self, call: &'a Call, event_sender: &'a EventSender) -> RequestFuture<'a> {
        Box::pin(async move {
            if let Some(reason) = self.ended.borrow().clone() {
                return Err(Error::NotSent { reason });
            }
            let mut open = OpenRequest::new(&self.server);
            let answered = async {
                match self.server.decide(call) {
                    Answer::Reply(reply) => Ok(reply),
                    Answer::After(pause, reply) => {
                        sleep(pause).await;
                        Ok(reply)
                    }
                    Answer::Fail(error) => Err(error),
                    Answer::Silence => pending().await,
                    Answer::Work(work) => Ok((work.0)(call.clone(), event_sender.clone()).await),
                    Answer::Listen => {
                        self.server.keep_open(call, event_sender).await;
                        Ok(Ok(Raw::empty_object()))
                    }
                    Answer::Ask(method) => {
                        let answer = event_sender.ask(method.into(), None).await;
                        Ok(answer.unwrap_or_else(|| Err(ErrorObject::new(-32000, "nobody answers"))))
                    }
                    Answer::Die => {
                        self.end.send_replace(Some("died of a request".into()));
                        Err(Error::Lost { reason: "died".into() })
                    }
                }
            };
            let result = tokio::select! {
                biased;
                result = answered => result,
                reason = self.end() => Err(Error::Lost { reason }),
            };
            open.done = true;
            result.map(ResponseBody::Buffered)
        })
    }

    fn server_requests(&self) -> Option<&dyn ServerRequests> {
        Some(&self.server.0.unanswered)
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        Box::pin(self.end())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.end.send_if_modified(|end| {
            let first = end.is_none();
            end.get_or_insert_with(|| "closed by us".into());
            first
        });
        Box::pin(std::future::ready(()))
    }
}

/// Counts a request while it is open, and as cancelled if it is dropped before its answer.
struct OpenRequest {
    server: Fake,
    done: bool,
}

impl OpenRequest {
    fn new(server: &Fake) -> Self {
        server.0.open_requests.fetch_add(1, Ordering::SeqCst);
        Self { server: server.clone(), done: false }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.server.0.open_requests.fetch_sub(1, Ordering::SeqCst);
        self.server.0.cancelled.fetch_add(usize::from(!self.done), Ordering::SeqCst);
    }
}

/// Returns a configuration with the defaults of the configuration file.
pub fn config(name: &str) -> Config {
    let (command, args, env, pass_env) = (String::new(), Vec::new(), BTreeMap::new(), Vec::new());
    let stdio = config::Stdio { command, args, env, pass_env, cwd: None };
    Config {
        name: name.into(),
        transport: config::Transport::Stdio(stdio),
        target: "fake".into(),
        enabled: true,
        description: None,
        timeout: Duration::from_secs(30),
        max_timeout: Duration::from_mins(10),
        lifecycle: config::Lifecycle::of_fake(),
        health_check_interval: Duration::from_secs(30),
        retry: Retry { attempts: 3, delay: Duration::from_secs(1), max_delay: Duration::from_secs(30) },
        breaker: config::BreakerConfig { threshold: 5, successes: 1, timeout: Duration::from_secs(30) },
        limits: config::Limits {
            connections: 10,
            concurrent_calls: 64,
            waiting_calls: 256,
            message_bytes: 1024 * 1024,
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

/// Makes a call of the tool `echo`.
pub fn tool_call(effect: Effect) -> Call {
    let params = Raw::of(&serde_json::json!({"name": "echo", "arguments": {}}));
    Call { effect, owner: Owner::new(), ..Call::of_gateway(method::TOOLS_CALL, Some(params)) }
}
