//! The definitions of the tools, as `tools/list` shows them.

use serde_json::{Value, json};

use super::arguments::{DEFAULT_DAYS, DEFAULT_RESULTS, MOST_DAYS, MOST_RESULTS};
use crate::schema_validator::NOT_BLANK;
use crate::tool::{Effect, Tool, ToolInfo};

/// Returns all tools, in the order of the list.
pub(super) fn definitions() -> Vec<Tool> {
    vec![ping(), search(), section(), topics(), updates()]
}

/// Makes a tool that changes nothing and depends on the folder only. Its result is the same until the
/// documents change.
fn tool(
    name: &'static str,
    title: &'static str,
    description: &'static str,
    input: &Value,
    output: &Value,
) -> Tool {
    Tool::with_schemas(&ToolInfo { name, title, description, effect: Effect::Reads }, input, output)
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn ping() -> Tool {
    let output = object(
        &json!({
            "status": {"type": "string", "const": "ok"},
            "message": {"type": "string", "const": "pong"},
        }),
        &["status", "message"],
    );
    tool("ping", "Ping", "Check that the handbook server answers.", &object(&json!({}), &[]), &output)
}

fn search() -> Tool {
    let input = object(
        &json!({
            "query": {
                "type": "string",
                "minLength": 1,
                "pattern": NOT_BLANK,
                "examples": ["how do I add a server"],
                "description": "A question or keywords in plain language. Exact names such as \
                    retry_attempts are found too. There is no query syntax.",
            },
            "section": {
                "type": "string",
                "description": "Search only here: the path of a folder, document or section as \
                    list_handbook_topics shows it, or its title.",
            },
            "n_results": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_RESULTS,
                "default": DEFAULT_RESULTS,
                "description": "How many hits at most.",
            },
        }),
        &["query"],
    );
    let mut metadata = place();
    metadata["score"] = json!({"type": "number", "description": "Relevance; comparable within one answer."});
    metadata["truncated"] =
        json!({"type": "boolean", "description": "The section is longer; get it whole by its path."});
    let required = ["file_path", "path", "section", "title", "modified", "score", "truncated"];
    let hit = object(
        &json!({"content": {"type": "string", "description": "Markdown."}, "metadata": object(&metadata, &required)}),
        &["content", "metadata"],
    );
    let output = object(
        &json!({
            "query": {"type": "string"},
            "count": {"type": "integer", "minimum": 0},
            "ranking": {"type": "string", "enum": ["lexical", "hybrid"], "description": "Whether words \
                alone decided, or words and meaning."},
            "hits": {"type": "array", "items": hit, "description": "Best first."},
            "suggestion": {"type": "string", "description": "What to try when nothing was found."},
        }),
        &["query", "count", "ranking", "hits"],
    );
    let description = "Search the handbook and get the sections that fit best, best first. Each hit \
        holds the text of a section; when it is cut off, get the rest with get_handbook_section and \
        the path in its metadata.";
    tool("search_handbook", "Search the handbook", description, &input, &output)
}

fn section() -> Tool {
    let input = object(
        &json!({
            "path": {
                "type": "string",
                "minLength": 1,
                "pattern": NOT_BLANK,
                "examples": ["engineering/onboarding"],
                "description": "A document, such as engineering/onboarding, or one of its sections, \
                    such as engineering/onboarding#first-week.",
            },
        }),
        &["path"],
    );
    let mut metadata = place();
    let subsection =
        object(&json!({"path": {"type": "string"}, "section": {"type": "string"}}), &["path", "section"]);
    metadata["subsections"] = json!({"type": "array", "items": subsection});
    let required = ["file_path", "path", "section", "title", "modified", "subsections"];
    let output = object(
        &json!({"content": {"type": "string", "description": "Markdown."}, "metadata": object(&metadata, &required)}),
        &["content", "metadata"],
    );
    let description = "Get a whole document of the handbook, or one whole section with everything \
        below it, by its path. Paths come from search_handbook and list_handbook_topics.";
    tool("get_handbook_section", "Get a handbook section", description, &input, &output)
}

fn topics() -> Tool {
    let topic = json!({
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "path": {"type": "string", "description": "For get_handbook_section, and for section of search_handbook."},
            "kind": {"type": "string", "enum": ["folder", "document", "section"]},
            "subtopics": {"type": "array", "items": {"type": "object"}, "description": "Topics of the same form."},
        },
        "required": ["title", "path", "kind"],
        "additionalProperties": false,
    });
    let output = object(
        &json!({
            "topics": {"type": "array", "items": topic},
            "documents": {"type": "integer", "minimum": 0},
            "sections": {"type": "integer", "minimum": 0},
            "skipped_files": {"type": "integer", "minimum": 0, "description": "Files that are not \
                searched: links, no text, or beyond the limits."},
            "truncated": {"type": "boolean", "description": "The deepest levels are left out."},
        }),
        &["topics", "documents", "sections", "skipped_files", "truncated"],
    );
    let description = "List what the handbook is about: folders, documents and their sections as a \
        tree. Use it to find out where to look when a search does not help.";
    tool("list_handbook_topics", "List handbook topics", description, &object(&json!({}), &[]), &output)
}

fn updates() -> Tool {
    let input = object(
        &json!({
            "days": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_DAYS,
                "default": DEFAULT_DAYS,
                "description": "How many days to look back.",
            },
        }),
        &[],
    );
    let mut update = place();
    update["dated_by"] = json!({"type": "string", "enum": ["commit", "file"], "description": "Whether \
        modified is the time of the last commit that changed it, or that of the file, where there is no commit."});
    let required = ["file_path", "path", "section", "title", "modified", "dated_by"];
    let output = object(
        &json!({
            "days": {"type": "integer"},
            "since": {"type": "string", "description": "RFC 3339."},
            "count": {"type": "integer", "minimum": 0},
            "truncated": {"type": "boolean", "description": "More documents were changed."},
            "updates": {"type": "array", "items": object(&update, &required), "description": "Newest first."},
        }),
        &["days", "since", "count", "truncated", "updates"],
    );
    let description = "List the documents of the handbook that were changed lately, newest first.";
    tool("get_recent_updates", "Get recent updates", description, &input, &output)
}

fn place() -> Value {
    json!({
        "file_path": {"type": "string", "description": "The file, from the handbook's folder."},
        "path": {"type": "string", "description": "What get_handbook_section takes."},
        "section": {"type": "string", "description": "The headings that lead to it."},
        "title": {"type": "string", "description": "Title of the document."},
        "modified": {"type": "string", "description": "When it was changed, RFC 3339."},
    })
}
