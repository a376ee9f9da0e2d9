//! Child processes: what they can read of the gateway, and whether they outlive it.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};

use crate::rules::processes::is_alive;
use crate::support::gateway::Running;
use crate::support::user::Delegated;
use crate::support::{Gateway, Registry, eventually};

const SECRET: &str = "canary-5f1c9a72";

/// Reads what it can of its parent, one line for each file, and stays.
const SPY: &str = r#"
p=/proc/$PPID
for file in environ maps smaps io auxv pagemap; do
    if head -c 1 "$p/$file" 2>/dev/null | grep -q ''; then echo "read $file"; else echo "denied $file"; fi
done
if (: <"$p/mem") 2>/dev/null; then echo "read mem"; else echo "denied mem"; fi
if ls "$p/fd/" >/dev/null 2>&1; then echo "read fd"; else echo "denied fd"; fi
if readlink "$p/cwd" >/dev/null 2>&1; then echo "read cwd"; else echo "denied cwd"; fi
tr '\0' '\n' <"$p/environ" 2>/dev/null | grep -o 'canary-.*'
echo "own $(head -c 1 /proc/$$/environ | wc -c) $(id -u)"
echo "process $$"
"#;

/// A gateway with one child that runs `script`, whose output is the file that is returned.
async fn with_spy(script: &str, dumpable: bool) -> (Running, PathBuf) {
    let script = format!("( {script}\n) >spied.new; mv spied.new spied; exec cat >/dev/null");
    let registry = Registry::new().command("spy", "/bin/sh", &["-c", &script.replace('$', "$$")]);
    let gateway = Gateway::of(&registry).env("OUR_SECRET", SECRET);
    let gateway = if dumpable { gateway.dumpable() } else { gateway };
    let gateway = gateway.unprivileged();
    let spied = gateway.folder().join("spied");
    (gateway.start().await, spied)
}

async fn lines(path: &Path) -> Vec<String> {
    let read = async || std::fs::read_to_string(path).ok();
    eventually("the child has looked", read).await.lines().map(str::to_owned).collect()
}

/// How many of `lines` have this beginning.
fn count(lines: &[String], beginning: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(beginning)).count()
}

/// Issue 17, number 7: a child of the same user reads the environment and the memory of the gateway.
#[tokio::test]
async fn a_child_reads_neither_environment_nor_memory_of_the_gateway() {
    let (_gateway, spied) = with_spy(SPY, false).await;
    let seen = lines(&spied).await;
    eprintln!("{} of 9 files of the gateway read by its child", count(&seen, "read "));
    assert_eq!((count(&seen, "read "), count(&seen, "denied ")), (0, 9), "{seen:?}");
    assert_eq!(count(&seen, "canary-"), 0, "{seen:?}");
    // The child itself can be debugged as usual.
    assert_eq!(count(&seen, "own 1 "), 1, "{seen:?}");

    let (_gateway, spied) = with_spy(SPY, true).await;
    let seen = lines(&spied).await;
    assert!(count(&seen, "read ") >= 8 && count(&seen, SECRET) == 1, "the switch allows it: {seen:?}");
}

/// The example of `docs/security/processes.md`: another user, who may not even read a gateway that is dumpable.
#[tokio::test]
async fn a_child_under_another_user_reads_nothing_and_ends_with_its_gateway() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested: only root can start a program as another user");
        return;
    }
    let example = include_str!("../../../docs/security/processes.md");
    let arguments = example.split("    command: setpriv\n    args:\n").nth(1).expect("the example").lines();
    let mut arguments: Vec<&str> = arguments.map_while(|line| line.trim().strip_prefix("- --")).collect();
    assert!(arguments.len() > 5 && arguments.contains(&"pdeathsig=keep"), "{arguments:?}");
    let script = format!("( {SPY} ) >&2; exec sleep 600").replace('$', "$$");
    let options: Vec<String> = arguments.drain(..).map(|argument| format!("--{argument}")).collect();
    let options = options.iter().map(String::as_str);
    let command: Vec<&str> = options.chain(["/bin/sh", "-c", script.as_str()]).collect();
    let registry = Registry::new().command("spy", "setpriv", &command);
    let gateway = Gateway::of(&registry).env("OUR_SECRET", SECRET).dumpable().start().await;
    let seen = eventually("the child has looked", async || {
        let log = gateway.log();
        let lines =
            log.iter().filter(|line| line["server"] == "spy").filter_map(|line| line["line"].as_str());
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        (count(&lines, "process ") == 1).then_some(lines)
    })
    .await;
    assert_eq!((count(&seen, "read "), count(&seen, "own 1 65534")), (0, 1), "{seen:?}");
    let process =
        seen.iter().find_map(|line| line.strip_prefix("process ")?.parse().ok()).expect("its number");
    assert!(is_alive(process));
    drop(gateway.kill());
    end_of(&[process]).await;
}

/// The commands that read a configuration file protect themselves before.
#[tokio::test]
async fn an_unknown_value_of_the_switch_is_refused_by_every_command() {
    let gateway = Gateway::with_config("").env("SWITCHYARD_DUMPABLE", "maybe");
    for arguments in
        [&["serve"][..], &["stdio"], &["check", "mcp_servers.yaml"], &["key", "new"], &["--help"]]
    {
        let output = gateway.output(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains("must be 0 or 1"), "{arguments:?}: {said}");
    }
    let help = Gateway::with_config("").output(&["--help"]);
    assert!(String::from_utf8_lossy(&help.stdout).contains("SWITCHYARD_DUMPABLE=1"), "{help:?}");
}

/// Starts a process of its group, a daemon, and a daemon whose parent is gone; all hold no pipe of the gateway.
const FAMILY: &str = r#"
exec 3>&1 >/dev/null 2>&1
sleep 600 </dev/null & echo "process $!" >&3
setsid sh -c 'echo "process $$" >&3; exec 3>&-; exec sleep 600' </dev/null &
(setsid sh -c 'echo "process $$" >&3; exec 3>&-; exec sleep 600' </dev/null &)
while [ "$(grep -c process spied.new)" -lt 3 ]; do sleep 0.01; done
"#;

/// Runs [`FAMILY`] and stays until the end of its input.
fn family() -> String {
    format!("{{ {FAMILY} }} >spied.new; mv spied.new spied; cat >/dev/null; exit 0")
}

async fn with_family(group: &Delegated) -> (Running, Vec<u32>) {
    let registry = Registry::new().command("family", "/bin/sh", &["-c", &family().replace('$', "$$")]);
    let gateway = Gateway::of(&registry).unprivileged().in_group(group);
    start(gateway).await
}

async fn start(gateway: Gateway) -> (Running, Vec<u32>) {
    let spied = gateway.folder().join("spied");
    let _ = std::fs::remove_file(&spied);
    let gateway = gateway.start().await;
    let lines = lines(&spied).await;
    let processes = lines.iter().filter_map(|line| line.strip_prefix("process ")?.parse().ok());
    (gateway, processes.collect())
}

fn alive(processes: &[u32]) -> usize {
    processes.iter().filter(|process| is_alive(**process)).count()
}

async fn end_of(processes: &[u32]) {
    eventually("they have ended", async || (alive(processes) == 0).then_some(())).await;
}

/// Issue 17, number 12: daemons survive SIGTERM of the gateway, and grandchildren survive SIGKILL.
#[tokio::test]
async fn nothing_that_a_child_started_outlives_its_gateway_where_control_groups_are_delegated() {
    let Some(group) = Delegated::new() else {
        eprintln!("not tested: no control group of version 2 can be made here");
        return;
    };
    let (other, others) = with_family(&group).await;
    let (gateway, family) = with_family(&group).await;
    assert_eq!((family.len(), alive(&family), group.groups()), (3, 3, 2));
    assert!(gateway.stop().await.success());
    eprintln!("{} of 3 processes of a child left after SIGTERM", alive(&family));
    end_of(&family).await;
    assert_eq!(group.groups(), 1, "its control group is gone");

    let (gateway, family) = with_family(&group).await;
    let gateway = gateway.kill();
    eprintln!("{} of 3 processes of a child left after SIGKILL, until the next start", alive(&family));
    let (gateway, successors) = start(gateway).await;
    end_of(&family).await;
    assert_eq!((alive(&successors), alive(&others)), (3, 3), "those of living gateways stay");
    eventually("its control group is gone", async || (group.groups() == 2).then_some(())).await;
    for (gateway, family) in [(gateway, successors), (other, others)] {
        assert!(gateway.stop().await.success());
        end_of(&family).await;
    }
    assert_eq!(group.groups(), 0);
}

/// The forms in which a server may repeat what it was given, as programs write them.
fn forms(secret: &str) -> Vec<String> {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
    let pair = |user: &str| format!("{user}:{secret}");
    let percent: String = secret.bytes().map(percent_encoding::percent_encode_byte).collect();
    let reserved =
        percent_encoding::utf8_percent_encode(secret, percent_encoding::NON_ALPHANUMERIC).to_string();
    let hex = percent.replace('%', "").to_lowercase();
    let mut forms: Vec<String> =
        ["", "u", "us", "use"].iter().map(|user| format!("Basic {}", STANDARD.encode(pair(user)))).collect();
    forms.extend([STANDARD.encode(secret), URL_SAFE.encode(pair("a")), URL_SAFE_NO_PAD.encode(secret)]);
    forms.extend([reserved.to_lowercase(), reserved, percent.to_lowercase(), percent]);
    forms.extend([hex.to_uppercase(), hex, serde_json::json!(secret).to_string(), format!("{secret:?}")]);
    forms.extend([url::form_urlencoded::byte_serialize(secret.as_bytes()).collect(), secret.to_owned()]);
    forms
}

/// Writes a text to standard error, and refuses each request with it.
const REPEATS: &str = r#"
cat said-NUMBER >&2
while read -r line; do
    id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    error="{\"code\":-32001,\"message\":$(cat message-NUMBER)}"
    [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"error":%s}\n' "$id" "$error"
done
"#;

/// Issue 17, number 12: secrets in Base64 and percent-encoded reach the log and `/servers`.
#[tokio::test]
async fn a_secret_that_a_child_repeats_in_another_form_is_not_told() {
    let secret = r#"k3y/"zwölf"+?&c4n4ry~9"#;
    let forms = forms(secret);
    let registry = forms.iter().enumerate().fold(Registry::new(), |registry, (number, _)| {
        let script = REPEATS.replace("NUMBER", &number.to_string()).replace('$', "$$");
        registry.command(&format!("s{number}"), "/bin/sh", &["-c", &script]).with("env: {KEY: \"${KEY}\"}")
    });
    let gateway = Gateway::of(&registry).env("KEY", secret).env("SWITCHYARD_LOG", "switchyard=debug");
    for (number, form) in forms.iter().enumerate() {
        let (said, path) =
            (format!("given {form} here"), |name: &str| gateway.folder().join(format!("{name}-{number}")));
        std::fs::write(path("said"), format!("{said}\n")).expect("written");
        std::fs::write(path("message"), serde_json::json!(said).to_string()).expect("written");
    }
    let gateway = gateway.start().await;
    let errors = eventually("all children have failed", async || {
        let servers = gateway.get("/servers").await.json()["servers"].as_array().expect("servers").clone();
        let errors = servers.iter().filter_map(|server| server["last_error"].as_str().map(str::to_owned));
        Some(errors.collect::<Vec<_>>()).filter(|errors| errors.len() == forms.len())
    })
    .await;
    let log = gateway.log().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let told = format!("{}\n{log}\n{}", errors.join("\n"), gateway.get("/health").await.body);
    // The characters beside the secret may stay in Base64.
    let is_told = |form: &&String| {
        let length = form.chars().count();
        told.contains(&form.chars().skip(length / 3).take(length / 2).collect::<String>())
    };
    let leaked: Vec<&String> = forms.iter().filter(is_told).collect();
    eprintln!("{} of {} forms of a secret were told", leaked.len(), forms.len());
    assert!(leaked.is_empty(), "{leaked:#?}");
    assert!(errors.iter().all(|error| error.contains("given ") && error.contains("***")), "{errors:#?}");
    assert!(log.matches("***").count() >= 2 * forms.len(), "said twice each: {log}");
}
