//! An HTTP server that answers each request as its script says, down to the byte after which a connection is cut.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use url::Url;

use json::Raw;
use runtime::shutdown::Shutdown;

/// One step of an answer.
#[derive(Debug, Clone)]
pub enum Step {
    /// Sends this.
    Say(String),
    /// Sends bytes that are not UTF-8.
    Bytes(Vec<u8>),
    /// Ends the connection in good order.
    Close,
    /// Ends it with a reset.
    Reset,
    /// Says no more until the client goes, and reports that.
    Hang,
    /// Waits for a permit of the test.
    Wait,
}

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// Which connection, counted from 0.
    pub connection: usize,
    /// `POST /mcp`.
    pub line: String,
    headers: Vec<(String, String)>,
    /// The body; `null` when there was none.
    pub body: Raw,
}

impl ReceivedRequest {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether the body contains `text`.
    pub fn has(&self, text: &str) -> bool {
        self.body.as_str().contains(text)
    }

    /// The JSON-RPC method; empty without one.
    pub fn method(&self) -> String {
        self.body.get_as("method").unwrap_or_default()
    }

    /// The id of the request, as JSON.
    pub fn id(&self) -> String {
        self.body.get("id").map_or_else(|| "null".into(), |id| id.as_str().to_owned())
    }
}

type Script = dyn Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync;

/// A running server. It ends with this value.
pub struct TestServer {
    /// Its endpoint.
    pub url: Url,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    /// One message each time a client leaves a connection that hangs.
    pub left: mpsc::Receiver<()>,
    /// Permits for [`Step::Wait`].
    pub go: Arc<tokio::sync::Semaphore>,
    tasks: Shutdown,
}

impl TestServer {
    /// Serves `script` on loopback, on a port that was free.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn new(script: impl Fn(&ReceivedRequest) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let (seen, tasks) = (Arc::new(Mutex::new(Vec::new())), Shutdown::new());
        let (sender, left) = mpsc::channel(16);
        let go = Arc::new(tokio::sync::Semaphore::new(0));
        let script: Arc<Script> = Arc::new(script);
        let (log, group, permits) = (Arc::clone(&seen), tasks.clone(), Arc::clone(&go));
        tasks.spawn_until_end(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.expect("a connection");
                let peer = Peer {
                    connection,
                    script: Arc::clone(&script),
                    seen: Arc::clone(&log),
                    left: sender.clone(),
                    go: Arc::clone(&permits),
                };
                group.spawn_until_end(peer.serve(stream));
            }
        });
        Self { url: Url::parse(&url).expect("a URL"), seen, left, go, tasks }
    }

    /// All requests so far.
    ///
    /// # Panics
    /// If a connection panicked.
    pub fn seen(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().expect("lock").clone()
    }

    /// Waits until `count` requests satisfy `wanted`, and gives the last of them.
    ///
    /// # Panics
    /// If that takes longer than 20 s.
    pub async fn saw(&self, count: usize, wanted: impl Fn(&ReceivedRequest) -> bool) -> ReceivedRequest {
        let begun = std::time::Instant::now();
        loop {
            let found: Vec<ReceivedRequest> = self.seen().into_iter().filter(|seen| wanted(seen)).collect();
            if found.len() >= count {
                return found[count - 1].clone();
            }
            assert!(begun.elapsed().as_secs() < 20, "not seen among {:#?}", self.seen());
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.tasks.begin();
    }
}

struct Peer {
    connection: usize,
    script: Arc<Script>,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    left: mpsc::Sender<()>,
    go: Arc<tokio::sync::Semaphore>,
}

impl Peer {
    async fn serve(self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        while let Some(seen) = read(self.connection, &mut stream).await {
            self.seen.lock().expect("lock").push(seen.clone());
            for step in (self.script)(&seen) {
                match step {
                    Step::Say(text) => {
                        if stream.get_mut().write_all(text.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                    Step::Bytes(bytes) => {
                        if stream.get_mut().write_all(&bytes).await.is_err() {
                            return;
                        }
                    }
                    Step::Wait => self.go.acquire().await.expect("open").forget(),
                    Step::Close => return,
                    Step::Reset => {
                        stream.get_ref().set_zero_linger().expect("a socket");
                        return;
                    }
                    Step::Hang => {
                        let mut rest = [0];
                        let _ = stream.read(&mut rest).await;
                        let _ = self.left.send(()).await;
                        return;
                    }
                }
            }
        }
    }
}

async fn read(connection: usize, stream: &mut BufReader<TcpStream>) -> Option<ReceivedRequest> {
    let mut line = String::new();
    if stream.read_line(&mut line).await.ok()? == 0 {
        return None;
    }
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or("0", |(_, value)| value);
    let mut body = vec![0; length.parse().ok()?];
    stream.read_exact(&mut body).await.ok()?;
    let body = if body.is_empty() { Raw::of(&()) } else { Raw::parse(&body.into()).expect("we send JSON") };
    let line = line.trim().trim_end_matches(" HTTP/1.1").to_owned();
    Some(ReceivedRequest { connection, line, headers, body })
}

/// A whole answer.
pub fn full(status: u16, headers: &str, body: &str) -> Step {
    let length = body.len();
    Step::Say(format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}"))
}

/// A whole answer that is JSON.
pub fn json(status: u16, body: &str) -> Step {
    full(status, "content-type: application/json\r\n", body)
}

/// The result of `seen`.
pub fn result(seen: &ReceivedRequest, result: &str) -> Step {
    json(200, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, seen.id()))
}

/// The head of an event stream that is sent in chunks.
pub fn stream(headers: &str) -> Step {
    let kind = "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n";
    Step::Say(format!("HTTP/1.1 200 OK\r\n{kind}{headers}\r\n"))
}

/// One chunk.
pub fn chunk(text: &str) -> Step {
    Step::Say(format!("{:x}\r\n{text}\r\n", text.len()))
}

/// The end of the chunks.
pub fn end() -> Step {
    Step::Say("0\r\n\r\n".into())
}

/// A chunk with one event.
pub fn event(data: &str) -> Step {
    chunk(&format!("data: {data}\n\n"))
}
