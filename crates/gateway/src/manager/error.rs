//! Errors of the manager: an unknown or ambiguous name, or a failure of the server.
//!
//! Each error carries the facts that its reader needs to continue: the available names and the nearest
//! one. The requested name is repeated as it was written, and shortened if it is too long to be a name.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::limits::Limited;
use super::not_configured::NotConfigured;
use protocol::sanitize;
use settings::nearest_few;
use upstream::Upstream;

/// Limit of names in an error; a catalog can have thousands.
const LISTED: usize = 20;

/// The kind of a named item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// To be called.
    Tool,
    /// To be got.
    Prompt,
}

impl fmt::Display for ItemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
        })
    }
}

/// An error of the manager.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// No server has that name.
    #[error("there is no server called {server:?}{}", hint(nearest, available))]
    ServerNotFound {
        /// The requested name.
        server: String,
        /// Configured servers, at most 20.
        available: Vec<String>,
        /// Similar names.
        nearest: Vec<String>,
    },
    /// No view has that name, or the client is bound to another one.
    #[error("there is no view called {view:?}")]
    ViewNotFound {
        /// The requested name.
        view: String,
        /// Similar names, for a client that may know the views.
        nearest: Vec<String>,
    },
    /// The entry of the server in the configuration file cannot be used.
    #[error("server {:?} is not configured: {}", .0.name, .0.reason())]
    NotConfigured(Box<NotConfigured>),
    /// No tool, or no prompt, has that name.
    #[error(
        "there is no {kind} called {name:?}{}{}{}",
        at(server.as_ref()),
        hidden.as_ref().map_or_else(|| similar(nearest, *count), |hidden| format!("; {hidden}")),
        not_known(unreached)
    )]
    NameNotFound {
        /// The kind of the item.
        kind: ItemKind,
        /// The requested name.
        name: String,
        /// The server whose items were searched, if one was named.
        server: Option<Arc<str>>,
        /// How many names were searched.
        count: usize,
        /// Similar names.
        nearest: Vec<String>,
        /// Servers that may have the name, because they were not reached yet; at most 20.
        unreached: Box<[Arc<str>]>,
        /// The setting that hides a tool of that name. Known only to superusers.
        hidden: Option<Box<Hidden>>,
    },
    /// Several servers have an item of that name.
    #[error("{name:?} {}; use one of {}", not_clear(before.as_deref()), candidates.join(", "))]
    Ambiguous {
        /// The kind of the item.
        kind: ItemKind,
        /// The requested name.
        name: String,
        /// Unambiguous names of the candidates.
        candidates: Vec<String>,
        /// The server that had the name before, if only another one has it now.
        before: Option<Arc<str>>,
    },
    /// Several servers have that URI.
    #[error("{uri:?} is a URI of several servers; use one of {}", candidates.join(", "))]
    AmbiguousUri {
        /// The requested URI.
        uri: String,
        /// Unambiguous URIs of the candidates.
        candidates: Vec<String>,
    },
    /// The body repeats an argument that its server also reads from a header.
    #[error(
        "{member:?} stands more than once: the tool {tool:?} of server {server:?} has it in a header too, and it is \
         not clear which one counts; send it once"
    )]
    AmbiguousArgument {
        /// The server.
        server: Arc<str>,
        /// The tool's name on the server.
        tool: String,
        /// The path of the argument in the parameters: `arguments.region`.
        member: String,
    },
    /// The client sends an argument that its view fixes.
    #[error(
        "the argument {argument:?} of the tool {tool:?} is fixed by the operator and cannot be sent; leave it out"
    )]
    FixedArgument {
        /// The server.
        server: Arc<str>,
        /// The tool's name towards the client.
        tool: String,
        /// The argument.
        argument: String,
    },
    /// The definition of the tool changed since it was approved, and the tool is blocked.
    #[error(
        "the tool {tool:?} of server {server:?} is blocked until an operator approves it: {}",
        reason(changed)
    )]
    ToolChanged {
        /// The server.
        server: Arc<str>,
        /// The tool's name on the server.
        tool: String,
        /// The members of its definition that changed; none if the trusted definition was never seen.
        changed: Vec<&'static str>,
    },
    /// The definition that an operator approves is not the current one.
    #[error(
        "server {server:?} shows another definition of the tool {tool:?} than the one to be approved: {now}"
    )]
    OtherDefinition {
        /// The server.
        server: Arc<str>,
        /// The tool's name on the server.
        tool: String,
        /// The SHA-256 of the current definition.
        now: String,
    },
    /// No server has that resource.
    #[error("there is no resource {uri:?}")]
    ResourceNotFound {
        /// The requested URI.
        uri: String,
    },
    /// A limit of the caller is reached.
    #[error("{0}")]
    Limited(Box<Limited>),
    /// The server could not be called, or its answer was lost.
    #[error("server {server:?}: {source}{}", how_to_wait_longer(source))]
    Upstream {
        /// The server.
        server: Arc<str>,
        /// The tool, if a tool was called.
        tool: Option<String>,
        /// The failure.
        source: upstream::Error,
        /// When the server is tried again, if `source` does not say so.
        retry_in: Option<Duration>,
    },
}

/// The setting that hides a tool of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// The server that has the tool.
    pub server: Arc<str>,
    /// The setting of that server, such as `tools.deny`.
    pub setting: &'static str,
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hidden by `{}` of `{}`", self.setting, self.server)
    }
}

impl Error {
    /// An error for a server that is not among `servers`.
    pub fn server_not_found<'a>(server: &str, servers: impl Iterator<Item = &'a str> + Clone) -> Self {
        let nearest = nearest_few(server, servers.clone()).into_iter().map(str::to_owned).collect();
        let available = servers.take(LISTED).map(str::to_owned).collect();
        Self::ServerNotFound { server: sanitize::name(server), available, nearest }
    }

    /// An error for a view that does not exist, or that a client may not have.
    pub fn view_not_found(view: &str) -> Self {
        Self::ViewNotFound { view: sanitize::name(view), nearest: Vec::new() }
    }

    /// An error for a view that is not among `views`, which the client may know.
    pub fn no_such_view<'a>(view: &str, views: impl Iterator<Item = &'a str>) -> Self {
        let nearest = nearest_few(view, views).into_iter().map(str::to_owned).collect();
        Self::ViewNotFound { view: sanitize::name(view), nearest }
    }

    /// An error for a name that is not among `names`.
    pub fn name_not_found<'a>(
        kind: ItemKind,
        name: &str,
        server: Option<&str>,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        Self::unknown_at(kind, (name, name), server, names)
    }

    /// An error for a name that is not among `names`; similar names are searched with `own`, its
    /// unqualified part.
    pub(crate) fn unknown_at<'a>(
        kind: ItemKind,
        (name, own): (&str, &str),
        server: Option<&str>,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        let nearest = nearest_few(own, names.clone()).into_iter().map(str::to_owned).collect();
        let (name, server, count) = (sanitize::name(name), server.map(Arc::from), names.count());
        Self::NameNotFound { kind, name, server, count, nearest, unreached: Box::default(), hidden: None }
    }

    /// Adds the servers that were not reached yet and may have the name.
    #[must_use]
    pub(super) fn unless_at<'a>(mut self, servers: impl Iterator<Item = &'a Arc<str>>) -> Self {
        if let Self::NameNotFound { unreached, .. } = &mut self {
            *unreached = servers.take(LISTED).cloned().collect();
        }
        self
    }

    /// Adds the setting that hides the tool. The caller must be allowed to see it.
    #[must_use]
    pub(super) fn hidden_by(mut self, by: Option<Hidden>) -> Self {
        if let (Self::NameNotFound { kind: ItemKind::Tool, hidden, .. }, Some(by)) = (&mut self, by) {
            *hidden = Some(Box::new(by));
        }
        self
    }

    /// An error for a URI that no server has.
    pub fn resource_not_found(uri: &str) -> Self {
        Self::ResourceNotFound { uri: sanitize::uri(uri) }
    }
}

fn at(server: Option<&Arc<str>>) -> String {
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

/// Names the setting that ended a call which timed out.
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

/// The best of the similar names. All names are not listed, because there can be thousands.
fn similar(nearest: &[String], count: usize) -> String {
    match (nearest, count) {
        ([first, ..], _) => format!("; did you mean {first:?}?"),
        ([], 0) => "; there are none".to_owned(),
        ([], count) => format!("; none of the {count} that exist has a similar name"),
    }
}

/// Makes the error for a failure of `server`.
pub(super) fn failed(server: &Arc<str>, tool: Option<&str>, source: upstream::Error) -> Error {
    Error::Upstream { server: Arc::clone(server), tool: tool.map(str::to_owned), source, retry_in: None }
}

/// Makes the error for a failure of `upstream`. If the server is unavailable, it includes the time of the
/// next attempt to connect.
pub(super) fn failed_at(upstream: &Upstream, tool: Option<&str>, source: upstream::Error) -> Error {
    let is_away = matches!(source, upstream::Error::Connect { .. } | upstream::Error::NotSent { .. });
    let retry_in = if is_away { upstream.retry_in() } else { None };
    let (server, tool) = (Arc::clone(&upstream.config().name), tool.map(str::to_owned));
    Error::Upstream { server, tool, source, retry_in }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        let error = Error::name_not_found(
            ItemKind::Tool,
            "serch_handbok",
            None,
            ["ping", "search_handbook"].into_iter(),
        );
        assert!(error.to_string().ends_with("did you mean \"search_handbook\"?"), "{error}");
        let error = Error::server_not_found("zzz", ["docs", "files"].into_iter());
        assert_eq!(error.to_string(), "there is no server called \"zzz\"; there are docs, files");
        let error = Error::name_not_found(ItemKind::Tool, "x", Some("docs"), std::iter::empty());
        assert_eq!(error.to_string(), "there is no tool called \"x\" at server \"docs\"; there are none");
        let error = Error::name_not_found(ItemKind::Tool, "x", None, ["search", "read_page"].into_iter());
        let text = "there is no tool called \"x\"; none of the 2 that exist has a similar name";
        assert_eq!(error.to_string(), text);
    }
}
