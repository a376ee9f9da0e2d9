//! Shell injection: shell text in every place where a client or an operator can put text. Only the configured programs
//! run, with their arguments unchanged.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::processes::{children, started};
use crate::support::gateway::Running;
use crate::support::{Gateway, Registry};

/// The file that a payload creates if a shell runs it.
const MARK: &str = "pwned";

/// Texts that a shell runs inside a command, in various forms of quotes.
const PAYLOADS: [&str; 20] = [
    "; touch pwned",
    ";touch${IFS}pwned;",
    "| touch pwned",
    "|| true && touch pwned",
    "& touch pwned",
    "&& touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "\ntouch pwned\n",
    "\r\ntouch pwned\n",
    "x\ntouch pwned #",
    "\"; touch pwned; \"",
    "'; touch pwned; '",
    "\"$(touch pwned)\"",
    "> pwned",
    ">> pwned",
    "<(touch pwned)",
    "${x:-$(touch pwned)}",
    "$((`touch pwned`))",
    "; sh -c 'touch pwned'",
];

/// Runs `payload` as an argument, in quotes of each kind, like a careless program.
fn is_dangerous(payload: &str) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    for command in [format!("echo {payload}"), format!("echo \"{payload}\""), format!("echo '{payload}'")] {
        let mut shell = Command::new("bash");
        let output = shell.args(["-c", &command]).current_dir(folder.path()).output();
        assert!(output.is_ok(), "bash starts");
    }
    folder.path().join(MARK).exists()
}

/// Sends every body and path of one payload. Returns the number of requests.
async fn try_all(gateway: &Running, payload: &str) -> usize {
    let command = json!({"command": "sh", "args": ["-c", payload], "env": {"BASH_ENV": payload}, "cwd": "/"});
    let call = |server: &str, tool: &str, arguments: Value| json!({"server": server, "tool": tool, "arguments": arguments});
    let mut with_command = call("one", "echo", json!({"x": 1}));
    let mut new_server = json!({"mcp_servers": {"new": command}, "name": "new", "transport": "stdio"});
    for (name, value) in command.as_object().expect("an object") {
        with_command[name] = value.clone();
        new_server[name] = value.clone();
    }
    let bodies = [
        ("/call", call("one", "echo", json!({"x": payload, "command": command}))),
        ("/call", call("one", payload, json!({}))),
        ("/call", call(payload, "echo", json!({}))),
        ("/call", with_command),
        ("/call", new_server.clone()),
        ("/servers", new_server.clone()),
        ("/reload", new_server.clone()),
        ("/servers/one/reconnect", new_server.clone()),
        ("/servers/one/tools/approve", new_server.clone()),
        ("/circuit-breakers/one/reset", new_server),
    ];
    for (route, body) in &bodies {
        let answer = gateway.post(route, &body.to_string()).await;
        assert!(answer.status < 500, "{route}: {answer:?}");
    }
    let encoded: String = payload.bytes().fold(String::new(), |text, byte| format!("{text}%{byte:02X}"));
    let paths = [
        format!("/servers/{encoded}/tools"),
        format!("/servers/one/tools?command={encoded}&args={encoded}"),
        format!("/tools?server={encoded}"),
    ];
    for path in &paths {
        let answer = gateway.get(path).await;
        assert!(answer.status < 500, "{path}: {answer:?}");
    }
    for path in [format!("/servers/{encoded}/reconnect"), format!("/circuit-breakers/{encoded}/reset")] {
        assert_eq!(gateway.post(&path, "").await.status, 404, "{path}");
    }
    let session = gateway.mcp().legacy().await;
    let answer = session.call("echo", json!({"x": payload})).await;
    assert_eq!(answer.text(), json!({"x": payload}).to_string(), "it is passed on as it is");
    session.call(payload, json!({})).await;
    session
        .request(
            "initialize",
            json!({"clientInfo": {"name": payload, "version": payload}, "command": command}),
        )
        .await;
    session.request("completion/complete", json!({"ref": {"type": "ref/prompt", "name": payload}})).await;
    session.request("resources/read", json!({"uri": payload})).await;
    session.delete().await;
    bodies.len() + paths.len() + 7
}

/// Checks that no payload created a file, in the gateway's folder or in folders where a program might start.
fn nothing_ran(folder: &Path) {
    for place in [folder, Path::new("/"), Path::new("/tmp")] {
        assert!(!place.join(MARK).exists(), "something was run in {}", place.display());
    }
}

/// RULES S20: payloads through every route of the API: none is run, and no program starts but the one that was there.
#[tokio::test]
async fn input_of_the_api_is_never_run_as_a_command() {
    let (harmless, folder) = (PAYLOADS.iter().filter(|payload| !is_dangerous(payload)), tempfile::tempdir());
    assert_eq!(harmless.collect::<Vec<_>>(), Vec::<&&str>::new(), "a shell would run all of them");
    let record = folder.as_ref().expect("a folder").path().join("record");
    let arguments = ["--era", "modern", "--record", record.to_str().expect("UTF-8")];
    let gateway = Gateway::of(&Registry::new().child("one", &arguments)).start().await;
    gateway.offers(&["echo"]).await;
    let mut tries = 0;
    for payload in PAYLOADS {
        tries += try_all(&gateway, payload).await;
    }
    assert!(tries >= 80, "{tries}");
    nothing_ran(gateway.folder());
    assert_eq!(children(gateway.id()), 1, "the one child that is configured");
    assert_eq!(gateway.get("/servers").await.json()["servers"].as_array().expect("servers").len(), 1);
}

/// RULES S20: the same payloads as arguments, variables and names in the configuration file, through reloads. Each
/// reaches its program unchanged, and a payload in place of a program is not started.
#[tokio::test]
async fn configured_command_is_not_run_by_a_shell() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Gateway::of(&Registry::new()).start().await;
    for (turn, payloads) in PAYLOADS.chunks(5).enumerate() {
        let registry = payloads.iter().enumerate().fold(Registry::new(), |registry, (number, payload)| {
            // `$` begins a variable there, and two of them are one.
            let (payload, record) =
                (payload.replace('$', "$$"), folder.path().join(format!("{turn}-{number}")));
            let (tool, record) = (format!("t{turn}-{number}"), record.to_str().expect("UTF-8").to_owned());
            let arguments = ["--era", "modern", "--tools", &tool, "--record", &record, &payload];
            registry
                .child(&format!("s{number}"), &arguments)
                .with(&format!("env: {{GIVEN: {}}}", json!(payload)))
                .with(&format!("description: {}", json!(payload)))
                .command(&format!("no{number}"), &format!("touch {MARK} {payload}"), &[])
        });
        gateway.rewrite(&registry.yaml());
        let answer = gateway.post("/reload", "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let tools: Vec<String> = (0..payloads.len()).map(|number| format!("t{turn}-{number}")).collect();
        gateway.offers(&tools.iter().map(String::as_str).collect::<Vec<_>>()).await;
        for (number, payload) in payloads.iter().enumerate() {
            let process = started(&folder.path().join(format!("{turn}-{number}")))[0];
            let given = |of: &str| std::fs::read(format!("/proc/{process}/{of}")).expect("it runs");
            let line = given("cmdline");
            assert!(
                line.ends_with(format!("\0{payload}\0").as_bytes()),
                "{}",
                String::from_utf8_lossy(&line)
            );
            let environment = given("environ");
            let entry = format!("GIVEN={payload}");
            assert!(
                environment.split(|byte| *byte == 0).any(|found| found == entry.as_bytes()),
                "{payload:?}"
            );
        }
    }
    nothing_ran(gateway.folder());
}
