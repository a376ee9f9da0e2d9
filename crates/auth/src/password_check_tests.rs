//! Tests of keys with slow hashes: accepted hashes, cached results, and the cost of wrong keys.

use std::pin::pin;

use futures_util::future::join_all;
use futures_util::poll;
use http::{HeaderMap, HeaderValue};
use tokio::time::advance;

use super::*;
use crate::password_hash::tests::argon2id_of;
use crate::{ApiKey, Authenticator, Config, KeyHash as AnyHash, Keys, Role, generate};

const KEY: &str = "legacy-key-of-another-system";

fn bcrypt_of(key: &str) -> String {
    bcrypt::hash(key, 4).expect("hashed")
}

fn entry(id: &str, hash: &str, role: Role) -> ApiKey {
    let hash = AnyHash::parse(hash).expect("a hash").expect("one that is taken");
    ApiKey { id: id.into(), hash, role, expires: None, view: None }
}

fn sent(key: &str) -> HeaderMap {
    HeaderMap::from_iter([("x-api-key".parse().expect("a name"), HeaderValue::from_str(key).expect("text"))])
}

/// An authenticator with its cache.
struct Door {
    door: Authenticator,
}

impl Door {
    fn new(keys: Vec<ApiKey>) -> Self {
        Self { door: Authenticator::new(&Config::ApiKey(keys.into())).expect("no files") }
    }

    fn at_once(&self, key: &str) -> Result<Principal, Denied> {
        self.door.authenticate(&sent(key))
    }

    async fn ask(&self, key: &str) -> Result<Principal, Denied> {
        match self.at_once(key) {
            Err(Denied::Unchecked) => self.door.check(&sent(key)).await,
            judged => judged,
        }
    }
}

const UNKNOWN: Result<Principal, Denied> = Err(Denied::Credential(Reason::UnknownKey));

#[tokio::test]
async fn keys_of_another_system_are_taken_as_it_stored_them() {
    let argon = argon2id_of(KEY);
    for hash in [bcrypt_of(KEY), bcrypt_of(KEY).replacen("$2b$", "$2y$", 1), argon] {
        let door = Door::new(vec![entry("old", &hash, Role::Superuser)]);
        let whose = Ok(Principal::new("key:old", Role::Superuser));
        assert_eq!(door.at_once(KEY), Err(Denied::Unchecked), "{hash}");
        assert_eq!(door.ask(KEY).await, whose, "{hash}");
        assert_eq!(door.at_once(KEY), whose, "remembered: {hash}");
        for wrong in ["legacy-key-of-another-systen", "x", "", &KEY.to_uppercase()] {
            assert_eq!(door.ask(wrong).await, UNKNOWN, "{wrong} {hash}");
            assert_eq!(door.at_once(wrong), UNKNOWN, "remembered: {wrong} {hash}");
        }
    }
}

#[tokio::test]
async fn keys_of_our_own_are_never_held_against_slow_hashes() {
    let (ours, hash) = generate("ci");
    let ours = ours.expose_secret();
    let hash = AnyHash::Sha256(hash);
    let fast = ApiKey { id: "ci".into(), hash, role: Role::Reader, expires: None, view: None };
    let named = format!("swy_named_{}", "0".repeat(48));
    let door = Door::new(vec![
        fast,
        entry("old", &bcrypt_of(KEY), Role::Reader),
        entry("named", &bcrypt_of(&named), Role::Superuser),
    ]);
    assert_eq!(door.at_once(ours), Ok(Principal::new("key:ci", Role::Reader)));
    assert_eq!(door.at_once(&ours.replace("swy_ci_", "swy_nobody_")), UNKNOWN);
    assert_eq!(door.at_once(&format!("{}x", &ours[..ours.len() - 1])), UNKNOWN);
    assert_eq!(door.ask(&named).await, Ok(Principal::new("key:named", Role::Superuser)));
    // A key that names an entry is compared with that one only.
    assert_eq!(door.ask(&named.replace("swy_named_", "swy_old_")).await, UNKNOWN);
}

#[tokio::test]
async fn password_that_bcrypt_would_truncate_is_refused() {
    let long = "k".repeat(100);
    let door = Door::new(vec![entry("old", &bcrypt_of(&long), Role::Reader)]);
    assert_eq!(door.ask(&long).await, UNKNOWN);
    assert_eq!(door.ask(&"k".repeat(72)).await, UNKNOWN);
    assert_eq!(door.at_once(&"k".repeat(MAX_KEY_BYTES + 1)), UNKNOWN);
    let fits = "k".repeat(71);
    let door = Door::new(vec![entry("old", &bcrypt_of(&fits), Role::Reader)]);
    assert!(door.ask(&fits).await.is_ok());
}

#[tokio::test]
async fn a_key_is_held_against_the_keys_of_a_reload_that_comes_meanwhile() {
    let (hash, whose) = (bcrypt_of(KEY), Principal::new("key:old", Role::Superuser));
    let (same, other) = (entry("old", &hash, Role::Superuser), entry("new", &bcrypt_of("new"), Role::Reader));
    let cases = [
        (Config::ApiKey(vec![other.clone(), same.clone()].into()), Ok(whose)),
        (Config::ApiKey(vec![other].into()), UNKNOWN),
        (Config::None, Ok(Principal::anonymous())),
    ];
    for (next, judged) in cases {
        let door = Door::new(vec![same.clone()]);
        let headers = sent(KEY);
        let mut check = pin!(door.door.check(&headers));
        let busy = door.door.checks.turn().await.expect("nobody else is here");
        assert!(poll!(check.as_mut()).is_pending(), "it waits for its turn, with the keys of before");
        door.door.renew(Keys::read(&next).expect("no files"));
        drop(busy);
        assert_eq!(check.await, judged, "{next:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn cached_verification_expires() {
    let mut ends = entry("old", &bcrypt_of(KEY), Role::Reader);
    ends.expires = Some(SystemTime::now() + Duration::from_hours(24));
    let slow = PasswordHashes::new(&[KeyEntry::of(&ends)], None).expect("one such key");
    let (checks, now) = (CheckQueue::default(), SystemTime::now());
    assert!(slow.check(&checks, KEY, None, now).await.is_ok());
    assert!(slow.check(&checks, "wrong", None, now).await.is_err());
    advance(BAD_FOR.saturating_sub(Duration::from_secs(1))).await;
    assert_eq!(slow.remembered("wrong", now), UNKNOWN);
    advance(Duration::from_secs(1)).await;
    assert_eq!(slow.remembered("wrong", now), Err(Denied::Unchecked));
    let end = ends.expires.expect("given");
    assert_eq!(slow.remembered(KEY, end), Err(Denied::Credential(Reason::Expired)));
    assert!(slow.remembered(KEY, now).is_ok());
    advance(GOOD_FOR.saturating_sub(BAD_FOR)).await;
    assert_eq!(slow.remembered(KEY, now), Err(Denied::Unchecked));
}

#[tokio::test(start_paused = true)]
async fn wrong_keys_are_checked_one_at_a_time_and_few_of_them_wait() {
    let slow = PasswordHashes::new(&[KeyEntry::of(&entry("old", &bcrypt_of(KEY), Role::Reader))], None)
        .expect("one such key");
    let (checks, now) = (CheckQueue::default(), SystemTime::now());
    let busy = checks.turn().await.expect("nobody else is here");
    let keys: Vec<String> = (0..200).map(|number| format!("wrong-{number}")).collect();
    let judged = join_all(keys.iter().map(|key| slow.check(&checks, key, None, now))).await;
    assert!(judged.iter().all(|judged| *judged == Err(Denied::Busy)), "nobody had a turn");
    assert_eq!(slow.seen.lock().expect("whole").bad.len(), 0, "nothing was computed");
    // Some waited until they were evicted or their time was over. A later request is served.
    drop(busy);
    assert!(slow.check(&checks, KEY, None, now).await.is_ok());
}

#[tokio::test]
async fn a_reload_keeps_the_good_checks_of_unchanged_entries_alone() {
    let (same, other) = (bcrypt_of(KEY), bcrypt_of("other-key"));
    let door = Door::new(vec![entry("old", &same, Role::Reader), entry("other", &other, Role::Reader)]);
    assert!(door.ask(KEY).await.is_ok() && door.ask("other-key").await.is_ok());
    let renew =
        |keys: Vec<ApiKey>| door.door.renew(Keys::read(&Config::ApiKey(keys.into())).expect("no files"));
    renew(vec![entry("new", &bcrypt_of("x"), Role::Reader), entry("old", &same, Role::Superuser)]);
    assert_eq!(door.at_once(KEY), Ok(Principal::new("key:old", Role::Superuser)), "with its role of now");
    assert_eq!(door.at_once("other-key"), Err(Denied::Unchecked), "its entry was removed");
    renew(vec![entry("old", &other, Role::Reader)]);
    assert_eq!(door.at_once(KEY), Err(Denied::Unchecked), "its hash was changed");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_at_once_and_frees_its_places() {
    let checks = CheckQueue::default();
    let busy = checks.turn().await.expect("nobody else is here");
    // This task polls all of them in one turn, which is more progress than the runtime's budget allows.
    let mut waits: Vec<_> =
        (0..1_000).map(|_| Box::pin(tokio::task::coop::unconstrained(checks.turn()))).collect();
    let mut waiting = 0;
    for wait in &mut waits {
        waiting += usize::from(poll!(wait.as_mut()).is_pending());
    }
    assert_eq!(waiting, MOST_WAITING);
    drop((waits, busy));
    assert!(checks.turn().await.is_some(), "a request that gave up frees its place");
}

#[tokio::test]
async fn many_who_come_with_the_same_key_at_once_cost_one_check() {
    let slow = PasswordHashes::new(&[KeyEntry::of(&entry("old", &bcrypt_of(KEY), Role::Reader))], None)
        .expect("one such key");
    let (checks, now) = (CheckQueue::default(), SystemTime::now());
    let judged = join_all((0..20).map(|_| slow.check(&checks, KEY, None, now))).await;
    assert!(judged.iter().all(Result::is_ok), "{judged:?}");
    let seen = slow.seen.lock().expect("whole");
    let since = |name: &CheckId| seen.good.peek(name).map(|(_, since)| *since);
    assert_eq!((seen.good.len(), seen.bad.len()), (1, 0));
    assert!(since(&slow.name(KEY)).is_some() && since(&slow.name("x")).is_none());
}
