//! A server with the tasks extension, over Streamable HTTP: the fixture of the suite's `tasks-*`
//! scenarios, on the Rust SDK. The first line it writes is the port it listens on.
//!
//! The names and what each tool must do are the suite's. Only what `greet` and `slow_compute` of no
//! seconds do is answered at once; the others become tasks, and refuse a client that has no tasks.

use std::net::Ipv4Addr;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientCapabilities,
    ContentBlock, CreateTaskResult, GetTaskParams, GetTaskResult, Implementation, InputRequest,
    InputRequests, InputRequiredResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskContext, TaskExit, TaskFuture, TaskManager, TaskOptions};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

const TOOLS: [(&str, &str); 7] = [
    ("greet", "greets, at once"),
    ("slow_compute", "takes `seconds`; a task if that is more than none"),
    ("failing_job", "a task whose tool fails"),
    ("protocol_error_job", "a task that fails itself"),
    ("confirm_delete", "a task that asks once"),
    ("multi_input", "a task that asks two things at a time"),
    ("test_tool_with_task", "asks before it becomes a task"),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    eprintln!("{}", listener.local_addr()?.port());
    let tasks = TaskManager::new();
    let service: StreamableHttpService<Peer, LocalSessionManager> = StreamableHttpService::new(
        move || Ok(Peer { tasks: tasks.clone() }),
        std::sync::Arc::default(),
        StreamableHttpServerConfig::default(),
    );
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await
}

struct Peer {
    tasks: TaskManager,
}

impl ServerHandler for Peer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tasks().build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("tasks-peer", "1"))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = object(json!({"type": "object"}));
        let tools = TOOLS.map(|(name, about)| Tool::new(name, about, schema.clone()));
        Ok(ListToolsResult { tools: tools.to_vec(), ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let has_tasks = context.client_capabilities().is_some_and(|abilities| abilities.supports_tasks());
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let answers = request.input_responses.unwrap_or_default();
        match request.name.as_ref() {
            "greet" => {
                Ok(text(&format!("Hello, {}!", arguments["name"].as_str().unwrap_or("nobody"))).into())
            }
            "slow_compute" => {
                let pause = Duration::from_secs(arguments["seconds"].as_u64().unwrap_or(0));
                if pause.is_zero() || !has_tasks {
                    tokio::time::sleep(pause).await;
                    return Ok(text("computed").into());
                }
                self.task(has_tasks, move |task| Box::pin(compute(task, pause)))
            }
            "failing_job" => self.task(has_tasks, |_| {
                Box::pin(async { Ok(CallToolResult::error(vec![ContentBlock::text("it failed")])) })
            }),
            "protocol_error_job" => self.task(has_tasks, |_| {
                Box::pin(async { Err(ErrorData::internal_error("it broke", None).into()) })
            }),
            "confirm_delete" => self.task(has_tasks, |task| Box::pin(confirm(task))),
            "multi_input" => self.task(has_tasks, |task| Box::pin(ask_twice(task))),
            "test_tool_with_task" => match answers.get("user_name") {
                None => Ok(ask_for_a_name()?.into()),
                Some(answer) => {
                    let greeting =
                        format!("Hello, {}!", answer["content"]["name"].as_str().unwrap_or("nobody"));
                    self.task(has_tasks, move |_| Box::pin(async move { Ok(text(&greeting)) }))
                }
            },
            other => Err(ErrorData::invalid_params(format!("unknown tool {other}"), None)),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}

impl Peer {
    /// Runs `work` as a task of a client that has tasks.
    fn task(
        &self,
        has_tasks: bool,
        work: impl FnOnce(TaskContext) -> TaskFuture,
    ) -> Result<CallToolResponse, ErrorData> {
        if !has_tasks {
            let needed = ClientCapabilities::builder().enable_tasks().build();
            return Err(ErrorData::missing_required_client_capability(needed));
        }
        Ok(CreateTaskResult::new(self.tasks.spawn(TaskOptions::new(), work)).into())
    }
}

async fn compute(task: TaskContext, pause: Duration) -> Result<CallToolResult, TaskExit> {
    tokio::select! {
        () = task.cancelled() => Err(TaskExit::Cancelled),
        () = tokio::time::sleep(pause) => Ok(text("computed")),
    }
}

async fn confirm(task: TaskContext) -> Result<CallToolResult, TaskExit> {
    let answer = task.request_input("confirm", question("Delete it?", "confirm", "boolean")?).await?;
    Ok(text(&format!("confirmed: {}", answer["content"]["confirm"])))
}

async fn ask_twice(task: TaskContext) -> Result<CallToolResult, TaskExit> {
    let (first, second) = tokio::try_join!(
        task.request_input("first", question("A name?", "name", "string")?),
        task.request_input("second", question("Sure?", "confirm", "boolean")?),
    )?;
    Ok(text(&format!("{} {}", first["content"], second["content"])))
}

fn ask_for_a_name() -> Result<InputRequiredResult, ErrorData> {
    let asked = InputRequests::from([("user_name".to_owned(), question("Your name?", "name", "string")?)]);
    Ok(InputRequiredResult::new(Some(asked), Some("asked".to_owned())))
}

fn question(message: &str, member: &str, kind: &str) -> Result<InputRequest, ErrorData> {
    let schema = json!({"type": "object", "properties": {member: {"type": kind}}, "required": [member]});
    let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
    serde_json::from_value(json!({"method": "elicitation/create", "params": params}))
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn text(text: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("not an object: {other}"),
    }
}
