//! Keys of a login service over time: rotation, floods of unknown keys, outages.

use std::sync::Arc;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};
use tokio::time::advance;
use url::Url;

use super::super::jwt::tests::{claims, config, sign, with};
use super::super::jwt_keys::tests::{Pair, jwk};
use super::super::token_config::KeySource;
use super::super::{Authenticator, Config, Keys, Principal, Role};
use super::*;
use runtime::shutdown::Shutdown;

/// A login service whose answer the test sets.
struct Service {
    answer: Arc<Mutex<Result<String, String>>>,
    fetches: Arc<Mutex<usize>>,
    door: Arc<Authenticator>,
    tasks: Shutdown,
}

fn published(path: &str) -> Config {
    let url = Url::parse(&format!("https://login.example.org/{path}")).expect("a URL");
    let key = KeySource::Published(KeySetLocation::Url(url));
    Config::Jwt(Box::new(config(&[Algorithm::EdDSA], key)))
}

impl Service {
    async fn start(keys: &[(&Pair, &str)]) -> Self {
        let answer = Arc::new(Mutex::new(Ok(set(keys))));
        let fetches = Arc::new(Mutex::new(0));
        let door = Arc::new(Authenticator::new(&published("keys")).expect("nothing to read"));
        let service = Self { answer, fetches, door, tasks: Shutdown::new() };
        let (answer, fetches) = (Arc::clone(&service.answer), Arc::clone(&service.fetches));
        let door = Arc::clone(&service.door);
        service.tasks.spawn_until_end(async move {
            let fetch = move |_| -> futures_util::future::BoxFuture<'static, Result<Bytes, String>> {
                *fetches.lock().expect("lock") += 1;
                let answer = answer.lock().expect("lock").clone();
                Box::pin(async move {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    answer.map(Bytes::from)
                })
            };
            door.keep_keys_by(&fetch).await;
        });
        service.pass(Duration::from_millis(200)).await;
        service
    }

    fn says(&self, answer: Result<String, &str>) {
        *self.answer.lock().expect("lock") = answer.map_err(str::to_owned);
    }

    fn fetches(&self) -> usize {
        *self.fetches.lock().expect("lock")
    }

    /// Lets `time` pass in steps, so that every task runs when its time comes.
    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn check(&self, token: &str) -> Result<Principal, Denied> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}")).expect("ASCII"));
        self.door.check(&headers).await
    }
}

fn set(keys: &[(&Pair, &str)]) -> String {
    let keys: Vec<Value> = keys.iter().map(|(pair, kid)| jwk(pair, kid)).collect();
    json!({"keys": keys}).to_string()
}

fn token(pair: &Pair, kid: &str) -> String {
    token_with(pair, kid, &claims())
}

fn token_with(pair: &Pair, kid: &str, claims: &Value) -> String {
    let key = EncodingKey::from_ed_pem(pair.private.as_bytes()).expect("reads");
    let header = json!({"alg": "EdDSA", "kid": kid}).to_string();
    sign(&header, &claims.to_string(), &key, Algorithm::EdDSA)
}

const UNKNOWN: Result<Principal, Denied> = Err(Denied::Credential(Reason::UnknownKid));

fn is_unavailable(checked: &Result<Principal, Denied>) -> bool {
    matches!(checked, Err(Denied::KeysUnavailable { retry_after: 1..=60 }))
}

#[tokio::test(start_paused = true)]
async fn a_token_with_a_rotated_key_works_within_a_second() {
    let (one, two) = (Pair::ed(), Pair::ed());
    let service = Service::start(&[(&one, "one")]).await;
    let alice = Ok(Principal::of_token("alice", Role::Reader));
    assert_eq!(service.check(&token(&one, "one")).await, alice);
    let session = service.check(&token(&one, "one")).await.expect("good");
    service.says(Ok(set(&[(&one, "one"), (&two, "two")])));
    let started = Instant::now();
    assert_eq!(service.check(&token(&two, "two")).await, alice);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(service.fetches(), 2);
    assert!(!session.is_revoked(), "the first key is still there");
    service.says(Ok(set(&[(&two, "two")])));
    service.pass(REFRESH_EVERY).await;
    assert!(session.is_revoked(), "a key that the service removed ends what it opened");
    assert_eq!(service.check(&token(&two, "two")).await, alice);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_unknown_keys_causes_one_fetch_a_minute() {
    let (one, evil) = (Pair::ed(), Pair::ed());
    let service = Service::start(&[(&one, "one")]).await;
    for minute in 1..=3 {
        for number in 0..1_000 {
            let checked = service.check(&token(&evil, &format!("{minute}-{number}"))).await;
            assert!(checked == UNKNOWN || is_unavailable(&checked), "{checked:?}");
        }
        assert_eq!(service.fetches(), 1 + minute);
        assert!(service.check(&token(&one, "one")).await.is_ok(), "known keys are not affected");
        advance(ASK_EVERY).await;
    }
}

#[tokio::test(start_paused = true)]
async fn during_a_flood_a_rotated_key_is_told_to_come_back_and_then_works() {
    let (one, two, evil) = (Pair::ed(), Pair::ed(), Pair::ed());
    let service = Service::start(&[(&one, "one")]).await;
    assert_eq!(service.check(&token(&evil, "evil")).await, UNKNOWN);
    assert_eq!(service.check(&token(&evil, "evil")).await, UNKNOWN, "it was not in the set a moment ago");
    service.says(Ok(set(&[(&one, "one"), (&two, "two")])));
    let checked = service.check(&token(&two, "two")).await;
    let Err(Denied::KeysUnavailable { retry_after }) = checked else { panic!("{checked:?}") };
    service.pass(Duration::from_secs(u64::from(retry_after) + 1)).await;
    assert!(service.check(&token(&two, "two")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn tokens_that_cannot_be_of_the_service_cause_no_fetch() {
    let (one, evil) = (Pair::ed(), Pair::ed());
    let service = Service::start(&[(&one, "one")]).await;
    for changes in [json!({"iss": "https://other.example/"}), json!({"exp": 1}), json!({"exp": null})] {
        assert_eq!(service.check(&token_with(&evil, "evil", &with(changes))).await, UNKNOWN);
    }
    assert_eq!(service.fetches(), 1);
}

#[tokio::test(start_paused = true)]
async fn keys_survive_an_outage_of_a_day_and_no_longer() {
    let one = Pair::ed();
    let service = Service::start(&[(&one, "one")]).await;
    let session = service.check(&token(&one, "one")).await.expect("good");
    for outage in [Err("no connection"), Ok("<html>sign in</html>".to_owned()), Ok(set(&[]))] {
        service.says(outage);
        service.pass(Duration::from_hours(7)).await;
        assert!(service.check(&token(&one, "one")).await.is_ok());
    }
    service.pass(Duration::from_mins(2 * 60 + 45)).await;
    assert!(service.check(&token(&one, "one")).await.is_ok(), "not a day yet");
    service.pass(Duration::from_mins(20)).await;
    assert!(is_unavailable(&service.check(&token(&one, "one")).await));
    assert!(session.is_revoked());
    let a_day_of_minutes = 24 * 60 + 60;
    assert!(service.fetches() < a_day_of_minutes, "{}", service.fetches());
    service.says(Ok(set(&[(&one, "one")])));
    service.pass(ASK_EVERY + Duration::from_secs(1)).await;
    assert!(service.check(&token(&one, "one")).await.is_ok(), "and back without a restart");
}

#[tokio::test(start_paused = true)]
async fn waiting_tokens_are_bounded_in_number_and_time() {
    let (one, two) = (Pair::ed(), Pair::ed());
    let service = Service::start(&[(&one, "one")]).await;
    service.tasks.begin();
    assert!(service.tasks.wait(Duration::from_secs(1)).await, "nobody fetches any more");
    let text = token(&two, "two");
    let started = Instant::now();
    let all = futures_util::future::join_all((0..2 * MOST_WAITING).map(|_| service.check(&text)));
    assert!(all.await.iter().all(is_unavailable));
    assert_eq!(started.elapsed().as_secs(), WAIT.as_secs());
    let key_set = KeySet::new(
        KeySetLocation::Url(Url::parse("https://h/").expect("a URL")),
        "i".into(),
        net::http::Network::default(),
    );
    let _places = key_set.places.try_acquire_many(256).expect("free");
    assert!(matches!(key_set.fetched_for(Some("x")).await, Err(Denied::KeysUnavailable { .. })));
    assert_eq!(key_set.state().request, Request::None, "a token without a place asks for nothing");
}

#[tokio::test(start_paused = true)]
async fn a_reload_keeps_the_keys_of_the_same_service_only() {
    let one = Pair::ed();
    let service = Service::start(&[(&one, "one")]).await;
    let session = service.check(&token(&one, "one")).await.expect("good");
    service.says(Err("no connection"));
    service.door.renew(Keys::read(&published("keys")).expect("nothing to read"));
    assert!(service.check(&token(&one, "one")).await.is_ok() && !session.is_revoked());
    assert_eq!(service.fetches(), 1, "they need not be fetched again");
    service.door.renew(Keys::read(&published("other")).expect("nothing to read"));
    assert!(session.is_revoked());
    assert!(is_unavailable(&service.check(&token(&one, "one")).await));
    assert!(service.fetches() > 1);
}

mod key_set_fetch {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    #[test]
    fn metadata_is_searched_at_every_place_of_the_specifications() {
        let found = |issuer| places(&url(issuer)).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            found("https://h/realms/a/"),
            [
                "https://h/realms/a/.well-known/openid-configuration",
                "https://h/.well-known/oauth-authorization-server/realms/a",
                "https://h/.well-known/openid-configuration/realms/a",
            ]
        );
        assert_eq!(
            found("https://h/"),
            [
                "https://h/.well-known/openid-configuration",
                "https://h/.well-known/oauth-authorization-server"
            ]
        );
    }

    #[test]
    fn metadata_of_another_issuer_names_no_keys() {
        let read = |json: &str| key_set_of(json.as_bytes(), "https://h/a").map(|url| url.to_string());
        let good = r#"{"issuer": "https://h/a", "jwks_uri": "https://h/keys"}"#;
        assert_eq!(read(good).as_deref(), Ok("https://h/keys"));
        for bad in [
            r#"{"issuer": "https://h/a/", "jwks_uri": "https://h/keys"}"#,
            r#"{"jwks_uri": "https://h/keys"}"#,
            r#"{"issuer": "https://h/a"}"#,
            r#"{"issuer": "https://h/a", "jwks_uri": "/keys"}"#,
            "[]",
            "<html>",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_set_on_another_host_must_be_public_and_use_https() {
        let dial_policy = |at, issuer| dial_policy_of(&url(at), &url(issuer));
        assert_eq!(dial_policy("https://h:8443/keys", "https://h/"), Some(DialPolicy::Anywhere));
        assert_eq!(
            dial_policy("http://127.0.0.1:81/keys", "http://127.0.0.1:80/"),
            Some(DialPolicy::Anywhere)
        );
        assert_eq!(dial_policy("https://keys.example/", "https://h/"), Some(DialPolicy::Public));
        assert_eq!(dial_policy("http://h/keys", "https://h/"), None);
        assert_eq!(dial_policy("http://169.254.169.254/keys", "http://h/"), None);
        assert_eq!(dial_policy("https://a:b@h/keys", "https://h/"), None);
    }
}
