//! `switchyard resources` and `switchyard read`.
//!
//! Invariants: a resource that is written to a file or a pipe keeps its bytes. On a terminal, its text is made visible
//! and binary data is described.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::error::CommandError;
use super::super::remote::{Remote, not_a_gateway};
use super::members::list_of;
use super::screen::{OutputFormat, Screen, View};
use super::table::{Cell, Column, Table};
use super::{mcp, members};
use json::Raw;
use protocol::method;

const COLUMNS: &[Column] = &[
    ("URI", |one| Cell::new(&uri(one))),
    ("NAME", |one| Cell::of(one, "name")),
    ("TYPE", |one| Cell::of(one, "mimeType")),
    ("DESCRIPTION", |one| Cell::of(one, "description")),
];

/// Lists the resources and the templates of resources.
pub(super) async fn list(remote: &Remote, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    let resources = mcp::list(remote, method::RESOURCES_LIST, "resources").await?;
    let templates = mcp::list(remote, method::RESOURCE_TEMPLATES_LIST, "resourceTemplates").await?;
    let document =
        Raw::object(&[("resources", &list_of(&resources)), ("resourceTemplates", &list_of(&templates))]);
    let all = [resources, templates].concat();
    Ok(screen.show(&View {
        document,
        names: all.iter().map(uri).collect(),
        table: Table::of(&all, COLUMNS),
    })?)
}

/// The URI of a resource, or that of a template.
fn uri(of: &Raw) -> String {
    of.text("uri").or_else(|| of.text("uriTemplate")).unwrap_or_default().into_owned()
}

/// Reads a resource.
pub(super) async fn read(remote: &Remote, uri: &str, screen: &mut Screen<'_>) -> Result<(), CommandError> {
    let params = Raw::object(&[("uri", &Raw::of(uri))]);
    let result = mcp::ask(remote, method::RESOURCES_READ, params).await?;
    if screen.format != OutputFormat::Table {
        return Ok(screen.document(&result)?);
    }
    for one in result.get("contents").ok_or_else(not_a_gateway)?.elements() {
        if screen.is_terminal {
            screen.lines(&members::of_resource(&one))?;
        } else {
            screen.out.write_all(&bytes_of(&one)?)?;
        }
    }
    Ok(())
}

/// Returns the bytes of one content.
fn bytes_of(resource: &Raw) -> Result<Vec<u8>, CommandError> {
    if let Some(blob) = resource.text("blob") {
        let decoded = STANDARD.decode(blob.as_bytes());
        return decoded.map_err(|_| CommandError::Refused("the server sent data that is not Base64".into()));
    }
    Ok(resource.text("text").unwrap_or_default().into_owned().into_bytes())
}
