//! The rows of the table of clients.
//!
//! Invariant: a row names its source and the day. A test compares the pages of `docs/clients` with these rows.

use super::{Base, Client, Constant, EVERYWHERE, Http, Reference, StdioEntry, System, TimeoutUnit, UserFile};
use crate::connect::document::Syntax;
use Constant::{Everything, Name, Number, Text, Variable, Yes};

/// An entry that has only a URL and headers.
const URL: Http = Http { before: &[], url: "url", headers: &["headers"], after: &[] };
const TYPED: Http = Http { before: &[("type", Text("http"))], ..URL };
const STREAMABLE: Http = Http { before: &[("type", Text("streamable-http"))], ..URL };
const REMOTE: Http = Http { before: &[("type", Text("remote"))], after: &[("enabled", Yes)], ..URL };
const COMMAND: StdioEntry = StdioEntry { before: &[], command: "command", args: Some("args"), after: &[] };
const TYPED_COMMAND: StdioEntry = StdioEntry { before: &[("type", Text("stdio"))], ..COMMAND };
const LOCAL: StdioEntry =
    StdioEntry { before: &[("type", Text("local"))], args: None, after: &[("enabled", Yes)], ..COMMAND };
const BRACES: Reference = Reference::Between("${", "}");
const ENV: Reference = Reference::Between("${env:", "}");

/// The values that most rows share.
const COMMON: Client = Client {
    id: "",
    name: "",
    user: &[],
    project: None,
    format: Syntax::Json,
    key: &["mcpServers"],
    http: Some(URL),
    stdio: COMMAND,
    reference: Reference::Unknown,
    timeout: TimeoutUnit::Unknown,
    max_name: 64,
    name_marks: "-_",
    source: "",
    checked: "2026-11-23",
    verified: true,
    note: "",
};

const fn home(path: &'static str) -> UserFile {
    in_folder(Base::Home, path)
}

const fn in_folder(base: Base, path: &'static str) -> UserFile {
    UserFile { systems: EVERYWHERE, base, path, variable: None }
}

const UNIX: &[System] = &[System::Linux, System::MacOs];

/// All clients, by name.
pub(crate) const CLIENTS: &[Client] = &[
    Client {
        id: "amazon-q",
        name: "Amazon Q Developer CLI",
        user: &[home(".aws/amazonq/mcp.json")],
        project: Some(".amazonq/mcp.json"),
        http: None,
        timeout: TimeoutUnit::Milliseconds,
        source: "https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/command-line-mcp-configuration.html",
        verified: false,
        ..COMMON
    },
    Client {
        id: "amp",
        name: "Amp",
        user: &[in_folder(Base::Config, "amp/settings.json")],
        project: Some(".amp/settings.json"),
        key: &["amp.mcpServers"],
        reference: BRACES,
        source: "https://ampcode.com/manual#mcp",
        verified: false,
        ..COMMON
    },
    Client {
        id: "antigravity",
        name: "Google Antigravity",
        user: &[home(".gemini/antigravity/mcp_config.json")],
        http: Some(Http { url: "serverUrl", ..URL }),
        source: "https://antigravity.google/docs/mcp",
        verified: false,
        ..COMMON
    },
    Client {
        id: "anythingllm",
        name: "AnythingLLM Desktop",
        user: &[in_folder(
            Base::Application,
            "anythingllm-desktop/storage/plugins/anythingllm_mcp_servers.json",
        )],
        http: Some(Http { before: &[("type", Text("streamable"))], ..URL }),
        source: "https://docs.anythingllm.com/mcp-compatibility/overview",
        verified: false,
        ..COMMON
    },
    Client {
        id: "boltai",
        name: "BoltAI",
        user: &[UserFile { systems: &[System::MacOs], ..home(".boltai/mcp.json") }],
        http: None,
        source: "https://docs.boltai.com/docs/plugins/mcp-servers",
        verified: false,
        ..COMMON
    },
    Client {
        id: "claude-code",
        name: "Claude Code",
        user: &[UserFile { variable: Some(("CLAUDE_CONFIG_DIR", ".claude.json")), ..home(".claude.json") }],
        project: Some(".mcp.json"),
        http: Some(TYPED),
        stdio: TYPED_COMMAND,
        reference: BRACES,
        timeout: TimeoutUnit::Milliseconds,
        source: "https://docs.anthropic.com/en/docs/claude-code/mcp",
        ..COMMON
    },
    Client {
        id: "claude-desktop",
        name: "Claude Desktop",
        user: &[in_folder(Base::Application, "Claude/claude_desktop_config.json")],
        http: None,
        source: "https://modelcontextprotocol.io/quickstart/user",
        note: "Its file takes programs only; a URL is added under Settings, Connectors.",
        ..COMMON
    },
    Client {
        id: "cline",
        name: "Cline",
        user: &[in_folder(
            Base::Application,
            "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        )],
        http: Some(Http { before: &[("type", Text("streamableHttp"))], ..URL }),
        timeout: TimeoutUnit::Seconds,
        source: "https://docs.cline.bot/mcp/configuring-mcp-servers",
        verified: false,
        ..COMMON
    },
    Client {
        id: "codex",
        name: "OpenAI Codex",
        user: &[UserFile { variable: Some(("CODEX_HOME", "config.toml")), ..home(".codex/config.toml") }],
        project: Some(".codex/config.toml"),
        format: Syntax::Toml,
        key: &["mcp_servers"],
        http: Some(Http { headers: &["http_headers"], ..URL }),
        reference: Reference::Members(&[("bearer_token_env_var", Variable)]),
        source: "https://developers.openai.com/codex/mcp",
        ..COMMON
    },
    Client {
        id: "continue",
        name: "Continue",
        user: &[home(".continue/config.yaml")],
        format: Syntax::YamlList,
        http: Some(Http {
            before: &[("name", Name), ("type", Text("streamable-http"))],
            headers: &["requestOptions", "headers"],
            ..URL
        }),
        stdio: StdioEntry { before: &[("name", Name)], ..COMMAND },
        reference: Reference::Between("${{ secrets.", " }}"),
        source: "https://docs.continue.dev/customize/deep-dives/mcp",
        verified: false,
        ..COMMON
    },
    Client {
        id: "copilot-cli",
        name: "GitHub Copilot CLI",
        user: &[home(".copilot/mcp-config.json")],
        http: Some(Http { after: &[("tools", Everything)], ..TYPED }),
        stdio: StdioEntry { before: &[("type", Text("local"))], after: &[("tools", Everything)], ..COMMAND },
        timeout: TimeoutUnit::Milliseconds,
        source: "https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers",
        ..COMMON
    },
    Client {
        id: "cursor",
        name: "Cursor",
        user: &[home(".cursor/mcp.json")],
        project: Some(".cursor/mcp.json"),
        reference: ENV,
        source: "https://docs.cursor.com/context/model-context-protocol",
        ..COMMON
    },
    Client {
        id: "gemini",
        name: "Gemini CLI",
        user: &[home(".gemini/settings.json")],
        project: Some(".gemini/settings.json"),
        http: Some(Http { url: "httpUrl", ..URL }),
        reference: BRACES,
        name_marks: "-",
        timeout: TimeoutUnit::Milliseconds,
        source: "https://google-gemini.github.io/gemini-cli/docs/tools/mcp-server.html",
        ..COMMON
    },
    Client {
        id: "goose",
        name: "Goose",
        user: &[
            UserFile { systems: UNIX, ..in_folder(Base::Config, "goose/config.yaml") },
            UserFile {
                systems: &[System::Windows],
                ..in_folder(Base::Application, "Block/goose/config/config.yaml")
            },
        ],
        format: Syntax::Yaml,
        key: &["extensions"],
        http: Some(Http {
            before: &[("enabled", Yes), ("type", Text("streamable_http")), ("name", Name)],
            url: "uri",
            after: &[("timeout", Number("300"))],
            ..URL
        }),
        stdio: StdioEntry {
            before: &[("enabled", Yes), ("type", Text("stdio")), ("name", Name)],
            command: "cmd",
            after: &[("timeout", Number("300"))],
            ..COMMAND
        },
        timeout: TimeoutUnit::Seconds,
        source: "https://block.github.io/goose/docs/guides/config-files",
        ..COMMON
    },
    Client {
        id: "grok",
        name: "Grok Build",
        user: &[UserFile { variable: Some(("GROK_HOME", "config.toml")), ..home(".grok/config.toml") }],
        project: Some(".grok/config.toml"),
        format: Syntax::Toml,
        key: &["mcp_servers"],
        reference: BRACES,
        source: "https://docs.x.ai/build/features/mcp-servers",
        ..COMMON
    },
    Client {
        id: "hermes",
        name: "Hermes Agent",
        user: &[home(".hermes/config.yaml")],
        format: Syntax::Yaml,
        key: &["mcp_servers"],
        timeout: TimeoutUnit::Seconds,
        source: "https://hermes-agent.nousresearch.com/docs/user-guide/features/mcp",
        ..COMMON
    },
    Client {
        id: "jan",
        name: "Jan",
        user: &[in_folder(Base::Data, "Jan/data/mcp_config.json")],
        http: Some(Http { after: &[("active", Yes)], ..TYPED }),
        stdio: StdioEntry { after: &[("active", Yes)], ..COMMAND },
        source: "https://jan.ai/docs/desktop/integrations/mcp-servers",
        verified: false,
        ..COMMON
    },
    Client {
        id: "junie",
        name: "JetBrains Junie",
        user: &[home(".junie/mcp/mcp.json")],
        project: Some(".junie/mcp/mcp.json"),
        http: None,
        source: "https://www.jetbrains.com/help/junie/model-context-protocol-mcp.html",
        ..COMMON
    },
    Client {
        id: "kilo",
        name: "Kilo Code",
        user: &[in_folder(Base::Config, "kilo/kilo.jsonc"), in_folder(Base::Config, "kilo/kilo.json")],
        project: Some(".kilo/kilo.jsonc"),
        key: &["mcp"],
        http: Some(REMOTE),
        stdio: LOCAL,
        timeout: TimeoutUnit::Milliseconds,
        source: "https://kilo.ai/docs/automate/mcp/using-in-kilo-code",
        ..COMMON
    },
    Client {
        id: "kiro",
        name: "Kiro",
        user: &[home(".kiro/settings/mcp.json")],
        project: Some(".kiro/settings/mcp.json"),
        reference: BRACES,
        source: "https://kiro.dev/docs/mcp/configuration",
        ..COMMON
    },
    Client {
        id: "lm-studio",
        name: "LM Studio",
        user: &[home(".lmstudio/mcp.json")],
        source: "https://lmstudio.ai/docs/app/mcp",
        verified: false,
        ..COMMON
    },
    Client {
        id: "oh-my-pi",
        name: "Oh My Pi",
        user: &[home(".omp/agent/mcp.json")],
        project: Some(".omp/mcp.json"),
        http: Some(TYPED),
        stdio: TYPED_COMMAND,
        reference: BRACES,
        max_name: 100,
        name_marks: "-_.",
        timeout: TimeoutUnit::Milliseconds,
        source: "https://github.com/can1357/oh-my-pi/blob/main/docs/mcp-config.md",
        ..COMMON
    },
    Client {
        id: "opencode",
        name: "OpenCode",
        user: &[
            in_folder(Base::Config, "opencode/opencode.json"),
            in_folder(Base::Config, "opencode/opencode.jsonc"),
        ],
        project: Some("opencode.json"),
        key: &["mcp"],
        http: Some(REMOTE),
        stdio: LOCAL,
        reference: Reference::Between("{env:", "}"),
        timeout: TimeoutUnit::Milliseconds,
        source: "https://opencode.ai/docs/mcp-servers",
        ..COMMON
    },
    Client {
        id: "pi",
        name: "Pi",
        user: &[home(".pi/agent/mcp.json")],
        project: Some(".pi/mcp.json"),
        reference: Reference::Members(&[("auth", Text("bearer")), ("bearerTokenEnv", Variable)]),
        source: "https://github.com/nicobailon/pi-mcp-adapter",
        verified: false,
        note: "Through the extension `pi-mcp-adapter`.",
        ..COMMON
    },
    Client {
        id: "qwen",
        name: "Qwen Code",
        user: &[home(".qwen/settings.json")],
        project: Some(".qwen/settings.json"),
        http: Some(Http { url: "httpUrl", ..URL }),
        reference: BRACES,
        name_marks: "-",
        timeout: TimeoutUnit::Milliseconds,
        source: "https://qwenlm.github.io/qwen-code-docs/en/users/features/mcp/",
        ..COMMON
    },
    Client {
        id: "roo",
        name: "Roo Code",
        user: &[in_folder(
            Base::Application,
            "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        )],
        project: Some(".roo/mcp.json"),
        http: Some(STREAMABLE),
        reference: ENV,
        timeout: TimeoutUnit::Seconds,
        source: "https://docs.roocode.com/features/mcp/using-mcp-in-roo",
        verified: false,
        ..COMMON
    },
    Client {
        id: "vscode",
        name: "VS Code",
        user: &[in_folder(Base::Application, "Code/User/mcp.json")],
        project: Some(".vscode/mcp.json"),
        key: &["servers"],
        http: Some(TYPED),
        stdio: TYPED_COMMAND,
        reference: ENV,
        source: "https://code.visualstudio.com/docs/copilot/chat/mcp-servers",
        ..COMMON
    },
    Client {
        id: "warp",
        name: "Warp",
        user: &[home(".warp/.mcp.json")],
        project: Some(".warp/.mcp.json"),
        source: "https://docs.warp.dev/agents/capabilities/mcp",
        ..COMMON
    },
    Client {
        id: "windsurf",
        name: "Windsurf",
        user: &[home(".codeium/windsurf/mcp_config.json")],
        http: Some(Http { url: "serverUrl", ..URL }),
        reference: ENV,
        source: "https://docs.windsurf.com/windsurf/cascade/mcp",
        ..COMMON
    },
    Client {
        id: "witsy",
        name: "Witsy",
        user: &[in_folder(Base::Application, "Witsy/settings.json")],
        http: None,
        source: "https://github.com/nbonamy/witsy",
        verified: false,
        ..COMMON
    },
    Client {
        id: "zed",
        name: "Zed",
        user: &[
            UserFile { systems: UNIX, ..in_folder(Base::Config, "zed/settings.json") },
            UserFile { systems: &[System::Windows], ..in_folder(Base::Application, "Zed/settings.json") },
        ],
        project: Some(".zed/settings.json"),
        key: &["context_servers"],
        source: "https://zed.dev/docs/ai/mcp",
        ..COMMON
    },
];
