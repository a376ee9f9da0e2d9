//! Benchmarks of the checks in every call, and of sealing the state that clients get.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use auth::{
    ApiKey, Authenticator, Config, Jwt, KeyHash, KeySource, PublicKey, RequiredClaims, Role, RoleWords,
};
use auth::{Principal, Sealer, TokenIssuer};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use criterion::Criterion;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use net::http::Network;
use serde_json::json;
use upstream::Error;
use upstream::breaker::Breaker;
use upstream::config;

pub fn breaker(c: &mut Criterion) {
    let breaker =
        Breaker::new(config::BreakerConfig { threshold: 5, successes: 1, timeout: Duration::from_secs(30) });
    let good: Result<(), Error> = Ok(());
    c.bench_function("breaker, admit and record", |b| {
        b.iter(|| breaker.judge(breaker.admit(None).expect("it is closed"), black_box(&good)));
    });
}

pub fn sealer(c: &mut Criterion) {
    let (sealer, principal) = (Sealer::random(), Principal::anonymous());
    let state = [b'x'; 200];
    let token = sealer.seal("bench", &principal, &state);
    let mut group = c.benchmark_group("a state of 200 bytes");
    group.bench_function("seal", |b| b.iter(|| sealer.seal("bench", &principal, black_box(&state))));
    group.bench_function("open", |b| b.iter(|| sealer.open("bench", &principal, black_box(&token))));
    group.finish();
}

/// The authorization server of a gateway, with one key and one grant.
struct Issuer {
    key: DecodingKey,
}

impl TokenIssuer for Issuer {
    fn issuer(&self) -> &'static str {
        "https://gw.example"
    }

    fn key(&self, kid: &str) -> Option<DecodingKey> {
        (kid == "own").then(|| self.key.clone())
    }

    fn may_grant(&self, _: &str, _: Role) -> bool {
        true
    }

    fn has_grant<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<bool>> {
        std::future::ready(Some(true)).boxed()
    }
}

/// The check of a request with a known token: of a foreign issuer, alone and beside the own authorization server, and of
/// the own one.
pub fn tokens(c: &mut Criterion) {
    let pair = Ed25519KeyPair::generate().expect("a key");
    let signing = EncodingKey::from_ed_der(pair.to_pkcs8v1().expect("a key").as_ref());
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    let exp =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs() + 86_400;
    let token = |kid: Option<&str>, kind: &str, claims: serde_json::Value| {
        let header = Header {
            kid: kid.map(str::to_owned),
            typ: Some(kind.to_owned()),
            ..Header::new(Algorithm::EdDSA)
        };
        let token = jsonwebtoken::encode(&header, &claims, &signing).expect("signed");
        HeaderMap::from_iter([(
            http::header::AUTHORIZATION,
            format!("Bearer {token}").parse().expect("a header"),
        )])
    };
    let foreign = token(
        None,
        "JWT",
        json!({"iss": "https://login.example", "aud": "gw", "sub": "ann", "exp": exp, "scope": "caller"}),
    );
    let own = token(
        Some("own"),
        "at+jwt",
        json!({"iss": "https://gw.example", "aud": "https://gw.example/mcp", "sub": "key:ann", "exp": exp, "iat": exp,
            "client_id": "client", "jti": "grant.0", "scope": "mcp:read mcp:call", "view": "*"}),
    );
    let (alone, beside) = (authenticator(&x), authenticator(&x));
    let key = DecodingKey::from_ed_components(&x).expect("a key");
    beside.accept_tokens_of(Arc::new(Issuer { key }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let looked_up = runtime.block_on(beside.check(&own));
    assert_eq!(looked_up.map(|principal| principal.role()), Ok(Role::Caller));
    let mut group = c.benchmark_group("a request with a known token");
    for (name, authenticator, headers) in [
        ("of a foreign issuer", &alone, &foreign),
        ("of a foreign issuer, beside the own server", &beside, &foreign),
        ("of the own server", &beside, &own),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| authenticator.authenticate(black_box(headers)).expect("accepted"));
        });
    }
    group.finish();
}

/// The check of a gateway that accepts a key, and tokens that the Ed25519 key `x` verifies.
fn authenticator(x: &str) -> Authenticator {
    let hash = KeyHash::parse(&format!("sha256:{}", "5a".repeat(32))).expect("a hash").expect("a good one");
    let key = ApiKey { id: "ann".to_owned(), hash, role: Role::Caller, expires: None, view: None };
    // The public key in the form of SubjectPublicKeyInfo (RFC 8410).
    let prefix = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    let public = URL_SAFE_NO_PAD.decode(x).expect("Base64");
    let der = base64::engine::general_purpose::STANDARD.encode([&prefix[..], &public].concat());
    let jwt = Jwt {
        issuer: Some("https://login.example".to_owned()),
        audience: Some("gw".to_owned()),
        required: RequiredClaims::default(),
        algorithms: vec![Algorithm::EdDSA],
        key: KeySource::PublicKey(PublicKey::Text(format!(
            "-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n"
        ))),
        leeway: Duration::ZERO,
        roles: RoleWords { claim: Some("scope".to_owned()), ..RoleWords::default() },
        authorization_servers: Vec::new(),
        parties: Vec::new(),
        network: Network::default(),
    };
    Authenticator::new(&Config::Any(vec![key].into(), Box::new(jwt))).expect("no files")
}
