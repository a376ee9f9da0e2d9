//! The configuration file for operators: as written, without secrets.
//!
//! Invariants: the result has no value of a variable and nothing of the vault, because it is made of the text as written.
//! A text is shown only if its setting is known to have no secret; any other text is `***`. References are always
//! shown, such as the one in `Bearer ${TOKEN}`. In a shown text, user, password and query of a URL are
//! replaced, and so is every word that looks like a key.
//!
//! Not here: the redaction of texts from servers (`upstream::secrets`).

use json::Raw;
use serde::ser::{Serialize, SerializeMap, Serializer};
use settings::{Node, Value};

/// Stands for a value that may be secret.
const BLANK: &str = "***";
/// Settings whose texts have no secret.
#[rustfmt::skip]
const PUBLIC: &[&str] = &[
    "algorithm", "algorithms", "allow", "allowed_hosts", "allowed_origins", "anonymous_role", "auth", "auth_mode",
    "audience", "azp", "bearer_file", "builtin", "ca", "cert", "chunking", "client_address_header", "client_ca", "client_id", "client_metadata_url",
    "collection", "collection_mapping_file", "collection_prefix", "command", "cwd", "database", "default_pass_env",
    "default_tools_on_change", "deny", "description", "domains", "emails", "embedding", "env_file", "era", "exclude", "expires", "forward_headers",
    "github_api_url", "grant", "groups", "host", "id",
    "identity_provider", "index_dir", "ingest_roots", "issuer", "jwks_uri", "jwks_url", "keys_file", "listen", "log_file", "log_format",
    "log_level", "map", "model", "no_proxy", "on_change", "pass_env", "path", "per", "prefix", "private_key_id", "project",
    "project_from", "provider", "proxy", "public_url", "redirect_uri", "redirect_uris", "resource", "role", "role_claim", "roles", "roles_claim",
    "scopes", "sharing", "state_dir", "store", "tenant", "token_endpoint", "token_header", "tool_names", "transport",
    "trusted_hosts", "trusted_proxies", "type", "url", "username", "view_claim", "memory_budget", "authorization_servers", "require",
];
/// Whether the setting `key` has no secret, wherever it is.
#[cfg(feature = "program")]
pub(crate) fn is_public_setting(key: &str) -> bool {
    PUBLIC.contains(&key)
}

/// Mappings with any keys, whose values have no secret.
const PUBLIC_MAPS: &[&str] = &["rename", "trusted", "role_map", "view_map", "client_roles"];
/// Words before a credential in a header.
const SCHEMES: &[&str] = &["bearer", "basic", "token"];
/// Parts of the names of arguments whose values are secret.
const SECRET_WORDS: &[&str] =
    &["auth", "cookie", "cred", "header", "jwt", "key", "pass", "private", "pwd", "secret", "sig", "token"];

/// Returns the document below `root` as JSON.
pub(super) fn without_secrets(root: &Node) -> Raw {
    Raw::of(&MaskedNode { node: root, place: Exposure::Known })
}

#[cfg(feature = "program")]
impl super::Config {
    /// The entry of the server `name` in the content of a file, without secrets; `None` if there is none.
    pub(crate) fn shown_server(content: &str, name: &str) -> Option<Raw> {
        let root = settings::document::parse(content, &settings::Problems::default()).root;
        let member = |node: &Node, name: &str| match &node.value {
            Value::Map(entries) => {
                entries.iter().find(|entry| entry.key == name).map(|entry| entry.node.clone())
            }
            _ => None,
        };
        member(&member(&root, "mcp_servers")?, name).map(|entry| without_secrets(&entry))
    }
}

/// Where a value is.
#[derive(Clone, Copy, PartialEq)]
enum Exposure {
    /// A mapping whose keys are names of settings or servers.
    Known,
    /// The value has no secret.
    Public,
    /// The value may be a secret.
    Secret,
    /// The arguments of a command.
    Arguments,
}

impl Exposure {
    /// The place of the value of `key` in a mapping at this place.
    fn of_member(self, key: &str) -> Self {
        match (self, key) {
            (Self::Public | Self::Secret, _) => self,
            (_, "args") => Self::Arguments,
            (_, "env" | "headers") => Self::Secret,
            (_, key) if PUBLIC_MAPS.contains(&key) => Self::Public,
            _ => Self::Known,
        }
    }
}

struct MaskedNode<'n> {
    node: &'n Node,
    place: Exposure,
}

impl Serialize for MaskedNode<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let place = self.place;
        match &self.node.value {
            Value::Map(entries) => {
                let mut map = out.serialize_map(Some(entries.len()))?;
                for entry in entries {
                    let place = place.of_member(&entry.key);
                    map.serialize_entry(&entry.key, &Member { key: &entry.key, node: &entry.node, place })?;
                }
                map.end()
            }
            Value::List(items) if place == Exposure::Arguments => out.collect_seq(arguments(items)),
            Value::List(items) => out.collect_seq(items.iter().map(|node| MaskedNode { node, place })),
            Value::Text(text) if place == Exposure::Public => out.serialize_str(&public(text.written())),
            value => serialize_scalar(value, place == Exposure::Secret, out),
        }
    }
}

/// A value and the key of the mapping that it is in.
struct Member<'n> {
    key: &'n str,
    node: &'n Node,
    place: Exposure,
}

impl Serialize for Member<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let is_public = PUBLIC.contains(&self.key);
        let place = if is_public && self.place == Exposure::Known { Exposure::Public } else { self.place };
        match &self.node.value {
            // The members of a mapping are public or secret by their own names.
            Value::Map(_) => MaskedNode { node: self.node, place: self.place }.serialize(out),
            Value::List(items) if place == Exposure::Public && self.place == Exposure::Known => {
                let item = |node| Member { key: self.key, node, place: Exposure::Known };
                out.collect_seq(items.iter().map(item))
            }
            Value::Integer { .. } | Value::Float { .. } if is_credential(self.key) => {
                out.serialize_str(BLANK)
            }
            _ => MaskedNode { node: self.node, place }.serialize(out),
        }
    }
}

/// Serializes a value that is no mapping and no list, as one that may be secret.
fn serialize_scalar<S: Serializer>(value: &Value, is_secret: bool, out: S) -> Result<S::Ok, S::Error> {
    match value {
        Value::Bool(value) if !is_secret => out.serialize_bool(*value),
        Value::Integer { value, .. } if !is_secret => out.serialize_i64(*value),
        Value::Float { value, .. } if !is_secret => out.serialize_f64(*value),
        Value::Text(text) if !is_secret && is_measure(text.written()) => out.serialize_str(text.written()),
        Value::Text(text) => out.serialize_str(&references_of(text.written())),
        Value::Null | Value::Unusable => out.serialize_unit(),
        _ => out.serialize_str(BLANK),
    }
}

/// Whether `text` is a number with a short unit, such as `30s` or `256 MiB`.
fn is_measure(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start();
    unit.len() < text.len()
        && text.len() <= 12
        && unit.len() <= 3
        && unit.chars().all(|c| c.is_ascii_alphabetic())
}

/// Returns the references in `text`, with anything else replaced.
fn references_of(text: &str) -> String {
    let mut shown = String::new();
    for piece in pieces(text) {
        match piece {
            TextPiece::Reference(name, has_default) => {
                shown.extend(["${", name, if has_default { ":-***}" } else { "}" }]);
            }
            TextPiece::Literal(literal) => {
                let is_scheme = SCHEMES.contains(&literal.trim().to_ascii_lowercase().as_str());
                shown += if literal.trim().is_empty() || is_scheme { literal } else { BLANK };
            }
        }
    }
    shown
}

/// A part of a text.
#[derive(Debug, PartialEq)]
enum TextPiece<'t> {
    Literal(&'t str),
    /// The name in `${NAME}`, and whether there is a default.
    Reference(&'t str, bool),
}

/// Splits `text` into references and the text between them. A default with braces counts as literal text in part, which
/// is replaced too.
fn pieces(text: &str) -> Vec<TextPiece<'_>> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = split_reference(rest) {
        if !before.is_empty() {
            pieces.push(TextPiece::Literal(before));
        }
        let Some(end) = after.find('}') else { break };
        let inside = &after[..end];
        let (name, default) = inside.split_once(":-").map_or((inside, None), |(name, d)| (name, Some(d)));
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':' | '.');
        // Anything else between braces was not a reference that could be expanded.
        pieces.push(if name.chars().all(is_name) {
            TextPiece::Reference(name, default.is_some())
        } else {
            TextPiece::Literal(inside)
        });
        rest = &after[end + 1..];
    }
    if !rest.is_empty() {
        pieces.push(TextPiece::Literal(rest));
    }
    pieces
}

/// Splits at the first `${`. `$$` is a dollar sign.
fn split_reference(text: &str) -> Option<(&str, &str)> {
    let is_escaped = |at: usize| text[..at].bytes().rev().take_while(|byte| *byte == b'$').count() % 2 == 1;
    let at = text.match_indices("${").map(|(at, _)| at).find(|at| !is_escaped(*at))?;
    Some((&text[..at], &text[at + 2..]))
}

/// Returns a text that is shown, without the parts that are secret in a URL and without words that look like a key.
fn public(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let is_key = |part: &str| looks_like_key(part);
        if word.contains("://") {
            public_url(word)
        } else if word.split(['/', ':', ',']).any(is_key) && !word.starts_with("sha256:") {
            BLANK.to_owned()
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Replaces user, password, query and fragment, and segments of the path that look like a key.
fn public_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return BLANK.to_owned() };
    // The first of these ends host and path, also inside of a default.
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let (path, query) = rest.split_at(end);
    // A password may have a slash that is not escaped, so the last one counts.
    let (user, path) = path.rsplit_once('@').map_or((None, path), |(user, path)| (Some(user), path));
    let segment = |segment| if looks_like_key(segment) { BLANK } else { segment };
    let path = path.split('/').map(segment).collect::<Vec<_>>().join("/");
    let user = if user.is_some() { "***@" } else { "" };
    let mut shown = format!("{scheme}://{user}{path}");
    if query.len() > 1 {
        shown += &query[..1];
        shown += &references_of(&query[1..]);
    }
    shown
}

/// Whether `word` is as long and as mixed as a key or a token.
fn looks_like_key(word: &str) -> bool {
    let has = |test: fn(&u8) -> bool| word.bytes().any(|byte| test(&byte));
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    let is_hex = word.len() >= 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let starts = ["sk-", "ghp_", "gho_", "github_pat_", "glpat-", "xox", "eyJ", "AKIA", "hf_", "swy_"];
    let has_prefix = word.len() >= 12 && starts.iter().any(|start| word.starts_with(start));
    !word.contains("${") && (word.len() >= 20 && is_mixed || is_hex || has_prefix)
}

fn is_secret_word(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Whether the setting `key` is a credential, even where it is a number.
fn is_credential(key: &str) -> bool {
    ["bearer", "code", "hash", "key", "password", "secret", "token"].iter().any(|end| key.ends_with(end))
}

/// Returns the arguments of a command. The value of an option is secret if the name of the option says so.
fn arguments(items: &[Node]) -> Vec<String> {
    let mut is_value_of_secret = false;
    let mut shown = Vec::with_capacity(items.len());
    for item in items {
        let written = match &item.value {
            Value::Text(text) => text.written(),
            Value::Integer { written, .. } | Value::Float { written, .. } => written,
            Value::Bool(value) => {
                if *value {
                    "true"
                } else {
                    "false"
                }
            }
            _ => "",
        };
        shown.push(argument(written, is_value_of_secret));
        is_value_of_secret = written.starts_with('-') && !written.contains('=') && is_secret_option(written);
    }
    shown
}

fn argument(written: &str, is_value_of_secret: bool) -> String {
    match written.split_once('=') {
        _ if is_value_of_secret => references_of(written),
        // Options, and variables for programs such as `env`.
        Some((name, value)) if is_secret_option(name) => format!("{name}={}", references_of(value)),
        Some((name, value)) if !name.contains("://") => format!("{name}={}", public(value)),
        _ => public(written),
    }
}

/// Whether the value of the option `name` is secret. Short options such as `-p` and `-H` are.
fn is_secret_option(name: &str) -> bool {
    matches!(name, "-p" | "-P" | "-k" | "-t" | "-H" | "-u" | "-a" | "-e") || is_secret_word(name)
}

#[cfg(test)]
#[path = "shown_tests.rs"]
mod tests;
