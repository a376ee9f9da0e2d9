//! The format of the access tokens of this gateway, which `authorization` makes and this crate checks.
//!
//! Not here: which claims a reader needs.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::Role;

/// The media type, in the header.
pub const TYPE: &str = "at+jwt";
/// Separates the grant and the number of the refresh in `jti`.
pub const SEPARATOR: char = '.';
/// The paths of MCP endpoints. The name of a server or of a view may follow.
pub const ENDPOINTS: [&str; 2] = ["/mcp", "/sse"];

/// The scope that names `role`.
pub const fn scope_of(role: Role) -> &'static str {
    match role {
        Role::Reader => "mcp:read",
        Role::Caller => "mcp:call",
        Role::Superuser => "mcp:admin",
    }
}

/// The role that `scope` names.
pub fn role_of(scope: &str) -> Option<Role> {
    Role::ALL.into_iter().find(|role| scope_of(*role) == scope)
}

/// Whether `path`, below the public URL, stands for the whole gateway.
pub fn is_whole(path: &str) -> bool {
    path.is_empty() || ENDPOINTS.contains(&path)
}

/// Returns the name of a server or of a view that `path`, below the public URL, ends in.
pub fn name_in(path: &str) -> Option<Cow<'_, str>> {
    let name = ENDPOINTS.iter().find_map(|endpoint| path.strip_prefix(endpoint)?.strip_prefix('/'))?;
    percent_decode_str(name).decode_utf8().ok()
}
