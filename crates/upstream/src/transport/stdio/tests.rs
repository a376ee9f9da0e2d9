//! Tests against real child processes: small servers written in shell.

use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::Owner;
use crate::config::Transport;
use crate::connection::Event;
use crate::transport::testing::{MESSAGE_BYTES, config};
use json::Raw;
use protocol::feature::List;
use protocol::meta::Sender;

const LEGACY: &str = r#"
    *'"server/discover"'*) refuse -32601 ;;
    *'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}' ;;
    *'"notifications/initialized"'*) ;;"#;
const MODERN: &str = r#"
    *'"server/discover"'*) answer '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}' ;;"#;

/// A server that does `first`, and then searches `cases` for each line.
fn script(first: &str, cases: &[&str]) -> Stdio {
    let script = format!(
        r#"say() {{ printf '%s\n' "$1"; }}
        answer() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
        refuse() {{ printf '{{"jsonrpc":"2.0","id":%s,"error":{{"code":%s,"message":"no"}}}}\n' "$id" "$1"; }}
        {first}
        while read -r line; do
            id=${{line#*\"id\":}}; id=${{id%%,*}}
            case "$line" in {cases}
            esac
        done"#,
        cases = cases.concat()
    );
    let args = vec!["-c".to_owned(), script];
    Stdio {
        command: "sh".into(),
        args,
        env: [("EXTRA".to_owned(), "yes".into())].into(),
        pass_env: Vec::new(),
        cwd: None,
    }
}

struct Bench {
    connector: ToChild,
    shutdown: Shutdown,
}

impl Bench {
    fn new(stdio: &Stdio) -> Self {
        Self::of(stdio, &config(Transport::Stdio(stdio.clone())))
    }

    fn of(stdio: &Stdio, config: &Config) -> Self {
        let shutdown = Shutdown::new();
        let mut connector = ToChild::new(config, stdio, &shutdown);
        Arc::get_mut(&mut connector.0).expect("nobody else has it").start_limits = None;
        Self { connector, shutdown }
    }

    async fn connect(&self) -> (Arc<dyn Connection>, mpsc::Receiver<Event>) {
        let (events, receiver) = Events::channel();
        (self.connector.connect(events, Dialect::base()).await.expect("connects"), receiver)
    }

    async fn refusal(&self) -> String {
        let (events, _receiver) = Events::channel();
        match self.connector.connect(events, Dialect::base()).await {
            Ok(_) => panic!("it connected"),
            Err(Error::Connect { reason }) => reason,
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Waits until all tasks have returned, which they do when the child is reaped.
    async fn is_over(&self) {
        assert!(self.shutdown.wait(Duration::from_secs(20)).await, "a task is left");
    }
}

fn call(name: &str) -> Call {
    let params = Raw::of(&json!({"name": name, "arguments": {"n": 1.0}}));
    Call { wants_progress: true, owner: Owner::new(), ..Call::of_gateway(method::TOOLS_CALL, Some(params)) }
}

async fn ask(connection: &Arc<dyn Connection>, name: &str) -> Result<Raw, Error> {
    let body = connection.request(&call(name), &EventSender::none()).await?;
    Ok(body.collect().await?.expect("a result"))
}

#[tokio::test]
async fn a_legacy_server_is_greeted_in_the_old_way_and_asked_no_second_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log").display().to_string();
    let logged = format!(r#"say "$line" >> {log};"#);
    let echo = r#"*'"tools/call"'*) answer "$line" ;;"#;
    let mut stdio = script("", &[LEGACY, echo]);
    stdio.args[1] = stdio.args[1].replace("case", &format!("{logged} case"));
    let bench = Bench::new(&stdio);

    let (connection, _) = bench.connect().await;
    assert_eq!(connection.peer().era(), Era::Legacy);
    let sent = ask(&connection, "x").await.expect("a result");
    assert_eq!(
        sent.get("params").expect("params").as_str(),
        r#"{"arguments":{"n":1.0},"name":"x","_meta":{"progressToken":3}}"#
    );
    connection.close().await;
    let (again, _) = bench.connect().await;
    again.close().await;
    let log = std::fs::read_to_string(log).expect("a log");
    let count = |what: &str| log.lines().filter(|line| line.contains(what)).count();
    assert_eq!((count("server/discover"), count("\"initialize\""), count("initialized")), (1, 2, 2));
    bench.is_over().await;
}

#[tokio::test(start_paused = true)] // patience ends at once
async fn a_server_of_both_eras_that_is_slow_to_start_keeps_both_and_one_that_passes_over_initialize_does_not()
{
    let slow = LEGACY.replace(r#"*'"initialize"'*)"#, r#"*'"initialize"'*) sleep 0.3;"#);
    let alive = r#"*'"ping"'*) refuse -32601 ;; *'"initialize"'*) ;;"#;
    for (second, speaks) in [(slow.as_str(), true), (alive, false)] {
        let bench = Bench::new(&script("", &[MODERN, second]));
        let (base, _) = bench.connect().await;
        assert_eq!(base.peer().era(), Era::Modern);
        let (events, _heard) = Events::channel();
        let dialect = Dialect { era: Era::Legacy, ..Dialect::base() };
        let found = bench.connector.connect(events, dialect).await.map(|connection| connection.peer().era());
        assert_eq!(found.ok(), speaks.then_some(Era::Legacy));
        assert_eq!(bench.connector.speaks(Era::Legacy), Some(speaks));
        base.close().await;
        // Children end in real time.
        tokio::time::resume();
        bench.is_over().await;
        tokio::time::pause();
    }
}

#[tokio::test]
async fn a_modern_server_gets_self_describing_requests() {
    let bench = Bench::new(&script("", &[MODERN, r#"*'"tools/call"'*) answer "$line" ;;"#]));
    let (connection, _) = bench.connect().await;
    assert_eq!(connection.peer().era(), Era::Modern);
    let meta = ask(&connection, "x").await.expect("a result").get("params").and_then(|p| p.get("_meta"));
    let meta = meta.expect("_meta");
    let sender = Sender::gateway();
    assert_eq!(meta.get("io.modelcontextprotocol/clientInfo"), Some(sender.info));
    assert_eq!(meta.get("progressToken"), Some(Raw::of(&2)));
    connection.close().await;
    assert!(connection.closed().await.contains("closed"));
    bench.is_over().await;
}

#[tokio::test(start_paused = true)] // the probe ends at once
async fn a_server_that_is_silent_on_the_probe_is_legacy() {
    let silent = r#"*'"server/discover"'*) ;;"#;
    let bench = Bench::new(&script("", &[silent, LEGACY]));
    let (connection, _) = bench.connect().await;
    assert_eq!(connection.peer().era(), Era::Legacy);
    connection.close().await;
    bench.is_over().await;
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_was_slow_to_start_is_not_taken_for_a_legacy_one() {
    let slow = r#"
    *'"server/discover"'*) late=$id ;;
    *'"initialize"'*) now=$id; id=$late
        answer '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}'
        id=$now; refuse -32022 ;;
    *'"tools/call"'*) answer "$line" ;;"#;
    let bench = Bench::new(&script("", &[slow]));
    let (connection, _) = bench.connect().await;
    assert_eq!((connection.peer().era(), bench.connector.speaks(Era::Modern)), (Era::Modern, Some(true)));
    ask(&connection, "x").await.expect("a result");
    connection.close().await;
    bench.is_over().await;
}

#[tokio::test]
async fn a_server_that_exits_on_the_probe_is_started_again_and_greeted_in_the_old_way() {
    let bench = Bench::new(&script("", &[r#"*'"server/discover"'*) exit 3 ;;"#, LEGACY]));
    let (connection, _) = bench.connect().await;
    assert_eq!((connection.peer().era(), bench.connector.speaks(Era::Modern)), (Era::Legacy, Some(false)));
    drop(connection);
    bench.is_over().await;
}

#[tokio::test]
async fn server_messages_are_routed_to_their_calls() {
    let talk = r#"*'"tools/call"'*)
        say 'a banner, as real servers print'
        say ''
        say '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
        say '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":77,"progress":1}}'
        say '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":2}}'
        say '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"hi"}}'
        say '{"jsonrpc":"2.0","id":"q","method":"roots/list"}'
        say '{"jsonrpc":"2.0","id":"p","method":"ping"}'
        read -r no; read -r pong
        answer "[$no,$pong]" ;;"#;
    let bench = Bench::new(&script("say 'Starting up…'", &[LEGACY, talk]));
    let (connection, mut events) = bench.connect().await;
    let (event_sender, mut reader) = EventSender::new(8);
    let body = connection.request(&call("x"), &event_sender).await.expect("answered");
    let result = body.collect().await.expect("whole").expect("a result");
    let answers: Vec<Raw> = result.elements().collect();
    assert!(answers[0].as_str().contains(r#""id":"q","error":{"code":-32601"#), "{result:?}");
    assert_eq!(answers[1].as_str(), r#"{"jsonrpc":"2.0","id":"p","result":{}}"#);
    assert_eq!(events.try_recv(), Ok(Event::Changed(List::Tools)));
    let seen: Vec<String> =
        std::iter::from_fn(|| reader.try_recv().ok()).map(|n| n.method().to_owned()).collect();
    assert_eq!(seen, ["notifications/progress", "notifications/message"]);
    drop(connection);
    bench.is_over().await;
}

#[tokio::test]
async fn a_server_that_refuses_the_notification_after_the_handshake_answers_its_first_call() {
    let refuses = LEGACY.replace(
        r#"*'"notifications/initialized"'*)"#,
        r#"*'"notifications/initialized"'*) id=null; refuse -32600"#,
    );
    let slow = r#"*'"tools/call"'*) sleep 0.2; answer '{"ok":1}' ;;"#;
    let bench = Bench::new(&script("", &[&refuses, slow]));
    let (connection, _) = bench.connect().await;
    assert_eq!(ask(&connection, "x").await.expect("a result").as_str(), r#"{"ok":1}"#);
    drop(connection);
    bench.is_over().await;
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_at_the_server() {
    let slow = r#"*'"slow"'*) say '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}' ;;
        *'"notifications/cancelled"'*) told="$line" ;;
        *'"tools/call"'*) answer "$told" ;;"#;
    let bench = Bench::new(&script("", &[LEGACY, slow]));
    let (connection, mut events) = bench.connect().await;
    tokio::select! {
        answer = ask(&connection, "slow") => panic!("{answer:?}"),
        event = events.recv() => assert!(event.is_some(), "the call is with the server"),
    }
    let text = ask(&connection, "what").await.expect("a result");
    assert_eq!(text.get("method"), Some(Raw::of("notifications/cancelled")));
    assert_eq!(text.get("params").and_then(|p| p.get("requestId")), Some(Raw::of(&3)));
    drop(connection);
    bench.is_over().await;
}

#[tokio::test]
async fn a_child_that_dies_takes_its_calls_with_it_and_says_why() {
    let die = r#"*'"die"'*) say "$EXTRA: no such database" >&2; exit 7 ;;
        *'"last"'*) answer '"last words"'; exit 0 ;;"#;
    let bench = Bench::new(&script("", &[LEGACY, die]));
    let (connection, _) = bench.connect().await;
    // Callers get the exit status. Operators also get the end of standard error.
    let expected = "the process exited with status 7";
    assert_eq!(ask(&connection, "die").await, Err(Error::Lost { reason: expected.into() }));
    let text = format!("{expected}; the end of its standard error: yes: no such database");
    assert_eq!(connection.closed().await, text);
    assert_eq!(ask(&connection, "x").await, Err(Error::NotSent { reason: expected.into() }));
    let (connection, _) = bench.connect().await;
    let answer = ask(&connection, "last").await.expect("what was written before the end counts");
    assert_eq!(answer.as_str(), "\"last words\"");
    drop(connection);
    bench.is_over().await;
}

#[tokio::test]
async fn values_from_variables_in_arguments_are_not_repeated() {
    let die = r#"*'"die"'*) say "bad token tok-123456" >&2; exit 7 ;;"#;
    let stdio = script("", &[LEGACY, die]);
    let secrets = vec!["tok-123456".into()];
    let bench = Bench::of(&stdio, &Config { secrets, ..config(Transport::Stdio(stdio.clone())) });
    let (connection, _) = bench.connect().await;
    assert!(ask(&connection, "die").await.is_err());
    assert!(connection.closed().await.ends_with("standard error: bad token ***"));
    bench.is_over().await;
}

#[tokio::test(start_paused = true)] // patience ends at once
async fn a_child_that_closes_its_output_is_gone_before_the_connection_counts_as_closed() {
    let deaf = r#"*'"pid"'*) answer $$ ;;
        *'"close"'*) exec >&-; trap '' TERM; while :; do sleep 1000; done ;;"#;
    let bench = Bench::new(&script("", &[LEGACY, deaf]));
    let (connection, _) = bench.connect().await;
    let process: u32 = ask(&connection, "pid").await.expect("a result").read().expect("a number");
    let lost = Err(Error::Lost { reason: "the process closed its output".into() });
    assert_eq!(ask(&connection, "close").await, lost);
    assert!(is_alive(process), "its calls do not wait for its end");
    assert!(connection.closed().await.contains("closed its output"));
    assert!(!is_alive(process));
    bench.is_over().await;
}

#[tokio::test]
async fn an_answer_beyond_the_cap_ends_its_call_and_nothing_else() {
    let long = r#"*'"long"'*) answer "\"$(head -c 200000 /dev/zero | tr '\0' x)\"" ;;
        *'"tools/call"'*) answer '{}' ;;"#;
    let bench = Bench::new(&script("", &[LEGACY, long]));
    let (connection, _) = bench.connect().await;
    assert_eq!(ask(&connection, "long").await, Err(Error::TooLarge { limit: MESSAGE_BYTES }));
    assert_eq!(ask(&connection, "x").await, Ok(Raw::empty_object()));
    drop(connection);
    bench.is_over().await;
}

// RULES R18
#[tokio::test]
async fn full_pipes_in_both_directions_do_not_lock_us() {
    // The child writes far more than a pipe holds before it reads the second request, and floods stderr.
    let flood = r#"*'"flood"'*)
        head -c 300000 /dev/zero | tr '\0' '\n' >&2
        i=0; while [ $i -lt 200 ]; do i=$((i+1)); say "$noise"; done
        answer '{}' ;;
        *'"tools/call"'*) answer "{\"length\":${#line}}" ;;"#;
    let noise = format!("noise='{}'", "n".repeat(4000));
    let bench = Bench::new(&script(&noise, &[LEGACY, flood]));
    let (connection, _) = bench.connect().await;
    let mut big = call("big");
    big.params = Some(Raw::of(&json!({"name": "big", "arguments": {"x": "y".repeat(300_000)}})));
    let event_sender = EventSender::none();
    let (flood, answer) = tokio::join!(ask(&connection, "flood"), connection.request(&big, &event_sender));
    assert_eq!(flood, Ok(Raw::empty_object()));
    let reply = answer.expect("answered").collect().await.expect("whole");
    let length: usize = reply.expect("a result").get_as("length").expect("a length");
    assert!(length > 300_000);
    drop(connection);
    bench.is_over().await;
}

/// Whether the process runs and is not only waiting to be reaped by its new parent.
fn is_alive(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test(start_paused = true)] // patience ends at once
async fn a_stubborn_child_ends_with_all_its_group() {
    let stubborn = "trap '' TERM; (trap '' TERM; while :; do sleep 1000; done) & other=$!; trap '' EXIT";
    let stay = r#"*'"tools/call"'*) answer "[$$,$other]" ;;"#;
    let mut stdio = script(stubborn, &[LEGACY, stay]);
    stdio.args[1].push_str("; while :; do sleep 1000; done");
    let bench = Bench::new(&stdio);
    let (connection, _) = bench.connect().await;
    let processes: Vec<u32> = ask(&connection, "x").await.expect("a result").read().expect("numbers");
    assert!(processes.iter().all(|process| is_alive(*process)));
    connection.close().await;
    // They are killed. On a busy machine this takes the kernel a moment.
    let silence_limits = std::time::Instant::now();
    while processes.iter().any(|process| is_alive(*process)) {
        assert!(silence_limits.elapsed() < Duration::from_secs(10), "{processes:?}");
        std::thread::yield_now();
    }
    bench.is_over().await;
}

#[tokio::test]
async fn a_child_that_ends_at_the_end_of_its_input_is_not_signalled() {
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("mark").display().to_string();
    let mut stdio = script("", &[LEGACY]);
    stdio.args[1].extend(["; echo done > ", &mark]);
    let bench = Bench::new(&stdio);
    let (connection, _) = bench.connect().await;
    bench.shutdown.begin();
    assert_eq!(connection.closed().await, "the connection was closed");
    bench.is_over().await;
    assert_eq!(std::fs::read_to_string(mark).expect("it came to its end"), "done\n");
}

#[tokio::test]
async fn a_failure_to_start_names_the_command() {
    let mut stdio = script("", &[]);
    stdio.command = "no-such-program-anywhere".into();
    let reason = Bench::new(&stdio).refusal().await;
    assert!(reason.contains("the target") && reason.contains("PATH"), "{reason}");
    let reason = Bench::new(&script("exit 4", &[])).refusal().await;
    assert_eq!(reason, "the process exited with status 4");
    let refuses = script("", &[r#"*'"id"'*) refuse -32099 ;;"#]);
    assert!(Bench::new(&refuses).refusal().await.contains("refused initialize: no (-32099)"));
}

#[tokio::test]
async fn a_child_sees_little_of_our_environment() {
    let bench = Bench::new(&script(
        "",
        &[LEGACY, r#"*'"tools/call"'*) answer "\"$(env | cut -d= -f1 | tr '\n' ' ')\"" ;;"#],
    ));
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "we have something it must not see");
    let (connection, _) = bench.connect().await;
    let names: String = ask(&connection, "x").await.expect("a result").read().expect("text");
    assert!(names.contains("EXTRA ") && names.contains("PATH ") && !names.contains("CARGO"), "{names}");
    drop(connection);
    bench.is_over().await;
}
