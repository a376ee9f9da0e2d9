//! Parser of a form with files (`multipart/form-data`).

use axum::body::Bytes;

/// One part of a form.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub name: String,
    pub file: Option<String>,
    pub text: String,
}

/// Returns the parts of `body`. `content_type` names the boundary between them.
pub(super) fn parts(content_type: &str, body: &Bytes) -> Vec<Part> {
    let Some((_, boundary)) = content_type.split_once("boundary=") else { return Vec::new() };
    let text = String::from_utf8_lossy(body);
    let between = format!("--{}", boundary.trim_matches('"'));
    text.split(&*between).filter_map(part).collect()
}

fn part(text: &str) -> Option<Part> {
    let (head, body) = text.strip_prefix("\r\n")?.split_once("\r\n\r\n")?;
    let disposition = head.lines().find(|line| line.to_lowercase().starts_with("content-disposition"))?;
    let value = |name: &str| {
        let (_, rest) = disposition.split_once(&format!("; {name}=\""))?;
        Some(rest.split_once('"')?.0.replace("%22", "\""))
    };
    let text = body.strip_suffix("\r\n").unwrap_or(body).to_owned();
    Some(Part { name: value("name")?, file: value("filename"), text })
}
