//! Tests of the history: shares, bounds, files, restarts, and pages.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::OnceLock;
use std::time::Duration;

use super::*;
use crate::manager::live_events::CallEnd;
use auth::{Principal, Role};
use runtime::memory::{Account, ChargeKind};
use serde_json::Value;
use upstream::EndedAttempts;

/// Records a call of `tool` by `principal`.
fn record(history: &CallHistory, principal: &str, tool: &str, outcome: &'static str) {
    history.record(call(principal, tool, outcome));
}

fn call(principal: &str, tool: &str, outcome: &'static str) -> Arc<ToolCall> {
    let end = CallEnd {
        outcome,
        code: None,
        error: None,
        duration: Duration::from_millis(3),
        attempts: EndedAttempts::new(),
    };
    Arc::new(ToolCall {
        number: 1,
        server: "s".into(),
        tool: tool.into(),
        principal: Some(principal.into()),
        client: None,
        request_id: None,
        arguments: None,
        end: OnceLock::from(end),
    })
}

fn ended(id: u64, principal: &str) -> Ended {
    Ended { id, at: SystemTime::now(), call: call(principal, "t", "ok") }
}

fn history(folder: Option<PathBuf>, config: Config) -> Arc<CallHistory> {
    let history = CallHistory::new(folder);
    history.configure(&config);
    history
}

/// Writes what waits.
async fn written(history: &Arc<CallHistory>) {
    let end = Shutdown::new();
    end.begin();
    run(Arc::clone(history), end).await;
}

fn superuser() -> Principal {
    Principal::new("operator", Role::Superuser)
}

/// The tools of all calls that `viewer` finds, in pages of `limit`.
async fn tools(history: &Arc<CallHistory>, viewer: &Principal, filter: &Filter, limit: usize) -> Vec<String> {
    let (mut before, mut tools) = (None, Vec::new());
    loop {
        let page = history.search(viewer.clone(), filter.clone(), before, limit).await;
        assert!(page.calls.len() <= limit);
        let tool = |text: &bytes::Bytes| {
            let call: Value = serde_json::from_slice(text).expect("JSON");
            call["tool"].as_str().expect("a name").to_owned()
        };
        tools.extend(page.calls.iter().map(tool));
        before = page.next;
        if before.is_none() {
            return tools;
        }
    }
}

async fn all(history: &Arc<CallHistory>) -> Vec<String> {
    tools(history, &superuser(), &Filter::default(), 7).await
}

#[test]
fn a_noisy_principal_drops_its_own_calls_and_the_ring_stays_within_its_bounds() {
    let mut ring = Ring::new(1024 * 1024, 1_000);
    let count = |ring: &Ring, owner: &str| ring.before(&Some(owner.into()), u64::MAX).count();
    let mut id = 0;
    let mut push = |ring: &mut Ring, owner: &str| {
        id += 1;
        let ended = ended(id, owner);
        let size = ring::size(&ended.call);
        ring.push(ended, size);
    };
    for _ in 0..20 {
        push(&mut ring, "quiet");
    }
    for _ in 0..50_000 {
        push(&mut ring, "noisy");
    }
    assert_eq!(count(&ring, "quiet"), 20, "it keeps all its calls");
    assert!((700..=750).contains(&count(&ring, "noisy")), "{}", count(&ring, "noisy"));
    for number in 0..5_000 {
        push(&mut ring, &format!("one of many {number}"));
        assert!(ring.bytes() <= 1024 * 1024, "{} after {number}", ring.bytes());
    }
    let sum: usize = ring.owners().map(|owner| ring.before(owner, u64::MAX).count()).sum();
    assert!(sum <= 1_000, "{sum}");
    assert!(count(&ring, "one of many 4999") == 1 && count(&ring, "quiet") > 0);
    ring.limit(10);
    assert!(ring.owners().map(|owner| ring.before(owner, u64::MAX).count()).sum::<usize>() <= 10);
    ring.limit(0);
    assert_eq!((ring.bytes(), ring.owners().count()), (0, 0));
}

#[tokio::test]
async fn a_principal_finds_its_own_calls_and_a_superuser_all_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    for folder in [None, Some(folder.path().join("history"))] {
        let history = history(folder.clone(), Config::default());
        for number in 0..10 {
            record(&history, "a", &format!("a{number}"), if number == 3 { "failed" } else { "ok" });
            record(&history, "b", &format!("b{number}"), "ok");
        }
        if folder.is_some() {
            written(&history).await;
            // Files alone, as after a restart.
            history.lock().ring.limit(0);
        }
        let a = Principal::new("a", Role::Caller);
        let own = tools(&history, &a, &Filter::default(), 3).await;
        let expected: Vec<String> = (0..10).rev().map(|number| format!("a{number}")).collect();
        assert_eq!(own, expected);
        assert_eq!(all(&history).await.len(), 20);
        let foreign = Filter { principal: Some("b".into()), ..Filter::default() };
        assert!(tools(&history, &a, &foreign, 3).await.is_empty());
        assert_eq!(tools(&history, &superuser(), &foreign, 3).await.len(), 10);
        let failed = Filter { outcomes: vec!["failed".into(), "rpc_error".into()], ..Filter::default() };
        assert_eq!(tools(&history, &superuser(), &failed, 3).await, ["a3"]);
        let one = Filter { tool: Some("b7".into()), server: Some("s".into()), ..Filter::default() };
        assert_eq!(tools(&history, &superuser(), &one, 3).await, ["b7"]);
        let hour = Duration::from_hours(1);
        let later = Filter { since: Some(SystemTime::now() + hour), ..Filter::default() };
        let earlier = Filter { until: Some(SystemTime::now() - hour), ..Filter::default() };
        for filter in [later, earlier] {
            assert!(tools(&history, &superuser(), &filter, 3).await.is_empty(), "{filter:?}");
        }
    }
}

#[tokio::test]
async fn a_page_continues_at_the_same_place_while_calls_come_in() {
    let history = history(None, Config::default());
    (0..5).for_each(|number| record(&history, "p", &number.to_string(), "ok"));
    let first = history.search(superuser(), Filter::default(), None, 2).await;
    (5..50).for_each(|number| record(&history, "p", &number.to_string(), "ok"));
    let second = history.search(superuser(), Filter::default(), first.next, 2).await;
    let text =
        |page: &CallPage| page.calls.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    let (first, second): (Vec<String>, Vec<String>) = (text(&first), text(&second));
    for (text, tool) in first.iter().chain(&second).zip(["4", "3", "2", "1"]) {
        assert!(text.contains(&format!("\"tool\":\"{tool}\"")), "{text}");
    }
}

#[tokio::test]
async fn calls_are_found_after_a_restart_and_a_torn_line_costs_itself_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("history");
    let first = history(Some(folder.clone()), Config::default());
    record(&first, "p", "one", "ok");
    record(&first, "p", "two", "ok");
    written(&first).await;
    let last = first.lock().last;
    drop(first);
    let file = files::list(&folder).pop().expect("a file");
    let mut text = std::fs::read(&file).expect("readable");
    text.truncate(text.len() - 20);
    std::fs::write(&file, text).expect("writable");
    let second = history(Some(folder.clone()), Config::default());
    assert!(second.lock().last > 0 && second.lock().last <= last);
    record(&second, "p", "three", "ok");
    written(&second).await;
    second.lock().ring.limit(0);
    assert_eq!(all(&second).await, ["three", "one"]);
    assert_eq!(files::list(&folder).len(), 1, "the file is continued");
    let mode = std::fs::metadata(&file).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn numbers_increase_while_the_clock_goes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("history");
    let first = history(Some(folder.clone()), Config::default());
    let future = SystemTime::now() + Duration::from_hours(48);
    first.lock().last = micros(future);
    record(&first, "p", "early", "ok");
    written(&first).await;
    drop(first);
    let second = history(Some(folder.clone()), Config::default());
    record(&second, "p", "late", "ok");
    written(&second).await;
    assert!(second.lock().last > micros(future));
    second.lock().ring.limit(0);
    assert_eq!(all(&second).await, ["late", "early"]);
}

#[tokio::test]
async fn a_file_ends_where_the_clock_goes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = Files::new(folder.path().join("history"));
    let now = SystemTime::now();
    let at = |id, at| Ended { at, ..ended(id, "p") };
    let queue = [at(1, now), at(2, now - Duration::from_mins(5)), at(3, now - Duration::from_mins(4))];
    assert_eq!(files.write(&queue, Config::default()).calls, 3);
    let first = |path: &PathBuf| segment::first_id(path).expect("a number");
    let names: Vec<u64> = files::list(&folder.path().join("history")).iter().map(first).collect();
    assert_eq!(names, [1, 2]);
}

#[tokio::test]
async fn files_are_bounded_in_number_and_removed_when_they_are_too_old() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("history");
    let config = Config { calls: 80, ..Config::default() };
    let past = history(Some(folder.clone()), config);
    for number in 0..500 {
        record(&past, "p", &number.to_string(), "ok");
        if number % 7 == 0 {
            written(&past).await;
        }
    }
    written(&past).await;
    past.lock().ring.limit(0);
    let found = all(&past).await;
    assert!((70..=80).contains(&found.len()), "{}", found.len());
    let newest: Vec<String> = (0..500).rev().take(found.len()).map(|number| number.to_string()).collect();
    assert_eq!(found, newest, "the newest ones are kept");
    let old = files::list(&folder)[0].clone();
    let week = Duration::from_hours(24 * 8);
    let file = std::fs::File::options().append(true).open(&old).expect("opened");
    file.set_modified(SystemTime::now() - week).expect("set");
    written(&past).await;
    assert!(!old.exists() && files::list(&folder).len() > 3);
    past.configure(&Config { days: 0, ..config });
    written(&past).await;
    assert!(files::list(&folder).is_empty(), "nothing is kept in files any more");
}

#[tokio::test]
async fn calls_of_a_quiet_principal_stay_in_few_files_while_another_one_makes_many() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("history");
    let config = Config { calls: 800, ..Config::default() };
    let past = history(Some(folder.clone()), config);
    for number in 0..10_000 {
        record(&past, "noisy", &format!("n{number}"), "ok");
        if number % 50 == 0 {
            record(&past, "quiet", &format!("q{number}"), "ok");
            written(&past).await;
        }
    }
    written(&past).await;
    drop(past);
    // The counts end with the process.
    let past = history(Some(folder.clone()), config);
    for number in 0..200 {
        record(&past, "noisy", &format!("m{number}"), "ok");
    }
    written(&past).await;
    past.lock().ring.limit(0);
    let found = all(&past).await;
    assert!((600..=800).contains(&found.len()), "{}", found.len());
    let of = |first: char| found.iter().filter(|tool| tool.starts_with(first)).cloned().collect::<Vec<_>>();
    let quiet: Vec<String> =
        (0..10_000).rev().step_by(50).map(|number| format!("q{}", number - 49)).collect();
    assert_eq!(of('q'), quiet, "all of them");
    let noisy: Vec<String> =
        (0..10_000).rev().take(of('n').len()).map(|number| format!("n{number}")).collect();
    assert!(of('m').len() == 200 && of('n') == noisy, "the newest of the other one");
    let files = files::list(&folder).len();
    assert!(files <= 16, "{files} files of 100 calls");
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_costs_lines_and_no_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    std::fs::write(&path, "a file").expect("written");
    let mut files = Files::new(path.clone());
    let queue = [ended(1, "p"), ended(2, "p")];
    let lost = files.write(&queue, Config::default());
    assert!(lost.calls == 0 && lost.failure.is_some(), "{lost:?}");
    let again = files.write(&queue, Config::default());
    assert!(again.calls == 0 && again.failure.is_none(), "it is said once: {again:?}");
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(files.write(&queue, Config::default()).calls, 2);
    let other = Files::new(path).write(&queue, Config::default());
    let reason = other.failure.expect("locked").to_string();
    assert!(reason.contains("another gateway"), "{reason}");
    let past = history(Some(folder.path().join("none/\0")), Config::default());
    record(&past, "p", "t", "ok");
    written(&past).await;
    assert_eq!(all(&past).await, ["t"], "it is in memory");
}

#[tokio::test]
async fn a_search_that_ends_before_its_page_is_full_continues_on_the_next_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("history");
    let config = Config { days: 365, ..Config::default() };
    let start = SystemTime::now() - Duration::from_hours(24 * 100);
    let on_day = |day: u64| {
        let at = start + Duration::from_hours(24 * day);
        Ended { at, ..ended(micros(at), if day == 3 { "rare" } else { "p" }) }
    };
    let queue: Vec<Ended> = (0..30).map(on_day).collect();
    assert_eq!(Files::new(folder.clone()).write(&queue, config).calls, 30);
    assert_eq!(files::list(&folder).len(), 30, "a file for each day");
    let past = history(Some(folder), config);
    assert_eq!(all(&past).await.len(), 30);
    let rare = Filter { principal: Some("rare".into()), ..Filter::default() };
    let first = past.search(superuser(), rare.clone(), None, 10).await;
    assert!(first.calls.is_empty() && first.next.is_some(), "{first:?}");
    assert_eq!(tools(&past, &superuser(), &rare, 10).await.len(), 1);
}

#[test]
fn memory_of_the_budget_is_returned_and_a_full_budget_costs_old_calls() {
    let budget = runtime::memory::Budget::of_size(1024 * 1024);
    let past = history(None, Config::default());
    past.lock().ring_charge = SteppedCharge::of(budget.open(Account::LiveEvents, ChargeKind::Notice));
    (0..20_000).for_each(|_| record(&past, "p", "t", "ok"));
    let (bytes, used) = (past.lock().ring.bytes(), budget.usage().used);
    assert!(bytes <= used && used <= 480 * 1024 && bytes > 400 * 1024, "{bytes} of {used}");
    drop(past);
    assert_eq!(budget.usage().used, 0);
}
