//! Scheduling of the threads that serve clients: at once for few clients, after other threads for many.

use tokio::net::TcpStream;

use crate::support::{Gateway, Registry, eventually};

/// `SCHED_OTHER` and `SCHED_BATCH`, as `/proc` has them.
const USUAL: u32 = 0;
const BATCH: u32 = 3;

/// Returns the policy of a process or thread, the 41st value in its `stat`.
fn policy(stat: &str) -> u32 {
    let text = std::fs::read_to_string(stat).expect("it runs");
    // The second value is a name in parentheses, which may contain spaces.
    let (_, values) = text.rsplit_once(") ").expect("a name");
    values.split(' ').nth(38).and_then(|value| value.parse().ok()).expect("a number")
}

/// Returns the name and policy of each thread of a process.
fn policies(process: u32) -> Vec<(String, u32)> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let of = |folder: std::path::PathBuf| {
        let name = std::fs::read_to_string(folder.join("comm")).expect("a name");
        (name.trim().to_owned(), policy(&folder.join("stat").to_string_lossy()))
    };
    let mut all: Vec<_> = threads.map(|thread| of(thread.expect("listed").path())).collect();
    all.sort_unstable();
    all
}

#[tokio::test]
async fn workers_of_many_clients_are_batch_threads_and_nobody_else_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("record");
    let arguments = ["--record", record.to_str().expect("UTF-8")];
    let registry = || Registry::new().setting("server: {workers: 2}");
    let gateway = Gateway::of(&registry()).start().await;
    let batch = || -> Vec<String> {
        let all = policies(gateway.id()).into_iter();
        all.filter(|(_, policy)| *policy == BATCH).map(|(name, _)| name).collect()
    };
    eventually("nobody is a batch thread", async || batch().is_empty().then_some(())).await;

    let mut clients = Vec::new();
    for _ in 0..10 {
        clients.push(TcpStream::connect(&gateway.address).await.expect("accepted"));
    }
    let workers = ["switchyard", "worker-1"];
    eventually("both workers are batch threads", async || (batch() == workers).then_some(())).await;
    // The first child process, and the thread that starts it, begin in that state.
    gateway.rewrite(&registry().child("one", &arguments).yaml());
    gateway.hang_up();
    gateway.offers(&["echo"]).await;
    let started = std::fs::read_to_string(&record).expect("recorded");
    let child = started.lines().find_map(|line| line.strip_prefix("started ")).expect("started");
    assert_eq!(policy(&format!("/proc/{child}/stat")), USUAL, "the program of a server");
    assert_eq!(batch(), workers, "the threads that serve clients alone");

    drop(clients);
    eventually("nobody is a batch thread again", async || batch().is_empty().then_some(())).await;
}
