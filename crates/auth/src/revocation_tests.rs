//! Tests of revocation: which principals stay authenticated when the keys are replaced, and which
//! are notified.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue};
use jsonwebtoken::Algorithm;
use secrecy::ExposeSecret;

use crate::jwt::tests::{SECRET, grant, hmac};
use crate::{
    ApiKey, Authenticator, Config, Jwt, KeyHash, KeySource, Keys, Principal, Role, Signer, generate,
};

/// Headers with a credential.
fn sent(credential: &str) -> HeaderMap {
    let value = HeaderValue::from_str(&format!("Bearer {credential}")).expect("a value");
    HeaderMap::from_iter([(http::header::AUTHORIZATION, value)])
}

fn key(id: &str) -> (String, ApiKey) {
    let (text, hash) = generate(id);
    let entry = ApiKey {
        id: id.into(),
        hash: KeyHash::Sha256(hash),
        role: Role::Superuser,
        expires: None,
        view: None,
    };
    (text.expose_secret().to_owned(), entry)
}

fn token(jwt: &Jwt) -> String {
    let token = Signer::new(jwt, None, None).expect("a secret").sign(&grant(Role::Reader), SystemTime::now());
    token.expect("signs").expose_secret().to_owned()
}

fn tokens(jwt: Jwt) -> Config {
    Config::Jwt(Box::new(jwt))
}

/// Whether a principal with `credential` under `before` stays authenticated under `next`.
fn continues(credential: &str, before: &Config, next: &Config) -> bool {
    let door = Authenticator::new(before).expect("no files");
    let principal = door.authenticate(&sent(credential)).expect("it is good");
    let mut renewals = door.renewals();
    door.renew(Keys::read(next).expect("no files"));
    assert!(renewals.has_changed().expect("it is there"), "whoever waits for it is told");
    renewals.mark_unchanged();
    if let Ok(again) = door.authenticate(&sent(credential)) {
        assert!(!again.is_revoked(), "who is let in now is let in under the new keys");
    }
    // A further renewal without changes.
    door.renew(Keys::read(next).expect("no files"));
    !principal.is_revoked()
}

#[test]
fn a_key_that_is_the_same_goes_on_and_one_that_is_not_is_over() {
    let ((text, ours), (_, other)) = (key("ours"), key("other"));
    let keys =
        |keys: &[&ApiKey]| Config::ApiKey(keys.iter().map(|key| (*key).clone()).collect::<Vec<_>>().into());
    let before = keys(&[&ours, &other]);
    let changed = |change: &dyn Fn(&mut ApiKey)| {
        let mut ours = ours.clone();
        change(&mut ours);
        keys(&[&ours])
    };
    let day = Duration::from_hours(24);
    for (next, expected, why) in [
        (keys(&[&other, &ours]), true, "the order says nothing"),
        (keys(&[&ours]), true, "another one is gone"),
        (Config::Any(vec![ours.clone()].into(), Box::new(hmac())), true, "tokens are taken too"),
        (changed(&|key| key.expires = Some(SystemTime::now() + day)), true, "it will end"),
        (changed(&|key| key.expires = Some(SystemTime::now() - day)), false, "it has ended"),
        (changed(&|key| key.role = Role::Reader), false, "it may do less"),
        (changed(&|key| key.hash = other.hash.clone()), false, "another secret"),
        (keys(&[&other]), false, "it is gone"),
        (keys(&[]), false, "all are gone"),
        (tokens(hmac()), false, "keys are none any more"),
        (Config::None, false, "nobody is asked any more, and it is somebody else then"),
    ] {
        assert_eq!(continues(&text, &before, &next), expected, "{why}");
    }
}

#[test]
fn holder_is_another_one_only_with_another_key() {
    let ((_, own), (_, other)) = (key("own"), key("other"));
    let config = |keys: Vec<ApiKey>| Config::ApiKey(keys.into());
    for (next, expected) in [
        (vec![own.clone()], &[][..]),
        (vec![ApiKey { role: Role::Reader, ..own.clone() }], &[]),
        (vec![ApiKey { view: Some("help".into()), ..own.clone() }], &[]),
        (vec![ApiKey { hash: other.hash.clone(), ..own.clone() }], &["key:own"]),
        (vec![own.clone(), other.clone()], &["key:other"]),
        (Vec::new(), &["key:own"]),
    ] {
        let (door, told) =
            (Authenticator::new(&config(vec![own.clone()])).expect("no files"), Arc::default());
        let hook: Arc<Mutex<Vec<String>>> = Arc::clone(&told);
        door.on_other_holder(move |principal| hook.lock().expect("no panic").push(principal.to_owned()));
        door.renew(Keys::read(&config(next)).expect("no files"));
        assert_eq!(*told.lock().expect("no panic"), expected);
    }
}

#[tokio::test]
async fn so_it_is_with_a_key_of_another_system() {
    let hash =
        |cost| KeyHash::parse(&bcrypt::hash("theirs", cost).expect("hashed")).expect("one").expect("taken");
    let entry = |hash: &KeyHash| ApiKey {
        id: "old".into(),
        hash: hash.clone(),
        role: Role::Reader,
        expires: None,
        view: None,
    };
    let (one, again) = (hash(4), hash(4));
    for (next, expected) in [(&one, true), (&again, false)] {
        let door = Authenticator::new(&Config::ApiKey(vec![entry(&one)].into())).expect("no files");
        let principal = door.check(&sent("theirs")).await.expect("it is good");
        door.renew(Keys::read(&Config::ApiKey(vec![entry(next)].into())).expect("no files"));
        assert_eq!(!principal.is_revoked(), expected, "the same text under another hash is another key");
        assert!(!door.check(&sent("theirs")).await.expect("it is good").is_revoked());
    }
}

#[tokio::test]
async fn first_of_two_entries_with_one_key_counts_after_each_reload() {
    let entry = |id: &str, role| {
        let hash = KeyHash::parse(&bcrypt::hash("theirs", 4).expect("hashed")).expect("one").expect("taken");
        ApiKey { id: id.into(), hash, role, expires: None, view: None }
    };
    let config = Config::ApiKey(vec![entry("b", Role::Reader), entry("a", Role::Superuser)].into());
    let door = Authenticator::new(&config).expect("no files");
    for _ in 0..20 {
        assert_eq!(door.check(&sent("theirs")).await.expect("it is good").role(), Role::Reader);
        door.renew(Keys::read(&config).expect("no files"));
    }
}

#[test]
fn the_order_of_algorithms_says_nothing() {
    let with = |algorithms: &[Algorithm]| tokens(Jwt { algorithms: algorithms.to_vec(), ..hmac() });
    let (one, other) = (Algorithm::HS256, Algorithm::HS512);
    let token = token(&hmac());
    assert!(continues(&token, &with(&[one, other]), &with(&[other, one])));
    assert!(!continues(&token, &with(&[one, other]), &with(&[one])), "another one is taken no more");
}

#[test]
fn a_token_goes_on_while_it_would_be_taken_as_the_same_principal() {
    let with = |change: &dyn Fn(&mut Jwt)| {
        let mut jwt = hmac();
        change(&mut jwt);
        tokens(jwt)
    };
    let other = format!("{SECRET}-and-another");
    for (next, expected, why) in [
        (tokens(hmac()), true, "nothing was changed"),
        (Config::Any(Vec::new().into(), Box::new(hmac())), true, "keys are taken too"),
        (with(&|jwt| jwt.leeway = Duration::from_secs(1)), true, "clocks are nobody's right"),
        (with(&|jwt| jwt.key = KeySource::Secret(other.clone().into())), false, "another secret"),
        (with(&|jwt| jwt.issuer = Some("https://other.example/".into())), false, "another issuer"),
        (with(&|jwt| jwt.audience = Some("other".into())), false, "another audience"),
        (with(&|jwt| jwt.roles.claim = Some("may".into())), false, "roles are read elsewhere"),
        (Config::ApiKey(Vec::new().into()), false, "tokens are none any more"),
        (Config::None, false, "nobody is asked any more"),
    ] {
        assert_eq!(continues(&token(&hmac()), &tokens(hmac()), &next), expected, "{why}");
    }
}

#[test]
fn everybody_goes_on_until_somebody_is_asked_for() {
    let (_, ours) = key("ours");
    for (next, expected) in [(Config::None, true), (Config::ApiKey(vec![ours].into()), false)] {
        assert_eq!(continues("whatever", &Config::None, &next), expected);
    }
    assert!(!Principal::anonymous().is_revoked(), "that of a pipe is nobody's to take back");
}
