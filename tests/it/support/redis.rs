//! A real Redis, which the test starts on its own port, and a proxy to it that can be slow.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::peers::free_port;
use super::process::Process;
use super::{Background, eventually, listen};

/// A Redis that ends with its test.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    port: u16,
    /// None after it was killed.
    data: Option<RedisData>,
}

/// The files of a Redis.
#[derive(Debug)]
pub struct RedisData {
    folder: tempfile::TempDir,
    /// Whether it writes anything.
    is_durable: bool,
}

impl Redis {
    /// Starts a Redis that answers. If another process takes the chosen port, another port is tried.
    pub async fn start() -> Self {
        Self::start_anywhere(false).await
    }

    /// Starts a Redis that writes each change to a file.
    pub async fn start_durable() -> Self {
        Self::start_anywhere(true).await
    }

    async fn start_anywhere(is_durable: bool) -> Self {
        for _ in 0..20 {
            if let Some(redis) = Self::begin(free_port(), RedisData::new(is_durable)).await {
                return redis;
            }
        }
        panic!("redis finds no port of its own");
    }

    /// Starts a Redis on `port`, where one ran before.
    pub async fn start_on(port: u16) -> Self {
        Self::start_with(port, RedisData::new(false)).await
    }

    /// Starts a Redis on `port` with the data of one that ran there before.
    pub async fn start_with(port: u16, data: RedisData) -> Self {
        Self::begin(port, data).await.expect("the port is free again")
    }

    /// Starts a Redis on `port`; none if another process has that port.
    async fn begin(port: u16, data: RedisData) -> Option<Self> {
        let there = Command::new("redis-server").arg("--version").output().is_ok();
        assert!(there, "`redis-server` is missing: install the Debian package redis-server");
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        let appends = if data.is_durable { "yes" } else { "no" };
        command.args(["--save", "", "--appendonly", appends, "--dir"]).arg(data.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut redis = Self { process: Process::start(command), port, data: Some(data) };
        let answers = eventually("redis answers or ends", async || {
            if redis.process.has_ended() { Some(false) } else { redis.is_asked().await.then_some(true) }
        });
        answers.await.then_some(redis)
    }

    /// Whether this process answers on its port.
    async fn is_asked(&self) -> bool {
        let own = format!("process_id:{}\r\n", self.process.id());
        self.answer(&["INFO", "server"]).await.is_some_and(|answer| answer.contains(&own))
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns the first line of an answer.
    pub async fn ask(&self, words: &[&str]) -> Option<String> {
        self.answer(words).await?.lines().next().map(str::to_owned)
    }

    /// Returns the beginning of an answer, at most 4 KiB.
    async fn answer(&self, words: &[&str]) -> Option<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.ok()?;
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            write!(text, "${}\r\n{word}\r\n", word.len()).expect("a string");
        }
        stream.write_all(text.as_bytes()).await.ok()?;
        let mut answer = vec![0; 4096];
        let length = stream.read(&mut answer).await.ok()?;
        Some(String::from_utf8_lossy(&answer[..length]).into_owned())
    }

    /// A section of what it says of itself.
    pub async fn info(&self, section: &str) -> String {
        self.answer(&["INFO", section]).await.expect("it answers")
    }

    /// Its keys.
    pub async fn keys(&self) -> Vec<String> {
        let answer = self.answer(&["KEYS", "*"]).await.expect("it answers");
        answer.lines().skip(1).filter(|line| !line.starts_with('$')).map(str::to_owned).collect()
    }

    /// Stops it (SIGSTOP): it accepts data but answers nothing, until [`Redis::resume`].
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues after [`Redis::pause`].
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it with all its data, and returns its port.
    pub fn kill(self) -> u16 {
        self.kill_and_keep().0
    }

    /// Kills it, and returns its port and what it has written.
    pub fn kill_and_keep(mut self) -> (u16, RedisData) {
        self.signal(Signal::KILL);
        (self.port, self.data.take().expect("it was not killed before"))
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).expect("an id");
        kill_process(Pid::from_raw(id).expect("an id"), signal).expect("it is ours");
    }
}

impl RedisData {
    fn new(is_durable: bool) -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), is_durable }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // A stopped process would not end. An error means that it has already ended.
        let id = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        let _ = id.map(|id| kill_process(id, Signal::CONT));
    }
}

/// A proxy to a Redis that can delay answers.
#[derive(Debug)]
pub struct SlowWay {
    address: SocketAddr,
    delay: Arc<AtomicU64>,
    _running: Background,
}

impl SlowWay {
    /// A proxy to `redis` without a delay.
    pub fn to(redis: &Redis) -> Self {
        let listener = listen((Ipv4Addr::LOCALHOST, 0).into());
        let address = listener.local_addr().expect("an address");
        let (delay, port) = (Arc::new(AtomicU64::new(0)), redis.port);
        let there = Arc::clone(&delay);
        let running = Background::run(move || async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            let mut all = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let delay = Arc::clone(&there);
                all.spawn(async move { carry(client, port, &delay).await });
            }
        });
        Self { address, delay, _running: running }
    }

    /// The URL of the proxy.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Delays each piece of an answer by `delay` from now on.
    pub fn take(&self, delay: Duration) {
        self.delay.store(u64::try_from(delay.as_millis()).expect("not that long"), Ordering::SeqCst);
    }
}

async fn carry(client: TcpStream, port: u16, delay: &AtomicU64) {
    let Ok(redis) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_redis, mut to_redis) = redis.into_split();
    let back = async {
        let mut piece = vec![0; 1 << 16];
        loop {
            let length = from_redis.read(&mut piece).await.unwrap_or(0);
            tokio::time::sleep(Duration::from_millis(delay.load(Ordering::SeqCst))).await;
            if length == 0 || to_client.write_all(&piece[..length]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = back => {}
        _ = tokio::io::copy(&mut from_client, &mut to_redis) => {}
    }
}
