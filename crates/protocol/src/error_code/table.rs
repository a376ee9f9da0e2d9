//! The rows of the table of error codes.
//!
//! Columns: variant, name, surface, kind, HTTP status, JSON-RPC codes, retryable; then title, meaning and what to do.
//! To add a code, add a row here and renew `docs/errors.md` and `openapi/` with `UPDATE_GOLDEN=1`.

use super::{ErrorKind, Numbers, Retryable, Row, Surface, code, error_codes};

/// Number `n` of Switchyard's own codes.
const fn own(n: i64) -> Numbers {
    [code::CONNECTION_CLOSED - n, code::OURS_MODERN - n]
}

/// A number that both eras share.
const fn shared(number: i64) -> Numbers {
    [number, number]
}

const CONNECTION: Option<Numbers> = Some(own(0));
const BACKEND: Option<Numbers> = Some(own(1));
const CREDENTIALS: Option<Numbers> = Some(own(2));
const BREAKER: Option<Numbers> = Some(own(3));
const LIMIT: Option<Numbers> = Some(own(4));
const LATE: Option<Numbers> = Some(own(5));
const PARSE: Option<Numbers> = Some(shared(code::PARSE_ERROR));
const REQUEST: Option<Numbers> = Some(shared(code::INVALID_REQUEST));
const METHOD: Option<Numbers> = Some(shared(code::METHOD_NOT_FOUND));
const PARAMS: Option<Numbers> = Some(shared(code::INVALID_PARAMS));
const INTERNAL: Option<Numbers> = Some(shared(code::INTERNAL_ERROR));
const HEADER: Option<Numbers> = Some(shared(code::HEADER_MISMATCH));
const CAPABILITY: Option<Numbers> = Some(shared(code::MISSING_CLIENT_CAPABILITY));
const VERSION: Option<Numbers> = Some([code::INVALID_REQUEST, code::UNSUPPORTED_PROTOCOL_VERSION]);
const RESOURCE: Option<Numbers> = Some([code::RESOURCE_NOT_FOUND, code::INVALID_PARAMS]);

error_codes! {
    // The request as such.
    InvalidRequest = "invalid_request", Rest, InvalidParams, 400, None, No,
        "The request is not valid",
        "The body or the query is not as documented. For a body, `errors` lists each wrong member.",
        "compare the request with /openapi.json";
    InvalidParams = "invalid_params", Mcp, InvalidParams, 200, PARAMS, No,
        "A parameter is not valid",
        "`field` names the parameter, `rejected_value` is its value, and `valid_range` says what it may be.",
        "change the parameter that `field` names";
    InvalidMessage = "invalid_message", Mcp, InvalidParams, 400, PARSE, No,
        "The body is not one JSON-RPC message",
        "The body is not JSON (-32700), or it is not one request, notification or response (-32600).",
        "send one JSON-RPC 2.0 message";
    InvalidMeta = "invalid_meta", Mcp, InvalidParams, 400, PARAMS, No,
        "`_meta` is not complete",
        "A member is missing from `params._meta` that revision 2026-07-28 requires.",
        "send the member of `_meta` that `detail` names";
    HeaderMismatch = "header_mismatch", Mcp, InvalidParams, 400, HEADER, No,
        "A header and the body differ",
        "A header that revision 2026-07-28 requires is missing, or differs from the body.",
        "set the header to the value in the body";
    UnsupportedVersion = "unsupported_version", Mcp, InvalidParams, 400, VERSION, No,
        "The protocol revision is not supported",
        "Switchyard does not speak this revision. In the modern era `supported` lists those that it speaks.",
        "use a revision that is supported, such as 2026-07-28";
    MethodNotFound = "method_not_found", Mcp, NotFound, 404, METHOD, No,
        "There is no such method",
        "The MCP method does not exist in the revision of the client.",
        "use a method of this protocol revision";
    MethodNotAllowed = "method_not_allowed", Both, InvalidParams, 405, REQUEST, No,
        "The path does not have this method",
        "The path does not have this HTTP method. The header `Allow` lists those that it has.",
        "use a method of the header `Allow`";
    CapabilityMissing = "capability_missing", Mcp, InvalidParams, 400, CAPABILITY, No,
        "The client lacks a capability",
        "The request needs capabilities that the client did not declare. `requiredCapabilities` has them.",
        "declare the capabilities in `requiredCapabilities`, or use a client that has them";
    PostedResponse = "posted_response", Mcp, InvalidParams, 400, REQUEST, No,
        "A response cannot be posted",
        "In revision 2026-07-28 a client answers by repeating its request, not by posting a response.",
        "repeat the request with `inputResponses`";
    NotAcceptable = "not_acceptable", Mcp, InvalidParams, 406, REQUEST, No,
        "The client does not accept the answer",
        "The header `Accept` excludes the media types of the MCP endpoint.",
        "send `Accept: application/json, text/event-stream`";
    UnsupportedMediaType = "unsupported_media_type", Both, InvalidParams, 415, REQUEST, No,
        "The body must be JSON",
        "There must be exactly one header `Content-Type`, with `application/json`, and no `Content-Encoding`.",
        "send the header \"Content-Type: application/json\"";
    BodyTooLarge = "body_too_large", Every, InvalidParams, 413, REQUEST, No,
        "The body is too large",
        "The body is larger than `server.max_body_bytes`.",
        "send less, or ask the operator to raise `server.max_body_bytes`";
    HeadersTooLarge = "headers_too_large", Every, InvalidParams, 431, REQUEST, No,
        "The headers are too large",
        "The headers of the request that servers get (`forward_headers`) have more than 8 KiB.",
        "send shorter values in these headers";
    BodyIncomplete = "body_incomplete", Every, InvalidParams, 400, REQUEST, No,
        "The body is not complete",
        "The body ended before its announced end.",
        "send the whole body";
    BodyTimeout = "body_timeout", Every, Timeout, 408, REQUEST, Yes,
        "The body did not arrive in time",
        "The body did not arrive within `server.body_timeout`.",
        "send the request again, and its body faster";
    DescriptionTooLarge = "description_too_large", Mcp, InvalidParams, 400, REQUEST, No,
        "The client describes itself at too much length",
        "A parameter of `initialize` that describes the client is too large to keep for a session.",
        "describe the client in fewer bytes";
    BadHost = "bad_host", Every, InvalidParams, 400, REQUEST, No,
        "The request must name exactly one host",
        "The request has no header `Host`, or several.",
        "send exactly one header `Host`";
    HostNotAllowed = "host_not_allowed", Every, AuthenticationError, 403, REQUEST, No,
        "This host is not served here",
        "Switchyard is not configured to answer under this host name.",
        "use a name of the gateway, or have the operator add this one to `server.allowed_hosts`";
    OriginNotAllowed = "origin_not_allowed", Every, AuthenticationError, 403, REQUEST, No,
        "This origin may not ask here",
        "Web pages of this origin may not use the gateway.",
        "have the operator add the origin to `server.allowed_origins`";
    CsrfTokenRequired = "csrf_token_required", EveryRest, AuthenticationError, 403, None, No,
        "The token of the browser session is missing",
        "A browser session sent a request that may change something, without its token or from another site.",
        "send it from the dashboard, or send a key or a token in `Authorization` instead of a cookie";
    TransferCodingNotSupported = "transfer_coding_not_supported", Every, InvalidParams, 501, REQUEST, No,
        "The transfer coding is not supported",
        "`Transfer-Encoding` is something other than `chunked`, or names it twice.",
        "send the body with `Content-Length` or with `chunked`";
    TooManyHeads = "too_many_heads", Every, RateLimited, 503, REQUEST, Yes,
        "Too many large heads are being read",
        "Large heads of requests take all the memory that there is for them.",
        "send the request again in a moment, or with fewer headers";

    // Credentials of clients.
    Unauthorized = "unauthorized", Every, AuthenticationError, 401, REQUEST, No,
        "A credential is needed",
        "The request has no credential, or one that is not valid.",
        "send \"Authorization: Bearer <token>\"";
    Forbidden = "forbidden", Every, AuthenticationError, 403, REQUEST, No,
        "The credential does not allow this",
        "The role of the credential does not allow this action.",
        "use a credential with a role that allows it";
    AuthenticationBusy = "authentication_busy", Every, RateLimited, 503, REQUEST, Yes,
        "The credential cannot be checked now",
        "Too many keys are being checked for the first time, or the key of a token is not known yet. The login service \
         was asked for its keys a moment ago, or cannot be reached.",
        "send the request again after `retry_after_ms`";

    // Limits of the gateway.
    TooManyConnections = "too_many_connections", Every, ConnectionLimitExceeded, 503, LIMIT, Yes,
        "All connections are taken",
        "All connections are taken, or all that one principal may have. `max_connections` and `current_connections` say how many there are.",
        "come back after `retry_after_ms`, or have the operator raise the limit";
    TooManySessions = "too_many_sessions", Mcp, ConnectionLimitExceeded, 503, LIMIT, Yes,
        "All sessions are taken",
        "All sessions are taken. `max_connections` and `current_connections` say how many there are.",
        "come back after `retry_after_ms`, or have the operator raise `max_sessions`";
    TooManyRequests = "too_many_requests", Mcp, RateLimited, 429, LIMIT, Yes,
        "Too many requests of the session run",
        "The session has as many requests running as one session may have.",
        "send the request again when another one has ended";
    TooManySubscriptions = "too_many_subscriptions", Mcp, RateLimited, 200, REQUEST, No,
        "The session has too many subscriptions",
        "The session is subscribed to as many resources as one session may be.",
        "unsubscribe from another resource first";
    LimitReached = "limit_reached", Server, RateLimited, 429, LIMIT, Yes,
        "A limit of the caller is reached",
        "The caller sent as many requests in a minute, or has as many calls running, as `limits` in the configuration file allow. Or it changed its own secrets as often as a caller may. Nothing was sent to the server.",
        "try again after `retry_after_ms`";
    MemoryExhausted = "memory_exhausted", Every, RateLimited, 503, LIMIT, Sometimes,
        "The memory budget is exhausted",
        "The memory budget has no room. If retryable, the request was refused; if not, the call was made and its answer discarded.",
        "if `retryable` is true, send it again; else find out what the call did, and ask for less at a time";
    AuditFull = "audit_full", Every, RateLimited, 503, LIMIT, Yes,
        "The audit log cannot be written",
        "The audit log cannot be written now, or too many audited actions run. Nothing was done.",
        "try again after `retry_after_ms`, or tell the operator";

    // Sessions and streams of legacy clients.
    NoSession = "no_session", Mcp, InvalidParams, 400, REQUEST, No,
        "The request has no session",
        "A legacy request came without a session.",
        "begin with `initialize`, or describe each request in its `_meta`";
    UnknownSession = "unknown_session", Mcp, NotFound, 404, REQUEST, No,
        "There is no such session",
        "The session has ended, or belongs to another client.",
        "begin again with `initialize`";
    UnknownEvent = "unknown_event", Mcp, NotFound, 400, REQUEST, No,
        "The stream cannot be resumed here",
        "`Last-Event-ID` is unknown, or its stream is no longer kept.",
        "open the stream again without `Last-Event-ID`";
    IdInUse = "id_in_use", Mcp, InvalidParams, 400, REQUEST, No,
        "The id is in use",
        "A request of this session with the same id is running.",
        "give each request an id of its own";

    // Names.
    NotFound = "not_found", Both, NotFound, 404, PARAMS, No,
        "There is nothing at this path",
        "Nothing has this path or URI.",
        "GET /openapi.json describes every path";
    ServerNotFound = "server_not_found", Both, NotFound, 404, PARAMS, No,
        "There is no such server",
        "No server has this name. `nearest` has similar names, `available` those that exist.",
        "use one of the names in `available`, or list them: GET /api/v1/mcp/servers";
    ViewNotFound = "view_not_found", Both, NotFound, 404, PARAMS, No,
        "There is no such view",
        "No view has this name, or the credential is bound to another one.",
        "use the name of a view in the configuration file, or leave `view` out";
    ServerNotConfigured = "server_not_configured", Server, ServiceUnavailable, 503, CONNECTION, No,
        "The server is not configured",
        "The entry of the server in the configuration file has a mistake, such as a variable that is not set. `detail` has its line and column. Nothing was sent.",
        "have an operator correct the entry and reload: GET /api/v1/mcp/servers has each problem of it";
    ToolNotFound = "tool_not_found", Both, NotFound, 404, PARAMS, Sometimes,
        "There is no such tool",
        "No tool has this name. `unreached` lists servers that may have it, because they were not reached yet.",
        "list the tools, `tools/list` or GET /api/v1/mcp/tools, and use one of their names";
    PromptNotFound = "prompt_not_found", Mcp, NotFound, 200, PARAMS, Sometimes,
        "There is no such prompt",
        "No prompt has this name. `unreached` lists servers that may have it, because they were not reached yet.",
        "list the prompts with `prompts/list` and use one of their names";
    ResourceNotFound = "resource_not_found", Mcp, NotFound, 200, RESOURCE, No,
        "There is no such resource",
        "No server has a resource with this URI.",
        "list the resources with `resources/list` and use one of their URIs";
    NotTold = "not_told", Mcp, NotFound, 200, PARAMS, No,
        "The server does not announce this resource",
        "The server did not accept a subscription to the resource: it does not have it, or does not announce changes.",
        "read the resource again when you need it";
    AmbiguousTool = "ambiguous_tool", Both, InvalidParams, 400, PARAMS, No,
        "Several servers offer a tool of this name",
        "Several servers offer this tool, or another server had the name before. `candidates` has the names to use.",
        "use one of the candidates, or name the server: `server` of a REST call, /mcp/{server} over MCP";
    AmbiguousPrompt = "ambiguous_prompt", Mcp, InvalidParams, 200, PARAMS, No,
        "Several servers offer a prompt of this name",
        "Several servers offer this prompt, or another server had the name before. `candidates` has the names to use.",
        "use one of the candidates, or ask at the address of one server, /mcp/{server}";
    AmbiguousUri = "ambiguous_uri", Mcp, InvalidParams, 200, PARAMS, No,
        "Several servers have this URI",
        "Several servers have a resource with this URI. `candidates` has the URIs to use.",
        "use one of the candidates, which name their servers";
    ToolChanged = "tool_changed", Both, ServiceUnavailable, 409, CONNECTION, No,
        "The tool changed and is blocked",
        "The server changed the definition of the tool, and `tools.on_change` blocks it. `changed` has the members. Nothing was sent.",
        "have an operator look at `changed_tools` in GET /api/v1/mcp/servers and approve the tool";
    OtherDefinition = "other_definition", Rest, InvalidParams, 409, PARAMS, No,
        "The server shows another definition",
        "The server shows another definition than that of `sha256`. Nothing was approved.",
        "look at `changed_tools` in GET /api/v1/mcp/servers again";

    // Servers and calls.
    InvalidArguments = "invalid_arguments", Rest, InvalidParams, 400, None, No,
        "The server refused the arguments",
        "The server answered with the JSON-RPC error -32602, which is in `rpc_error`.",
        "compare the arguments with the tool's inputSchema, GET /api/v1/mcp/tools";
    Overloaded = "overloaded", Server, RateLimited, 429, LIMIT, Yes,
        "The server is busy",
        "Too many calls of this server run and wait, or it got `limits.requests_per_minute` requests. Nothing was sent.",
        "try again after `retry_after_ms`";
    RateLimited = "rate_limited", Server, RateLimited, 429, LIMIT, Yes,
        "The server limits how often it is called",
        "The server, or the service behind a built-in one, answered HTTP 429. If it gave no time to wait, `retry_after_ms` is 30000.",
        "try again after `retry_after_ms`";
    ConnectionFailed = "connection_failed", Server, ServiceUnavailable, 502, CONNECTION, Yes,
        "The server could not be reached",
        "The server could not be reached. The call was not sent.",
        "check that the server runs and is reachable from the gateway, GET /api/v1/mcp/health";
    OutcomeUnknown = "outcome_unknown", Server, ServiceUnavailable, 502, CONNECTION, No,
        "The connection was lost during the call",
        "The connection was lost after the call was sent. The tool may have run.",
        "the tool may have run: find out before calling it again";
    TimedOut = "timed_out", Server, Timeout, 504, LATE, No,
        "The server did not answer in time",
        "The server did not answer in time. The tool may have run.",
        "the tool may have run; give it longer: the server's `timeout`, or \"timeout\" of a REST call, in seconds";
    ServerError = "server_error", Server, ServiceUnavailable, 502, BACKEND, Sometimes,
        "The server failed",
        "The server, or a proxy before it, answered HTTP 500 or above without an MCP answer. With 502, 503 and 504 it is retryable.",
        "look at the log of the server, and at GET /api/v1/mcp/health";
    BackendError = "backend_error", Server, ServiceUnavailable, 502, BACKEND, Sometimes,
        "The service behind the server answered with an error",
        "The service behind a built-in server answered with an error. `backend` has its facts; kind and retryability follow its status.",
        "look at `backend` and at the log of the service";
    InvalidAnswer = "invalid_answer", Server, ServiceUnavailable, 502, INTERNAL, No,
        "The server's answer is not valid",
        "The answer is not one of MCP, or of the service behind a built-in server, has another HTTP status, or is too large.",
        "check that an MCP server, or the service behind a built-in one, answers at the configured address";
    AuthFailed = "auth_failed", Server, AuthenticationError, 503, CREDENTIALS, No,
        "The server refuses the gateway's credentials",
        "The server refuses the credentials that Switchyard is configured to send.",
        "have an operator correct the credentials of the server, then reconnect it";
    LoginRequired = "login_required", Server, AuthenticationError, 503, CREDENTIALS, No,
        "Somebody has to log in to the server",
        "The server demands a login, and there is no valid token. MCP clients find the page of the login in `login_url`.",
        "open `login_url` in a browser, or run `switchyard login SERVER`, and call again";
    SecretRequired = "secret_required", Server, AuthenticationError, 503, CREDENTIALS, No,
        "The server needs a secret of the caller",
        "The server is sent a secret of each caller, and the caller has not set its own. Nothing was sent. `detail` names the secret.",
        "set the secret: PUT /api/v1/mcp/secrets/NAME, the page of logins of the dashboard, or `switchyard secret set NAME --for PRINCIPAL`; then call again";
    CircuitOpen = "circuit_open", Server, CircuitOpen, 503, BREAKER, Yes,
        "The server's circuit breaker is open",
        "The server failed several times in a row and gets no calls for a while. Nothing was sent.",
        "try again after `retry_after_ms`, or have an operator reset the circuit breaker";
    ServerUnavailable = "server_unavailable", Server, ServiceUnavailable, 503, CONNECTION, No,
        "The server is not available",
        "The server is disabled or disconnected, or Switchyard is shutting down. Nothing was sent.",
        "try again when the server is enabled and connected";

    // Input that a call needs from its client, and tasks.
    NotSuspended = "not_suspended", Mcp, InvalidParams, 200, REQUEST, No,
        "The call cannot wait for input",
        "The call needs input from its client, and Switchyard has no room to keep it meanwhile.",
        "call again when fewer calls wait for input";
    InputRefused = "input_refused", Mcp, InvalidParams, 200, REQUEST, No,
        "The client refused to give input",
        "The server needs an answer that the client refused to give.",
        "call again and answer the request of the server";
    ClientCannotBeAsked = "client_cannot_be_asked", Mcp, InvalidParams, 200, REQUEST, No,
        "The client cannot be asked",
        "The server asks for something that the client did not declare it can give.",
        "use a client that declares the capability";
    TooManyRounds = "too_many_rounds", Mcp, InvalidParams, 200, REQUEST, No,
        "The server asks for input again and again",
        "The server asked for input more often than Switchyard allows for one call.",
        "send the input in the arguments, or look for a fault of the server";
    TooManyQuestions = "too_many_questions", Mcp, InvalidParams, 200, REQUEST, No,
        "The server asks for too much at a time",
        "The server asks for more inputs at a time than Switchyard passes on.",
        "look for a fault of the server";
    TaskNeedsAStream = "task_needs_a_stream", Mcp, InvalidParams, 200, REQUEST, No,
        "The task needs a client of another revision",
        "The task waits for input in a way that the revision of the client does not have.",
        "follow the task with a client of revision 2025-11-25";
    TaskTooLong = "task_too_long", Mcp, InvalidParams, 200, REQUEST, No,
        "The task has not ended",
        "The task did not end while Switchyard waited for its result.",
        "ask for the result again";
    TasksNotListed = "tasks_not_listed", Mcp, InvalidParams, 200, REQUEST, No,
        "Tasks cannot be listed",
        "Behind a gateway servers cannot tell which task belongs to which client.",
        "ask for a task by its id";

    // The gateway itself.
    InvalidConfiguration = "invalid_configuration", Rest, InvalidParams, 422, None, No,
        "The configuration file is not valid",
        "The configuration file has problems or cannot be read. The running configuration stays.",
        "correct the file and reload again; `switchyard check` shows the same problems";
    FileNotChanged = "file_not_changed", Rest, InvalidParams, 409, None, No,
        "The file was not changed",
        "The configuration file or the file of keys is read-only, changed meanwhile, or has an entry that is in the way. `detail` says which.",
        "do what `detail` says, and look at the entries again";
    LoginNotPossible = "login_not_possible", Rest, InvalidParams, 409, None, No,
        "Nobody can log in to this server here",
        "The server has no `auth: oauth`, or Switchyard does not know the URL at which a browser reaches it.",
        "set `auth: oauth` for the server; where browsers are on other machines, set `server.public_url` too";
    LoginFailed = "login_failed", Rest, ServiceUnavailable, 503, None, Sometimes,
        "The login could not be changed",
        "The store of logins cannot be written, or the login service failed. `detail` says which.",
        "read `detail`, and try again in a moment";
    StoreUnavailable = "store_unavailable", Rest, ServiceUnavailable, 503, None, Yes,
        "The store of the authorization server cannot be used",
        "The folder that has the grants cannot be read or written now. The log says why.",
        "try again; look at the log of the gateway if it stays so";
    InternalError = "internal_error", Every, InternalError, 500, INTERNAL, Sometimes,
        "The gateway failed",
        "A bug of Switchyard, or a fault of its machine. The log has more under the request id.",
        "look for the request_id in the gateway's log";

    // Results of `/call` with `success: false`.
    ToolError = "tool_error", Call, ServiceUnavailable, 200, None, No,
        "The tool reported an error",
        "The tool ran and reported an error (`isError`), which is in `error`.",
        "read `error`, and change the arguments";
    RpcError = "rpc_error", Call, ServiceUnavailable, 200, None, No,
        "The server answered with a JSON-RPC error",
        "The server answered with a JSON-RPC error, which is in `rpc_error`.",
        "read `rpc_error`";
    InputRequired = "input_required", Call, InvalidParams, 200, None, No,
        "The tool asks for input",
        "The tool asks for input before it continues. MCP clients can give it, REST cannot.",
        "call the tool over MCP, or send the input in the arguments";
    UnsupportedResult = "unsupported_result", Call, ServiceUnavailable, 200, None, No,
        "The result is of a kind that REST cannot follow",
        "The server answered with a kind of result that REST cannot follow, such as a task.",
        "call the tool over MCP";
}
