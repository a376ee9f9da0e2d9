//! The catalog: all offers merged into one immutable snapshot.
//!
//! Looking a name up takes no lock and lists nothing; each page of `tools/list` is already printed.
//! Invariants: entries stand in the order of the registry file, then in the server's own; the same
//! offers give the same bytes. A server that is away keeps its last known offer here, so neither
//! names nor lists change because somebody crashed.
//!
//! Not here: connections, health, who may see what.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::config::ToolNames;
use super::naming::{Meaning, Names, ToolKey};
use crate::protocol::Raw;
use crate::protocol::feature::{Effect, Tool};
use crate::protocol::headers::HeaderParam;
use crate::upstream::config::Tools;

/// Where a tool lives and what must be known to call it.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    /// The server's name.
    pub server: Arc<str>,
    /// The tool's name at the server.
    pub tool: String,
    /// What its annotations promise.
    pub effect: Effect,
    /// What modern HTTP mirrors into headers.
    pub header_params: Arc<[HeaderParam]>,
}

/// One tool as clients see it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The name it is offered under.
    pub exposed: String,
    /// Where it lives.
    pub route: Arc<Route>,
    /// Its definition, under the exposed name.
    pub definition: Raw,
}

/// What one server brings into a catalog.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// The server's name.
    pub server: &'a Arc<str>,
    /// The operator's choice among its tools.
    pub choice: &'a Tools,
    /// What it offers.
    pub tools: &'a [Tool],
}

/// The answer to "who owns this name".
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// This tool.
    Found(&'a Arc<Route>),
    /// Several; their exposed names.
    Ambiguous(&'a [String]),
    /// Nobody.
    Unknown,
}

/// One page of a list, printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The JSON array of this page's definitions.
    pub items: Raw,
    /// The exposed name behind which the next page begins; none on the last page.
    pub next: Option<String>,
}

/// All tools that are offered under one naming, immutable.
#[derive(Debug, Default)]
pub struct Catalog {
    entries: Vec<Entry>,
    names: Names,
    pages: Vec<Page>,
    /// Page number by the name the page before it ends with.
    page_after: HashMap<String, usize>,
    tools_per_page: usize,
}

impl Catalog {
    /// Merges `parts` under `mode`.
    pub fn build(parts: &[Part<'_>], mode: ToolNames, max_length: usize, tools_per_page: usize) -> Self {
        let offered: Vec<(ToolKey, &Arc<str>, &Tool)> =
            parts.iter().flat_map(|part| chosen(part).map(|(key, tool)| (key, part.server, tool))).collect();
        let keys: Vec<ToolKey> = offered.iter().map(|(key, ..)| key.clone()).collect();
        let names = Names::assign(&keys, mode, max_length);
        let entries: Vec<Entry> = offered
            .iter()
            .enumerate()
            .map(|(index, (_, server, tool))| entry(names.exposed(index), server, tool))
            .collect();
        let tools_per_page = tools_per_page.max(1);
        let pages = pages(&entries, tools_per_page);
        let page_after =
            pages.iter().enumerate().filter_map(|(i, page)| Some((page.next.clone()?, i + 1))).collect();
        Self { entries, names, pages, page_after, tools_per_page }
    }

    /// Every tool, in list order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Who owns `name`.
    pub fn lookup(&self, name: &str) -> Lookup<'_> {
        match self.names.meaning(name) {
            Some(Meaning::Tool(index)) => Lookup::Found(&self.entries[*index].route),
            Some(Meaning::Ambiguous(candidates)) => Lookup::Ambiguous(candidates),
            None => Lookup::Unknown,
        }
    }

    /// The page that begins behind the tool called `after`, or the first one; none when no tool is
    /// called that. Pages that begin elsewhere than usual, because the list has changed since the
    /// page before, are printed when they are asked for.
    pub fn page(&self, after: Option<&str>) -> Option<Page> {
        let Some(name) = after else { return self.pages.first().cloned() };
        if let Some(&number) = self.page_after.get(name) {
            return self.pages.get(number).cloned();
        }
        let last = self.entries.iter().position(|entry| entry.exposed == name)?;
        Some(page(&self.entries, last + 1, self.tools_per_page))
    }

    /// Whether both list the same bytes.
    pub fn lists_the_same(&self, other: &Self) -> bool {
        self.pages == other.pages
    }
}

/// The tools of a part that the operator lets through, under the operator's names.
fn chosen<'a>(part: &Part<'a>) -> impl Iterator<Item = (ToolKey, &'a Tool)> {
    let (server, choice, tools) = (part.server, part.choice, part.tools);
    let mut taken = std::collections::HashSet::new();
    tools.iter().filter_map(move |tool| {
        let allowed = choice.allow.as_ref().is_none_or(|allow| allow.contains(&tool.name));
        if !allowed || choice.deny.contains(&tool.name) {
            return None;
        }
        let name = choice.rename.get(&tool.name).unwrap_or(&tool.name).clone();
        // A server that lists a name twice, or a rename onto an existing name: the first one counts.
        taken.insert(name.clone()).then(|| (ToolKey { server: server.to_string(), tool: name }, tool))
    })
}

fn entry(exposed: &str, server: &Arc<str>, tool: &Tool) -> Entry {
    let route = Route {
        server: server.clone(),
        tool: tool.name.clone(),
        effect: tool.effect,
        header_params: tool.header_params.clone().unwrap_or_default().into(),
    };
    Entry { exposed: exposed.to_owned(), route: Arc::new(route), definition: tool.definition_as(exposed) }
}

fn pages(entries: &[Entry], size: usize) -> Vec<Page> {
    let count = entries.len().div_ceil(size).max(1);
    (0..count).map(|number| page(entries, number * size, size)).collect()
}

/// The page of `size` entries that begins at `start`.
fn page(entries: &[Entry], start: usize, size: usize) -> Page {
    let end = entries.len().min(start + size);
    let part = &entries[start..end];
    let next = if end < entries.len() { part.last().map(|last| last.exposed.clone()) } else { None };
    Page { items: array(part), next }
}

fn array(entries: &[Entry]) -> Raw {
    let length: usize = entries.iter().map(|entry| entry.definition.bytes().len() + 1).sum();
    let mut out = BytesMut::with_capacity(length + 2);
    out.put_u8(b'[');
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        out.put_slice(entry.definition.bytes());
    }
    out.put_u8(b']');
    let bytes: Bytes = out.freeze();
    Raw::parse(&bytes).unwrap_or_else(|_| Raw::of(&[(); 0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(names: &[&str]) -> Vec<Tool> {
        let tool = |name: &&str| {
            let text = format!(r#"{{"x":1e400,"name":"{name}", "inputSchema":{{"type":"object"}}}}"#);
            Tool::from_definition(Raw::parse(&Bytes::from(text)).expect("JSON")).expect("a tool")
        };
        names.iter().map(tool).collect()
    }

    fn build(parts: &[(&str, &[&str], Tools)], per_page: usize) -> Catalog {
        let owned: Vec<(Arc<str>, Vec<Tool>, &Tools)> =
            parts.iter().map(|(server, names, choice)| (Arc::from(*server), tools(names), choice)).collect();
        let parts: Vec<Part<'_>> =
            owned.iter().map(|(server, tools, choice)| Part { server, choice, tools }).collect();
        Catalog::build(&parts, ToolNames::Auto, 64, per_page)
    }

    #[test]
    fn definitions_change_in_their_name_and_nowhere_else() {
        let catalog = build(&[("a", &["t"], Tools::default()), ("b", &["t", "u"], Tools::default())], 10);
        assert_eq!(
            catalog.page(None).expect("a page").items.as_str(),
            r#"[{"x":1e400,"name":"a__t", "inputSchema":{"type":"object"}},{"x":1e400,"name":"b__t", "inputSchema":{"type":"object"}},{"x":1e400,"name":"u", "inputSchema":{"type":"object"}}]"#
        );
        let Lookup::Found(route) = catalog.lookup("b__t") else { panic!("found") };
        assert_eq!((route.server.as_ref(), route.tool.as_str()), ("b", "t"));
        assert_eq!(catalog.lookup("t"), Lookup::Ambiguous(&["a__t".to_owned(), "b__t".to_owned()]));
        assert_eq!(catalog.lookup("v"), Lookup::Unknown);
    }

    #[test]
    fn the_operator_chooses_and_renames() {
        let choice = Tools {
            allow: Some(vec!["a".into(), "b".into(), "c".into()]),
            deny: vec!["b".into()],
            rename: [("a".to_owned(), "alpha".to_owned())].into(),
        };
        let catalog = build(&[("s", &["a", "b", "c", "d"], choice)], 10);
        let exposed: Vec<&str> = catalog.entries().iter().map(|entry| entry.exposed.as_str()).collect();
        assert_eq!(exposed, ["alpha", "c"]);
        let Lookup::Found(route) = catalog.lookup("s__alpha") else { panic!("found") };
        assert_eq!(route.tool, "a", "the server knows it by its own name");
        assert_eq!(catalog.lookup("b"), Lookup::Unknown);
    }

    #[test]
    fn pages_follow_one_another_wherever_the_one_before_ended() {
        let catalog = build(&[("s", &["a", "b", "c", "d", "e"], Tools::default())], 2);
        let mut after = None;
        let mut sizes = Vec::new();
        loop {
            let page = catalog.page(after.as_deref()).expect("a page");
            sizes.push(page.items.elements().count());
            after.clone_from(&page.next);
            if after.is_none() {
                break;
            }
        }
        assert_eq!(sizes, [2, 2, 1]);
        let elsewhere = catalog.page(Some("a")).expect("the list changed since that page");
        assert_eq!((elsewhere.items.elements().count(), elsewhere.next.as_deref()), (2, Some("c")));
        assert!(catalog.page(Some("zz")).is_none());
        let empty = build(&[], 2);
        assert_eq!(empty.page(None).expect("one empty page").items.as_str(), "[]");
    }
}
