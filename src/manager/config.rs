//! What the operator says of the whole: the manager's own settings.

use crate::upstream;

/// How tools are named towards clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolNames {
    /// Bare while unique; `server__tool` for all on a clash. The default.
    #[default]
    Auto,
    /// Always `server__tool`.
    Prefixed,
    /// Always as the server has them; on a clash the first server in the file keeps the bare name.
    Verbatim,
}

/// The settings of a [`super::Manager`].
#[derive(Debug, Clone)]
pub struct Config {
    /// The servers, in the order of the registry file.
    pub servers: Vec<upstream::Config>,
    /// How tools are named.
    pub tool_names: ToolNames,
    /// The longest exposed name, in bytes.
    pub max_tool_name_length: usize,
    /// Tools in one page of `tools/list`.
    pub tools_per_page: usize,
}
