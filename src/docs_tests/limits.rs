//! `docs/reference/limits.md` is what the readers of the configuration file take for settings that are not there.

use std::fmt::Write as _;
use std::time::Duration;

use super::parse;

const INTRO: &str = "<!-- Made from the defaults of the configuration readers. Renew it with UPDATE_GOLDEN=1. -->

# Reference: defaults of limits

This page lists limits and times with their defaults. Their ranges are in [Configuration](../configuration.md). The page
on limits also lists the [fixed limits](../operate/limits.md#limits-and-what-happens-beyond-them). `workers` and
`memory_budget` depend on the machine and are not in this list.

";

fn time(value: Duration) -> String {
    format!("{} s", value.as_secs_f64())
}

fn bytes(value: usize) -> String {
    format!("{value} bytes ({} MiB)", value / (1024 * 1024))
}

fn table(title: &str, rows: &[(&str, String)]) -> String {
    let mut text = format!("## {title}\n\n| setting | default |\n|---|---|\n");
    for (name, value) in rows {
        writeln!(text, "| `{name}` | {value} |").expect("a string");
    }
    text
}

fn of_listener(server: &downstream::Config) -> Vec<(&'static str, String)> {
    let limits = &server.limits;
    vec![
        ("listen", format!("`{}`", server.listen)),
        ("max_sockets", limits.max_sockets.to_string()),
        ("max_connections", server.max_connections.to_string()),
        ("max_sessions", server.max_sessions.to_string()),
        ("max_body_bytes", bytes(server.max_body_bytes)),
        ("header_timeout", time(limits.header_timeout)),
        ("body_timeout", time(limits.body_timeout)),
        ("idle_timeout", time(limits.idle_timeout)),
        ("write_timeout", time(limits.write_timeout)),
        ("session_idle_timeout", time(server.session_idle_timeout)),
        ("drain_timeout", time(limits.drain_timeout)),
        ("shutdown_delay", time(server.shutdown_delay)),
    ]
}

fn of_server(server: &upstream::Config) -> Vec<(&'static str, String)> {
    let (limits, retry, breaker) = (&server.limits, &server.retry, &server.breaker);
    let per_minute =
        limits.requests_per_minute.map_or_else(|| "no limit".to_owned(), |count| count.to_string());
    vec![
        ("timeout", time(server.timeout)),
        ("max_timeout", time(server.max_timeout)),
        ("health_check_interval", time(server.health_check_interval)),
        ("retry_attempts", retry.attempts.to_string()),
        ("retry_delay", time(retry.delay)),
        ("retry_max_delay", time(retry.max_delay)),
        ("circuit_breaker_threshold", breaker.threshold.to_string()),
        ("circuit_breaker_success_threshold", breaker.successes.to_string()),
        ("circuit_breaker_timeout", time(breaker.timeout)),
        ("connection_pool_size", limits.connections.to_string()),
        ("limits.concurrent_calls", limits.concurrent_calls.to_string()),
        ("limits.waiting_calls", limits.waiting_calls.to_string()),
        ("limits.message_bytes", bytes(limits.message_bytes)),
        ("limits.requests_per_minute", per_minute),
    ]
}

#[test]
fn the_page_of_limits_is_what_the_readers_take() {
    let config = parse("mcp_servers:\n  one: {url: \"http://localhost:1/mcp\"}\n").expect("valid");
    let servers = &config.manager.servers;
    let names = [
        ("max_tool_name_length", config.manager.max_tool_name_length.to_string()),
        ("tools_per_page", config.manager.tools_per_page.to_string()),
    ];
    let tables = [
        table("The listener: below `server`", &of_listener(&config.server)),
        table("Each server: below `mcp_servers`", &of_server(&servers[0])),
        table("Names and lists: at the top of the file", &names),
    ];
    super::compare("docs/reference/limits.md", &format!("{INTRO}{}", tables.join("\n")));
}
