//! Sessions of browsers: their limits, their ends, and the credential that each stands for.

use super::*;
use auth::{ApiKey, KeyHash, Keys, Role, generate};

/// One second less than a session may be idle.
const ALMOST_IDLE: Duration = Duration::from_secs(30 * 60 - 1);

fn key(id: &str, role: Role) -> (ApiKey, SecretString) {
    let (key, hash) = generate(id);
    (
        ApiKey { id: id.into(), hash: KeyHash::Sha256(hash), role, expires: None, view: None },
        SecretString::from(key.expose_secret()),
    )
}

fn sessions_of(keys: Vec<ApiKey>) -> (BrowserSessions, Arc<Authenticator>) {
    let authenticator = Authenticator::new(&auth::Config::ApiKey(keys.into())).expect("no files");
    let authenticator = Arc::new(authenticator);
    (BrowserSessions::new(Visitors::Credentials(Arc::clone(&authenticator))), authenticator)
}

async fn signed_in(sessions: &BrowserSessions, credential: SecretString) -> NewSession {
    match sessions.sign_in(credential).await {
        Ok(new) => new,
        Err(denied) => panic!("{denied}"),
    }
}

fn principal(id: usize) -> Principal {
    Principal::new(format!("host:{id}"), Role::Caller)
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_when_it_is_idle_or_old() {
    let (entry, secret) = key("ci", Role::Caller);
    let (sessions, _) = sessions_of(vec![entry]);
    let new = signed_in(&sessions, secret.clone()).await;
    let cookie = new.cookie.expose_secret();
    let started = Instant::now();
    for _ in 0..15 {
        tokio::time::advance(ALMOST_IDLE).await;
        assert!(sessions.find(cookie, None).await.is_some(), "in use, after {:?}", started.elapsed());
    }
    tokio::time::advance(IDLE / 2).await;
    sessions.find(cookie, None).await.expect("in use");
    tokio::time::advance(LIFETIME.saturating_sub(started.elapsed())).await;
    assert!(sessions.find(cookie, None).await.is_none(), "after eight hours");
    let idle = signed_in(&sessions, secret).await;
    tokio::time::advance(IDLE).await;
    assert_eq!(sessions.count(), 1);
    sessions.sweep();
    assert_eq!(sessions.count(), 0, "swept without a visit");
    assert!(sessions.find(idle.cookie.expose_secret(), None).await.is_none());
}

#[tokio::test]
async fn a_revoked_key_or_another_role_ends_the_session() {
    let [(first, secret), (second, other)] = [key("ci", Role::Caller), key("ops", Role::Caller)];
    let (sessions, authenticator) = sessions_of(vec![first.clone(), second.clone()]);
    let (ci, ops) = (signed_in(&sessions, secret).await, signed_in(&sessions, other).await);
    let renewed = |keys: Vec<auth::ApiKey>| {
        authenticator.renew(Keys::read(&auth::Config::ApiKey(keys.into())).expect("no files"));
    };
    renewed(vec![ApiKey { role: Role::Superuser, ..second.clone() }]);
    assert!(sessions.find(ci.cookie.expose_secret(), None).await.is_none(), "the key is gone");
    assert!(sessions.find(ops.cookie.expose_secret(), None).await.is_none(), "it signed in as a caller");
    renewed(vec![first, second]);
    assert!(sessions.find(ci.cookie.expose_secret(), None).await.is_none(), "it does not come back");
    assert_eq!(sessions.count(), 0);
}

#[tokio::test]
async fn all_sessions_of_one_principal_can_be_ended_with_what_runs_in_them() {
    let sessions = BrowserSessions::new(Visitors::Host);
    let person = |subject: &str| {
        let person = auth::Person { name: "ann".into(), until: SystemTime::now() + LIFETIME };
        Principal::of_person("https://login.example.org", subject, Role::Caller, person)
    };
    let [first, second, other] = ["1", "1", "2"].map(|subject| sessions.begin(person(subject)).session);
    sessions.end_of(first.principal().id());
    assert_eq!(sessions.count(), 1);
    let is_revoked = [&first, &second, &other].map(|session| session.principal().is_revoked());
    assert_eq!(is_revoked, [true, true, false]);
}

#[tokio::test]
async fn ten_thousand_sessions_stay_within_the_limits() {
    let sessions = BrowserSessions::new(Visitors::Host);
    let mine: Vec<_> = (0..10_000).map(|_| sessions.begin(principal(0))).collect();
    assert_eq!(sessions.count(), MAX_PER_PRINCIPAL);
    let last = mine.last().expect("sessions").cookie.expose_secret();
    assert!(sessions.find(last, Some(&principal(0))).await.is_some(), "the newest stay");
    let victim = sessions.begin(principal(1));
    for _ in 0..1_000 {
        sessions.begin(principal(0));
    }
    let found = sessions.find(victim.cookie.expose_secret(), Some(&principal(1))).await;
    assert!(found.is_some(), "one principal does not end the sessions of another one");
    for id in 0..10_000 {
        sessions.begin(principal(id));
    }
    assert_eq!(sessions.count(), MAX_SESSIONS);
}

#[tokio::test]
async fn a_mark_is_redeemed_once_and_in_its_session_only() {
    let sessions = BrowserSessions::new(Visitors::Host);
    let [one, other] = [0, 0].map(|id| sessions.begin(principal(id)).session);
    let mark = sessions.mark(&one).expect("a session");
    assert!(!sessions.redeem(&other, &mark));
    assert!(sessions.redeem(&one, &mark));
    assert!(!sessions.redeem(&one, &mark));
    let first = sessions.mark(&one).expect("a session");
    for _ in 0..MAX_MARKS {
        sessions.mark(&one);
    }
    assert!(!sessions.redeem(&one, &first), "the oldest is forgotten");
    sessions.end(&one);
    assert!(sessions.mark(&one).is_none());
}

#[tokio::test]
async fn a_session_of_a_host_program_needs_its_principal_in_each_request() {
    let sessions = BrowserSessions::new(Visitors::Host);
    let new = sessions.begin(principal(1));
    let cookie = new.cookie.expose_secret();
    assert!(sessions.find(cookie, None).await.is_none());
    assert!(sessions.find(cookie, Some(&principal(2))).await.is_none());
    let found = sessions.find(cookie, Some(&principal(1))).await.expect("a session");
    assert_eq!(found.principal(), &principal(1));
    assert!(sessions.find(&found.name(), Some(&principal(1))).await.is_none(), "the name is not the cookie");
    assert!(sessions.sign_in(SecretString::from("key")).await.is_err(), "there is no sign-in");
}

mod cookie {
    use super::*;

    fn headers(lines: &[&str]) -> HeaderMap {
        let value = |line: &&str| (COOKIE, HeaderValue::from_str(line).expect("text"));
        lines.iter().map(value).collect()
    }

    #[test]
    fn a_cookie_is_bound_to_its_host_over_https_and_to_its_port_otherwise() {
        let secure =
            Cookies::of("https://gw.example/x").set("session", "abc", SameSite::Lax).expect("a header");
        assert_eq!(secure, "__Host-switchyard-session=abc; Path=/; HttpOnly; SameSite=Lax; Secure");
        let local =
            Cookies::of("http://127.0.0.1:8080").set("session", "abc", SameSite::Strict).expect("a header");
        assert_eq!(local, "switchyard-session-8080=abc; Path=/; HttpOnly; SameSite=Strict");
        assert!(local.is_sensitive() && Cookies::of("http://localhost").name("a") == "switchyard-a-80");
        let gone = Cookies::of("https://gw.example").delete("session").expect("a header");
        assert!(
            gone.to_str().expect("text").contains("session=; ")
                && gone.to_str().expect("text").ends_with("Max-Age=0")
        );
    }

    #[test]
    fn only_a_cookie_that_is_there_once_is_read() {
        let cookies = Cookies::of("http://localhost:1");
        for (lines, value) in [
            (&["switchyard-session-1=a"][..], Some("a")),
            (&["x=1; switchyard-session-1=a;y=2"], Some("a")),
            (&["x=1", "switchyard-session-1=a"], Some("a")),
            (&["switchyard-session-1=a; switchyard-session-1=b"], None),
            (&["switchyard-session-1=a", "switchyard-session-1=a"], None),
            (&["switchyard-session-2=a"], None),
            (&["switchyard-session-1"], None),
            (&[], None),
        ] {
            assert_eq!(cookies.read("session", &headers(lines)), value, "{lines:?}");
        }
    }
}
