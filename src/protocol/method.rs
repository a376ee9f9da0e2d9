//! The names of the methods and notifications of MCP that the gateway knows.
//!
//! Not here: which revision has which (`version`), and what they mean (`gateway`).

/// Legacy handshake, first message of a session.
pub const INITIALIZE: &str = "initialize";
/// Legacy handshake, last message: the client is ready.
pub const INITIALIZED: &str = "notifications/initialized";
/// Legacy liveness check, in both directions.
pub const PING: &str = "ping";
/// Modern: revisions, capabilities and identity of a server in one request.
pub const DISCOVER: &str = "server/discover";
/// One page of tools.
pub const TOOLS_LIST: &str = "tools/list";
/// Runs a tool.
pub const TOOLS_CALL: &str = "tools/call";
/// The list of tools changed.
pub const TOOLS_LIST_CHANGED: &str = "notifications/tools/list_changed";
/// Modern: opens a stream of change notices.
pub const SUBSCRIPTIONS_LISTEN: &str = "subscriptions/listen";
/// Modern: first message on that stream, says what is honoured.
pub const SUBSCRIPTIONS_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// Progress of one request.
pub const PROGRESS: &str = "notifications/progress";
/// Stop working on one request.
pub const CANCELLED: &str = "notifications/cancelled";
/// One log line of a server.
pub const LOG_MESSAGE: &str = "notifications/message";
/// Asks a client for the folders it works in.
pub const ROOTS_LIST: &str = "roots/list";
/// Asks a client's language model to go on with a conversation.
pub const SAMPLING_CREATE_MESSAGE: &str = "sampling/createMessage";
/// Asks the person at a client: by a form, or by sending them to a URL.
pub const ELICITATION_CREATE: &str = "elicitation/create";
