//! The names of the MCP methods and notifications that Switchyard knows, and [`Method`]: any such name.
//!
//! Not here: which revision has which method (`version`), and what the methods mean (`gateway`).

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// The name of a method or a notification. A known name needs no allocation.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Method(Cow<'static, str>);

impl Method {
    /// A method whose name is a constant.
    pub const fn constant(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// The name, if it is a known one. All of those are visible ASCII.
    pub const fn known(&self) -> Option<&'static str> {
        match self.0 {
            Cow::Borrowed(name) => Some(name),
            Cow::Owned(_) => None,
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Method {
    fn from(name: &str) -> Self {
        let known = KNOWN.iter().find(|known| **known == name);
        Self(known.map_or_else(|| Cow::Owned(name.to_owned()), |known| Cow::Borrowed(*known)))
    }
}

impl Deref for Method {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Method {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Method {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl PartialEq<Method> for &str {
    fn eq(&self, other: &Method) -> bool {
        *self == other.0
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Legacy handshake, first message of a session.
pub const INITIALIZE: &str = "initialize";
/// Legacy handshake, last message: the client is ready.
pub const INITIALIZED: &str = "notifications/initialized";
/// Legacy liveness check, in both directions.
pub const PING: &str = "ping";
/// Modern: the revisions, capabilities and identity of a server in one request.
pub const DISCOVER: &str = "server/discover";
/// One page of tools.
pub const TOOLS_LIST: &str = "tools/list";
/// Runs a tool.
pub const TOOLS_CALL: &str = "tools/call";
/// The list of tools changed.
pub(crate) const TOOLS_LIST_CHANGED: &str = "notifications/tools/list_changed";
/// One page of resources.
pub const RESOURCES_LIST: &str = "resources/list";
/// One page of resource templates.
pub const RESOURCE_TEMPLATES_LIST: &str = "resources/templates/list";
/// The contents of a resource.
pub const RESOURCES_READ: &str = "resources/read";
/// Legacy: subscribes to changes of one resource.
pub const RESOURCES_SUBSCRIBE: &str = "resources/subscribe";
/// Legacy: ends such a subscription.
pub const RESOURCES_UNSUBSCRIBE: &str = "resources/unsubscribe";
/// The list of resources or of templates changed.
pub(crate) const RESOURCES_LIST_CHANGED: &str = "notifications/resources/list_changed";
/// One resource changed.
pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
/// One page of prompts.
pub const PROMPTS_LIST: &str = "prompts/list";
/// One prompt, filled in.
pub const PROMPTS_GET: &str = "prompts/get";
/// The list of prompts changed.
pub(crate) const PROMPTS_LIST_CHANGED: &str = "notifications/prompts/list_changed";
/// One page of skills (extension `io.modelcontextprotocol/skills`).
pub const SKILLS_LIST: &str = "skills/list";
/// The entry of one skill.
pub const SKILLS_GET: &str = "skills/get";
/// The direct children of a directory (setting `directoryRead` of the same extension).
pub const DIRECTORY_READ: &str = "resources/directory/read";
/// Suggestions for an argument of a prompt or a template.
pub const COMPLETE: &str = "completion/complete";
/// Legacy: sets the lowest level of log messages.
pub const SET_LEVEL: &str = "logging/setLevel";
/// The client's roots changed.
pub const ROOTS_LIST_CHANGED: &str = "notifications/roots/list_changed";
/// Legacy: the user finished at the URL of an elicitation.
pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
/// The status of a task.
pub const TASKS_GET: &str = "tasks/get";
/// Legacy: the result of a task, once it has one.
pub const TASKS_RESULT: &str = "tasks/result";
/// Modern extension: delivers the input that a task waits for.
pub const TASKS_UPDATE: &str = "tasks/update";
/// Cancels a task.
pub const TASKS_CANCEL: &str = "tasks/cancel";
/// Legacy: one page of tasks.
pub const TASKS_LIST: &str = "tasks/list";
/// Legacy: the status of a task changed.
pub const TASK_STATUS: &str = "notifications/tasks/status";
/// Modern extension: the status of a task changed.
pub const TASKS: &str = "notifications/tasks";
/// Modern: opens a stream of change notifications.
pub const SUBSCRIPTIONS_LISTEN: &str = "subscriptions/listen";
/// Modern: the first message on that stream. It names the accepted subscriptions.
pub const SUBSCRIPTIONS_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// Progress of one request.
pub const PROGRESS: &str = "notifications/progress";
/// Cancels one request.
pub const CANCELLED: &str = "notifications/cancelled";
/// One log message of a server.
pub const LOG_MESSAGE: &str = "notifications/message";
/// Asks a client for its root folders.
pub const ROOTS_LIST: &str = "roots/list";
/// Asks a client's language model to continue a conversation.
pub const SAMPLING_CREATE_MESSAGE: &str = "sampling/createMessage";
/// Asks the user of a client, with a form or at a URL.
pub const ELICITATION_CREATE: &str = "elicitation/create";

/// All known names, the most frequent first.
const KNOWN: [&str; 39] = [
    TOOLS_CALL,
    INITIALIZE,
    INITIALIZED,
    PING,
    DISCOVER,
    TOOLS_LIST,
    TOOLS_LIST_CHANGED,
    RESOURCES_LIST,
    RESOURCE_TEMPLATES_LIST,
    RESOURCES_READ,
    RESOURCES_SUBSCRIBE,
    RESOURCES_UNSUBSCRIBE,
    RESOURCES_LIST_CHANGED,
    RESOURCE_UPDATED,
    PROMPTS_LIST,
    PROMPTS_GET,
    PROMPTS_LIST_CHANGED,
    SKILLS_LIST,
    SKILLS_GET,
    DIRECTORY_READ,
    COMPLETE,
    SET_LEVEL,
    ROOTS_LIST_CHANGED,
    ELICITATION_COMPLETE,
    TASKS_GET,
    TASKS_RESULT,
    TASKS_UPDATE,
    TASKS_CANCEL,
    TASKS_LIST,
    TASK_STATUS,
    TASKS,
    SUBSCRIPTIONS_LISTEN,
    SUBSCRIPTIONS_ACKNOWLEDGED,
    PROGRESS,
    CANCELLED,
    LOG_MESSAGE,
    ROOTS_LIST,
    SAMPLING_CREATE_MESSAGE,
    ELICITATION_CREATE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_method_is_not_copied_and_an_unknown_one_is_stored() {
        for name in KNOWN {
            assert!(name.bytes().all(|byte| byte.is_ascii_graphic()), "{name}");
            let method = Method::from(String::from(name).as_str());
            assert!(matches!(method.0, Cow::Borrowed(_)) && method == name, "{name}");
        }
        let odd = Method::from("tools/cal");
        assert!(matches!(odd.0, Cow::Owned(_)) && odd.as_str() == "tools/cal");
    }
}
