//! Reading `auth_mode`, `api_keys` and `jwt`.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use jsonwebtoken::Algorithm;

use super::*;
use crate::api_key::parse_time;
use crate::token_config::{KeySetLocation, KeySource};
use settings::{Node, Problems};

const HASH: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000001";
const BCRYPT: &str = "$2b$04$abcdefghijklmnopqrstuuGqJ4YqcLIdpOaYxIRWHmR4A5W5xP3oK";
const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn read(json: serde_json::Value) -> (Config, Vec<String>) {
    let (node, problems) = (Node::from(json), Problems::default());
    let setting = Setting::root(&node, &problems).in_folder(Path::new("/etc/switchyard"));
    let mut fields = setting.fields().expect("a mapping");
    let config = Config::from_fields(&mut fields).expect("nothing is required");
    fields.finish();
    (config, problems.sorted().iter().map(ToString::to_string).collect())
}

#[test]
fn nothing_written_is_no_authentication() {
    let (config, problems) = read(json!({}));
    assert!(config.is_open());
    assert_eq!(problems, [""; 0]);
}

#[test]
fn keys_are_read() {
    let (config, problems) = read(json!({"auth_mode": "api_key", "api_keys": [
        {"id": "ci", "hash": HASH, "role": "reader"},
        {"id": "ops", "hash": HASH, "role": "superuser", "expires": "2027-06-30T12:00:00Z"},
    ]}));
    assert_eq!(problems, [""; 0]);
    let Config::ApiKey(ApiKeyList { listed: keys, .. }) = config else { panic!("keys") };
    assert_eq!((keys[0].id.as_str(), keys[0].role, keys[0].expires), ("ci", Role::Reader, None));
    let end = keys[1].expires.expect("given").duration_since(SystemTime::UNIX_EPOCH).expect("later");
    assert_eq!(end.as_secs(), 1_814_356_800);
}

#[test]
fn a_key_may_have_the_hash_of_another_system_and_several_roles() {
    let argon = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0c29tZXM";
    let (config, problems) = read(json!({"auth_mode": "api_key", "api_keys": [
        {"id": "old", "hash": BCRYPT, "roles": ["superuser", "reader"]},
        {"id": "older", "hash": argon, "roles": ["reader"]},
        {"id": "both", "hash": argon, "roles": ["caller", "reader"]},
    ]}));
    assert_eq!(problems, [""; 0]);
    let Config::ApiKey(ApiKeyList { listed: keys, .. }) = config else { panic!("keys") };
    assert_eq!([0, 1, 2].map(|at: usize| keys[at].role), [Role::Superuser, Role::Reader, Role::Caller]);
    assert!(keys.iter().all(|key| key.hash.slow().is_some()));
}

#[test]
fn tokens_are_read() {
    let (config, problems) = read(json!({"auth_mode": "jwt", "jwt": {
        "issuer": "https://login.example.org/", "audience": "switchyard", "algorithms": ["RS256", "PS256"],
        "jwks_file": "keys.json", "leeway": 5, "role_claim": "groups"}}));
    assert_eq!(problems, [""; 0]);
    let Config::Jwt(jwt) = &config else { panic!("tokens") };
    assert_eq!(
        (jwt.algorithms.clone(), jwt.leeway),
        (vec![Algorithm::RS256, Algorithm::PS256], Duration::from_secs(5))
    );
    assert!(matches!(&jwt.key, KeySource::JwksFile(path) if path == Path::new("/etc/switchyard/keys.json")));
}

#[test]
fn keys_may_come_from_a_url_or_from_the_issuer() {
    let jwt = |changes: serde_json::Value| {
        let mut jwt =
            json!({"issuer": "https://login.example.org/realm", "audience": "a", "algorithm": "RS256"});
        jwt.as_object_mut().expect("an object").extend(changes.as_object().expect("an object").clone());
        read(json!({"auth_mode": "jwt", "jwt": jwt}))
    };
    let (config, problems) = jwt(json!({"azp": ["desk", "cli"]}));
    assert_eq!(problems, [""; 0]);
    let Config::Jwt(found) = config else { panic!("tokens") };
    assert_eq!(found.parties, ["desk", "cli"]);
    let KeySource::Published(KeySetLocation::Issuer(issuer)) = found.key else { panic!("{:?}", found.key) };
    assert_eq!(issuer.as_str(), "https://login.example.org/realm");
    let (config, problems) = jwt(json!({"jwks_url": "http://10.0.0.5:81/keys?v=1"}));
    assert_eq!(problems, [""; 0]);
    let Config::Jwt(found) = config else { panic!("tokens") };
    let KeySource::Published(KeySetLocation::Url(url)) = found.key else { panic!("{:?}", found.key) };
    assert_eq!(url.as_str(), "http://10.0.0.5:81/keys?v=1");
    let neither = "jwt: expected one of `secret`, `public_key`, `jwks_file` and `jwks_url`";
    for (changes, expected) in [
        (json!({"algorithm": "HS256"}), neither),
        (json!({"issuer": "login"}), neither),
        (json!({"issuer": "https://login.example.org/?tenant=1"}), neither),
        (json!({"jwks_url": "https://x/", "jwks_file": "f"}), neither),
        (
            json!({"algorithm": "HS256", "jwks_url": "https://x/"}),
            "jwt.jwks_url: the algorithm needs a `secret`",
        ),
        (json!({"jwks_url": "https://me:s3cret@x/"}), "jwt.jwks_url: "),
        (json!({"jwks_url": "ftp://x/"}), "jwt.jwks_url: "),
        (json!({"azp": []}), "jwt.azp: no client is listed"),
    ] {
        let found = jwt(changes).1;
        assert!(found.iter().any(|problem| problem.starts_with(expected)), "{found:?} lacks {expected}");
    }
}

#[test]
fn any_wants_both_and_takes_both() {
    let jwt = json!({"issuer": "i", "audience": "a", "algorithm": "HS256", "secret": SECRET});
    let keys = json!([{"id": "ci", "hash": HASH, "role": "reader"}]);
    let (config, problems) = read(json!({"auth_mode": "any", "api_keys": keys, "jwt": jwt}));
    assert_eq!(problems, [""; 0]);
    assert!(
        !config.is_open()
            && config.tokens().is_some()
            && matches!(config, Config::Any(keys, _) if keys.listed.len() == 1)
    );
    for (lacks, name) in [
        (json!({"auth_mode": "any", "jwt": jwt}), "api_keys"),
        (json!({"auth_mode": "any", "api_keys": keys}), "jwt"),
    ] {
        let expected = format!("`{name}` is missing, and `auth_mode` asks for it");
        assert!(read(lacks).1.iter().any(|problem| problem.starts_with(&expected)), "{expected}");
    }
}

#[test]
fn errors_in_keys_are_reported_and_no_key_is_shown() {
    let keys = |keys: serde_json::Value| read(json!({"auth_mode": "api_key", "api_keys": keys})).1;
    for (found, expected) in [
        (
            read(json!({"api_keys": []})).1,
            "api_keys: it has no effect while `auth_mode` is not set (hint: add `auth_mode: api_key` beside it)",
        ),
        (read(json!({"auth_mode": "api_key"})).1, "`api_keys` is missing, and `auth_mode` asks for it"),
        (
            read(json!({"auth_mode": "apikey"})).1,
            "auth_mode: `apikey` is not one of `none`, `api_key`, `jwt`, `any`, `certificate` (hint: did you mean `api_key`?)",
        ),
        (
            keys(json!([])),
            "api_keys: no key is listed, so nobody could come in (hint: `switchyard key new` makes one)",
        ),
        (
            keys(json!([{"id": "ci", "hash": "swy_ci_s3cret", "role": "reader"}])),
            "api_keys[0].hash: expected `sha256:` and 64 hexadecimal digits",
        ),
        (
            keys(json!([{"id": "ci", "hash": "$2b$15$s3cret", "role": "reader"}])),
            "api_keys[0].hash: this hash cannot be taken: it is not a complete bcrypt hash",
        ),
        (
            keys(json!([{"id": "ci", "hash": HASH, "role": "reader", "roles": ["reader"]}])),
            "api_keys[0]: expected one of `role` and `roles`",
        ),
        (keys(json!([{"id": "ci", "hash": HASH, "roles": []}])), "api_keys[0].roles: no role is listed"),
        (
            keys(json!([{"id": "ci", "hash": HASH, "roles": ["reader", "admin"]}])),
            "api_keys[0].roles[1]: `admin` is not one of `reader`, `caller`, `superuser`",
        ),
        (
            keys((0..17).map(|id| json!({"id": id.to_string(), "hash": BCRYPT, "role": "reader"})).collect()),
            "api_keys: more than 16 keys have a hash of bcrypt or Argon2id",
        ),
        (
            keys(json!([{"id": "c_i", "hash": HASH, "role": "reader"}])),
            "api_keys[0].id: `c_i` is not lower-case letters",
        ),
        (keys(json!([{"id": "ci", "hash": HASH}])), "api_keys[0]: `role` is missing"),
        (
            keys(json!([{"id": "ci", "hash": HASH, "role": "admin"}])),
            "api_keys[0].role: `admin` is not one of `reader`, `caller`, `superuser`",
        ),
        (
            keys(json!([{"id": "ci", "hash": HASH, "role": "reader", "key": "x"}])),
            "api_keys[0].key: unknown key",
        ),
        (
            keys(json!([{"id": "ci", "hash": HASH, "role": "reader", "expires": "soon"}])),
            "api_keys[0].expires: `soon` is not a date",
        ),
        (
            keys(
                json!([{"id": "a", "hash": HASH, "role": "reader"}, {"id": "a", "hash": HASH, "role": "reader"}]),
            ),
            "api_keys[1]: its id stands twice",
        ),
    ] {
        assert!(found.iter().any(|problem| problem.starts_with(expected)), "{found:?} lacks {expected}");
        assert!(!format!("{found:?}").contains("s3cret"), "{found:?}");
    }
}

#[test]
fn errors_in_tokens_are_reported_and_no_secret_is_shown() {
    let jwt = |changes: serde_json::Value| {
        let mut jwt = json!({"issuer": "i", "audience": "a", "algorithm": "HS256", "secret": SECRET});
        for (name, value) in changes.as_object().expect("an object") {
            match value {
                serde_json::Value::Null => drop(jwt.as_object_mut().expect("an object").remove(name)),
                value => jwt[name] = value.clone(),
            }
        }
        read(json!({"auth_mode": "jwt", "jwt": jwt})).1
    };
    assert_eq!(jwt(json!({})), [""; 0]);
    let pem = "-----BEGIN PUBLIC KEY-----s3cret";
    for (found, expected) in [
        (read(json!({"auth_mode": "jwt"})).1, "`jwt` is missing, and `auth_mode` asks for it"),
        (jwt(json!({"issuer": null})), "jwt: `issuer` is missing"),
        (jwt(json!({"audience": ""})), "jwt.audience: `` is not a text of 1 to 1024 bytes"),
        (jwt(json!({"secret": "s3cret"})), "jwt.secret: the secret is shorter than 32 bytes"),
        (jwt(json!({"secret": format!("{pem}{SECRET}")})), "jwt.secret: this is a key in PEM, not a secret"),
        (
            jwt(json!({"secret": null})),
            "jwt: expected one of `secret`, `public_key`, `jwks_file` and `jwks_url`",
        ),
        (
            jwt(json!({"public_key": "s3cret"})),
            "jwt: expected one of `secret`, `public_key`, `jwks_file` and `jwks_url`",
        ),
        (jwt(json!({"algorithm": "RS256"})), "jwt.secret: the algorithm needs a public key"),
        (jwt(json!({"secret": null, "jwks_file": "f"})), "jwt.jwks_file: the algorithm needs a `secret`"),
        (jwt(json!({"algorithm": "none"})), "jwt.algorithm: `none` is not one of `HS256`"),
        (jwt(json!({"algorithm": null})), "jwt: expected one of `algorithm` and `algorithms`"),
        (jwt(json!({"algorithm": null, "algorithms": []})), "jwt.algorithms: no algorithm is listed"),
        (
            jwt(json!({"algorithm": null, "algorithms": ["HS256", "RS256"]})),
            "jwt.algorithms: the algorithms are of different families",
        ),
        (
            jwt(
                json!({"algorithm": "EdDSA", "secret": null, "public_key": "-----BEGIN PRIVATE KEY-----s3cret"}),
            ),
            "jwt.public_key: this is a private key",
        ),
        (jwt(json!({"leeway": 61})), "jwt.leeway: 61 is out of range, expected 0 to 60 seconds"),
        (jwt(json!({"jku": "https://x"})), "jwt.jku: unknown key"),
    ] {
        assert!(found.iter().any(|problem| problem.starts_with(expected)), "{found:?} lacks {expected}");
        assert!(!format!("{found:?}").contains("s3cret"), "{found:?}");
    }
}

#[test]
fn times_are_read_in_utc() {
    let seconds = |text| Some(parse_time(text)?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs());
    for (text, expected) in [
        ("1970-01-01", Some(0)),
        ("2000-02-29", Some(951_782_400)),
        ("2024-12-31T23:59:59Z", Some(1_735_689_599)),
        ("2026-11-20T12:00:00Z", Some(1_795_176_000)),
        ("2100-03-01", Some(4_107_542_400)),
        ("2100-02-29", None),
        ("2026-13-01", None),
        ("2026-00-01", None),
        ("2026-1-1", None),
        ("2026-11-20T12:00:00", None),
        ("2026-11-20T24:00:00Z", None),
        ("2026-11-20T12:00:00+01:00", None),
        ("+026-11-20", None),
        ("1969-12-31", None),
        ("2026-11-20-01", None),
    ] {
        assert_eq!(seconds(text), expected, "{text}");
    }
}

#[test]
fn iss_and_aud_are_left_out_by_an_explicit_setting_that_is_named() {
    let jwt = |changes: serde_json::Value| {
        let mut jwt = json!({"algorithm": "HS256", "secret": "0123456789abcdef0123456789abcdef"});
        jwt.as_object_mut().expect("an object").extend(changes.as_object().expect("an object").clone());
        read(json!({"auth_mode": "jwt", "jwt": jwt}))
    };
    for (changes, lifted) in [
        (json!({"require": ["exp"]}), Some("without `iss` and `aud`")),
        (json!({"require": ["exp", "sub"], "issuer": "me"}), Some("without `iss` and `aud`")),
        (json!({"require": ["exp", "aud"], "audience": "a"}), Some("without `iss`")),
        (json!({"require": ["exp", "iss"], "issuer": "me"}), Some("without `aud`")),
        (json!({"require": ["exp", "iss", "aud", "sub"], "issuer": "me", "audience": "a"}), None),
        (json!({"issuer": "me", "audience": "a"}), None),
    ] {
        let (config, problems) = jwt(changes.clone());
        assert_eq!(problems, [""; 0], "{changes}");
        let exception = config.tokens().expect("tokens").exception();
        assert_eq!(exception.is_some(), lifted.is_some(), "{changes}");
        assert!(exception.unwrap_or_default().contains(lifted.unwrap_or_default()), "{changes}");
    }
    for (changes, expected) in [
        (json!({}), "`issuer` is missing"),
        (json!({"require": ["exp", "iss"]}), "`issuer` is missing"),
        (json!({"require": ["exp", "aud"]}), "`audience` is missing"),
        (json!({"require": ["iss", "aud"], "issuer": "me", "audience": "a"}), "`exp` is not listed"),
        (json!({"require": []}), "`exp` is not listed"),
        (json!({"require": ["exp", "jti"]}), "jti"),
    ] {
        let found = jwt(changes.clone()).1;
        assert!(
            found.iter().any(|problem| problem.contains(expected)),
            "{changes}: {found:?} lacks {expected}"
        );
    }
}
