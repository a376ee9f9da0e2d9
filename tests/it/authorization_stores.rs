//! The stores of the authorization server, in a folder and in Redis: the same cases for both.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use authorization::{FolderStore, RedisStore, Store, Table};
use futures_util::future::join_all;
use runtime::redis_link::Address;

use crate::support::redis::Redis;

const ISSUER: &str = "https://gw.example";

fn in_redis(redis: &Redis, issuer: &str) -> RedisStore {
    RedisStore::of_issuer(&Address::parse(&redis.url()).expect("an address"), issuer)
}

/// Two stores of one issuer and one of another, in a folder and in Redis, as different processes have them.
fn stores(folder: &Path, redis: &Redis) -> [[Arc<dyn Store>; 3]; 2] {
    let of_folder = |issuer| Arc::new(FolderStore::of_issuer(folder, issuer)) as Arc<dyn Store>;
    let of_redis = |issuer| Arc::new(in_redis(redis, issuer)) as Arc<dyn Store>;
    let issuers = [ISSUER, ISSUER, "https://other.example"];
    [issuers.map(of_folder), issuers.map(of_redis)]
}

#[tokio::test]
async fn record_is_replaced_only_if_it_is_the_one_that_was_read() {
    let (folder, redis) = (tempfile::tempdir().expect("a folder"), Redis::start().await);
    for [one, two, other] in stores(folder.path(), &redis) {
        assert!(one.ids(Table::Grants, "").await.expect("ids").is_empty());
        assert_eq!(one.get(Table::Grants, "a").await.expect("a read"), None);
        for (before, after, expected) in [
            (Some(&b"1"[..]), Some(&b"2"[..]), false),
            (None, Some(b"1"), true),
            (None, Some(b"3"), false),
            (Some(b"1"), Some(b"2"), true),
            (Some(b"1"), None, false),
        ] {
            let swapped = one.swap(Table::Grants, "a", before, after).await.expect("a write");
            assert_eq!(swapped, expected, "{before:?} {after:?}");
        }
        let records = two.get_all(Table::Grants, &["b".to_owned(), "a".to_owned()]).await;
        let records: Vec<_> = records.into_iter().map(|record| record.expect("a read")).collect();
        assert_eq!(records, [None, Some(b"2".to_vec())]);
        assert_eq!(one.get(Table::Clients, "a").await.expect("a read"), None, "another table");
        assert_eq!(other.get(Table::Grants, "a").await.expect("a read"), None, "another issuer");
        assert!(one.swap(Table::Clients, "a", None, Some(b"1")).await.expect("a write"));
        assert!(one.swap(Table::Clients, "a", Some(b"1"), None).await.expect("a write"));
        let removed = async || two.removed_grants().await.expect("a number");
        let before = removed().await;
        assert!(one.swap(Table::Grants, "a", Some(b"2"), None).await.expect("a write"));
        assert_eq!(two.get(Table::Grants, "a").await.expect("a read"), None);
        let after = removed().await;
        assert!(after > before, "{before} {after}");
        assert!(one.swap(Table::Grants, "a", None, None).await.expect("nothing to write"));
        assert_eq!(removed().await, after, "nothing was removed");
        assert_eq!(other.removed_grants().await.expect("a number"), 0);
    }
}

#[tokio::test]
async fn ids_are_listed_by_prefix_and_malformed_ones_refused() {
    let (folder, redis) = (tempfile::tempdir().expect("a folder"), Redis::start().await);
    for [one, two, _] in stores(folder.path(), &redis) {
        for id in ["aa-2", "aa-1", "ab-1"] {
            assert!(one.swap(Table::Grants, id, None, Some(b"x")).await.expect("a write"));
        }
        assert_eq!(two.ids(Table::Grants, "aa-").await.expect("ids"), ["aa-1", "aa-2"]);
        assert_eq!(two.ids(Table::Grants, "").await.expect("ids"), ["aa-1", "aa-2", "ab-1"]);
        for id in ["", "../x", "a/b", "a.b", &"a".repeat(65)] {
            assert!(one.swap(Table::Grants, id, None, Some(b"x")).await.is_err(), "{id:?}");
            assert!(one.get(Table::Grants, id).await.is_err(), "{id:?}");
        }
        let long = vec![b'x'; (64 << 10) + 1];
        assert!(one.swap(Table::Grants, "long", None, Some(&long)).await.is_err());
        assert!(one.swap(Table::Grants, "long", None, Some(&long[1..])).await.expect("a write"));
        assert_eq!(
            two.get(Table::Grants, "long").await.expect("a read").map(|record| record.len()),
            Some(64 << 10)
        );
    }
}

#[tokio::test]
async fn one_of_many_writers_in_two_stores_wins() {
    let (folder, redis) = (tempfile::tempdir().expect("a folder"), Redis::start().await);
    for [one, two, _] in stores(folder.path(), &redis) {
        assert!(one.swap(Table::Grants, "a", None, Some(b"0")).await.expect("a write"));
        let stores = [one, two];
        let writes = (1..=20_u8).map(|at| {
            let store = Arc::clone(&stores[usize::from(at % 2)]);
            async move { store.swap(Table::Grants, "a", Some(b"0"), Some(&[at])).await.expect("a write") }
        });
        let won = join_all(writes).await;
        assert_eq!(won.into_iter().filter(|won| *won).count(), 1);
    }
}

#[tokio::test]
async fn files_of_a_folder_are_private_and_those_of_writers_are_no_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = FolderStore::new(folder.path());
    assert!(store.swap(Table::Grants, "a", None, Some(b"1")).await.expect("a write"));
    let mode = std::fs::metadata(folder.path().join("grants/a")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::write(folder.path().join("grants/b.new"), "x").expect("a file");
    assert_eq!(store.ids(Table::Grants, "").await.expect("ids"), ["a"]);
    assert!(store.swap(Table::Grants, "a", Some(b"1"), None).await.expect("a write"));
    assert!(store.removed_grants().await.expect("a number") > 0);
    assert_eq!(store.ids(Table::Grants, "").await.expect("ids"), [""; 0]);
}

#[tokio::test]
async fn removal_that_cannot_be_announced_to_other_processes_is_an_error_and_removes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = FolderStore::new(folder.path());
    assert!(store.swap(Table::Grants, "a", None, Some(b"1")).await.expect("a write"));
    std::fs::create_dir(folder.path().join("grants/records.removed")).expect("a folder");
    store.swap(Table::Grants, "a", Some(b"1"), None).await.expect_err("there is no number");
    assert_eq!(store.get(Table::Grants, "a").await.expect("a read").as_deref(), Some(&b"1"[..]));
}

#[tokio::test]
async fn redis_that_lost_everything_and_got_new_keys_has_another_number_of_removals() {
    let redis = Redis::start().await;
    let [one, two] = [in_redis(&redis, ISSUER), in_redis(&redis, ISSUER)];
    let mut numbers = Vec::new();
    for _ in 0..2 {
        assert!(one.swap(Table::Keys, "keys", None, Some(b"1")).await.expect("a write"));
        numbers.push(two.removed_grants().await.expect("a number"));
        assert!(one.swap(Table::Keys, "keys", Some(b"1"), Some(b"2")).await.expect("a write"));
        assert_eq!(Some(&two.removed_grants().await.expect("a number")), numbers.last(), "the same keys");
        redis.ask(&["FLUSHALL"]).await.expect("it answers");
    }
    assert_ne!(numbers[0], numbers[1]);
}

#[tokio::test]
async fn write_that_redis_runs_after_its_writer_gave_up_changes_nothing() {
    let redis = Redis::start().await;
    let store = in_redis(&redis, ISSUER);
    assert!(store.swap(Table::Grants, "a", None, Some(b"1")).await.expect("a write"));
    redis.pause();
    store.swap(Table::Grants, "a", Some(b"1"), Some(b"2")).await.expect_err("it does not answer");
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    redis.resume();
    let there = async || store.get(Table::Grants, "a").await.ok();
    let record = crate::support::eventually("it answers again", there).await;
    assert_eq!(record.as_deref(), Some(&b"1"[..]));
}

#[tokio::test]
async fn redis_that_became_a_replica_gets_a_new_connection_and_is_used_again_as_a_primary() {
    let redis = Redis::start().await;
    let store = in_redis(&redis, ISSUER);
    assert!(store.swap(Table::Grants, "a", None, Some(b"1")).await.expect("a write"));
    let opened = async || {
        let lines = redis.info("stats").await;
        let line = lines.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.expect("a number").trim().parse::<u32>().expect("a number")
    };
    redis.ask(&["REPLICAOF", "127.0.0.1", "1"]).await.expect("it answers");
    let before = opened().await;
    store.swap(Table::Grants, "a", Some(b"1"), Some(b"2")).await.expect_err("it takes no writes");
    assert_eq!(opened().await, before + 2, "a new one, and that of the test");
    redis.ask(&["REPLICAOF", "NO", "ONE"]).await.expect("it answers");
    let written = async || store.swap(Table::Grants, "a", Some(b"1"), Some(b"2")).await.ok();
    assert!(crate::support::eventually("it takes writes", written).await);
}

/// A hundred megabytes in the place of a record, too many and too long ids, a text in the place of a table, and a number that
/// is none.
#[tokio::test]
async fn hostile_values_in_redis_are_errors_and_are_not_read() {
    let redis = Redis::start().await;
    let store = in_redis(&redis, ISSUER);
    assert!(store.swap(Table::Grants, "a", None, Some(b"1")).await.expect("a write"));
    let names = redis.keys().await;
    let [table] = &names[..] else { panic!("{names:?}") };
    let huge = "redis.call('HSET', KEYS[1], 'a', string.rep('x', 100 * 1024 * 1024)) return 'done'";
    redis.ask(&["EVAL", huge, "1", table]).await.expect("it answers");
    let error = store.get(Table::Grants, "a").await.expect_err("too long");
    assert!(error.to_string().contains("larger than 64 KiB"), "{error}");
    assert_eq!(store.ids(Table::Grants, "").await.expect("ids"), ["a"]);
    assert!(!store.swap(Table::Grants, "a", Some(b"1"), Some(b"2")).await.expect("a write"));
    redis.ask(&["HSET", table, "not an id", "1"]).await.expect("it answers");
    assert_eq!(store.ids(Table::Grants, "").await.expect("ids"), ["a"]);
    let long = "redis.call('HSET', KEYS[1], string.rep('x', 65), '1') return 'done'";
    redis.ask(&["EVAL", long, "1", table]).await.expect("it answers");
    assert_eq!(store.ids(Table::Grants, "").await.expect("ids"), ["a"]);
    let many = "for at = 1, 20000 do redis.call('HSET', KEYS[1], 'x' .. at, '1') end return 'done'";
    redis.ask(&["EVAL", many, "1", table]).await.expect("it answers");
    let error = store.ids(Table::Grants, "").await.expect_err("too many");
    assert!(error.to_string().contains("more than 20,000 records"), "{error}");
    assert_eq!(store.ids(Table::Grants, "a").await.expect("ids"), ["a"]);
    let number = table.replace("grants", "removed-grants");
    redis.ask(&["SET", &number, "text"]).await.expect("it answers");
    store.removed_grants().await.expect_err("no number");
    redis.ask(&["SET", table, "text"]).await.expect("it answers");
    for failed in [
        store.get(Table::Grants, "a").await.map(drop),
        store.ids(Table::Grants, "").await.map(drop),
        store.swap(Table::Grants, "a", None, Some(b"1")).await.map(drop),
    ] {
        assert!(failed.is_err());
    }
}

#[tokio::test]
async fn redis_that_is_killed_or_paused_fails_soon_and_is_used_again() {
    let redis = Redis::start_durable().await;
    let store = in_redis(&redis, ISSUER);
    assert!(store.swap(Table::Grants, "a", None, Some(b"1")).await.expect("a write"));
    let soon = async || {
        let asked = std::time::Instant::now();
        let results = join_all((0..100).map(|_| store.get(Table::Grants, "a"))).await;
        assert!(results.iter().all(Result::is_err));
        asked.elapsed().as_secs_f32()
    };
    let (port, data) = redis.kill_and_keep();
    assert!(soon().await < 1.0);
    let redis = Redis::start_with(port, data).await;
    let there = async || store.get(Table::Grants, "a").await.ok();
    let record = crate::support::eventually("it is used again", there).await;
    assert_eq!(record.as_deref(), Some(&b"1"[..]));
    redis.pause();
    assert!(soon().await < 4.5);
    redis.resume();
    crate::support::eventually("it is used again", there).await;
    // As after an idle time: the connection is gone, and nobody notices.
    redis.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await.expect("it answers");
    assert_eq!(store.get(Table::Grants, "a").await.expect("a read").as_deref(), Some(&b"1"[..]));
}
