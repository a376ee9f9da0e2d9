//! Keys of other programs' configuration files, and what Switchyard has in place of each.
//!
//! One table serves two readers: a configuration file with such a key is refused with a hint, and `switchyard import`
//! moves the value to its place. Invariant: every row names a setting of Switchyard, or says why there is none.
//!
//! Not here: keys of MCP clients inside of one server (`upstream::config`), and their JSON files (`import`).

use settings::{Entry, Node, Problem, Problems, Shown, Value, member_path};

/// The counterpart of a foreign key in Switchyard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counterpart {
    /// The value, unchanged, at this path.
    At(&'static str),
    /// The value is a part of this setting, which the text says how to write.
    PartOf(&'static str, &'static str),
    /// Nothing; the text says what there is without the line.
    Nothing(&'static str),
}

use Counterpart::{At, Nothing, PartOf};

/// Keys of servers in the files of MCP clients.
const OF_CLIENTS: [&str; 3] = ["mcpServers", "servers", "context_servers"];
/// Sections that other programs and Switchyard have.
const SHARED: [&str; 2] = ["server", "cache"];

const HOST: Counterpart =
    PartOf("server.listen", "write address and port as `server.listen`, such as `0.0.0.0:8080`");
const CHROMA_URL: Counterpart = PartOf(
    "mcp_servers.chroma.url",
    "write host and port as `mcp_servers.chroma.url`, such as `http://localhost:8000`",
);
const PER_MINUTE: Counterpart = PartOf(
    "limits.requests_per_minute",
    "write it as `limits.requests_per_minute` of a server below `mcp_servers`",
);
const METRICS: Counterpart = Nothing("metrics are always at `/metrics` of `server.listen`");
const SENTRY: Counterpart = Nothing("errors are in the log, which `server.log_file` puts into a file");

/// Paths of other programs' files, and the counterpart of each.
const ROWS: &[(&str, Counterpart)] = &[
    // Several programs.
    ("server.host", HOST),
    ("server.port", HOST),
    ("server.name", Nothing("the name of a server is its key below `mcp_servers`")),
    ("server.reload", Nothing("SIGHUP and `POST /api/v1/mcp/reload` apply changes of `mcp_servers`")),
    ("logging.level", At("server.log_level")),
    (
        "logging.format",
        PartOf("server.log_format", "write `json`, `pretty` or `auto` as `server.log_format`"),
    ),
    ("logging.file", At("server.log_file")),
    ("rate_limit.requests_per_minute", PER_MINUTE),
    ("rate_limiting.requests_per_minute", PER_MINUTE),
    // R2R.
    ("r2r.api_url", At("mcp_servers.r2r.url")),
    ("r2r.service_account.email", At("mcp_servers.r2r.r2r.email")),
    ("r2r.service_account.password", At("mcp_servers.r2r.r2r.password")),
    ("cache.redis.url", At("cache.url")),
    (
        "cache.redis.db",
        PartOf("cache.url", "write it at the end of `cache.url`, as in `redis://localhost:6379/2`"),
    ),
    ("cache.ttl.search", At("mcp_servers.r2r.r2r.cache_ttl.search")),
    ("cache.ttl.rag", At("mcp_servers.r2r.r2r.cache_ttl.rag")),
    ("cache.ttl.list", At("mcp_servers.r2r.r2r.cache_ttl.list")),
    ("circuit_breaker.failure_threshold", At("mcp_servers.r2r.circuit_breaker_threshold")),
    ("circuit_breaker.timeout_seconds", At("mcp_servers.r2r.circuit_breaker_timeout")),
    ("circuit_breaker.success_threshold", At("mcp_servers.r2r.circuit_breaker_success_threshold")),
    ("monitoring.prometheus.enabled", METRICS),
    ("monitoring.prometheus.port", METRICS),
    ("monitoring.sentry.enabled", SENTRY),
    ("monitoring.sentry.dsn", SENTRY),
    ("projects.auto_create_collections", At("mcp_servers.r2r.r2r.auto_create_collections")),
    ("projects.collection_mapping_file", At("mcp_servers.r2r.r2r.collection_mapping_file")),
    // Chroma.
    ("tools.chromadb.enabled", At("mcp_servers.chroma.enabled")),
    ("tools.chromadb.host", CHROMA_URL),
    ("tools.chromadb.port", CHROMA_URL),
    ("tools.chromadb.embedding.provider", At("mcp_servers.chroma.chroma.embedding.provider")),
    ("tools.chromadb.embedding.model", At("mcp_servers.chroma.chroma.embedding.model")),
    ("tools.chromadb.embedding.api_key", At("mcp_servers.chroma.chroma.embedding.api_key")),
    ("tools.chromadb.chunking.size", At("mcp_servers.chroma.chroma.chunking.size")),
    ("tools.chromadb.chunking.overlap", At("mcp_servers.chroma.chroma.chunking.overlap")),
    ("tools.chromadb.search.max_results", At("mcp_servers.chroma.chroma.max_results")),
    // The bridge to RAG techniques.
    ("mcp_server.transport", At("server.transport")),
    ("mcp_server.http_port", HOST),
    ("mcp_server.auth_mode", At("server.auth_mode")),
    ("mcp_server.max_connections", At("server.max_connections")),
];

/// Finds the counterpart of the key at `path`, if it is one of another program.
pub(super) fn ours(path: &str) -> Option<Counterpart> {
    ROWS.iter().find(|(known, _)| *known == path).map(|(_, ours)| *ours)
}

/// Whether a key of another program can stand below `path`.
pub(super) fn is_above_any(path: &str) -> bool {
    let is_below = |known: &str| known.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    ROWS.iter().any(|(known, _)| is_below(known))
}

/// The advice for the whole file of another program.
const IMPORT: &str = "`switchyard import FILE` prints the file with `mcp_servers`, as Switchyard reads it";

/// The advice for the servers of an MCP client.
const OF_CLIENT: &str = "did you mean `mcp_servers`? `switchyard import FILE` prints the file of an MCP client as Switchyard reads it";

/// Whether `entry` has the servers of an MCP client.
fn is_of_client(entry: &Entry) -> bool {
    OF_CLIENTS.contains(&entry.key.as_str()) && matches!(&entry.node.value, Value::Map(_) | Value::List(_))
}

/// Reports every key of another program below `root` and removes it, so that it is not reported again.
pub(super) fn refuse(root: &mut Node, problems: &Problems) {
    let Value::Map(entries) = &mut root.value else { return };
    let is_native = entries.iter().any(|entry| entry.key == "mcp_servers");
    let is_foreign =
        |entry: &&Entry| !SHARED.contains(&entry.key.as_str()) && has_row(&entry.node, &entry.key);
    if let Some(section) = entries.iter().find(is_foreign).filter(|_| !is_native) {
        report(section, &section.key, "this is the file of another program", IMPORT, problems);
    }
    if !is_native && let Some(at) = entries.iter().position(is_of_client) {
        let section = entries.remove(at);
        report(&section, &section.key, "unknown key", OF_CLIENT, problems);
    }
    entries.retain_mut(|entry| {
        let path = member_path("", &entry.key);
        let is_foreign = is_foreign(&&*entry);
        !is_taken(entry, &path, is_foreign, problems)
    });
}

/// Whether a key of another program stands below `path`.
fn has_row(node: &Node, path: &str) -> bool {
    let Value::Map(members) = &node.value else { return false };
    let mut paths = members.iter().map(|member| (member, member_path(path, &member.key)));
    is_above_any(path) && paths.any(|(member, path)| ours(&path).is_some() || has_row(&member.node, &path))
}

/// Reports the keys of other programs below `entry`, and says whether nothing else is left of it. In a section that
/// `is_foreign`, every key is one.
fn is_taken(entry: &mut Entry, path: &str, is_foreign: bool, problems: &Problems) -> bool {
    if let Some(ours) = ours(path) {
        report(entry, path, &format!("`{}` is a key of another program", entry.key), &hint(ours), problems);
        return true;
    }
    let Value::Map(members) = &mut entry.node.value else {
        return is_unknown(entry, path, is_foreign, problems);
    };
    if !is_above_any(path) {
        return is_unknown(entry, path, is_foreign, problems);
    }
    let (before, mut moved) = (members.len(), None);
    members.retain_mut(|member| {
        let path = member_path(path, &member.key);
        let is_taken = is_taken(member, &path, is_foreign, problems);
        if is_taken && path == "cache.redis" {
            moved = Some(Entry { key: "url".into(), node: Value::Unusable.into(), ..member.clone() });
        }
        !is_taken
    });
    // It is there, and its problem is reported.
    if !members.iter().any(|member| member.key == "url") {
        members.extend(moved);
    }
    before > 0 && members.is_empty()
}

/// Reports a key of a foreign section that no row knows, and says whether that is what it is.
fn is_unknown(entry: &Entry, path: &str, is_foreign: bool, problems: &Problems) -> bool {
    if is_foreign {
        report(entry, path, "unknown key", "Switchyard has nothing in its place; remove it", problems);
    }
    is_foreign
}

fn hint(ours: Counterpart) -> String {
    match ours {
        At(path) => format!("write it as `{path}`"),
        PartOf(_, hint) => hint.to_owned(),
        Nothing(why) => format!("remove it: {why}"),
    }
}

fn report(entry: &Entry, path: &str, message: &str, hint: &str, problems: &Problems) {
    problems.add(Problem {
        mark: entry.key_mark,
        path: path.to_owned(),
        message: message.to_owned(),
        hint: Some(hint.to_owned()),
        shown: Shown::Keys,
        lacks_value: false,
    });
}
