//! Sessions under paused time: whose they are, when they end, and that the books balance.

use super::*;
use auth::{Authenticator, Keys, Role};
use json::Raw;

fn caller(scope: Scope) -> Caller {
    Caller::legacy(Principal::anonymous(), scope, None)
}

fn id(number: u64) -> RequestId {
    RequestId::from_u64(number)
}

#[tokio::test(start_paused = true)]
async fn a_session_is_found_only_at_its_own_endpoint() {
    let sessions = Sessions::new(10, Duration::from_mins(1));
    let session = sessions.open(caller(Scope::ALL)).expect("room");
    let principal = Principal::anonymous();
    assert!(sessions.find(session.id(), &principal, &Scope::ALL).is_some());
    assert!(sessions.find(session.id(), &principal, &Scope::of_server("files")).is_none());
    assert!(sessions.find("0", &principal, &Scope::ALL).is_none());
    sessions.close(&session);
    assert!(sessions.find(session.id(), &principal, &Scope::ALL).is_none());
    session.ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_does_not_lend_the_role_of_its_opener() {
    let sessions = Sessions::new(10, Duration::from_mins(1));
    let [strong, weak] = [Role::Superuser, Role::Reader].map(|role| Principal::new("alice", role));
    assert_eq!(strong.id(), weak.id(), "one subject, two tokens");
    let session = sessions.open(Caller::legacy(strong.clone(), Scope::ALL, None)).expect("room");
    assert!(sessions.find(session.id(), &strong, &Scope::ALL).is_some());
    assert!(sessions.find(session.id(), &weak, &Scope::ALL).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_with_the_credential_that_it_was_opened_with() {
    let sessions = Sessions::new(10, Duration::from_mins(1));
    let door = Authenticator::new(&auth::Config::None).expect("no files");
    let goes = door.authenticate(&http::HeaderMap::new()).expect("everybody may");
    let open = |principal: &Principal| sessions.open(Caller::legacy(principal.clone(), Scope::ALL, None));
    let (before, stays) = (open(&goes).expect("room"), open(&Principal::anonymous()).expect("room"));
    let running = before.begin(&id(1)).expect("free");
    door.renew(Keys::read(&auth::Config::ApiKey(Vec::new().into())).expect("no files"));
    sessions.sweep();
    assert!(before.ended.is_cancelled() && running.cancel.is_cancelled());
    assert!(!stays.ended.is_cancelled());
    let late = open(&goes).expect("it was let in before");
    assert!(late.ended.is_cancelled(), "nobody looks for it again");
    assert_eq!(sessions.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_client_has_changed_over_lasts_as_long_as_what_it_changed_to() {
    let sessions = Sessions::new(10, Duration::from_mins(1));
    let door = Authenticator::new(&auth::Config::None).expect("no files");
    let (old, new) =
        (door.authenticate(&http::HeaderMap::new()).expect("everybody may"), Principal::anonymous());
    let session = sessions.open(Caller::legacy(old.clone(), Scope::ALL, None)).expect("room");
    assert!(sessions.find(session.id(), &new, &Scope::ALL).is_some(), "it is the same principal");
    door.renew(Keys::read(&auth::Config::ApiKey(Vec::new().into())).expect("no files"));
    assert!(sessions.find(session.id(), &old, &Scope::ALL).is_none(), "it was let in before");
    sessions.sweep();
    assert!(sessions.find(session.id(), &new, &Scope::ALL).is_some());
}

#[tokio::test(start_paused = true)]
async fn the_session_unused_for_longest_gives_up_its_slot_and_one_in_use_never() {
    let sessions = Sessions::new(2, Duration::from_mins(1));
    let first = sessions.open(caller(Scope::ALL)).expect("room");
    let running = first.begin(&id(1)).expect("not running yet");
    let second = sessions.open(caller(Scope::ALL)).expect("room");
    let third = sessions.open(caller(Scope::ALL)).expect("the second one is unused");
    assert!(second.ended.is_cancelled() && !first.ended.is_cancelled());
    let _stream = third.hold();
    assert!(sessions.open(caller(Scope::ALL)).is_err(), "both are in use");
    drop(running);
    tokio::time::advance(Duration::from_secs(61)).await;
    sessions.sweep();
    assert_eq!(sessions.count(), 1);
    assert!(first.ended.is_cancelled());
}

fn open_for(sessions: &Sessions, who: &str) -> Option<Arc<Session>> {
    sessions.open(Caller::legacy(Principal::new(who, Role::Reader), Scope::ALL, None)).ok()
}

#[tokio::test(start_paused = true)]
async fn a_principal_gives_up_its_own_session_first_then_the_principal_with_most() {
    let sessions = Sessions::new(6, Duration::from_mins(30));
    let mut of_alice = Vec::new();
    for _ in 0..5 {
        tokio::time::advance(Duration::from_millis(1)).await;
        of_alice.push(open_for(&sessions, "alice").expect("room"));
    }
    let of_bob = open_for(&sessions, "bob").expect("room");
    let _request = of_alice[0].begin(&id(1)).expect("free");
    let _stream = of_alice[1].hold();
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(open_for(&sessions, "bob").is_some());
    assert!(of_bob.ended.is_cancelled(), "its own");
    let of_carol = open_for(&sessions, "carol").expect("alice has most");
    let ended: Vec<_> = of_alice.iter().map(|session| session.ended.is_cancelled()).collect();
    assert_eq!(ended, [false, false, true, false, false], "in use, in use, unused for longest");
    assert!(of_alice[2].begin(&id(1)).is_err(), "whoever had found it hears that it is gone");
    let _streams: Vec<_> = of_alice[3..].iter().chain([&of_carol]).map(Session::hold).collect();
    assert!(open_for(&sessions, "dave").is_some(), "the one that is unused, whosever it is");
    assert_eq!(sessions.count(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_full_table_is_looked_through_once_a_second() {
    let sessions = Sessions::new(1, Duration::from_mins(1));
    let session = open_for(&sessions, "alice").expect("room");
    let _stream = session.hold();
    let looked = || *sessions.swept.lock().expect("nobody panicked");
    assert!(open_for(&sessions, "alice").is_none());
    let first = looked().expect("it was full");
    tokio::time::advance(Duration::from_millis(999)).await;
    assert!(open_for(&sessions, "alice").is_none() && looked() == Some(first));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(open_for(&sessions, "alice").is_none() && looked() > Some(first));
    assert!(!session.ended.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn cancelling_reaches_the_request_of_that_id_and_type() {
    let session = Session::alone(caller(Scope::ALL));
    let running = session.begin(&id(1)).expect("free");
    assert!(session.begin(&id(1)).is_err(), "the id is taken while its request runs");
    let string = RequestId::from_raw(Raw::of("1")).expect("an id");
    session.cancel(&string);
    assert!(!running.cancel.is_cancelled(), "\"1\" is another id than 1");
    session.cancel(&id(1));
    assert!(running.cancel.is_cancelled());
    drop(running);
    assert!(session.begin(&id(1)).is_ok(), "free again");
    assert_eq!(session.state().running.len(), 0, "the probe above was dropped too");
}

#[tokio::test(start_paused = true)]
async fn a_newer_reader_of_the_own_stream_ends_the_older_one_and_reading_is_not_idle() {
    let sessions = Sessions::new(2, Duration::from_mins(1));
    let session = sessions.open(caller(Scope::ALL)).expect("room");
    let (held, mut older) = (session.hold(), session.own_stream().reader_from_now());
    let mut newer = session.own_stream().reader_from_now();
    assert!(older.next().await.is_none());
    let still_open = tokio::time::timeout(Duration::from_secs(61), newer.next()).await;
    assert!(still_open.is_err(), "nothing ended the newer one");
    sessions.sweep();
    assert!(!session.ended.is_cancelled(), "somebody reads");
    drop(held);
    assert_eq!(session.state().open, 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_of_a_channel_counts_and_is_not_found() {
    let sessions = Sessions::new(1, Duration::from_mins(1));
    let session = sessions.open_channel(caller(Scope::ALL)).expect("room");
    assert!(sessions.find(session.id(), &Principal::anonymous(), &Scope::ALL).is_none());
    let _stream = session.hold();
    assert!(sessions.open(caller(Scope::ALL)).is_err(), "no room");
    sessions.close(&session);
    assert!(session.ended.is_cancelled() && sessions.count() == 0);
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_session_are_bounded() {
    let session = Session::alone(caller(Scope::ALL));
    let running: Vec<_> = (0..MAX_RUNNING as u64).map(|n| session.begin(&id(n)).expect("room")).collect();
    let refused = session.begin(&id(9_999)).map(drop).map_err(|refusal| refusal.code());
    assert_eq!(refused, Err(ErrorCode::TooManyRequests));
    drop(running);
    assert!(session.begin(&id(9_999)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_place_comes_free_when_its_session_ends_though_a_stream_has_yet_to_see_it() {
    let sessions = Sessions::new(10, Duration::from_mins(1)).among(Slots::new(1));
    let session = sessions.open(caller(Scope::ALL)).expect("a place");
    let _reads = session.hold();
    let refused = sessions.open(caller(Scope::ALL)).map(drop).map_err(|refusal| refusal.code());
    assert_eq!(refused, Err(ErrorCode::TooManyConnections));
    sessions.close(&session);
    assert!(sessions.open(caller(Scope::ALL)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_session_gets_the_slot_of_an_unused_one() {
    let sessions = Sessions::new(10, Duration::from_mins(1)).among(Slots::new(3));
    let open = |who: &str| open_for(&sessions, who).expect("a slot");
    let mut of_alice = Vec::new();
    for _ in 0..3 {
        of_alice.push(open("alice"));
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    let ended = || of_alice.iter().map(|one| one.ended.is_cancelled()).collect::<Vec<_>>();
    let _in_use = of_alice[0].hold();
    let of_bob = open("bob");
    assert_eq!(ended(), [false, true, false]);
    let call = sessions.place_for("carol").expect("another one of alice, for as long as a call runs");
    assert_eq!(ended(), [false, true, true]);
    let other = sessions.place_for("dave").expect("that of bob, which nobody uses");
    assert!(of_bob.ended.is_cancelled());
    assert!(sessions.place_for("erin").is_err(), "all are in use");
    drop((call, other));
    assert!(sessions.place_for("erin").is_ok());
}
