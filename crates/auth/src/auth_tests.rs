//! Finding the one credential in a request, in every mode.

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use super::*;

fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in list {
        headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
    }
    headers
}

fn with_key() -> (Authenticator, SecretString) {
    let (key, hash) = generate("ci");
    let hash = KeyHash::Sha256(hash);
    let entry = ApiKey { id: "ci".into(), hash, role: Role::Reader, expires: None, view: None };
    (Authenticator::new(&Config::ApiKey(vec![entry].into())).expect("no files"), key)
}

#[test]
fn a_key_is_read_from_either_header_and_nowhere_else() {
    let (door, key) = with_key();
    let key = key.expose_secret();
    let reader = Ok(Principal::new("key:ci", Role::Reader));
    for good in [
        headers(&[("authorization", &format!("Bearer {key}"))]),
        headers(&[("authorization", &format!("bearer   {key}"))]),
        headers(&[("authorization", &format!("BEARER {key}"))]),
        headers(&[("x-api-key", key)]),
        headers(&[("X-API-Key", key), ("cookie", "a=b")]),
    ] {
        assert_eq!(door.authenticate(&good), reader, "{good:?}");
    }
    let refused = |reason| Err(Denied::Credential(reason));
    for (bad, answer) in [
        (headers(&[]), Err(Denied::Missing)),
        (headers(&[("cookie", key)]), Err(Denied::Missing)),
        (headers(&[("proxy-authorization", &format!("Bearer {key}"))]), Err(Denied::Missing)),
        (headers(&[("authorization", key)]), refused(Reason::NotBearer)),
        (headers(&[("authorization", "Bearer")]), refused(Reason::NotBearer)),
        (headers(&[("authorization", "Bearer ")]), refused(Reason::NotBearer)),
        (headers(&[("authorization", &format!("Basic {key}"))]), refused(Reason::NotBearer)),
        (headers(&[("authorization", &format!("Bearer\t{key}"))]), refused(Reason::NotBearer)),
        (headers(&[("authorization", "Bearer schlüssel")]), refused(Reason::NotBearer)),
        (headers(&[("x-api-key", "")]), refused(Reason::UnknownKey)),
        (headers(&[("x-api-key", &format!("Bearer {key}"))]), refused(Reason::UnknownKey)),
        (headers(&[("x-api-key", &format!("{key},{key}"))]), refused(Reason::UnknownKey)),
        (headers(&[("x-api-key", key), ("x-api-key", key)]), refused(Reason::Ambiguous)),
        (
            headers(&[("x-api-key", key), ("authorization", &format!("Bearer {key}"))]),
            refused(Reason::Ambiguous),
        ),
        (
            headers(&[("authorization", "Basic x"), ("authorization", &format!("Bearer {key}"))]),
            refused(Reason::Ambiguous),
        ),
    ] {
        assert_eq!(door.authenticate(&bad), answer, "{bad:?}");
    }
}

#[test]
fn without_authentication_everybody_is_the_same_explicit_principal() {
    let door = Authenticator::new(&Config::None).expect("no files");
    for sent in [headers(&[]), headers(&[("authorization", "Bearer x"), ("x-api-key", "y")])] {
        assert_eq!(door.authenticate(&sent), Ok(Principal::anonymous()));
    }
}

#[test]
fn a_token_is_no_key_and_a_key_is_no_token() {
    let (keys, key) = with_key();
    let config = jwt::tests::hmac();
    let token = Signer::new(&config, None, None)
        .expect("a secret")
        .sign(&jwt::tests::grant(Role::Superuser), SystemTime::now());
    let token = token.expect("signs");
    let tokens = Authenticator::new(&Config::Jwt(Box::new(config))).expect("no files");
    let bearer =
        |text: &SecretString| headers(&[("authorization", &format!("Bearer {}", text.expose_secret()))]);
    assert_eq!(tokens.authenticate(&bearer(&token)), Ok(Principal::new("jwt:bob", Role::Superuser)));
    assert!(tokens.authenticate(&bearer(&key)).is_err());
    assert!(keys.authenticate(&bearer(&token)).is_err());
    let elsewhere = headers(&[("x-api-key", token.expose_secret())]);
    assert_eq!(tokens.authenticate(&elsewhere), Err(Denied::Missing));
}

#[tokio::test]
async fn where_both_are_accepted_the_form_says_which_one_it_is() {
    let (key, hash) = generate("ci");
    let key = key.expose_secret();
    let entry = ApiKey {
        id: "ci".into(),
        hash: KeyHash::Sha256(hash),
        role: Role::Reader,
        expires: None,
        view: None,
    };
    // A key of another system that looks like a token.
    let odd = "eyKey.of.others";
    let slow = KeyHash::parse(&bcrypt::hash(odd, 4).expect("hashed")).expect("a hash").expect("taken");
    let other = ApiKey { id: "odd".into(), hash: slow, role: Role::Reader, expires: None, view: None };
    let config = jwt::tests::hmac();
    let signer = Signer::new(&config, None, None).expect("a secret");
    let token = signer.sign(&jwt::tests::grant(Role::Superuser), SystemTime::now()).expect("signs");
    let token = token.expose_secret();
    let door =
        Authenticator::new(&Config::Any(vec![entry, other].into(), Box::new(config))).expect("no files");
    let bearer = |text: &str| headers(&[("authorization", &format!("Bearer {text}"))]);
    assert_eq!(door.authenticate(&bearer(token)), Ok(Principal::new("jwt:bob", Role::Superuser)));
    assert_eq!(door.authenticate(&bearer(key)), Ok(Principal::new("key:ci", Role::Reader)));
    assert_eq!(
        door.authenticate(&headers(&[("x-api-key", key)])),
        Ok(Principal::new("key:ci", Role::Reader))
    );
    // Its own header says that it is a key, and there it is held against keys only.
    let odd_key = headers(&[("x-api-key", odd)]);
    assert_eq!(door.authenticate(&odd_key), Err(Denied::Unchecked));
    assert_eq!(door.check(&odd_key).await, Ok(Principal::new("key:odd", Role::Reader)));
    assert_eq!(door.authenticate(&bearer(odd)), Err(Denied::Credential(Reason::Malformed)));
    assert_eq!(door.check(&bearer(odd)).await, Err(Denied::Credential(Reason::Malformed)));
    let as_key = headers(&[("x-api-key", token)]);
    assert!(door.check(&as_key).await.is_err(), "a token is no key");
    let both = headers(&[("authorization", &format!("Bearer {token}")), ("x-api-key", key)]);
    assert_eq!(door.authenticate(&both), Err(Denied::Credential(Reason::Ambiguous)));
    assert_eq!(door.authenticate(&headers(&[])), Err(Denied::Missing));
}

#[test]
fn nothing_secret_is_in_debug_text() {
    let (keys, key) = with_key();
    let tokens = Authenticator::new(&Config::Jwt(Box::new(jwt::tests::hmac()))).expect("no files");
    let text = format!("{keys:?} {tokens:?} {:?}", jwt::tests::hmac());
    assert!(!text.contains(key.expose_secret()) && !text.contains(jwt::tests::SECRET), "{text}");
}
