//! Servers whose entries in the configuration file have mistakes: the others run, and every surface names the mistakes.
//!
//! Not here: which text is a mistake (`settings`), the report of a file (`config`).

use serde_json::{Value, json};

use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running};

/// Must be in no text that anybody sees.
const SECRET: &str = "canary-4711";
const HINT_OF_UNSET: &str =
    "set NO_SUCH_VARIABLE, or give a default: `${NO_SUCH_VARIABLE:-…}`; `$$` is a dollar sign";

fn server(tool: &str) -> Server {
    Scripted::modern().tool(Tool::named(tool)).start()
}

/// One mistake: the lines of the entry, the line and column, and the hint.
struct Mistake {
    lines: &'static [&'static str],
    line: u64,
    column: u64,
    hint: Option<&'static str>,
}

const fn mistake(
    lines: &'static [&'static str],
    line: u64,
    column: u64,
    hint: Option<&'static str>,
) -> Mistake {
    Mistake { lines, line, column, hint }
}

/// Line 2 of the file names the first good server, line 4 the wrong one; its lines begin at line 5 in column 5.
const MISTAKES: [Mistake; 14] = [
    mistake(&["url: \"${NO_SUCH_VARIABLE}/mcp\""], 5, 10, Some(HINT_OF_UNSET)),
    mistake(&["command: \"true\"", "env: {A: \"${NO_SUCH_VARIABLE}\"}"], 6, 14, Some(HINT_OF_UNSET)),
    mistake(
        &["command: \"true\"", "env: {A: \"${secret:NOT_THERE}\"}"],
        6,
        14,
        Some("run `switchyard secret set NOT_THERE`"),
    ),
    mistake(&["command: \"true\"", "timeot: 5"], 6, 5, Some("did you mean `timeout`?")),
    mistake(&["command: \"true\"", "timeout: 900"], 6, 14, None),
    mistake(&["command: \"true\"", "timeout: soon"], 6, 14, None),
    mistake(&["transport: streamable-http", "url: http://127.0.0.1:1/mcp"], 5, 16, None),
    mistake(&["transport: stdio", "url: http://127.0.0.1:1/mcp"], 4, 3, None),
    mistake(&["transport: builtin", "builtin: nothing"], 6, 14, None),
    mistake(&["url: not-a-url"], 5, 10, Some("write it as `http://host:port/path`")),
    mistake(&["command: \"true\"", "tools: {allow: everything}"], 6, 20, None),
    mistake(&["command: \"true\"", "command: \"false\""], 6, 5, None),
    mistake(
        &["url: \"http://127.0.0.1:1/mcp\"", "headers: \"Authorization: Bearer canary-4711\""],
        6,
        14,
        None,
    ),
    mistake(&["command: !!binary canary-4711"], 5, 14, None),
];

fn entries(one: &Server, lines: &[&str], two: &Server) -> Registry {
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    Registry::new().http("one", &one.url()).server("wrong", &lines).http("two", &two.url())
}

fn problem_of<'v>(servers: &'v Value, name: &str) -> &'v Value {
    let found = servers["servers"].as_array().expect("a list").iter().find(|server| server["name"] == name);
    &found.unwrap_or_else(|| panic!("{name} is not in {servers}"))["problems"][0]
}

async fn metrics(gateway: &Running) -> String {
    gateway.mcp().to(&gateway.url("/metrics")).bare(http::Method::GET, &[]).await.body
}

#[tokio::test]
async fn mistake_in_one_entry_costs_this_server_only_and_is_shown_with_its_place() {
    for Mistake { lines, line, column, hint } in MISTAKES {
        let (one, two) = (server("a"), server("b"));
        let gateway = Gateway::of(&entries(&one, lines, &two)).start().await;
        gateway.offers(&["a", "b"]).await;
        assert_eq!(gateway.mcp().call("b", json!({})).await.status, 200, "{lines:?}");

        let listed = gateway.get("/servers").await;
        let servers = listed.json();
        let names: Vec<&Value> =
            servers["servers"].as_array().expect("a list").iter().map(|server| &server["name"]).collect();
        assert_eq!(names, ["one", "wrong", "two"], "{lines:?}: the order of the file");
        assert_eq!(servers["servers"][1]["state"], "not_configured", "{lines:?}");
        let problem = problem_of(&servers, "wrong");
        assert_eq!(
            (&problem["line"], &problem["column"]),
            (&json!(line), &json!(column)),
            "{lines:?}: {problem}"
        );
        assert_eq!(problem["hint"].as_str().filter(|_| hint.is_some()), hint, "{lines:?}: {problem}");
        let one_server = gateway.get("/servers/wrong").await;
        assert_eq!((one_server.status, one_server.json()), (200, servers["servers"][1].clone()));

        let health = gateway.get("/health").await.json();
        assert_eq!(
            (&health["status"], &health["servers"][1]["state"]),
            (&json!("degraded"), &json!("not_configured"))
        );
        let state = "switchyard_server_state{server=\"wrong\",state=\"not_configured\"} 1";
        assert!(metrics(&gateway).await.lines().any(|found| found == state), "{lines:?}");
        assert!(!listed.body.contains(SECRET), "{lines:?}: {}", listed.body);
        assert!(gateway.log().iter().all(|line| !line.to_string().contains(SECRET)), "{lines:?}");
    }
}

#[tokio::test]
async fn call_and_endpoint_of_a_server_that_is_not_configured_name_its_mistake() {
    let (one, two) = (server("a"), server("b"));
    let gateway = Gateway::of(&entries(&one, &["command: \"true\"", "timeot: 5"], &two)).start().await;
    gateway.offers(&["a", "b"]).await;
    let named = |answer: &str| {
        for part in ["\"wrong\\\" is not configured", "line 6", "did you mean `timeout`?"] {
            assert!(answer.contains(part), "{part} is missing: {answer}");
        }
    };
    let refused = gateway.call("wrong", "x", json!({})).await;
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("server_not_configured")));
    named(&refused.body);
    named(&gateway.mcp().call("wrong__x", json!({})).await.body);
    named(&gateway.mcp_of("wrong").modern("tools/list", json!({})).await.body);
    for route in ["reconnect", "enable", "disable", "forget", "login", "tools/approve?current=true"] {
        let refused = gateway.post(&format!("/servers/wrong/{route}"), "{}").await;
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (503, &json!("server_not_configured")),
            "{route}"
        );
        named(&refused.body);
    }
    for route in ["/servers/wrong/tools", "/tools?server=wrong"] {
        assert_eq!(gateway.get(route).await.json()["code"], "server_not_configured", "{route}");
    }
    assert_eq!(gateway.post("/circuit-breakers/wrong/reset", "").await.status, 503);
    let unknown = gateway.call("wrog", "x", json!({})).await.json();
    assert_eq!(unknown["nearest"], json!(["wrong"]), "{unknown}");
}

#[tokio::test]
async fn gateway_whose_servers_are_all_wrong_starts_and_shows_them() {
    let gateway = Gateway::with_config("mcp_servers:\n  a: {url: 1}\n  b: {comand: x}\n").start().await;
    let servers = gateway.get("/servers").await.json();
    assert_eq!(servers["servers"][0]["state"], "not_configured");
    assert_eq!(problem_of(&servers, "b")["line"], 3);
    assert_eq!(gateway.get("/health").await.json()["status"], "unhealthy");
    let ready = gateway.mcp().to(&gateway.url("/health/ready")).bare(http::Method::GET, &[]).await;
    assert_eq!(ready.status, 200, "{}", ready.body);
}

#[test]
fn client_on_standard_input_gets_the_other_servers() {
    let one = server("a");
    let registry = Registry::new().http("one", &one.url()).http("wrong", "${NO_SUCH_VARIABLE}");
    let mut session = Gateway::of(&registry).start_stdio();
    let tools = session.modern("tools/list", json!({})).to_string();
    assert!(tools.contains("\"a\""), "{tools}");
}

#[tokio::test]
async fn commands_show_the_mistakes_and_their_exit_codes_tell() {
    let (one, two) = (server("a"), server("b"));
    let registry = entries(&one, &["url: \"${NO_SUCH_VARIABLE}/mcp\"", "timeot: 5"], &two);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["a", "b"]).await;
    let ran = |arguments: &[&str]| {
        let output = gateway.gateway().output(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, err) = ran(&["check"]);
    assert_eq!(code, Some(2));
    assert!(
        err.contains("mcp_servers.yaml:5:10: error") && err.contains("mcp_servers.yaml:6:5: error"),
        "{err}"
    );
    assert!(err.contains(HINT_OF_UNSET) && err.contains("2 problems"), "{err}");
    assert_eq!(out, "");
    let (code, out, err) = ran(&["check", "--connect"]);
    assert_eq!(code, Some(2));
    assert!(out.lines().any(|line| line.starts_with("two") && line.contains("ready")), "{out}{err}");
    let row = out.lines().find(|line| line.starts_with("wrong")).unwrap_or_else(|| panic!("{out}"));
    assert!(row.contains("not configured"), "{row}");
    let (code, out, _) = ran(&["doctor", "--offline", "--url", &gateway.url("")]);
    assert_eq!(code, Some(2), "{out}");
    assert!(out.contains("mcp_servers.yaml:6:5") && out.contains("did you mean `timeout`?"), "{out}");
    let url = gateway.url("");
    for command in [&["status", "--url", &url][..], &["servers", "--url", &url]] {
        let (code, out, err) = ran(command);
        assert_eq!(code, Some(0), "{out}{err}");
        let row = out.lines().find(|line| line.starts_with("wrong")).unwrap_or_else(|| panic!("{out}"));
        assert!(row.contains("not_configured"), "{row}");
        for part in ["line 5, column 10", HINT_OF_UNSET, "line 6, column 5", "did you mean `timeout`?"] {
            assert!(err.contains(part), "{part} is missing: {err}");
        }
    }
}

#[tokio::test]
async fn names_of_a_server_that_is_not_configured_are_not_taken_by_another_one() {
    let (one, two) = (server("a"), server("b"));
    let good = Registry::new().http("one", &one.url()).http("two", &two.url());
    let wrong = Registry::new().http("one", &one.url()).with("timeot: 5").http("two", &two.url());
    let state = "server: {state_dir: state}";
    let gateway = Gateway::of(&good.clone().setting(state)).start().await;
    gateway.offers(&["a", "b"]).await;
    let stopped = gateway.end().await;
    std::fs::write(stopped.folder().join("mcp_servers.yaml"), wrong.setting(state).yaml()).expect("written");
    two.change_tools(vec![Tool::named("a"), Tool::named("b")]);
    let gateway = stopped.start().await;
    let listed = gateway.offers(&["b", "two__a"]).await;
    assert!(!listed.contains(&"a".to_owned()), "{listed:?}");
    let refused = gateway.mcp().call("a", json!({})).await.body;
    assert!(refused.contains("two__a"), "{refused}");
}

#[tokio::test]
async fn reload_stops_a_server_that_its_wrong_entry_disables() {
    let (one, two) = (server("a"), server("b"));
    let gateway = Gateway::of(&Registry::new().http("one", &one.url()).http("two", &two.url())).start().await;
    gateway.offers(&["a", "b"]).await;
    let off = Registry::new().http("one", &one.url()).with("enabled: false").with("timeot: 5");
    gateway.rewrite(&off.http("two", &two.url()).yaml());
    let reloaded = gateway.post("/reload", "").await.json();
    assert_eq!(
        (reloaded.get("retained"), &reloaded["not_configured"]),
        (None, &json!(["one"])),
        "{reloaded}"
    );
    assert_eq!(gateway.offers(&["b"]).await, ["b"]);
    assert_eq!(gateway.call("one", "a", json!({})).await.status, 503);
}

#[tokio::test]
async fn reload_keeps_the_old_form_of_a_server_whose_new_entry_is_wrong() {
    let (one, two, three) = (server("a"), server("b"), server("c"));
    let gateway = Gateway::of(&Registry::new().http("one", &one.url()).http("two", &two.url())).start().await;
    gateway.offers(&["a", "b"]).await;
    let wrong = Registry::new().http("one", &one.url()).with("timeot: 5").http("three", &three.url());
    gateway.rewrite(&wrong.clone().http("four", "${NO_SUCH_VARIABLE}").yaml());
    let reloaded = gateway.post("/reload", "").await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.body);
    let reloaded = reloaded.json();
    assert_eq!(reloaded["retained"], json!(["one"]), "{reloaded}");
    assert_eq!(reloaded["not_configured"], json!(["four"]), "{reloaded}");
    assert_eq!(
        (&reloaded["added"], &reloaded["removed"]),
        (&json!(["three"]), &json!(["two"])),
        "{reloaded}"
    );
    assert_eq!((&reloaded["changed"], &reloaded["unchanged"]), (&json!([]), &json!([])), "{reloaded}");
    let problems = reloaded["problems"].as_array().expect("a list");
    let places: Vec<_> = problems.iter().map(|problem| (&problem["server"], &problem["line"])).collect();
    assert_eq!(places, [(&json!("one"), &json!(4)), (&json!("four"), &json!(8))], "{reloaded}");

    gateway.offers(&["a", "c"]).await;
    assert_eq!(gateway.mcp().call("a", json!({})).await.status, 200, "the old form runs");
    let servers = gateway.get("/servers").await.json();
    let names: Vec<&Value> =
        servers["servers"].as_array().expect("a list").iter().map(|server| &server["name"]).collect();
    assert_eq!(names, ["one", "three", "four"]);
    assert_eq!(servers["servers"][0]["state"], "ready");
    assert_eq!(problem_of(&servers, "one")["hint"], "did you mean `timeout`?");
    assert_eq!(servers["servers"][2]["state"], "not_configured");
    let is_told =
        |line: &Value| line["server"] == "one" && line["message"].to_string().contains("old settings");
    gateway.logs("the log says what was kept", is_told).await;

    let output = gateway.gateway().output(&["reload", "--url", &gateway.url("")]);
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in ["kept", "not configured", "line 4, column 5", "did you mean `timeout`?"] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }

    gateway.rewrite(&Registry::new().http("one", &one.url()).http("three", &three.url()).yaml());
    let corrected = gateway.post("/reload", "").await.json();
    assert_eq!(corrected["unchanged"], json!(["one", "three"]), "{corrected}");
    assert_eq!(corrected.get("problems"), None, "{corrected}");
    assert_eq!(gateway.get("/servers/one").await.json().get("problems"), None);
}

#[tokio::test]
async fn server_that_was_not_configured_comes_when_its_entry_is_correct() {
    let (one, two) = (server("a"), server("b"));
    let gateway = Gateway::of(&entries(&one, &["url: 1"], &two)).start().await;
    gateway.offers(&["a", "b"]).await;
    let three = server("c");
    gateway.rewrite(&entries(&one, &[&format!("url: {}", three.url())], &two).yaml());
    gateway.hang_up();
    gateway.offers(&["a", "b", "c"]).await;
    assert_eq!(gateway.get("/servers/wrong").await.json()["state"], "ready");
    gateway.rewrite(&Registry::new().http("one", &one.url()).yaml());
    assert_eq!(gateway.post("/reload", "").await.json()["removed"], json!(["wrong", "two"]));
}

#[tokio::test]
async fn disabled_server_needs_no_value_of_its_variables() {
    let one = server("a");
    let disabled = Registry::new()
        .http("one", &one.url())
        .http("later", "\"${NO_SUCH_VARIABLE}/mcp\"")
        .with("headers: {X-Key: \"${secret:NOT_THERE}\"}")
        .with("enabled: false");
    let gateway = Gateway::of(&disabled).start().await;
    gateway.offers(&["a"]).await;
    assert_eq!(gateway.get("/health").await.json()["status"], "healthy");
    let later = gateway.get("/servers/later").await.json();
    assert_eq!((&later["state"], &later["enabled"]), (&json!("disabled"), &json!(false)), "{later}");
    assert_eq!(later["problems"][0]["hint"], HINT_OF_UNSET);
    let refused = gateway.post("/servers/later/enable", "").await;
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("server_not_configured")));
    assert!(refused.body.contains("NO_SUCH_VARIABLE"), "{}", refused.body);
    let output = gateway.gateway().output(&["check"]);
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("NO_SUCH_VARIABLE") && text.contains("disabled"), "{text}");

    let enabled = Registry::new().http("one", &one.url()).http("later", &server("b").url());
    gateway.rewrite(&enabled.yaml());
    assert_eq!(gateway.post("/reload", "").await.json()["added"], json!(["later"]));
    gateway.rewrite(&disabled.yaml());
    let reloaded = gateway.post("/reload", "").await.json();
    assert_eq!((reloaded.get("retained"), &reloaded["changed"]), (None, &json!(["later"])), "{reloaded}");
    assert_eq!(gateway.get("/servers/later").await.json()["state"], "disabled");
}

#[tokio::test]
async fn mistake_of_the_gateway_itself_stops_the_start_and_changes_nothing_at_a_reload() {
    let one = server("a");
    let registry = Registry::new().http("one", &one.url());
    for mistake in ["tool_nams: auto", "server: {workers: 0}", "proxy: \"${NO_SUCH_VARIABLE}\"", "proxy: ["] {
        let output =
            Gateway::of(&registry.clone().setting(mistake)).output(&["serve", "--listen", "127.0.0.1:0"]);
        assert_eq!(output.status.code(), Some(2), "{mistake}");
    }
    let gateway = Gateway::of(&registry).start().await;
    gateway.rewrite(&registry.clone().http("wrong", "1").setting("tool_nams: auto").yaml());
    assert_eq!(gateway.post("/reload", "").await.status, 422);
    assert_eq!(gateway.get("/servers").await.json()["servers"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn commands_for_the_running_gateway_need_only_its_address_from_the_file() {
    let one = server("a");
    let gateway = Gateway::of(&Registry::new().http("one", &one.url())).start().await;
    gateway.offers(&["a"]).await;
    let listen = format!("server: {{listen: \"{}\"}}", gateway.address);
    for mistake in [
        "  wrong: {url: \"${NO_SUCH_VARIABLE}\", timeot: 1}",
        "tool_nams: auto",
        "proxy: \"${NO_SUCH_VARIABLE}\"",
        "  \tbroken: [",
        "}",
    ] {
        let block = listen.replacen(' ', "\n  ", 1).replace(['{', '}'], "");
        for listen in [listen.clone(), block] {
            gateway.rewrite(&format!("mcp_servers:\n  one: {{url: {}}}\n{mistake}\n{listen}\n", one.url()));
            for command in [&["status"][..], &["servers"], &["call", "a"], &["tools"]] {
                let output = gateway.gateway().output(command);
                let err = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(0), "{mistake}: {listen}: {command:?}: {err}");
            }
        }
    }
    let secret = "server: {auth_mode: api_key, api_keys: [{id: a, hash: \"${NO_SUCH_VARIABLE}\"}], ";
    let with_listen = format!("{secret}listen: \"{}\"}}\nmcp_servers: {{}}\n", gateway.address);
    gateway.rewrite(&with_listen);
    assert_eq!(gateway.gateway().output(&["status"]).status.code(), Some(0), "a mistake in `server:` too");
    gateway.rewrite("server: {listen: \"${NO_SUCH_VARIABLE}\"}\n");
    let output = gateway.gateway().output(&["status"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("server.listen"), "the address itself is wrong");
}
