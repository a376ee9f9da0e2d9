//! The counted sequences: their calls, dialects and servers.

use crate::server::{Demands, Offer};

/// The form of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `/mcp`, 2026-07-28.
    Modern,
    /// `/mcp`, a session of 2025-11-25.
    Legacy,
    /// `/api/v1/mcp/call`.
    Rest,
}

/// The target of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallTarget {
    /// A tool, by its name, with an argument of 100 bytes.
    Tool(&'static str),
    /// The first page of `tools/list`.
    Tools,
    /// A tool that the client does not have, by its name.
    Missing(&'static str),
}

/// Calls that differ only in their ids.
#[derive(Debug, Clone, Copy)]
pub struct Sequence {
    /// Its name on the command line and in the budget.
    pub name: &'static str,
    /// The form of its calls.
    pub dialect: Dialect,
    /// The server of its calls.
    pub offer: Offer,
    /// Whether a reader of the live events is connected.
    pub is_watched: bool,
    /// The path of the view through which the client sees the server.
    view: Option<&'static str>,
    target: CallTarget,
}

const MODERN: Offer = Offer { is_child: false, is_modern: true, tools: 3, demands: Demands::Nothing };
const LEGACY: Offer = Offer { is_modern: false, ..MODERN };
const CHILD: Offer = Offer { is_child: true, ..MODERN };
const LARGE: Offer = Offer { tools: 500, ..MODERN };
const BEARER: Offer = Offer { demands: Demands::Bearer, ..MODERN };
const LOGIN: Offer = Offer { demands: Demands::Login, ..MODERN };

/// All sequences.
pub const SEQUENCES: [Sequence; 14] = [
    Sequence::new("modern", Dialect::Modern, MODERN, CallTarget::Tool("echo")),
    Sequence::new("legacy", Dialect::Legacy, LEGACY, CallTarget::Tool("echo")),
    Sequence::new("eras", Dialect::Legacy, MODERN, CallTarget::Tool("echo")),
    Sequence::new("rest", Dialect::Rest, MODERN, CallTarget::Tool("echo")),
    Sequence::new("events", Dialect::Modern, MODERN, CallTarget::Tool("events")),
    Sequence::new("tools_500", Dialect::Modern, LARGE, CallTarget::Tools),
    Sequence::new("stdio", Dialect::Modern, CHILD, CallTarget::Tool("echo")),
    Sequence::new("kib_64", Dialect::Modern, MODERN, CallTarget::Tool("big")),
    Sequence::new("bearer", Dialect::Modern, BEARER, CallTarget::Tool("echo")),
    Sequence::new("oauth", Dialect::Modern, LOGIN, CallTarget::Tool("echo")),
    Sequence::new("watched", Dialect::Modern, MODERN, CallTarget::Tool("echo")).watched(),
    Sequence::new("viewed", Dialect::Modern, MODERN, CallTarget::Tool("echo")).through("/mcp/viewed"),
    Sequence::new("denied", Dialect::Modern, MODERN, CallTarget::Missing("big")).through("/mcp/denying"),
    Sequence::new("unknown", Dialect::Modern, MODERN, CallTarget::Missing("bag")).through("/mcp/denying"),
];

impl Sequence {
    const fn new(name: &'static str, dialect: Dialect, offer: Offer, target: CallTarget) -> Self {
        Self { name, dialect, offer, is_watched: false, view: None, target }
    }

    const fn watched(self) -> Self {
        Self { is_watched: true, ..self }
    }

    const fn through(self, path: &'static str) -> Self {
        Self { view: Some(path), ..self }
    }

    /// Calls of a tool that the client has, if it does not have that of these.
    pub const fn answered(self) -> Self {
        match self.target {
            CallTarget::Missing(_) => Self { target: CallTarget::Tool("echo"), ..self },
            CallTarget::Tool(_) | CallTarget::Tools => self,
        }
    }

    /// Whether its calls are refused.
    pub const fn is_refused(self) -> bool {
        matches!(self.target, CallTarget::Missing(_))
    }

    /// The path of its calls.
    pub const fn path(self) -> &'static str {
        match self.dialect {
            Dialect::Rest => "/api/v1/mcp/call",
            _ => match self.view {
                Some(path) => path,
                None => "/mcp",
            },
        }
    }

    /// The headers of a modern call.
    pub fn headers(self) -> String {
        if self.dialect != Dialect::Modern {
            return String::new();
        }
        match self.target {
            CallTarget::Tool(name) | CallTarget::Missing(name) => {
                format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {name}\r\n")
            }
            CallTarget::Tools => "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/list\r\n".to_owned(),
        }
    }

    /// The body of the call `id`.
    pub fn request(self, id: u64) -> String {
        let message = format!("{id:-<100}");
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}"#;
        match (self.dialect, self.target) {
            (Dialect::Modern, CallTarget::Tool(name) | CallTarget::Missing(name)) => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}","arguments":{{"message":"{message}"}},{meta}}}}}"#
            ),
            (Dialect::Legacy, CallTarget::Tool(name) | CallTarget::Missing(name)) => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}","arguments":{{"message":"{message}"}}}}}}"#
            ),
            (Dialect::Rest, CallTarget::Tool(name) | CallTarget::Missing(name)) => {
                format!(r#"{{"server":"bench","tool":"{name}","arguments":{{"message":"{message}"}}}}"#)
            }
            (_, CallTarget::Tools) => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{{meta}}}}}"#)
            }
        }
    }

    /// Whether `body` is the answer to the call `id`.
    pub fn is_answer(self, id: u64, body: &str) -> bool {
        let proof = match self.dialect {
            Dialect::Rest => "\"success\":true".to_owned(),
            Dialect::Modern | Dialect::Legacy => format!("\"id\":{id}"),
        };
        let content = match self.target {
            CallTarget::Tool("big") => body.len() > 64 * 1024,
            CallTarget::Tool(_) => body.contains(&format!("\"{id:-<100}\"")),
            CallTarget::Missing(_) => body.contains("\"tool_not_found\""),
            CallTarget::Tools => body.matches("\"inputSchema\"").count() > 50,
        };
        body.contains(&proof) && content
    }
}
