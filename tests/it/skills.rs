//! Skills (extension `io.modelcontextprotocol/skills`, SEP-2640) of one server and of several, in both eras.

use serde_json::{Value, json};

use crate::support::gateway::Running;
use crate::support::scripted::{Scripted, Server};
use crate::support::{Client, Gateway, Registry};

const EXTENSION: &str = "io.modelcontextprotocol/skills";
const DIGEST: &str = "sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";

/// The entry of the skill in `directory`, with unusual spelling that must survive.
fn skill(directory: &str, description: &str) -> String {
    let name = directory.rsplit('/').next().expect("a name");
    format!(
        r#"{{"frontmatter":{{"name":"{name}","description":"{description}","x":1.50,"n":null}}, "uri":"{directory}/SKILL.md","resources":[{{"uri":"{directory}/SKILL.md","digest":"{DIGEST}","size":7}},{{"uri":"{directory}/docs/a.md","digest":"{DIGEST}","size":0}}]}}"#
    )
}

/// A server with these skills. It answers `skills/get` and directory reads about the first of them, and says its name.
fn with_skills(scripted: Scripted, name: &str, directories: &[&str]) -> Scripted {
    let skills: Vec<String> = directories.iter().map(|directory| skill(directory, name)).collect();
    let first = directories[0];
    let done = r#""resultType":"complete""#;
    let children = format!(
        r#"{{"resources":[{{"uri":"{first}/docs","name":"docs","mimeType":"inode/directory"}}],{done}}}"#
    );
    let contents = format!(
        r#"{{"contents":[{{"uri":"{first}/docs/a.md","text":"of {name}"}}],{done},"ttlMs":5,"cacheScope":"private"}}"#
    );
    let got = format!(r#"{{"skill":{},{done},"ttlMs":5,"cacheScope":"private"}}"#, skills[0]);
    scripted
        .offers("skills", &format!("[{}]", skills.join(",")))
        .answers("skills/get", vec![got; 20])
        .answers("resources/directory/read", vec![children; 20])
        .answers("resources/read", vec![contents; 20])
}

async fn in_front_of(servers: &[(&str, &Server)]) -> Running {
    let registry =
        servers.iter().fold(Registry::new(), |registry, (name, server)| registry.http(name, &server.url()));
    let gateway = Gateway::of(&registry).start().await;
    crate::support::eventually("all servers are ready", async || {
        let listed = gateway.get("/servers").await.json();
        let all = listed["servers"].as_array().expect("a list").clone();
        all.iter().all(|server| server["state"] == "ready").then_some(())
    })
    .await;
    gateway
}

/// The result or error of a request, of a client of the modern era or of a session.
async fn ask(client: &Client, is_modern: bool, method: &str, params: Value) -> Value {
    let answer = if is_modern {
        client.modern(method, params).await
    } else {
        client.legacy().await.request(method, params).await
    };
    serde_json::from_str(&answer.response_text()).expect("a message")
}

/// The URIs of all skills and their files.
fn uris(skills: &Value) -> Vec<String> {
    let text = |value: &Value| value["uri"].as_str().expect("a URI").to_owned();
    let all = skills.as_array().expect("a list").iter();
    all.flat_map(|skill| {
        let files = skill["resources"].as_array().expect("files").iter().map(text);
        std::iter::once(text(skill)).chain(files).collect::<Vec<_>>()
    })
    .collect()
}

fn under(prefix: &str) -> [String; 3] {
    [format!("{prefix}/SKILL.md"), format!("{prefix}/SKILL.md"), format!("{prefix}/docs/a.md")]
}

#[tokio::test]
async fn skills_of_one_server_pass_byte_for_byte_between_all_eras() {
    for scripted in [Scripted::modern(), Scripted::legacy()] {
        let server =
            with_skills(scripted, "a", &["skill://acme/refunds", "github://o/r/skills/audit"]).start();
        let gateway = in_front_of(&[("a", &server)]).await;
        let entry = skill("skill://acme/refunds", "a");
        for client in [gateway.mcp(), gateway.mcp_of("a")] {
            // At the endpoint of a legacy server there is none.
            let discovered = client.modern("server/discover", json!({})).await.json().get("result").cloned();
            let session = client.legacy().await;
            for declared in discovered.iter().chain([&session.server]) {
                let extensions = &declared["capabilities"]["extensions"];
                assert_eq!(extensions[EXTENSION], json!({"directoryRead": true}), "{declared}");
            }
            let listed = client.modern("skills/list", json!({})).await;
            assert!(listed.body.contains(&entry), "{listed:?}");
            let result = listed.result();
            assert_eq!(
                (result["resultType"].as_str(), &result["nextCursor"]),
                (Some("complete"), &Value::Null)
            );
            assert!(result["ttlMs"].is_u64() && result["cacheScope"].is_string(), "{result}");
            let got = json!({"uri": "skill://acme/refunds/SKILL.md"});
            for answer in [
                session.request("skills/list", json!({"cursor": null})).await,
                session.request("skills/get", got.clone()).await,
                client.modern("skills/get", got).await,
            ] {
                assert!(answer.body.contains(&entry), "{answer:?}");
            }
            let directory = json!({"uri": "skill://acme/refunds"});
            for answer in [
                session.request("resources/directory/read", directory.clone()).await,
                client.modern("resources/directory/read", directory).await,
            ] {
                assert_eq!(answer.result()["resources"][0]["uri"], "skill://acme/refunds/docs", "{answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn skills_of_two_servers_with_one_uri_are_kept_apart_and_lead_to_their_server() {
    let a = with_skills(Scripted::modern(), "a", &["skill://refunds", "skill://only-a"]).start();
    let b = with_skills(Scripted::legacy(), "b", &["skill://refunds"]).start();
    let gateway = in_front_of(&[("a", &a), ("b", &b)]).await;
    for is_modern in [true, false] {
        let client = gateway.mcp();
        let listed = ask(&client, is_modern, "skills/list", json!({})).await;
        let expected = ["skill://a/refunds", "skill://only-a", "skill://b/refunds"].map(under).concat();
        assert_eq!(uris(&listed["result"]["skills"]), expected);
        for name in ["a", "b"] {
            let root = format!("skill://{name}/refunds");
            let got = ask(&client, is_modern, "skills/get", json!({"uri": format!("{root}/SKILL.md")})).await;
            let entry = &got["result"]["skill"];
            assert_eq!(
                (entry["frontmatter"]["description"].as_str(), &entry["resources"][1]["digest"]),
                (Some(name), &json!(DIGEST))
            );
            assert_eq!(uris(&json!([entry])), under(&root));
            let read =
                ask(&client, is_modern, "resources/read", json!({"uri": format!("{root}/docs/a.md")})).await;
            let content = &read["result"]["contents"][0];
            assert_eq!(
                (content["text"].as_str(), content["uri"].as_str()),
                (Some(&*format!("of {name}")), Some(&*format!("{root}/docs/a.md")))
            );
            let read = ask(&client, is_modern, "resources/directory/read", json!({"uri": root})).await;
            assert_eq!(read["result"]["resources"][0]["uri"], format!("{root}/docs"), "{read}");
            let own = ask(&gateway.mcp_of(name), is_modern, "skills/list", json!({})).await;
            assert_eq!(uris(&own["result"]["skills"])[..3], under("skill://refunds"));
        }
        for (method, uri) in [
            ("skills/get", "skill://refunds/SKILL.md"),
            ("resources/read", "skill://refunds/docs/a.md"),
            ("resources/directory/read", "skill://refunds/docs"),
            ("resources/directory/read", "skill://refunds"),
        ] {
            let refused = ask(&client, is_modern, method, json!({"uri": uri})).await["error"].to_string();
            let owned = |name: &str| uri.replace("skill://", &format!("skill://{name}/"));
            assert!(
                refused.contains(&owned("a")) && refused.contains(&owned("b")),
                "{method} {uri}: {refused}"
            );
        }
    }
    for seen in [a.seen(), b.seen()].concat() {
        assert!(!seen.body.contains("skill://a/") && !seen.body.contains("skill://b/"), "{}", seen.body);
    }
}

#[tokio::test]
async fn a_skill_that_no_host_may_load_is_left_out_and_named() {
    let good = skill("skill://good", "g");
    let bad = [
        skill("skill://b1", "no digest").replace(DIGEST, "md5:0"),
        skill("skill://b2", "other name").replace(r#""name":"b2""#, r#""name":"good""#),
        skill("skill://b3", "no resources").replace(r#""resources""#, r#""files""#),
        skill("skill://b4", "no description").replace(r#""description""#, r#""about""#),
        skill("skill://b5", "elsewhere").replace("skill://b5/docs", "skill://good/docs"),
        r#"{"uri":7}"#.to_owned(),
        "null".to_owned(),
    ];
    let server = Scripted::modern().offers("skills", &format!("[{},{good}]", bad.join(","))).start();
    let gateway = in_front_of(&[("a", &server)]).await;
    let listed = gateway.mcp().modern("skills/list", json!({})).await;
    assert_eq!(uris(&listed.result()["skills"]), under("skill://good"), "{listed:?}");
    let server = gateway.get("/servers").await.json()["servers"][0].clone();
    let problems = server["offer_problems"].to_string();
    for reason in
        ["no valid digest", "not the name", "no resources", "no description", "not in its directory"]
    {
        assert!(problems.contains(reason), "{reason}: {server}");
    }
}

#[tokio::test]
async fn a_changed_skill_is_blocked_until_it_is_approved() {
    let (first, second) = (skill("skill://refunds", "1"), skill("skill://refunds", "2"));
    let list = |skill: &str| {
        format!(r#"{{"skills":[{skill}],"resultType":"complete","ttlMs":600000,"cacheScope":"private"}}"#)
    };
    let got = format!(r#"{{"skill":{second},"resultType":"complete","ttlMs":0,"cacheScope":"private"}}"#);
    let server = Scripted::modern()
        .offers("skills", &format!("[{second}]"))
        .answers("skills/list", vec![list(&first)])
        .answers("skills/get", vec![got; 2])
        .answers("resources/read", vec![r#"{"contents":[],"resultType":"complete"}"#.to_owned()])
        .start();
    let registry = Registry::new().http("a", &server.url()).with("tools: {on_change: block}");
    let gateway = Gateway::of(&registry).start().await;
    let client = gateway.mcp();
    let listed = async || client.modern("skills/list", json!({})).await.result()["skills"].clone();
    assert_eq!(listed().await[0]["frontmatter"]["description"], "1");
    let uri = "skill://refunds/SKILL.md";
    let early = client.modern("skills/get", json!({"uri": uri})).await;
    assert!(early.error().to_string().contains("tool_changed"), "the answer has another entry: {early:?}");
    gateway.post("/servers/a/reconnect", "").await;
    assert_eq!(listed().await, json!([]));
    let shown = gateway.get("/servers").await.json()["servers"][0]["changed_tools"][0].clone();
    assert_eq!(
        (&shown["tool"], &shown["changed"], &shown["held_back"]),
        (&json!(uri), &json!(["frontmatter"]), &json!(true))
    );
    for (method, uri) in [("skills/get", uri), ("resources/read", "skill://refunds/docs/a.md")] {
        let refused = client.modern(method, json!({"uri": uri})).await;
        assert!(refused.error().to_string().contains("tool_changed"), "{method}: {refused:?}");
    }
    let approved = gateway.post(&format!("/servers/a/tools/approve?tool={uri}&current=true"), "").await;
    assert_eq!((approved.status, &approved.json()["changed_tool_count"]), (200, &json!(0)));
    assert_eq!(listed().await[0]["frontmatter"]["description"], "2");
    assert!(client.modern("skills/get", json!({"uri": uri})).await.result()["skill"].is_object());
}

#[tokio::test]
async fn without_a_server_with_skills_the_methods_do_not_exist() {
    let plain = Scripted::modern().offers("resources", r#"[{"uri":"memo:r","name":"r"}]"#).start();
    let skilled = with_skills(Scripted::modern(), "b", &["skill://refunds"]).start();
    let gateway = in_front_of(&[("a", &plain), ("b", &skilled)]).await;
    let unknown = "skill://nothing/SKILL.md";
    for method in ["skills/list", "skills/get", "resources/directory/read"] {
        for is_modern in [true, false] {
            let refused = ask(&gateway.mcp_of("a"), is_modern, method, json!({"uri": unknown})).await;
            assert_eq!(refused["error"]["code"], -32601, "{method}: {refused}");
        }
    }
    let alone = gateway.mcp_of("a").modern("server/discover", json!({})).await.result();
    assert_eq!(alone["capabilities"]["extensions"], Value::Null);
    for is_modern in [true, false] {
        let refused = ask(&gateway.mcp(), is_modern, "skills/get", json!({"uri": "memo:a"})).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
}
