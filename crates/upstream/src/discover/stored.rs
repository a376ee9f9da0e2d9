//! An offer as JSON, to be kept until Switchyard runs again.
//!
//! Invariants: definitions keep their bytes. A stored offer is checked like one that a server sends, so a later version
//! of Switchyard, or a changed file, offers nothing that it would refuse from the server.
//!
//! Not here: where offers are stored, and when they are used (`manager::remembered`).

use std::sync::Arc;

use super::{Building, Listed, Problems, ReadList, usable, valid_peer};
use crate::offer::Offer;
use json::Raw;
use protocol::Version;
use protocol::caching::Caching;
use protocol::feature::Kind;
use protocol::lifecycle::Peer;

impl Offer {
    /// Returns the offer as JSON.
    pub fn to_stored(&self) -> Raw {
        let lists: Vec<(&str, Raw)> =
            Kind::ALL.into_iter().map(|kind| (kind.member(), self.stored_list(kind))).collect();
        let lists: Vec<(&str, &Raw)> = lists.iter().map(|(name, list)| (*name, list)).collect();
        let peer = &self.peer;
        Raw::object(&[
            ("revision", &Raw::of(peer.version.as_str())),
            ("info", &peer.info),
            ("capabilities", &peer.capabilities),
            ("instructions", &Raw::of(&peer.instructions)),
            ("bytes", &Raw::of(&self.bytes)),
            ("lists", &Raw::object(&lists)),
        ])
    }

    fn stored_list(&self, kind: Kind) -> Raw {
        let tools = self.tools.iter().filter(|_| kind == Kind::Tools).map(|tool| &tool.definition);
        let items = tools.chain(self.items(kind).iter().map(|item| &item.definition));
        let items = Raw::of(&items.collect::<Vec<_>>());
        let caching = self.caching(kind);
        Raw::object(&[
            ("items", &items),
            ("ttlMs", &Raw::of(&caching.map(|caching| caching.ttl_ms))),
            ("public", &Raw::of(&caching.is_some_and(|caching| caching.is_public))),
        ])
    }

    /// Reads an offer of `server` that [`Offer::to_stored`] made. Its memory is charged to the server. With `mirrored`,
    /// parameters of tools are sent as headers too. `None` if it is no offer, or if there is no memory for it.
    pub(crate) fn from_stored(stored: &Raw, server: &Arc<str>, mirrored: bool) -> Option<Self> {
        let revision: String = stored.get_as("revision")?;
        let peer = Peer {
            version: Version::from_name(&revision)?,
            info: stored.get("info").filter(Raw::is_object)?.detached(),
            capabilities: stored.get("capabilities").filter(Raw::is_object)?.detached(),
            instructions: stored.get_as::<Option<String>>("instructions").flatten(),
        };
        let mut problems = Problems::default();
        let offer = Self::empty(valid_peer(&peer, &mut problems));
        let lists = stored.get("lists")?;
        let read = |kind| stored_items(&lists, kind, server);
        let lists = Kind::ALL.into_iter().map(read).collect::<Option<Vec<_>>>()?;
        let mirrored = mirrored && peer.version.is_modern();
        let building = Building { offer, server: Arc::clone(server), before: None, problems };
        Some(Self { bytes: stored.get_as("bytes")?, ..building.with(lists, mirrored) })
    }
}

fn stored_items(lists: &Raw, kind: Kind, server: &Arc<str>) -> Option<ReadList> {
    let list = lists.get(kind.member())?;
    let mut items: Vec<Raw> = list.get("items")?.elements().collect();
    usable::charge(items.iter_mut().collect(), server).ok()?;
    let ttl: Option<u64> = list.get_as("ttlMs")?;
    let is_public = list.get_as("public").unwrap_or(false);
    let caching = ttl.map(|ttl_ms| Caching { ttl_ms, is_public });
    // The items are in memory of their own.
    let listed = Listed { items, caching, bytes: 0 };
    Some(ReadList { kind, listed: Some(listed), problems: Problems::default() })
}

#[cfg(test)]
mod tests {
    use protocol::feature::Item;
    use serde_json::json;

    use super::*;

    fn peer() -> Peer {
        Peer {
            version: Version::V2025_11_25,
            info: Raw::of(&json!({"name": "s", "version": "1"})),
            capabilities: Raw::of(&json!({"tools": {"listChanged": true}, "prompts": {}})),
            instructions: Some("Ask first.".into()),
        }
    }

    fn offer() -> Offer {
        let odd = br#"{"name":"a","inputSchema":{"type":"object"},"x":1.0,"description":"caf\u00e9"}"#;
        let tool = Raw::parse(&odd.to_vec().into()).expect("JSON");
        let caching = Caching { ttl_ms: 5, is_public: true };
        let resource = Raw::of(&json!({"uri": "file:///a", "name": "a"}));
        let mut offer = Offer::of_own(peer(), vec![tool], vec![resource], caching);
        let prompt = Raw::of(&json!({"name": "p"}));
        offer.prompts = Item::from_definition(Kind::Prompts, prompt).into_iter().collect();
        offer.bytes = 90;
        offer
    }

    #[test]
    fn stored_offer_is_read_with_the_same_bytes() {
        let (offer, server) = (offer(), "s".into());
        let text = offer.to_stored();
        let stored = Raw::parse(text.bytes()).expect("JSON");
        assert_eq!(Offer::from_stored(&stored, &server, false), Some(offer));
    }

    #[test]
    fn other_json_is_no_offer() {
        let server = "s".into();
        for other in [json!({}), json!([]), json!({"revision": "2031-01-01"}), json!({"lists": {}})] {
            assert_eq!(Offer::from_stored(&Raw::of(&other), &server, false), None, "{other}");
        }
        let text = offer().to_stored().as_str().replacen(r#""items":["#, r#""items":[7,{"name":""},"#, 1);
        let stored = Raw::parse(&text.into()).expect("JSON");
        let read = Offer::from_stored(&stored, &server, false).expect("an offer");
        assert_eq!(read.tools, offer().tools, "items that no server may send are left out");
    }
}
