//! A minimal HTTP connection for tests with thousands of requests: in a debug build, a full client would take
//! most of their time. It reads answers that declare their length, and with [`Line::whole`] streams to their end.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// One connection, reopened if the other side closed it.
#[derive(Debug)]
pub struct Line {
    address: String,
    socket: Option<BufReader<TcpStream>>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The lines of its head.
    pub head: Vec<String>,
    /// Its body; empty if the head does not declare a length.
    pub body: String,
}

impl LineAnswer {
    /// The value of a header; the name is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.iter().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// The length of its body, if the head declares it.
    fn length(&self) -> Option<usize> {
        self.header("content-length")?.parse().ok()
    }
}

impl Line {
    /// Connects to `address`, such as `127.0.0.1:8080`.
    pub fn to(address: &str) -> Self {
        Self { address: address.to_owned(), socket: None }
    }

    /// Sends a POST with JSON to `path`, with `headers` beside the usual ones.
    pub async fn post(&mut self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> LineAnswer {
        let usual = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        self.send("POST", path, &[&usual, headers].concat(), body).await
    }

    /// Sends a request and reads its answer, of a stream the head alone.
    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> LineAnswer {
        let told = self.head(method, path, headers, body).await;
        if told.length().is_none() && ![202, 204].contains(&told.status) {
            self.socket = None;
        }
        told
    }

    /// Sends a request and reads its answer, a stream to its end.
    pub async fn whole(
        mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> LineAnswer {
        let mut told = self.head(method, path, headers, body).await;
        if told.header("transfer-encoding") == Some("chunked") {
            let socket = self.socket.as_mut().expect("its answer is not read yet");
            told.body = chunks(socket).await;
        }
        told
    }

    async fn head(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> LineAnswer {
        let lines: String =
            headers.iter().fold(String::new(), |lines, (name, value)| format!("{lines}{name}: {value}\r\n"));
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n{lines}\r\n");
        let request = [head.as_bytes(), body].concat();
        // The other side may close an idle connection just as it is used.
        for _ in 0..3 {
            if let Some(told) = self.try_once(&request).await {
                return told;
            }
            self.socket = None;
        }
        panic!("no answer to {method} {path}");
    }

    async fn try_once(&mut self, request: &[u8]) -> Option<LineAnswer> {
        if self.socket.is_none() {
            self.socket = Some(BufReader::new(TcpStream::connect(&self.address).await.expect("it listens")));
        }
        let socket = self.socket.as_mut().expect("just made");
        socket.write_all(request).await.ok()?;
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if socket.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        let status = head[0].split(' ').nth(1)?.parse().ok()?;
        let mut told = LineAnswer { status, head, body: String::new() };
        let mut body = vec![0; told.length().unwrap_or(0)];
        socket.read_exact(&mut body).await.ok()?;
        told.body = String::from_utf8_lossy(&body).into_owned();
        if told.header("connection") == Some("close") && told.length().is_some() {
            self.socket = None;
        }
        Some(told)
    }
}

/// The chunks of a body, together.
async fn chunks(socket: &mut BufReader<TcpStream>) -> String {
    let mut whole = Vec::new();
    loop {
        let mut line = String::new();
        socket.read_line(&mut line).await.expect("the size of a chunk");
        let size = usize::from_str_radix(line.trim_end(), 16).expect("a number");
        let mut chunk = vec![0; size + "\r\n".len()];
        socket.read_exact(&mut chunk).await.expect("a chunk");
        if size == 0 {
            return String::from_utf8(whole).expect("text");
        }
        whole.extend_from_slice(&chunk[..size]);
    }
}
