//! Every YAML block of the pages is a valid configuration file, or a part of one.

use super::pages::blocks;
use super::parse;

/// Text before a part, and by how many spaces the part is moved.
const AROUND: [(&str, usize); 7] = [
    ("", 0),
    ("mcp_servers:\n  one: {url: \"http://localhost:1/mcp\"}\n", 0),
    ("mcp_servers:\n  one:\n    url: http://localhost:1/mcp\n", 0),
    ("mcp_servers:\n  one:\n    url: http://localhost:1/mcp\n", 4),
    ("mcp_servers:\n", 2),
    ("mcp_servers:\n  one:\n    transport: builtin\n    builtin: handbook\n", 0),
    (
        "mcp_servers:\n  one:\n    transport: builtin\n    builtin: handbook\n    handbook:\n      path: docs\n",
        6,
    ),
];

fn moved(text: &str, spaces: usize) -> String {
    let line = |line: &str| format!("{}{line}\n", " ".repeat(spaces));
    text.lines().map(line).collect()
}

/// Returns why a block is not valid: the problem of the block alone.
fn problem(text: &str) -> Option<String> {
    let tries = AROUND.map(|(before, spaces)| parse(&format!("{before}{}", moved(text, spaces))).err());
    if tries.iter().any(Option::is_none) {
        return None;
    }
    tries.into_iter().flatten().next().map(|error| error.to_string())
}

#[test]
fn every_yaml_block_is_a_valid_configuration_or_a_part_of_one() {
    let blocks = blocks("yaml");
    let wrong: Vec<String> = blocks
        .iter()
        .filter_map(|block| Some(format!("{}: {}", block.place, problem(&block.text)?)))
        .collect();
    assert!(wrong.is_empty(), "{} blocks are not valid:\n{}", wrong.len(), wrong.join("\n"));
    assert!(blocks.len() > 50, "only {} blocks were found", blocks.len());
}

#[test]
fn an_unknown_key_of_a_block_is_found() {
    assert!(problem("mcp_servers:\n  a: {url: \"http://localhost:1/mcp\", timeot: 3}\n").is_some());
    assert!(problem("    timeout: 3\n").is_none());
    assert!(problem("    timeot: 3\n").is_some());
}
