//! Why the manager could not do what it was asked: nobody by that name, or the server's failure.
//!
//! Each carries the facts its reader needs to go on: what there is instead, and the nearest name. What was
//! asked for is given back as it was written, and of what is too long to be a name only the beginning.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use protocol::sanitize;
use settings::nearest_few;

/// Names listed in an error at most; a catalog can hold thousands.
const LISTED: usize = 20;

/// What is asked for by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// To be called.
    Tool,
    /// To be got.
    Prompt,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
        })
    }
}

/// A failure of the facade.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// No server has that name.
    #[error("there is no server called {server:?}{}", hint(nearest, available))]
    ServerNotFound {
        /// The name asked for.
        server: String,
        /// Servers there are, at most 20.
        available: Vec<String>,
        /// Names that look like it.
        nearest: Vec<String>,
    },
    /// No tool, or no prompt, has that name.
    #[error("there is no {kind} called {name:?}{}{}{}", at(server.as_ref()), hint(nearest, available), not_known(unreached))]
    NameNotFound {
        /// What was asked for.
        kind: Named,
        /// Its name.
        name: String,
        /// The server it was looked for at, if one was named.
        server: Option<String>,
        /// Those there are, at most 20.
        available: Vec<String>,
        /// Names that look like it.
        nearest: Vec<String>,
        /// Servers that may have it, because they were not reached yet; at most 20.
        unreached: Box<[Arc<str>]>,
    },
    /// Several servers have one of that name.
    #[error("{name:?} {}; use one of {}", not_clear(before.as_deref()), candidates.join(", "))]
    Ambiguous {
        /// What was asked for.
        kind: Named,
        /// Its name.
        name: String,
        /// The names that are not ambiguous.
        candidates: Vec<String>,
        /// The server that had the name before, where only another one has it now.
        before: Option<Arc<str>>,
    },
    /// Several servers have that URI.
    #[error("{uri:?} is a URI of several servers; use one of {}", candidates.join(", "))]
    AmbiguousUri {
        /// The URI asked for.
        uri: String,
        /// The URIs that are not ambiguous.
        candidates: Vec<String>,
    },
    /// An argument that its server reads from a header stands in the body more than once.
    #[error(
        "{member:?} stands more than once: the tool {tool:?} of server {server:?} has it in a header too, and it is \
         not clear which one counts; send it once"
    )]
    AmbiguousArgument {
        /// The server.
        server: Arc<str>,
        /// What the server calls the tool.
        tool: String,
        /// Where it stands in the parameters: `arguments.region`.
        member: String,
    },
    /// The tool is not the one that was approved, and held back.
    #[error(
        "the tool {tool:?} of server {server:?} is held back until an operator approves it: {}",
        reason(changed)
    )]
    ToolChanged {
        /// The server.
        server: Arc<str>,
        /// What the server calls the tool.
        tool: String,
        /// The members of its definition that changed; none where it was never looked at.
        changed: Vec<&'static str>,
    },
    /// What an operator approves is not what the server shows by now.
    #[error(
        "server {server:?} shows another definition of the tool {tool:?} than the one to be approved: {now}"
    )]
    OtherDefinition {
        /// The server.
        server: Arc<str>,
        /// What the server calls the tool.
        tool: String,
        /// The SHA-256 of what it shows.
        now: String,
    },
    /// No server has, or would be asked for, that resource.
    #[error("there is no resource {uri:?}")]
    ResourceNotFound {
        /// The URI asked for.
        uri: String,
    },
    /// The server could not be called, or its answer was lost.
    #[error("server {server:?}: {source}{}", how_to_wait_longer(source))]
    Upstream {
        /// The server.
        server: Arc<str>,
        /// The tool, when the call was one of a tool.
        tool: Option<String>,
        /// What happened.
        source: upstream::Error,
        /// When the server is tried again, where `source` does not say it.
        retry_in: Option<Duration>,
    },
}

impl Error {
    /// A server that is not among `servers`.
    pub fn server_not_found<'a>(server: &str, servers: impl Iterator<Item = &'a str> + Clone) -> Self {
        let (available, nearest) = alternatives(server, servers);
        Self::ServerNotFound { server: sanitize::name(server), available, nearest }
    }

    /// A name that is not among `names`.
    pub fn name_not_found<'a>(
        kind: Named,
        name: &str,
        server: Option<&str>,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        Self::unknown_at(kind, (name, name), server, names)
    }

    /// A name that is not among `names`, of which only `own` is compared with them.
    pub fn unknown_at<'a>(
        kind: Named,
        (name, own): (&str, &str),
        server: Option<&str>,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        let (available, nearest) = alternatives(own, names);
        let (name, server) = (sanitize::name(name), server.map(str::to_owned));
        Self::NameNotFound { kind, name, server, available, nearest, unreached: Box::default() }
    }

    /// Adds the servers that were not reached yet and may have the name.
    #[must_use]
    pub(super) fn unless_at<'a>(mut self, servers: impl Iterator<Item = &'a Arc<str>>) -> Self {
        if let Self::NameNotFound { unreached, .. } = &mut self {
            *unreached = servers.take(LISTED).cloned().collect();
        }
        self
    }

    /// A URI that nobody has.
    pub fn resource_not_found(uri: &str) -> Self {
        Self::ResourceNotFound { uri: sanitize::uri(uri) }
    }
}

/// The first names there are, and those that `name` was probably meant to be.
fn alternatives<'a>(name: &str, names: impl Iterator<Item = &'a str> + Clone) -> (Vec<String>, Vec<String>) {
    let nearest = nearest_few(name, names.clone()).into_iter().map(str::to_owned).collect();
    (names.take(LISTED).map(str::to_owned).collect(), nearest)
}

fn at(server: Option<&String>) -> String {
    server.map(|server| format!(" at server {server:?}")).unwrap_or_default()
}

fn not_known(unreached: &[Arc<str>]) -> String {
    if unreached.is_empty() {
        return String::new();
    }
    format!("; not reached yet, so their names are not known: {}", unreached.join(", "))
}

fn not_clear(before: Option<&str>) -> String {
    match before {
        Some(server) => {
            format!("was a name of server {server:?} before, and now only another server has one")
        }
        None => "is offered by several servers".to_owned(),
    }
}

/// Which setting ended a call that was not answered in time.
const fn how_to_wait_longer(source: &upstream::Error) -> &'static str {
    match source {
        upstream::Error::TimedOut { .. } => {
            "; `timeout` limits the time without a message from the server: raise it, or ask for progress, which extends the time up to `max_timeout`"
        }
        _ => "",
    }
}

pub(super) fn reason(changed: &[&str]) -> String {
    match changed {
        [] => "its server has shown more tools than are remembered".to_owned(),
        changed => format!("its definition changed ({})", changed.join(", ")),
    }
}

fn hint(nearest: &[String], available: &[String]) -> String {
    match (nearest, available) {
        ([first, ..], _) => format!("; did you mean {first:?}?"),
        ([], []) => "; there are none".to_owned(),
        ([], available) => format!("; there are {}", available.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        let error = Error::name_not_found(
            Named::Tool,
            "serch_handbok",
            None,
            ["ping", "search_handbook"].into_iter(),
        );
        assert!(error.to_string().ends_with("did you mean \"search_handbook\"?"), "{error}");
        let error = Error::server_not_found("zzz", ["docs", "files"].into_iter());
        assert_eq!(error.to_string(), "there is no server called \"zzz\"; there are docs, files");
        let error = Error::name_not_found(Named::Tool, "x", Some("docs"), std::iter::empty());
        assert_eq!(error.to_string(), "there is no tool called \"x\" at server \"docs\"; there are none");
    }
}
