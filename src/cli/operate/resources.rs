//! `switchyard resources` and `switchyard read`.
//!
//! Invariants: a resource that is written to a file or a pipe keeps its bytes. On a terminal, its text is made visible
//! and binary data is described.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::remote::{Remote, RemoteError, not_a_gateway};
use super::screen::{OutputFormat, Screen, View};
use super::table::{Cell, Table};
use super::tools::list_of;
use super::{content, mcp};
use json::Raw;
use protocol::method;

/// Lists the resources and the templates of resources.
pub(super) async fn list(remote: &Remote, screen: &mut Screen<'_>) -> Result<(), RemoteError> {
    let resources = mcp::list(remote, method::RESOURCES_LIST, "resources").await?;
    let templates = mcp::list(remote, method::RESOURCE_TEMPLATES_LIST, "resourceTemplates").await?;
    let document =
        Raw::object(&[("resources", &list_of(&resources)), ("resourceTemplates", &list_of(&templates))]);
    let uris =
        resources.iter().map(|one| ("uri", one)).chain(templates.iter().map(|one| ("uriTemplate", one)));
    let (mut table, mut names) = (Table::new(&["URI", "NAME", "TYPE", "DESCRIPTION"]), Vec::new());
    for (member, one) in uris {
        let text = |member| one.text(member).map(std::borrow::Cow::into_owned).unwrap_or_default();
        let cells = [text(member), text("name"), text("mimeType"), text("description")];
        table.rows.push(cells.iter().map(|text| Cell::new(text)).collect());
        names.push(text(member));
    }
    screen.show(&View { document, names, table })?;
    Ok(())
}

/// Reads a resource.
pub(super) async fn read(remote: &Remote, uri: &str, screen: &mut Screen<'_>) -> Result<(), RemoteError> {
    let params = Raw::object(&[("uri", &Raw::of(uri))]);
    let result = mcp::ask(remote, method::RESOURCES_READ, params).await?;
    if screen.format != OutputFormat::Table {
        return Ok(screen.document(&result)?);
    }
    for one in result.get("contents").ok_or_else(not_a_gateway)?.elements() {
        if screen.is_terminal {
            screen.lines(&content::of_resource(&one))?;
        } else {
            screen.out.write_all(&bytes_of(&one)?)?;
        }
    }
    Ok(())
}

/// Returns the bytes of one content.
fn bytes_of(resource: &Raw) -> Result<Vec<u8>, RemoteError> {
    if let Some(blob) = resource.text("blob") {
        let decoded = STANDARD.decode(blob.as_bytes());
        return decoded.map_err(|_| RemoteError::Refused("the server sent data that is not Base64".into()));
    }
    Ok(resource.text("text").unwrap_or_default().into_owned().into_bytes())
}
