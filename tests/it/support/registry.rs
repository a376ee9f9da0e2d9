//! Builds configuration files, one server at a time.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::child;

/// An unfinished configuration file.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    servers: String,
    settings: String,
}

impl Registry {
    /// An empty file.
    pub fn new() -> Self {
        Self::default()
    }

    /// A server called `name`, with these lines below its name.
    pub fn server(mut self, name: &str, lines: &[String]) -> Self {
        writeln!(self.servers, "  {name}:").expect("a string");
        lines.iter().fold(self, |registry, line| registry.with(line))
    }

    /// A Streamable HTTP server.
    pub fn http(self, name: &str, url: &str) -> Self {
        self.server(name, &[format!("url: {url}")])
    }

    /// An HTTP+SSE server.
    pub fn sse(self, name: &str, url: &str) -> Self {
        self.server(name, &["transport: sse".to_owned(), format!("url: {url}")])
    }

    /// A child process.
    pub fn command(self, name: &str, program: &str, arguments: &[&str]) -> Self {
        let arguments = serde_json::to_string(arguments).expect("JSON, which is YAML");
        self.server(name, &[format!("command: {program:?}"), format!("args: {arguments}")])
    }

    /// The stdio server of the tests, with its arguments.
    pub fn child(self, name: &str, arguments: &[&str]) -> Self {
        self.command(name, &child::program(), arguments)
    }

    /// Adds a line to the last server.
    pub fn with(mut self, line: &str) -> Self {
        writeln!(self.servers, "    {line}").expect("a string");
        self
    }

    /// Adds a line at the top level.
    pub fn setting(mut self, line: &str) -> Self {
        writeln!(self.settings, "{line}").expect("a string");
        self
    }

    /// Returns the file.
    pub fn yaml(&self) -> String {
        format!("mcp_servers:\n{}{}", self.servers, self.settings)
    }
}

/// The members of `server` with which these API keys are accepted, each with its further members, such as `role: caller`.
pub fn api_keys(keys: &[(&str, &str)]) -> String {
    let entry = |(key, more): &(&str, &str)| {
        let id = key.split('_').nth(1).expect("an id");
        format!("{{id: {id}, hash: \"sha256:{}\", {more}}}", hex::encode(Sha256::digest(key)))
    };
    let entries = keys.iter().map(entry).collect::<Vec<_>>();
    format!("auth_mode: api_key, api_keys: [{}]", entries.join(", "))
}
