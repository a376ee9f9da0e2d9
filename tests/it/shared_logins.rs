//! Logins that two gateways with one `state_dir` share: a refresh token that works once is sent once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::oauth::opened;
use crate::support::authorization_server::AuthorizationServer;
use crate::support::gateway::Running;
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Gateway, Registry, eventually};

/// A gateway renews a token two seconds before its end, so after one second.
const LIFETIME: Duration = Duration::from_secs(3);
/// Renewals during which both gateways are called.
const RENEWALS: usize = 6;
/// Callers of each gateway.
const CALLERS: usize = 4;

async fn started(name: &str, server: &Server, login_service: &AuthorizationServer, state: &str) -> Running {
    let auth = format!("auth: {{oauth: {{issuer: \"{}\"}}}}", login_service.issuer());
    let registry = Registry::new().http("notes", &server.url()).with(&auth);
    let registry = registry.with(&format!("headers: {{x-gateway: {name}}}"));
    Gateway::of(&registry.setting(&format!("server: {{state_dir: {state:?}}}"))).start().await
}

async fn calls(gateway: &Running, count: &AtomicUsize, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let called = gateway.call("notes", "a", json!({})).await;
        assert_eq!(called.status, 200, "{called:?}");
        assert_eq!(called.json()["result"]["isError"], Value::Null, "{called:?}");
        count.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_with_one_vault_renew_each_token_once_and_no_call_fails() {
    let login_service = AuthorizationServer::start();
    login_service.accounts(&["ada"]);
    let server = Arc::new(Scripted::modern().tool(Tool::named("a")).start());
    login_service.rotates(LIFETIME, &server);
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().to_str().expect("UTF-8");
    let one = started("one", &server, &login_service, state).await;
    let two = started("two", &server, &login_service, state).await;
    for gateway in [&one, &two] {
        eventually("a login is required", async || {
            let state = gateway.get("/servers/notes").await.json()["state"].clone();
            (state == "login_required").then_some(())
        })
        .await;
    }
    let link = one.post("/servers/notes/login", "{}").await.json()["url"].clone();
    opened(link.as_str().expect("a URL")).await;
    for gateway in [&one, &two] {
        gateway.offers(&["a"]).await;
    }

    let renewals =
        || login_service.seen("/token").into_iter().filter_map(|mut form| form.remove("refresh_token"));
    let (count, is_over, before) = (AtomicUsize::new(0), AtomicBool::new(false), renewals().count());
    let callers = [&one, &two].into_iter().cycle().take(2 * CALLERS);
    let calling = join_all(callers.map(|gateway| calls(gateway, &count, &is_over)));
    let watching = async {
        eventually("the token is renewed", async || (renewals().count() >= before + RENEWALS).then_some(()))
            .await;
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(calling, watching);

    let sent: Vec<String> = renewals().collect();
    let numbered: Vec<String> = (1..=sent.len()).map(|number| format!("refresh-ada-{number}")).collect();
    assert_eq!(sent, numbered, "each refresh token is sent once");
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for seen in server.seen_calling("tools/call") {
        let [gateway, token] =
            ["x-gateway", "authorization"].map(|name| seen.header(name).map(str::to_owned));
        used.entry(gateway.expect("a gateway")).or_default().extend(token);
    }
    assert_eq!(used.len(), 2, "{used:?}");
    for (gateway, tokens) in used {
        // The calls may have ended before the last token was used.
        assert!(tokens.len() >= RENEWALS - 1, "gateway {gateway} used {tokens:?}");
    }
    assert!(count.into_inner() >= 2 * CALLERS * RENEWALS, "too few calls");
}
