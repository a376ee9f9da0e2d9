//! Conversations as data: each file in `tests/transcripts` is played against the MCP endpoint.
//!
//! Each line begins with a mark:
//! - `server NAME REVISION [TOOL…]` declares a server with tools, as one JSON definition each.
//! - `offers NAME MEMBER [DEFINITION…]` declares its other lists. `MEMBER` is the member of the list.
//! - `C> JSON`: the client posts a message. `C> +Header: value JSON` adds a header, and `-Header` removes
//!   one.
//! - `U> METHOD PARAMS`: a server must have received exactly this.
//! - `U< JSON`: the server answers with a notification, a `{"result":…}` or an `{"error":…}`.
//! - `U? METHOD PARAMS`: the server sends a request to its client during the call.
//! - `U! REPLY`: the server must get this answer. `U! none` means that its request is refused.
//! - `U~`: the server cancels its oldest request.
//! - `U* JSON`: the server that was called last sends a message that belongs to no call.
//! - `G>`: the client opens the stream of its session.
//! - `G< JSON`: the stream must deliver this message.
//! - `C< STATUS JSON`: the client must get exactly these bytes. `C< STATUS` alone means no message.
//! - `C! SUBSTRING` checks a part of the next message instead.
//! - `C= $NAME MEMBER JSON` expects a result and stores the text of its member. Later messages of the client
//!   can contain `$NAME` for this text.
//!
//! A `*` in an expected text matches any text.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use auth::Principal;
use axum::body::Body;
use bytes::Bytes;
use downstream::sessions::Sessions;
use downstream::streamable_http::StreamableHttpEndpoint;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gateway::Gateway;
use gateway::manager::{self, Manager};
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use json::Raw;
use net::sse;
use protocol::feature::{Kind, List};
use protocol::lifecycle::Peer;
use protocol::{Era, ErrorObject, Notification, Reply, Version, headers, meta};
use runtime::shutdown::Shutdown;
use tokio::sync::{Mutex, mpsc, oneshot};
use tower::ServiceExt;
use upstream::connection::{Answer, RequestFuture};
use upstream::{Call, Connection, Connector, Dialect, Event, EventSender, Events, ResponseBody, config};

/// Time limit of one line of a transcript.
const WAIT: Duration = Duration::from_secs(5);

/// A call that a scripted server received, and the sender of its answer.
pub struct Received {
    method: String,
    params: String,
    /// Receives messages that belong to no call.
    events: Events,
    /// Receives messages before the answer.
    pub sender: EventSender,
    /// Receives the answer. It is closed when the call was cancelled.
    pub answer: oneshot::Sender<Reply>,
}

/// The lists of a server: for each kind an array of definitions.
pub type Offered = Vec<(Kind, Raw)>;

/// Returns a list with one tool.
pub fn tool(definition: &Raw) -> Offered {
    vec![(Kind::Tools, Raw::of(&[definition]))]
}

/// A server that answers lists from its declaration and everything else from the transcript.
struct Scripted {
    peer: Peer,
    offered: Offered,
    received: mpsc::UnboundedSender<Received>,
    events: std::sync::Mutex<Events>,
}

impl Connection for Scripted {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn request<'a>(&'a self, call: &'a Call, event_sender: &'a EventSender) -> RequestFuture<'a> {
        let token = call.wants_progress.then(|| Raw::of(&7));
        let params = meta::dress(call.params.as_ref(), self.peer.era(), &call.sender, token.as_ref());
        async move {
            if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.method() == call.method) {
                return Ok(ResponseBody::Buffered(Ok(self.list(kind))));
            }
            if ["ping", "server/discover"].contains(&call.method.as_str()) {
                return Ok(ResponseBody::Buffered(Ok(Raw::empty_object())));
            }
            let (answer, answered) = oneshot::channel();
            let received = Received {
                method: call.method.to_string(),
                params: params.map_or_else(String::new, |params| params.as_str().to_owned()),
                events: self.events.lock().expect("no panic holds it").clone(),
                sender: event_sender.clone(),
                answer,
            };
            self.received.send(received).expect("the player listens");
            let lost = |_| upstream::Error::Lost { reason: "the transcript ended".into() };
            answered.await.map(ResponseBody::Buffered).map_err(lost)
        }
        .boxed()
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        std::future::pending().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}

impl Scripted {
    fn list(&self, kind: Kind) -> Raw {
        let offered = self.offered.iter().find(|(offered, _)| *offered == kind);
        let items = offered.map_or_else(|| Raw::of(&[(); 0]), |(_, items)| items.clone());
        let page = Raw::empty_object().with(kind.member(), &items);
        if !self.peer.version.is_modern() {
            return page;
        }
        page.edit(&[("ttlMs", Some(&Raw::of(&90_000))), ("cacheScope", Some(&Raw::of("public")))])
    }
}

struct ScriptedConnector(Arc<Scripted>);

impl Connector for ScriptedConnector {
    fn connect(
        &self,
        events: Events,
        _: Dialect,
    ) -> BoxFuture<'static, Result<Arc<dyn Connection>, upstream::Error>> {
        *self.0.events.lock().expect("no panic holds it") = events;
        let connection: Arc<dyn Connection> = self.0.clone();
        async move { Ok(connection) }.boxed()
    }

    fn speaks(&self, era: Era) -> Option<bool> {
        Some(era == self.0.peer.era())
    }

    fn requests_per_connection(&self) -> usize {
        usize::MAX
    }
}

/// Returns a configuration with these names and otherwise the defaults.
pub fn manager_config<'a>(names: impl Iterator<Item = &'a str>) -> manager::Config {
    let second = Duration::from_secs(1);
    let server = |name: &str| upstream::Config {
        name: name.into(),
        target: String::new(),
        transport: config::Transport::Stdio(config::Stdio {
            command: "not used".into(),
            args: Vec::new(),
            env: std::collections::BTreeMap::new(),
            pass_env: Vec::new(),
            cwd: None,
        }),
        enabled: true,
        description: None,
        timeout: WAIT,
        max_timeout: std::time::Duration::from_mins(10),
        lifecycle: upstream::config::Lifecycle::default(),
        health_check_interval: WAIT * 10,
        retry: config::Retry { attempts: 0, delay: second, max_delay: second },
        breaker: config::BreakerConfig { threshold: 5, successes: 1, timeout: second },
        limits: config::Limits {
            connections: 1,
            concurrent_calls: 128,
            waiting_calls: 128,
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
    };
    manager::Config { servers: names.map(server).collect(), tools_per_page: 2, ..manager::Config::default() }
}

/// Makes a manager of scripted servers, and the receiver of the calls that reach them.
pub async fn scripted_manager(
    servers: &[(String, Version, Offered)],
    shutdown: &Shutdown,
) -> (Arc<Manager>, mpsc::UnboundedReceiver<Received>) {
    let (sender, received) = mpsc::unbounded_channel();
    let connector = |(_, version, offered): &(String, Version, Offered)| -> Arc<dyn Connector> {
        let declared =
            |capabilities: Raw, kind: Kind| capabilities.with(kind.list().capability(), &Raw::empty_object());
        let peer = Peer {
            version: *version,
            info: Raw::empty_object(),
            capabilities: offered.iter().map(|(kind, _)| *kind).fold(Raw::empty_object(), declared),
            instructions: None,
        };
        let (offered, received) = (offered.clone(), sender.clone());
        Arc::new(ScriptedConnector(Arc::new(Scripted {
            peer,
            offered,
            received,
            events: Events::channel().0.into(),
        })))
    };
    let connectors = servers.iter().map(connector).collect();
    let config = manager_config(servers.iter().map(|(name, ..)| name.as_str()));
    let manager = Manager::with_connectors(config, connectors, shutdown.clone());
    manager.settled(&gateway::manager::Scope::ALL, WAIT).await;
    (manager, received)
}

/// Runs a request concurrently with the transcript, like the connection of a client.
#[allow(clippy::disallowed_methods)] // a test's own task; it is joined by the player
fn spawn(request: impl Future<Output = Answered> + Send + 'static) -> tokio::task::JoinHandle<Answered> {
    tokio::spawn(request)
}

/// Plays one transcript.
struct Player {
    router: axum::Router,
    received: mpsc::UnboundedReceiver<Received>,
    session: Arc<Mutex<Option<String>>>,
    answers: VecDeque<tokio::task::JoinHandle<Answered>>,
    open: Option<Open>,
    pending: Option<Received>,
    asked: VecDeque<Answer>,
    /// Receives messages of the server that was called last and that belong to no call.
    events: Option<Events>,
    /// The open subscription streams of servers.
    listening: Vec<Received>,
    /// The stream of the session.
    stream: Option<Open>,
    kept: std::collections::BTreeMap<String, String>,
}

struct Answered {
    status: u16,
    body: Response<Body>,
}

/// An answer that is being read.
struct Open {
    status: u16,
    stream: Option<sse::Decoder>,
    messages: VecDeque<String>,
    body: Body,
}

impl Player {
    async fn new(servers: Vec<(String, Version, Offered)>) -> Self {
        let shutdown = Shutdown::new();
        let (manager, received) = scripted_manager(&servers, &shutdown).await;
        let sessions = Arc::new(Sessions::new(10, Duration::from_mins(1)));
        let gateway = Gateway::new(manager, shutdown.clone());
        let router = StreamableHttpEndpoint::new(gateway, sessions, shutdown, 1 << 20)
            .router()
            .layer(axum::Extension(Principal::anonymous()));
        Self {
            router,
            received,
            session: Arc::default(),
            answers: VecDeque::new(),
            open: None,
            pending: None,
            asked: VecDeque::new(),
            events: None,
            listening: Vec::new(),
            stream: None,
            kept: std::collections::BTreeMap::new(),
        }
    }

    async fn play(&mut self, line: &str) {
        let (kind, rest) = line.split_at(2);
        let rest = rest.trim();
        match kind {
            "C>" => {
                let kept =
                    self.kept.iter().fold(rest.to_owned(), |text, (name, value)| text.replace(name, value));
                self.post(&kept).await;
            }
            "U>" => self.expect_received(rest).await,
            "U<" => self.answer(rest),
            "U?" => self.ask(rest),
            "U!" => self.expect_reply(rest).await,
            "U~" => drop(self.asked.pop_front().expect("an open question")),
            "U*" => self.say(rest),
            "G>" => self.open_stream().await,
            "G<" => {
                let got = self.stream.as_mut().expect("an open stream").next().await.unwrap_or_default();
                assert!(matches(rest, &got), "on the stream must come\n     {rest}\ngot  {got}");
            }
            "C<" => self.expect_answer(rest).await,
            "C=" => self.keep(rest).await,
            "C!" => {
                let message = self.next_message().await.expect("a message");
                assert!(message.contains(rest), "expected a message with {rest}\n     got {message}");
            }
            _ => panic!("not a transcript line: {line}"),
        }
    }

    async fn post(&mut self, text: &str) {
        let mut extra = Vec::new();
        let mut rest = text;
        while !rest.starts_with('{') && !rest.starts_with('[') {
            let (word, behind) = rest.split_once(' ').expect("a header and a message");
            let (word, behind) = match word.strip_suffix(':') {
                Some(name) => {
                    let (value, behind) = behind.split_once(' ').expect("a value and a message");
                    (format!("{name}:{value}"), behind)
                }
                None => (word.to_owned(), behind),
            };
            extra.push(word);
            rest = behind;
        }
        let mut headers = self.usual_headers(rest).await;
        for header in extra {
            if let Some(name) = header.strip_prefix('-') {
                headers.remove(name);
                continue;
            }
            let (name, value) = header[1..].split_once(':').expect("+Header: value");
            let name: http::HeaderName = name.parse().expect("a header name");
            headers.insert(name, value.parse().expect("a header value"));
        }
        let mut request = Request::post("/mcp").body(Body::from(rest.to_owned())).expect("a request");
        *request.headers_mut() = headers;
        let (router, session) = (self.router.clone(), self.session.clone());
        let before = self.answers.len();
        let answered = async move {
            let response = router.oneshot(request).await.expect("infallible");
            if let Some(id) = response.headers().get(headers::SESSION_ID) {
                *session.lock().await = Some(id.to_str().expect("ASCII").to_owned());
            }
            Answered { status: response.status().as_u16(), body: response }
        };
        self.answers.push_back(spawn(answered));
        assert_eq!(self.answers.len(), before + 1);
    }

    /// Returns the headers that a correct client of the message's era sends.
    async fn usual_headers(&self, text: &str) -> HeaderMap {
        let mut map = HeaderMap::new();
        let mut set = |name: &'static str, value: &str| {
            map.insert(name, value.parse().expect("a header value"));
        };
        set("content-type", "application/json");
        set("accept", "application/json, text/event-stream");
        let Ok(raw) = Raw::parse(&Bytes::copy_from_slice(text.as_bytes())) else { return map };
        let params = raw.get("params");
        match meta::claimed_version(params.as_ref()) {
            Some(version) => {
                set(headers::PROTOCOL_VERSION, &version.read::<String>().unwrap_or_default());
                let method: String = raw.get_as("method").unwrap_or_default();
                set(headers::METHOD, &method);
                let name = headers::name_member(&method).and_then(|member| params?.get_as::<String>(member));
                if let Some(name) = name {
                    set(headers::NAME, &headers::encode(&name));
                }
            }
            None => {
                if let Some(id) = &*self.session.lock().await {
                    set(headers::SESSION_ID, id);
                }
            }
        }
        map
    }

    async fn expect_received(&mut self, expected: &str) {
        let received = tokio::time::timeout(WAIT, self.received.recv()).await;
        let received =
            received.unwrap_or_else(|_| panic!("no server received {expected}")).expect("servers live");
        let got = format!("{} {}", received.method, received.params);
        assert!(matches(expected, got.trim()), "a server must receive\n     {expected}\ngot  {got}");
        self.events = Some(received.events.clone());
        if let Some(before) = self.pending.replace(received)
            && before.method == "subscriptions/listen"
        {
            self.listening.push(before);
        }
    }

    /// Sends a message of the server that was called last, which belongs to no call.
    fn say(&self, text: &str) {
        let raw = Raw::parse(&Bytes::copy_from_slice(text.as_bytes())).expect("JSON");
        let method: String = raw.get_as("method").expect("a notification");
        let events = self.events.as_ref().expect("a server that was asked");
        events.report(match List::changed_by(&method) {
            Some(list) => Event::Changed(list),
            None => Event::Notice(Notification { method: method.as_str().into(), params: raw.get("params") }),
        });
    }

    async fn open_stream(&mut self) {
        let mut request = Request::get("/mcp").body(Body::empty()).expect("a request");
        *request.headers_mut() = self.usual_headers("{}").await;
        let response = self.router.clone().oneshot(request).await.expect("infallible");
        self.stream = Some(Open::new(Answered { status: response.status().as_u16(), body: response }));
    }

    fn answer(&mut self, text: &str) {
        let raw = Raw::parse(&Bytes::copy_from_slice(text.as_bytes())).expect("JSON");
        if let (Some(method), params) = (raw.text("method"), raw.get("params")) {
            let received = self.pending.as_ref().expect("a call to answer");
            received.sender.offer(Notification { method: (&*method).into(), params });
            return;
        }
        let reply = match (raw.get("result"), raw.get("error")) {
            (Some(result), None) => Ok(result),
            (None, Some(error)) => Err(ErrorObject::from_raw(error).expect("an error object")),
            _ => panic!("U< has a method, a result or an error"),
        };
        let received = self.pending.take().expect("a call to answer");
        received.answer.send(reply).expect("the call is still waiting");
    }

    fn ask(&mut self, text: &str) {
        let (method, params) = text.split_once(' ').unwrap_or((text, ""));
        let params = Raw::parse(&Bytes::copy_from_slice(params.as_bytes())).ok();
        let received = self.pending.as_ref().expect("a call to ask during");
        self.asked.push_back(received.sender.ask(method.into(), params));
    }

    async fn expect_reply(&mut self, expected: &str) {
        let answer = self.asked.pop_front().expect("an open question");
        let reply = tokio::time::timeout(WAIT, answer).await.expect("the question ends");
        let got = match reply {
            None => "none".to_owned(),
            Some(Ok(result)) => format!("{{\"result\":{}}}", result.as_str()),
            Some(Err(error)) => format!("{{\"error\":{}}}", error.raw().as_str()),
        };
        assert!(matches(expected, &got), "the server must get\n     {expected}\ngot  {got}");
    }

    async fn expect_answer(&mut self, expected: &str) {
        let (status, message) = expected.split_once(' ').unwrap_or((expected, ""));
        let got = self.next_message().await.unwrap_or_default();
        let shown = self.open.as_ref().map_or(0, |open| open.status);
        assert!(matches(message.trim(), &got), "the client must get\n     {message}\ngot  {got}");
        assert_eq!(shown.to_string(), status, "status of {got}");
    }

    /// Expects a result and stores the text of one of its members under a name.
    async fn keep(&mut self, text: &str) {
        let mut words = text.splitn(3, ' ');
        let mut word = || words.next().expect("a name, a member and a message").to_owned();
        let (name, member, expected) = (word(), word(), word());
        let got = self.next_message().await.expect("a message");
        assert!(matches(&expected, &got), "the client must get\n     {expected}\ngot  {got}");
        let message = Raw::parse(&Bytes::from(got)).expect("JSON");
        let value = message.get("result").and_then(|result| result.get_as(&member)).expect("the member");
        self.kept.insert(name, value);
    }

    /// Returns the next message of the oldest answer that was not read to its end.
    async fn next_message(&mut self) -> Option<String> {
        if let Some(open) = &mut self.open {
            match open.next().await {
                Some(message) => return Some(message),
                None if self.answers.is_empty() => return None,
                None => {}
            }
        }
        let answer = self.answers.pop_front().expect("something was posted");
        let answer = tokio::time::timeout(WAIT, answer).await.expect("answered in time").expect("no panic");
        let open = self.open.insert(Open::new(answer));
        open.next().await
    }
}

impl Open {
    fn new(answer: Answered) -> Self {
        let is_stream =
            answer.body.headers().get("content-type").is_some_and(|value| value == "text/event-stream");
        Self {
            status: answer.status,
            stream: is_stream.then(|| sse::Decoder::new(1 << 20)),
            messages: VecDeque::new(),
            body: answer.body.into_body(),
        }
    }

    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Some(message);
            }
            let frame = tokio::time::timeout(WAIT, self.body.frame()).await.expect("a message in time")?;
            let mut data = frame.expect("no body error").into_data().ok()?;
            let Some(decoder) = &mut self.stream else {
                return (!data.is_empty()).then(|| text(&data));
            };
            while let Some(item) = decoder.decode(&mut data) {
                // An event without data only has the position to resume from.
                if let sse::Item::Event(event) = item
                    && !event.data.is_empty()
                {
                    self.messages.push_back(text(&event.data));
                }
            }
        }
    }
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Whether `text` matches `pattern`, in which `*` matches any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    match last {
        None => rest.is_empty(),
        Some(part) => part.is_empty() || rest.is_empty() || text.ends_with(part),
    }
}

fn offered((member, items): (&str, &str)) -> (Kind, Raw) {
    let kind = Kind::ALL.into_iter().find(|kind| kind.member() == member).expect("a list");
    let items = Raw::parse(&Bytes::copy_from_slice(items.as_bytes())).expect("a JSON array of definitions");
    assert!(items.elements().all(|item| item.get_as::<String>(kind.key()).is_some()), "they have keys");
    (kind, items)
}

async fn check(name: &str, transcript: &str) {
    let lines: Vec<&str> =
        transcript.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let servers = lines.iter().filter_map(|line| line.strip_prefix("server ")).map(|line| {
        let mut words = line.splitn(3, ' ');
        let server = words.next().expect("a name").to_owned();
        let version = Version::from_name(words.next().expect("a revision")).expect("a known revision");
        let tools = words.next().unwrap_or("[]").to_owned();
        let more = lines.iter().filter_map(|line| line.strip_prefix("offers ")?.strip_prefix(&server));
        let more = more.map(|rest| rest.trim().split_once(' ').expect("a member and definitions"));
        let offered = std::iter::once(("tools", tools.as_str())).chain(more).map(offered).collect();
        (server, version, offered)
    });
    let mut player = Player::new(servers.collect()).await;
    let mut steps = 0;
    for line in lines.iter().filter(|line| !line.starts_with("server ") && !line.starts_with("offers ")) {
        let step = std::panic::AssertUnwindSafe(player.play(line)).catch_unwind().await;
        step.unwrap_or_else(|_| panic!("{name}: failed at\n     {line}"));
        steps += 1;
    }
    assert!(steps >= 2, "{name} says nothing");
}

#[tokio::test]
async fn every_transcript_plays() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "transcripts are there");
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        check(&name, &std::fs::read_to_string(&path).expect("readable")).await;
    }
}

#[test]
fn stars_match_any_text() {
    assert!(matches("a*c", "abc") && matches("*", "x") && matches("a*", "a") && matches("abc", "abc"));
    assert!(!matches("a*c", "abd") && !matches("abc", "abcd") && !matches("b*", "abc"));
}
