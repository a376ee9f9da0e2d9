//! A key store that fails authenticates no client: the file of a key set at the start and at a reload, and checks
//! of slow hashes under load.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::join_all;
use serde_json::json;

use crate::credentials::{Credential, bearer, by_hand, claims, every_route, signed};
use crate::support::line::Line;
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Gateway, Registry, eventually};

const KEY: &str = "a key of another system, as long as they are";
/// Checks under way; 33 may be.
const FLOOD: usize = 48;

/// Twelve that are no good for any mode of authentication.
fn bad_credentials() -> Vec<Credential> {
    let good = claims(|_| ());
    let token = signed(&good, "a secret that this gateway does not have, of 32 bytes");
    let unsigned = by_hand(&json!({"alg": "none", "typ": "JWT"}), &good, "");
    let named = by_hand(&json!({"alg": "ES256", "kid": "k1", "typ": "JWT"}), &good, "AAAA");
    let unnamed = by_hand(&json!({"alg": "ES256", "typ": "JWT"}), &good, "AAAA");
    vec![
        Credential::None,
        bearer(""),
        bearer("null"),
        bearer(&token),
        bearer(&unsigned),
        bearer(&named),
        bearer(&unnamed),
        bearer("swy_nobody_0123456789abcdef0123456789abcdef0123456789abcdef"),
        bearer("another key of another system, which nobody has"),
        Credential::Header("x-api-key", "a third one".to_owned()),
        Credential::Two(token, KEY.to_owned()),
        Credential::Query(format!("access_token={KEY}")),
    ]
}

fn server() -> Server {
    Scripted::modern().tool(Tool::named("a")).start()
}

const KEY_SET: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"k1","use":"sig","alg":"ES256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;

fn with_key_set(server: &Server) -> Registry {
    let jwt = "  auth_mode: jwt\n  jwt: {issuer: https://issuer.example, audience: switchyard, algorithm: ES256, jwks_file: keys.json}";
    Registry::new().http("one", &server.url()).setting(&format!("server:\n{jwt}"))
}

/// The ways in which a file fails.
fn break_file(path: &Path, how: &str) {
    let _ = std::fs::remove_file(path); // gone already
    match how {
        "missing" => {}
        "a folder" => std::fs::create_dir(path).expect("made"),
        "empty" => std::fs::write(path, "").expect("written"),
        "cut" => std::fs::write(path, &KEY_SET[..KEY_SET.len() / 2]).expect("written"),
        "without a key" => std::fs::write(path, r#"{"keys":[]}"#).expect("written"),
        _ => unreachable!("{how}"),
    }
}

const FAULTS: [&str; 5] = ["missing", "empty", "cut", "without a key", "a folder"];

/// RULES S1: a key set that cannot be read stops the start and changes nothing at a reload. 12 bad credentials on
/// every route of both protocol eras stay out.
#[tokio::test]
async fn a_broken_key_file_lets_nobody_in() {
    let server = server();
    for fault in FAULTS {
        let gateway = Gateway::of(&with_key_set(&server));
        break_file(&gateway.folder().join("keys.json"), fault);
        let ended = gateway.output(&["serve", "--config", "mcp_servers.yaml", "--listen", "127.0.0.1:0"]);
        assert_eq!(ended.status.code(), Some(2), "{fault}: {}", String::from_utf8_lossy(&ended.stderr));
    }
    let gateway = Gateway::of(&with_key_set(&server));
    let keys = gateway.folder().join("keys.json");
    std::fs::write(&keys, KEY_SET).expect("written");
    let gateway = gateway.start().await;
    let (mut tried, mut reloads) = (0, 0);
    for fault in FAULTS {
        break_file(&keys, fault);
        gateway.hang_up();
        reloads += 1;
        let refused = |line: &&serde_json::Value| line["outcome"] == "invalid_configuration";
        eventually("the reload was refused", async || {
            (gateway.log().iter().filter(refused).count() == reloads).then_some(())
        })
        .await;
        for credential in bad_credentials() {
            for (what, answer) in every_route(&gateway, &credential).await {
                assert!(matches!(answer.status, 401 | 403), "{fault} {credential:?} {what}: {answer:?}");
                tried += 1;
            }
        }
    }
    assert_eq!(server.runs("a"), 0);
    eprintln!(
        "broken key files: {} faults, {tried} requests, 0 accepted, 0 reached the server",
        FAULTS.len()
    );
}

/// RULES S1: while the check of slow hashes has more to do than it can, 12 bad credentials on every route of both
/// protocol eras stay out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::disallowed_methods)] // they end with the test
async fn a_busy_key_check_lets_nobody_in() {
    let server = server();
    let hash = bcrypt::hash(KEY, 6).expect("hashed").replace('$', "$$");
    let keys = format!(
        "server:\n  auth_mode: api_key\n  api_keys: [{{id: old, hash: \"{hash}\", role: superuser}}]"
    );
    let gateway = Gateway::of(&Registry::new().http("one", &server.url()).setting(&keys)).start().await;
    let (stop, busy) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let flood = (0..FLOOD).map(|number| {
        let (stop, busy, mut line) = (Arc::clone(&stop), Arc::clone(&busy), Line::to(&gateway.address));
        tokio::spawn(async move {
            for round in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let wrong = format!("Bearer wrong-{number}-{round}");
                let told = line.send("GET", "/api/v1/mcp/servers", &[("authorization", &wrong)], b"").await;
                assert!(matches!(told.status, 401 | 503), "{told:?}");
                busy.fetch_add(usize::from(told.status == 503), Ordering::Relaxed);
            }
        })
    });
    let flood: Vec<_> = flood.collect();
    eventually("it is busy", async || (busy.load(Ordering::Relaxed) > 0).then_some(())).await;
    let bad = bad_credentials();
    let answers = join_all(bad.iter().map(|credential| every_route(&gateway, credential))).await;
    stop.store(true, Ordering::Relaxed);
    for ended in join_all(flood).await {
        ended.expect("no answer was another one");
    }
    let answers: Vec<_> = answers.into_iter().flatten().collect();
    for (what, answer) in &answers {
        assert!(matches!(answer.status, 401 | 403 | 503), "{what}: {answer:?}");
    }
    let unsure = answers.iter().filter(|(_, answer)| answer.status == 503).count();
    assert_eq!(server.runs("a"), 0);
    gateway.offers_to("a", &format!("Bearer {KEY}")).await;
    eprintln!(
        "busy key check: {} requests, {unsure} answered 503, 0 accepted, 0 reached the server",
        answers.len()
    );
    assert!(unsure > 0, "it was never busy");
}
