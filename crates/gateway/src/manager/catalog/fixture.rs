//! Offers for the tests of the catalog.

use bytes::Bytes;

use super::*;
use crate::manager::config::ToolNames;
use protocol::Version;
use protocol::definition::check;
use protocol::lifecycle::Peer;

/// Parses JSON of any spelling.
pub(super) fn raw(text: &str) -> Raw {
    Raw::parse(&Bytes::from(text.to_owned())).expect("JSON")
}

/// The offer of a server that declares every capability. A definition is given by its key, or
/// completely.
#[derive(Default)]
pub(super) struct Has<'a> {
    pub tools: &'a [&'a str],
    pub resources: &'a [&'a str],
    pub templates: &'a [&'a str],
    pub prompts: &'a [&'a str],
}

impl Has<'_> {
    fn offer(&self) -> Offer {
        let peer = Peer {
            version: Version::V2026_07_28,
            info: Raw::empty_object(),
            capabilities: raw(r#"{"tools":{},"resources":{},"prompts":{}}"#),
            instructions: None,
        };
        let definition = |kind: Kind, text: &&str| match text.strip_prefix('=') {
            Some(whole) => raw(whole),
            None => raw(&format!(r#"{{"x":1e400,"{}":"{text}", "y":{{"z":null}}}}"#, kind.key())),
        };
        let items = |kind: Kind, texts: &[&str]| {
            let item = |text| Item::from_definition(kind, definition(kind, text)).expect("it has a key");
            texts.iter().map(item).collect::<Vec<Item>>()
        };
        let tool = |text| {
            let tool = Tool::from_definition(definition(Kind::Tools, text)).expect("a tool");
            let checked = check(Kind::Tools, &tool.name, &tool.definition, Version::V2026_07_28);
            Tool { legacy: checked.map(|checked| checked.legacy).unwrap_or_default(), ..tool }
        };
        let mut offer = Offer::empty(peer);
        offer.tools = self.tools.iter().map(tool).collect();
        offer.resources = items(Kind::Resources, self.resources);
        offer.templates = items(Kind::Templates, self.templates);
        offer.prompts = items(Kind::Prompts, self.prompts);
        offer
    }
}

/// Builds the catalog of `servers`, with two items on a page.
pub(super) fn catalog(servers: &[(&str, Has<'_>)]) -> Catalog {
    chosen(servers, &Tools::default())
}

/// Builds the catalog with one operator's choice for all servers.
pub(super) fn chosen(servers: &[(&str, Has<'_>)], choice: &Tools) -> Catalog {
    after(servers, choice, &mut History::default())
}

/// Builds the catalog of `servers`; `history` knows which server has had each name.
pub(super) fn after(servers: &[(&str, Has<'_>)], choice: &Tools, history: &mut History) -> Catalog {
    let offers: Vec<(Arc<str>, Offer)> =
        servers.iter().map(|(server, has)| (Arc::from(*server), has.offer())).collect();
    let trust = Trust::default();
    let part = |(server, offer)| Part {
        server,
        choice,
        view: None,
        offer,
        trust: &trust,
        login: None,
        lists_login: false,
    };
    let parts: Vec<Part<'_>> = offers.iter().map(|(server, offer)| part((server, offer))).collect();
    let servers = offers.iter().map(|(server, _)| Arc::clone(server)).collect();
    let rules = Rules { mode: ToolNames::Auto, max_length: 64, servers: &servers, keeps_dots: false };
    Catalog::build(&parts, Style { rules, per_page: 2 }, history)
}

/// Returns the names in a list, on all its pages.
pub(super) fn shown(catalog: &Catalog, kind: Kind) -> Vec<String> {
    catalog.listing(kind).entries().iter().map(|entry| entry.exposed.clone()).collect()
}
