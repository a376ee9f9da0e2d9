//! [`Abilities`]: the server requests that a client can answer, as a small set.
//!
//! A legacy connection declares one such set in its `initialize`, and the pool keeps a group of connections for each
//! set. The set is therefore small: a server request without a bit here is not possible. Source: `ClientCapabilities`
//! in the schemas of 2025-11-25 and 2026-07-28, which have the same members.
//!
//! Not here: other capabilities (`extensions`, `experimental`, `tasks`), notifications about changed roots, and how a
//! server request reaches its client.

use super::method;
use json::raw::Raw;

/// A set of server requests: roots, sampling (with tools, with context), elicitation by form and by URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Abilities(u8);

impl Abilities {
    const ROOTS: u8 = 1;
    const SAMPLING: u8 = 2;
    const SAMPLING_TOOLS: u8 = 4;
    const SAMPLING_CONTEXT: u8 = 8;
    const FORM: u8 = 16;
    const URL: u8 = 32;

    /// No server request is possible.
    pub const NONE: Self = Self(0);
    /// Every server request is possible.
    pub const ALL: Self = Self(
        Self::ROOTS | Self::SAMPLING | Self::SAMPLING_TOOLS | Self::SAMPLING_CONTEXT | Self::FORM | Self::URL,
    );
    /// Everything except roots. A connection for many clients can declare these. Servers read roots outside of calls,
    /// so it would be unknown which client they mean.
    pub const WITHOUT_ROOTS: Self = Self(Self::ALL.0 & !Self::ROOTS);

    /// Reads the abilities from `capabilities`, the object that a client declares.
    ///
    /// A member that is not an object declares nothing. `"elicitation":{}` means forms, as it did before there were two
    /// modes.
    pub fn of(capabilities: &Raw) -> Self {
        let mut bits = 0;
        if object(capabilities, "roots").is_some() {
            bits |= Self::ROOTS;
        }
        if let Some(sampling) = object(capabilities, "sampling") {
            bits |= Self::SAMPLING;
            bits |= bit(&sampling, "tools", Self::SAMPLING_TOOLS);
            bits |= bit(&sampling, "context", Self::SAMPLING_CONTEXT);
        }
        if let Some(elicitation) = object(capabilities, "elicitation") {
            let modes = bit(&elicitation, "form", Self::FORM) | bit(&elicitation, "url", Self::URL);
            bits |= if modes == 0 { Self::FORM } else { modes };
        }
        Self(bits)
    }

    /// The object that declares exactly these abilities in a legacy `initialize`.
    pub fn capabilities(self) -> Raw {
        let sampling = self.parts(&[("tools", Self::SAMPLING_TOOLS), ("context", Self::SAMPLING_CONTEXT)]);
        let elicitation = self.parts(&[("form", Self::FORM), ("url", Self::URL)]);
        let empty = Raw::empty_object();
        Raw::empty_object().edit(&[
            ("roots", self.has(Self::ROOTS).then_some(&empty)),
            ("sampling", self.has(Self::SAMPLING).then_some(&sampling)),
            ("elicitation", (self.has(Self::FORM) || self.has(Self::URL)).then_some(&elicitation)),
        ])
    }

    /// Whether a client with these abilities can answer `method` with `params`.
    ///
    /// An elicitation without `mode` is a form; one with an unknown mode is refused. A sampling request with tools
    /// needs `sampling.tools` (2025-11-25, `client/sampling`: otherwise a client must refuse it). `includeContext`
    /// needs no ability: without `sampling.context` it is only discouraged, and older revisions have no such member.
    pub fn allows(self, method: &str, params: Option<&Raw>) -> bool {
        match method {
            method::ROOTS_LIST => self.has(Self::ROOTS),
            method::SAMPLING_CREATE_MESSAGE => {
                self.has(Self::SAMPLING) && (self.has(Self::SAMPLING_TOOLS) || !brings_tools(params))
            }
            method::ELICITATION_CREATE => self.allows_elicitation(params),
            _ => false,
        }
    }

    /// Whether everything in `others` is in this set too.
    pub const fn covers(self, others: Self) -> bool {
        others.0 & !self.0 == 0
    }

    /// How many of these abilities `others` lack, and how many others they have. The first number counts for more.
    pub const fn distance(self, others: Self) -> (u32, u32) {
        ((self.0 & !others.0).count_ones(), (others.0 & !self.0).count_ones())
    }

    /// Whether the set is empty.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    fn allows_elicitation(self, params: Option<&Raw>) -> bool {
        let Some(mode) = params.and_then(|params| params.get("mode")) else {
            return self.has(Self::FORM);
        };
        match mode.read::<String>().as_deref() {
            Ok("form") => self.has(Self::FORM),
            Ok("url") => self.has(Self::URL),
            _ => false,
        }
    }

    fn parts(self, names: &[(&str, u8)]) -> Raw {
        let empty = Raw::empty_object();
        let changes: Vec<(&str, Option<&Raw>)> =
            names.iter().map(|(name, bit)| (*name, self.has(*bit).then_some(&empty))).collect();
        Raw::empty_object().edit(&changes)
    }

    const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

fn object(of: &Raw, name: &str) -> Option<Raw> {
    of.get(name).filter(Raw::is_object)
}

fn bit(of: &Raw, name: &str, bit: u8) -> u8 {
    if object(of, name).is_some() { bit } else { 0 }
}

fn brings_tools(params: Option<&Raw>) -> bool {
    let present = |name| params.and_then(|params| params.get(name)).is_some_and(|value| !value.is_null());
    present("tools") || present("toolChoice")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn raw(text: &'static str) -> Raw {
        Raw::parse(&Bytes::from_static(text.as_bytes())).expect("JSON")
    }

    #[test]
    fn every_set_is_read_back_from_what_it_declares() {
        for bits in 0..64 {
            let abilities = Abilities::of(&Abilities(bits).capabilities());
            // Tools and context are parts of sampling and cannot be declared without it.
            let declarable = if bits & Abilities::SAMPLING == 0 {
                bits & !(Abilities::SAMPLING_TOOLS | Abilities::SAMPLING_CONTEXT)
            } else {
                bits
            };
            assert_eq!(abilities, Abilities(declarable));
        }
        assert_eq!(Abilities::NONE.capabilities().as_str(), "{}");
        assert_eq!(
            Abilities::ALL.capabilities().as_str(),
            r#"{"roots":{},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}}}"#
        );
    }

    #[test]
    fn declared_client_capabilities_are_understood() {
        for (declared, bits) in [
            ("{}", 0),
            ("[]", 0),
            ("null", 0),
            (r#"{"elicitation":{}}"#, Abilities::FORM),
            (r#"{"elicitation":{"schemaValidation":true}}"#, Abilities::FORM),
            (r#"{"elicitation":{"form":{"applyDefaults":true}}}"#, Abilities::FORM),
            (r#"{"elicitation":{"url":{}}}"#, Abilities::URL),
            (r#"{"roots":{"listChanged":true},"elicitation":null}"#, Abilities::ROOTS),
            (
                r#"{"sampling":{"tools":null,"context":{}}}"#,
                Abilities::SAMPLING | Abilities::SAMPLING_CONTEXT,
            ),
            (r#"{"sampling":true,"roots":"yes","elicitation":[]}"#, 0),
            (r#"{"tasks":{"requests":{"sampling":{}}},"extensions":{"roots":{}}}"#, 0),
        ] {
            assert_eq!(Abilities::of(&raw(declared)), Abilities(bits), "{declared}");
        }
    }

    #[test]
    fn a_question_needs_its_ability() {
        let (plain, url) = (
            Abilities::of(&raw(r#"{"sampling":{},"elicitation":{}}"#)),
            Abilities::of(&raw(r#"{"roots":{},"elicitation":{"url":{}}}"#)),
        );
        for (method, params, plainly, by_url) in [
            ("roots/list", None, false, true),
            ("sampling/createMessage", None, true, false),
            ("sampling/createMessage", Some(r#"{"includeContext":"allServers","tools":null}"#), true, false),
            ("sampling/createMessage", Some(r#"{"tools":[]}"#), false, false),
            ("sampling/createMessage", Some(r#"{"toolChoice":{"mode":"none"}}"#), false, false),
            ("elicitation/create", None, true, false),
            ("elicitation/create", Some(r#"{"mode":"form"}"#), true, false),
            ("elicitation/create", Some(r#"{"mode":"url"}"#), false, true),
            ("elicitation/create", Some(r#"{"mode":"\u0075rl"}"#), false, true),
            ("elicitation/create", Some(r#"{"mode":"telepathy"}"#), false, false),
            ("elicitation/create", Some(r#"{"mode":null}"#), false, false),
            ("tools/call", None, false, false),
            ("", None, false, false),
        ] {
            let params = params.map(raw);
            assert_eq!(plain.allows(method, params.as_ref()), plainly, "{method} {params:?}");
            assert_eq!(url.allows(method, params.as_ref()), by_url, "{method} {params:?}");
            assert!(!Abilities::NONE.allows(method, params.as_ref()));
        }
        assert!(Abilities::ALL.allows("sampling/createMessage", Some(&raw(r#"{"tools":[]}"#))));
    }

    #[test]
    fn sets_are_compared() {
        assert!(Abilities::ALL.covers(Abilities::WITHOUT_ROOTS) && Abilities::ALL.covers(Abilities::ALL));
        assert!(!Abilities::WITHOUT_ROOTS.covers(Abilities::ALL));
        assert!(Abilities::NONE.is_none() && !Abilities::WITHOUT_ROOTS.is_none());
        assert!(!Abilities::WITHOUT_ROOTS.allows("roots/list", None));
    }
}
