//! `server.log_level` and `server.log_file`: level and place of the log in the configuration file.

use std::path::Path;

use crate::support::{Gateway, eventually};

fn lines(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The lines once one of them has `part`.
async fn lines_with(file: &Path, part: &str) -> Vec<String> {
    eventually(&format!("{part:?} is in {}", file.display()), async || {
        let lines = lines(file);
        lines.iter().any(|line| line.contains(part)).then_some(lines)
    })
    .await
}

// Issue 18, item 14: before, `log_level` and `log_file` were unknown keys.
#[tokio::test]
async fn the_log_is_written_to_a_file_at_the_level_that_the_file_says() {
    for (level, has_info) in [("INFO", true), ("warning", false), ("Debug", true), ("error", false)] {
        let yaml = format!(
            "mcp_servers: {{}}\nserver: {{log_level: {level}, log_file: here.log, allow_unauthenticated: true}}\n"
        );
        let gateway = Gateway::with_config(&yaml);
        let file = gateway.folder().join("here.log");
        let session = gateway.start_piped_and_listening();
        // It names exceptions from authentication at every level.
        let found = lines_with(&file, "allow_unauthenticated").await;
        assert!(found.iter().all(|line| line.starts_with('{')), "JSON: {found:?}");
        let found = if has_info {
            lines_with(&file, "\"listening\"").await
        } else {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            lines(&file)
        };
        assert_eq!(found.iter().any(|line| line.contains("\"INFO\"")), has_info, "{level}: {found:?}");
        session.stop().await;
    }
}

#[tokio::test]
async fn a_variable_counts_before_the_level_of_the_file() {
    let gateway = Gateway::with_config("mcp_servers: {}\nserver: {log_level: error}\n");
    let running = gateway.env("SWITCHYARD_LOG", "info").start().await; // it says that it listens
    drop(running);
}

#[tokio::test]
async fn a_file_that_is_moved_away_is_made_anew_and_one_that_is_there_is_kept() {
    let gateway = Gateway::with_config("mcp_servers: {}\nserver: {log_file: here.log, log_format: json}\n");
    let (file, moved) = (gateway.folder().join("here.log"), gateway.folder().join("here.log.1"));
    std::fs::write(&file, "before\n").expect("written");
    let session = gateway.start_piped_and_listening();
    let found = lines_with(&file, "\"listening\"").await;
    assert_eq!(found[0], "before");
    std::fs::rename(&file, &moved).expect("moved");
    let reload = async || {
        // Every reload is a line or two.
        session.hang_up();
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        lines(&file).iter().any(|line| line.contains("reloaded")).then_some(())
    };
    eventually("lines are in the new file", reload).await;
    assert!(session.stop().await.success());
}

#[test]
fn a_file_that_cannot_be_opened_stops_the_start_and_is_named() {
    for (file, what) in
        [("/nowhere/at/all.log", "/nowhere/at/all.log"), ("/dev/null", "regular file"), (".", "log_file")]
    {
        let gateway = Gateway::with_config(&format!("mcp_servers: {{}}\nserver: {{log_file: {file}}}\n"));
        let ended = gateway.output(&["serve", "--listen", "127.0.0.1:0"]);
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{told}");
        assert!(told.contains("`log_file`") && told.contains(what), "{told}");
    }
}

#[test]
fn startup_error_is_on_standard_error_too() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let gateway = Gateway::with_config("mcp_servers: {}\nserver: {log_file: here.log}\n");
    let ended = gateway.output(&["serve", "--listen", &address]);
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("cannot listen on"), "{told}");
    let logged = lines(&gateway.folder().join("here.log"));
    assert!(logged.iter().any(|line| line.contains("cannot listen on")), "{logged:?}");
}

#[test]
fn a_level_that_is_none_is_refused() {
    let told = Gateway::with_config("server: {log_level: loud}\n").output(&["check", "mcp_servers.yaml"]);
    let text = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.status.code() == Some(2) && text.contains("server.log_level"), "{text}");
}
