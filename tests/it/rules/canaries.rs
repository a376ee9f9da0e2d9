//! Secrets of the configuration file must not appear in any output.

use serde_json::{Value, json};

use crate::support::scripted::Refusing;
use crate::support::{Gateway, Registry, Running, eventually};

/// Prefix of every secret of these tests.
const CANARY: &str = "canary-9b1d";
/// Servers of each kind.
const SERVERS: usize = 8;

fn variable(server: &str, place: &str) -> String {
    format!("{server}_{place}").to_uppercase()
}

/// Servers that fail in different ways, and the variables they use.
fn registry(nobody: &str) -> (Registry, Vec<String>) {
    let (mut registry, mut variables) = (Registry::new(), Vec::new());
    let mut given = |server: &str, place: &str| {
        variables.push(variable(server, place));
        format!("${{{}}}", variable(server, place))
    };
    for number in 0..SERVERS {
        let (http, sse, child) = (format!("http{number}"), format!("sse{number}"), format!("child{number}"));
        let url = format!("\"{nobody}?key={}\"", given(&http, "url"));
        registry =
            registry.http(&http, &url).with(&format!("headers: {{X-Key: \"{}\"}}", given(&http, "header")));
        registry =
            registry.sse(&sse, nobody).with(&format!("auth: {{bearer: \"{}\"}}", given(&sse, "bearer")));
        // The program prints everything it knows to both outputs and ends.
        let script = "echo \"$$KEY $$0\"; echo \"bad key $$KEY, bad argument $$0\" >&2; exit 3";
        let argument = given(&child, "argument");
        registry = registry
            .command(&child, "sh", &["-c", script, &argument])
            .with(&format!("env: {{KEY: \"{}\"}}", given(&child, "env")));
    }
    (registry, variables)
}

/// Returns all answers of the program about its servers.
async fn all_answers(gateway: &Running) -> Vec<String> {
    let mut told = Vec::new();
    for path in ["/health", "/metrics", "/openapi.json", "/health/ready", "/"] {
        told.push(gateway.mcp().to(&gateway.url(path)).bare(http::Method::GET, &[]).await.body);
    }
    for route in ["/servers", "/health", "/tools", "/circuit-breakers"] {
        told.push(gateway.get(route).await.body);
    }
    let servers = gateway.get("/servers").await.json();
    for name in
        servers["servers"].as_array().expect("servers").iter().filter_map(|server| server["name"].as_str())
    {
        told.push(gateway.get(&format!("/servers/{name}/tools")).await.body);
        let call = json!({"server": name, "tool": "a", "arguments": {}, "timeout": 1});
        told.push(gateway.post("/call", &call.to_string()).await.body);
        told.push(gateway.post(&format!("/circuit-breakers/{name}/reset"), "").await.body);
        let one = gateway.mcp_of(name);
        told.push(one.modern("server/discover", json!({})).await.body);
        told.push(one.modern("tools/list", json!({})).await.body);
    }
    told.push(gateway.mcp().call("a", json!({})).await.body);
    told.push(gateway.mcp().legacy().await.request("tools/list", json!({})).await.body);
    told
}

/// RULES S16: 40 secrets, in URLs, headers, tokens, variables and arguments of servers that fail and repeat them. None
/// is in an answer, in the log, or in the output of a command, whether the file is valid or not.
#[tokio::test]
async fn no_secret_of_the_registry_file_is_told() {
    let nobody = Refusing::new();
    let (registry, variables) = registry(&nobody.url());
    assert!(variables.len() >= 30, "{}", variables.len());
    let with_secrets = |gateway: Gateway| {
        let gateway = gateway.env("SWITCHYARD_LOG", "warn,switchyard=debug");
        variables.iter().fold(gateway, |gateway, name| gateway.env(name, &format!("{CANARY}-{name}")))
    };
    let gateway = with_secrets(Gateway::of(&registry));
    let mut said = vec![format!("{:?}", gateway.output(&["check", "mcp_servers.yaml"]))];
    let wrong =
        registry.clone().with("tiemout: 3").setting("server: {max_sessions: \"${HTTP0_URL}\"}").yaml();
    said.push(format!(
        "{:?}",
        with_secrets(Gateway::with_config(&wrong)).output(&["check", "mcp_servers.yaml"])
    ));
    assert!(said[1].contains("tiemout") && said[1].contains("max_sessions"), "{said:?}");
    let gateway = gateway.start().await;
    eventually("all have failed", async || {
        let health = gateway.get("/health").await.json();
        let servers = health["servers"].as_array().expect("servers").clone();
        servers.iter().all(|server: &Value| server["last_error"].is_string()).then_some(())
    })
    .await;
    said.extend(all_answers(&gateway).await);
    gateway.rewrite(&wrong);
    let refused = gateway.post("/reload", "").await;
    assert_eq!(refused.status, 422, "{refused:?}");
    said.push(refused.body);
    said.extend(gateway.log().iter().map(ToString::to_string));
    assert!(said.iter().any(|text| text.contains("bad key ***")), "what a child says is logged");
    let leaks: Vec<&String> = said.iter().filter(|text| text.contains(CANARY)).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}
