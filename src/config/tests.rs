//! Files that are made to cost time and memory.

use super::{Config, Error};

#[test]
fn a_hostile_file_is_refused_in_bounded_time_and_space() {
    let file = |text: String| {
        let lookup = |_: &str| Err(std::env::VarError::NotPresent);
        let read = Config::parse(std::path::Path::new("f"), text.as_bytes(), &lookup);
        let Err(Error::Invalid(report)) = read else { panic!("it is not refused") };
        assert!(report.problems.len() <= 1_000 && report.to_string().len() < 100_000);
    };
    let keys =
        |separator: &str| (0..10_000).map(|at| format!("k{at}: $NONE")).collect::<Vec<_>>().join(separator);
    file(format!("{{{}}}", keys(",")));
    file(keys("\n"));
    file(format!("? {}\n: 1\n", "k".repeat(1_000_000)));
    file(format!("{}: 1\n", "k".repeat(250)));
    file(format!("mcp_servers: {{one: {{url: \"{}\"}}}}", "x".repeat(1_000_000)));
    file(format!("mcp_servers: {{one: {{url: \"{}\"}}}}", "$A".repeat(50_000)));
    file("[".repeat(1_000_000));
    file("x".repeat(2 << 20));
}
