//! Reloads of the configuration file: by signal, and over REST.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Answer, Gateway, Registry, Running, api_keys, eventually};

fn server(tool: &str) -> Server {
    Scripted::modern().tool(Tool::named(tool)).start()
}

async fn reloaded(gateway: &Running, registry: &Registry) -> Answer {
    gateway.rewrite(&registry.yaml());
    gateway.post("/reload", "").await
}

#[tokio::test]
async fn servers_come_and_go_and_clients_are_told() {
    let (one, two, three) = (server("a"), server("b"), server("c"));
    let both = Registry::new().http("one", &one.url()).http("two", &two.url());
    let gateway = Gateway::of(&both).start().await;
    gateway.offers(&["a", "b"]).await;
    let session = gateway.mcp().legacy().await;
    let mut stream = session.client.listen().await;

    let next = Registry::new().http("one", &one.url()).http("three", &three.url());
    let answer = reloaded(&gateway, &next).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(
        answer.json(),
        json!({"added": ["three"], "changed": [], "removed": ["two"], "unchanged": ["one"], "at_restart": []})
    );
    let notice = stream.next().await.expect("a notice");
    assert_eq!(notice["method"], "notifications/tools/list_changed");
    assert_eq!(gateway.offers(&["a", "c"]).await.len(), 2);
    assert_eq!(session.call("c", json!({})).await.text(), "{}");
    assert_eq!(gateway.call("two", "b", json!({})).await.json()["code"], "server_not_found");
}

#[tokio::test]
async fn a_signal_does_the_same_and_a_bad_file_changes_nothing() {
    let (one, two) = (server("a"), server("b"));
    let gateway = Gateway::of(&Registry::new().http("one", &one.url())).start().await;
    gateway.offers(&["a"]).await;

    let bad = Registry::new().http("two", &two.url()).setting("default_timeout: soon");
    let refused = reloaded(&gateway, &bad).await;
    assert_eq!((refused.status, &refused.json()["code"]), (422, &json!("invalid_configuration")));
    let detail = refused.json()["detail"].to_string();
    assert!(detail.contains("mcp_servers.yaml:4:18") && detail.contains("default_timeout"), "{detail}");
    gateway.hang_up();
    let failures = || {
        let says = |line: &Value| line["message"].to_string().contains("default_timeout");
        gateway.log().iter().filter(|line| says(line)).count()
    };
    eventually("the log says it too", async || (failures() == 2).then_some(())).await;
    assert_eq!(gateway.offers(&["a"]).await, ["a"], "the running configuration stays");

    gateway.rewrite(&Registry::new().http("one", &one.url()).http("two", &two.url()).yaml());
    gateway.hang_up();
    gateway.offers(&["a", "b"]).await;
    assert!(gateway.stop().await.success(), "a hangup is no end");
}

#[tokio::test]
async fn watched_file_is_reloaded_when_it_changes() {
    let (one, two, three) = (server("a"), server("b"), server("c"));
    let file = |servers: &Registry| servers.clone().setting("watch: true").yaml();
    let begin = Registry::new().http("one", &one.url());
    let gateway = Gateway::with_config(&file(&begin));
    // As Kubernetes mounts a `ConfigMap`.
    let at = |name: &str| gateway.folder().join(name);
    for (version, servers) in [("v1", &begin), ("v2", &Registry::new().http("two", &two.url()))] {
        std::fs::create_dir(at(version)).expect("made");
        std::fs::write(at(version).join("mcp_servers.yaml"), file(servers)).expect("written");
    }
    std::fs::remove_file(at("mcp_servers.yaml")).expect("it was there");
    std::os::unix::fs::symlink("v1", at("..data")).expect("linked");
    std::os::unix::fs::symlink("..data/mcp_servers.yaml", at("mcp_servers.yaml")).expect("linked");
    let gateway = gateway.start().await;
    gateway.offers(&["a"]).await;

    let at = |name: &str| gateway.folder().join(name);
    std::os::unix::fs::symlink("v2", at("..data_tmp")).expect("linked");
    std::fs::rename(at("..data_tmp"), at("..data")).expect("renamed");
    assert_eq!(gateway.offers(&["b"]).await, ["b"]);
    gateway.logs("the audit line", |line| line["principal"] == "file" && line["outcome"] == "done").await;

    // As an editor replaces a file. A mistake of one server does not keep the others out.
    let next = Registry::new().http("three", &three.url()).server("wrong", &["timeot: 1".to_owned()]);
    std::fs::write(at("new.yaml"), file(&next)).expect("written");
    std::fs::rename(at("new.yaml"), at("mcp_servers.yaml")).expect("renamed");
    assert_eq!(gateway.offers(&["c"]).await, ["c"]);
    assert_eq!(gateway.get("/servers/wrong").await.json()["state"], "not_configured");
    assert!(gateway.stop().await.success());
}

#[tokio::test]
async fn file_is_not_watched_unless_it_says_so() {
    let (one, two) = (server("a"), server("b"));
    let gateway = Gateway::of(&Registry::new().http("one", &one.url())).start().await;
    gateway.offers(&["a"]).await;
    let watched = Registry::new().http("two", &two.url()).setting("watch: true");
    gateway.rewrite(&watched.yaml());
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    assert_eq!(gateway.offers(&["a"]).await, ["a"]);
    assert_eq!(reloaded(&gateway, &watched).await.json()["at_restart"], json!(["watch"]));
}

#[tokio::test]
async fn settings_fixed_at_the_start_are_named() {
    let one = server("a");
    let registry = |port: u16| {
        let registry = Registry::new().http("one", &one.url());
        registry
            .setting("server:")
            .setting(&format!("  listen: 127.0.0.1:{port}"))
            .setting("  max_sessions: 7")
    };
    let gateway = Gateway::of(&registry(8080)).start().await;
    assert_eq!(reloaded(&gateway, &registry(8080)).await.json()["at_restart"], json!([]));
    let cached = registry(8081).setting("cache: {type: memory}");
    assert_eq!(reloaded(&gateway, &cached).await.json()["at_restart"], json!(["server", "cache"]));
    assert_eq!(reloaded(&gateway, &registry(8080)).await.json()["at_restart"], json!([]), "it is as it was");
}

#[tokio::test]
async fn a_key_that_was_taken_back_opens_nothing_any_more() {
    let one = server("a");
    let registry = |keys: &[(&str, &str)]| {
        Registry::new().http("one", &one.url()).setting(&format!("server: {{{}}}", api_keys(keys)))
    };
    let old = "swy_old_0123456789abcdef0123456789abcdef0123456789abcdef";
    let new = "swy_new_fedcba9876543210fedcba9876543210fedcba9876543210";
    let (with_old, with_new) = (registry(&[(old, "role: superuser")]), registry(&[(new, "role: superuser")]));
    let gateway = Gateway::of(&with_old).start().await;
    let ask = async |key: &str, route: &str| {
        let client = gateway.mcp().to(&gateway.url(&format!("/api/v1/mcp{route}")));
        client.with_header("x-api-key", key).post("", &[]).await
    };
    gateway.offers_to("a", &format!("Bearer {old}")).await;
    assert_eq!(ask(new, "/reload").await.status, 401);

    gateway.rewrite(&with_new.yaml());
    assert_eq!(ask(old, "/reload").await.json()["at_restart"], json!([]), "keys do not wait");
    assert_eq!((ask(old, "/reload").await.status, ask(new, "/reload").await.status), (401, 200));

    gateway.rewrite(&with_new.setting("tool_names: sometimes").yaml());
    assert_eq!(ask(new, "/reload").await.status, 422);
    assert_eq!(ask(new, "/servers/one/reconnect").await.status, 200, "and no key was lost");
}

#[tokio::test]
async fn an_address_that_others_reach_is_not_opened() {
    let one = server("a");
    let registry = |listen: &str, auth: &str| {
        let (hosts, listen) = ("allowed_hosts: [gateway.test]", format!("listen: {listen}"));
        Registry::new().http("one", &one.url()).setting(&format!("server: {{{listen}, {hosts}, {auth}}}"))
    };
    let key = "swy_ci_0123456789abcdef0123456789abcdef0123456789abcdef";
    let keys = api_keys(&[(key, "role: superuser")]);
    let gateway = Gateway::of(&registry("127.0.0.1:1", &keys)).listening_on("0.0.0.0:0").start().await;
    let port = gateway.address.rsplit(':').next().expect("a port").to_owned();
    let reload = async |keyed: bool| {
        let client = gateway.mcp().to(&format!("http://127.0.0.1:{port}/api/v1/mcp/reload"));
        let client = if keyed { client.with_header("x-api-key", key) } else { client };
        client.with_header("host", "gateway.test").post("", &[]).await
    };
    assert_eq!(reload(true).await.status, 200);
    // Valid for the address in the file, but not for the address of the running listener.
    gateway.rewrite(&registry("127.0.0.1:1", "auth_mode: none").yaml());
    let refused = reload(true).await;
    assert_eq!((refused.status, &refused.json()["code"]), (422, &json!("invalid_configuration")));
    assert_eq!(reload(false).await.status, 401);
    // The setting that disables authentication counts only at a start, which logs it.
    gateway.rewrite(&registry("0.0.0.0:1", "allow_unauthenticated: true").yaml());
    let refused = reload(true).await;
    assert_eq!((refused.status, &refused.json()["code"]), (422, &json!("invalid_configuration")));
    assert!(refused.json().to_string().contains("when the gateway is restarted"), "{refused:?}");
    assert_eq!(reload(false).await.status, 401);
}

#[tokio::test]
async fn a_child_with_other_arguments_is_another_child() {
    let child = |tool: &str| Registry::new().child("one", &["--era", "legacy", "--tools", tool]);
    let gateway = Gateway::of(&child("a")).start().await;
    gateway.offers(&["a"]).await;
    assert_eq!(reloaded(&gateway, &child("b")).await.json()["changed"], json!(["one"]));
    gateway.offers(&["b"]).await;
    assert!(gateway.call("one", "b", json!({})).await.json()["success"] == true);
    assert_eq!(gateway.call("one", "a", json!({})).await.json()["code"], "tool_not_found");
}

/// RULES R24: 200 reloads under load, 0 failed calls. One server never changes, and one changes at each
/// reload.
#[tokio::test]
async fn two_hundred_reloads_under_load_fail_no_call() {
    let slow = || Tool::named("slow").does(Act::Slow(std::time::Duration::from_millis(20)));
    let steady = Scripted::modern().tool(Tool::named("a")).start();
    let changing = Scripted::modern().tool(Tool::named("b")).tool(slow()).start();
    let registry = |turn: u32| {
        let timeout = format!("timeout: {}", 30 + turn % 2);
        Registry::new().http("steady", &steady.url()).http("changing", &changing.url()).with(&timeout)
    };
    let gateway = Gateway::of(&registry(0)).dumpable().start().await;
    gateway.offers(&["a", "b", "slow"]).await;
    let before = gateway.descriptors();
    let (over, made) = (AtomicBool::new(false), AtomicUsize::new(0));
    let call_on = async |(server, tool): (&str, &str)| {
        while !over.load(Ordering::Relaxed) {
            let answer = gateway.call(server, tool, json!({"n": 1})).await;
            assert_eq!(answer.json()["success"], true, "{server}: {}", answer.body);
            made.fetch_add(1, Ordering::Relaxed);
        }
    };
    let callers = join_all([("steady", "a"), ("changing", "b"), ("changing", "slow")].map(call_on));
    let reloads = async {
        for turn in 1..=200 {
            let answer = reloaded(&gateway, &registry(turn)).await.json();
            assert_eq!(
                (&answer["unchanged"], &answer["changed"]),
                (&json!(["steady"]), &json!(["changing"]))
            );
        }
        over.store(true, Ordering::Relaxed);
    };
    tokio::join!(callers, reloads);
    assert!(made.load(Ordering::Relaxed) > 200, "there was load");
    let is_as_before = async || (gateway.descriptors() <= before + 8).then_some(());
    eventually("nothing is left of those that were replaced", is_as_before).await;
}
