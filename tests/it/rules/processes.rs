//! Child processes over many restarts of the children and the program: their number is right, and no descriptor
//! leaks.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::gateway::Running;
use crate::support::{Gateway, Registry, eventually};

/// The ids of started processes in a record of the stdio peer.
pub fn started(record: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(record).unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix("started ")?.parse().ok()).collect()
}

/// Whether the process runs and is not a zombie.
pub fn is_alive(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Kills the process.
pub fn kill(process: u32) {
    let id = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(id, Signal::KILL).expect("it is there");
}

/// The number of children of `parent`, zombies included.
pub fn children(parent: u32) -> usize {
    let processes = std::fs::read_dir("/proc").expect("Linux").filter_map(Result::ok);
    let stats = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    // `pid (name) state parent …`, and a name may contain anything.
    let parents = stats.filter_map(|stat| stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok());
    parents.filter(|found: &u32| *found == parent).count()
}

/// A gateway with `count` children, each with its own tool. With `--stays` they do not end with their input.
async fn with_children(count: usize, ends: &[&str]) -> (Running, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let tools: Vec<String> = (0..count).map(|child| format!("tool{child}")).collect();
    let registry = tools.iter().fold(Registry::new(), |registry, tool| {
        let record = folder.path().join(tool);
        let record = record.to_str().expect("UTF-8");
        let arguments = [&["--era", "modern", "--tools", tool, "--record", record], ends].concat();
        registry.child(&format!("of-{tool}"), &arguments)
    });
    let gateway = Gateway::of(&registry).dumpable().start().await;
    gateway.offers(&tools.iter().map(String::as_str).collect::<Vec<_>>()).await;
    (gateway, folder)
}

fn all_started(folder: &tempfile::TempDir) -> Vec<u32> {
    let records = std::fs::read_dir(folder.path()).expect("a folder").filter_map(Result::ok);
    records.flat_map(|record| started(&record.path())).collect()
}

/// RULES R19: 500 starts and stops of children.
#[tokio::test]
async fn children_that_are_started_and_stopped_leave_nothing_behind() {
    const CHILDREN: usize = 5;
    const CYCLES: usize = 100;
    let (gateway, folder) = with_children(CHILDREN, &[]).await;
    let again = async |child: usize| {
        let answer = gateway.post(&format!("/servers/of-tool{child}/reconnect"), "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    join_all((0..CHILDREN).map(again)).await;
    let before = gateway.descriptors();
    let cycles = async |child: usize| {
        for _ in 1..CYCLES {
            again(child).await;
        }
    };
    join_all((0..CHILDREN).map(cycles)).await;
    let spawned = all_started(&folder);
    assert_eq!(spawned.len(), CHILDREN * (CYCLES + 1));
    let (processes, descriptors) = (children(gateway.id()), gateway.descriptors());
    eprintln!(
        "after {} starts: {processes} processes, {descriptors} descriptors, at first {before}",
        spawned.len()
    );
    eventually("there are as many processes and descriptors as at first", async || {
        let alive = spawned.iter().filter(|id| is_alive(**id)).count();
        let is_as_before = children(gateway.id()) == CHILDREN && gateway.descriptors() <= before;
        (alive == CHILDREN && is_as_before).then_some(())
    })
    .await;
}

/// RULES R19: 20 kills of the program.
#[tokio::test]
async fn children_of_gateways_that_are_killed_end_with_them() {
    for _ in 0..4 {
        let killed = join_all((0..5).map(async |_| {
            let (gateway, folder) = with_children(2, &["--stays"]).await;
            let spawned = all_started(&folder);
            assert!(spawned.len() == 2 && spawned.iter().all(|id| is_alive(*id)), "{spawned:?}");
            kill(gateway.id());
            spawned
        }));
        let spawned = killed.await.concat();
        eventually("they ended too", async || (!spawned.iter().any(|id| is_alive(*id))).then_some(())).await;
    }
}

/// RULES R21: 20 of 20 children are alive after idle time. A child ends with the thread that started it, and tokio
/// ends a blocking thread after ten seconds without work, so the idle time is longer than that.
#[tokio::test]
async fn twenty_children_outlive_every_thread_that_has_nothing_to_do() {
    let (gateway, folder) = with_children(20, &[]).await;
    let spawned = all_started(&folder);
    assert_eq!(spawned.len(), 20);
    tokio::time::sleep(Duration::from_millis(11_500)).await;
    let alive = spawned.iter().filter(|id| is_alive(**id)).count();
    assert_eq!((alive, all_started(&folder).len()), (20, 20), "alive, and ever started");
    assert!(gateway.stop().await.success());
}

#[tokio::test]
async fn child_of_a_disabled_server_ends_and_a_reload_starts_it_again() {
    let (gateway, folder) = with_children(2, &[]).await;
    let first = started(&folder.path().join("tool0"));
    let disabled = gateway.post("/servers/of-tool0/disable", "").await;
    assert_eq!((disabled.status, &disabled.json()["state"]), (200, &"disabled".into()));
    eventually("its child ends", async || (!is_alive(first[0])).then_some(())).await;
    gateway.offers(&["tool1"]).await;
    assert_eq!(children(gateway.id()), 1, "the other child still runs");
    for (path, body) in
        [("/call", r#"{"server": "of-tool0", "tool": "tool0"}"#), ("/servers/of-tool0/reconnect", "")]
    {
        let refused = gateway.post(path, body).await.body;
        assert!(refused.contains("server_unavailable") && refused.contains("/of-tool0/enable"), "{refused}");
    }
    let reloaded = gateway.post("/reload", "").await.json();
    assert_eq!(reloaded["changed"], serde_json::json!(["of-tool0"]), "the file says that it is enabled");
    gateway.offers(&["tool0", "tool1"]).await;
    assert_eq!(started(&folder.path().join("tool0")).len(), 2);
}
