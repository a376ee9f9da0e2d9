//! The offer of one server: its tools, resources, templates, prompts and skills, as they were read.
//!
//! Not here: how it is read (`discover`), the names that clients see (`manager`).

use std::collections::HashSet;

use json::Raw;
use protocol::caching::Caching;
use protocol::feature::{Item, Kind, Tool};
use protocol::lifecycle::Peer;

/// Everything that one server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The declarations of the server during the handshake.
    pub peer: Peer,
    /// The tools in the server's order, each name once.
    pub tools: Vec<Tool>,
    /// The resources in the server's order, each URI once.
    pub resources: Vec<Item>,
    /// The resource templates in the server's order, each template once.
    pub templates: Vec<Item>,
    /// The prompts in the server's order, each name once.
    pub prompts: Vec<Item>,
    /// The skills in the server's order, each URI once.
    pub skills: Vec<Item>,
    /// The caching of each list, in the order of [`Kind::ALL`].
    pub(super) caching: [Option<Caching>; Kind::ALL.len()],
    /// Problems for operators: dropped tools, lists that did not end.
    pub problems: Vec<String>,
    /// Whether a list could not be read.
    pub(super) has_failed_lists: bool,
    /// Whether lists other than the tools are still being read.
    pub is_partial: bool,
    /// The size of all lists as they were received.
    pub bytes: usize,
}

impl Offer {
    /// Returns an empty offer.
    pub const fn empty(peer: Peer) -> Self {
        Self {
            peer,
            tools: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            skills: Vec::new(),
            caching: [None; Kind::ALL.len()],
            problems: Vec::new(),
            has_failed_lists: false,
            is_partial: false,
            bytes: 0,
        }
    }

    /// The caching of the list of `kind`; `None` if there is no such list.
    pub const fn caching(&self, kind: Kind) -> Option<Caching> {
        self.caching[kind as usize]
    }

    /// The definitions that are trusted or not: name or URI and definition of each tool and each skill.
    pub fn trusted_definitions(&self) -> impl Iterator<Item = (&str, &Raw)> {
        let tools = self.tools.iter().map(|tool| (tool.name.as_str(), &tool.definition));
        tools.chain(self.skills.iter().map(|skill| (skill.key.as_str(), &skill.definition)))
    }

    #[cfg(test)]
    pub(super) const fn with_caching(mut self, kind: Kind, caching: Caching) -> Self {
        self.caching[kind as usize] = Some(caching);
        self
    }

    /// The items of `kind`; none of [`Kind::Tools`], which are [`Offer::tools`].
    pub fn items(&self, kind: Kind) -> &[Item] {
        match kind {
            Kind::Tools => &[],
            Kind::Resources => &self.resources,
            Kind::Templates => &self.templates,
            Kind::Prompts => &self.prompts,
            Kind::Skills => &self.skills,
        }
    }

    /// Sets the items of `kind`, which is not [`Kind::Tools`].
    pub(super) fn put(&mut self, kind: Kind, items: Vec<Item>) {
        match kind {
            Kind::Tools => {}
            Kind::Resources => self.resources = items,
            Kind::Templates => self.templates = items,
            Kind::Prompts => self.prompts = items,
            Kind::Skills => self.skills = items,
        }
    }

    /// Whether both name the same tools, resources, templates, prompts and skills.
    pub(super) fn names_the_same(&self, other: &Self) -> bool {
        let tools = |offer: &Self| offer.tools.iter().map(|tool| tool.name.clone()).collect::<HashSet<_>>();
        let keys = |items: &[Item]| items.iter().map(|item| item.key.clone()).collect::<HashSet<_>>();
        tools(self) == tools(other)
            && Kind::ALL.into_iter().all(|kind| keys(self.items(kind)) == keys(other.items(kind)))
    }
}
