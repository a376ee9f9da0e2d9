//! Names of clients, as metrics and events have them.
//!
//! A client describes itself in each request, so the names of the last clients are kept by their descriptions. At most
//! [`MOST`] descriptions of at most [`MOST_BYTES`] are kept; a longer one is read each time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use json::Raw;
use runtime::telemetry::untrusted;

/// Most descriptions that are kept.
const MOST: usize = 16;
/// Most bytes of one of them.
const MOST_BYTES: usize = 512;

/// The names of the last clients.
#[derive(Debug, Default)]
pub(super) struct ClientNames(Mutex<KnownNames>);

/// Descriptions and names, the newest last.
#[derive(Debug, Default)]
pub(super) struct KnownNames(VecDeque<(Box<[u8]>, ClientName)>);

/// The name that a client gives itself.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientName {
    /// Its name alone.
    pub(super) name: Arc<str>,
    /// Its name and version, as in `User-Agent`.
    pub(super) with_version: Arc<str>,
}

impl ClientNames {
    pub(super) fn lock(&self) -> MutexGuard<'_, KnownNames> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownNames {
    /// Returns the name of the client that describes itself with `info`.
    pub(super) fn name(&mut self, info: &Raw) -> ClientName {
        let described: &[u8] = info.bytes();
        if let Some((_, name)) = self.0.iter().find(|(known, _)| **known == *described) {
            return name.clone();
        }
        let name = read(info);
        if described.len() <= MOST_BYTES {
            if self.0.len() == MOST {
                self.0.pop_front();
            }
            self.0.push_back((described.into(), name.clone()));
        }
        name
    }
}

fn read(info: &Raw) -> ClientName {
    let [raw_name, version] = ["name", "version"].map(|member| info.text(member).unwrap_or_default());
    let [name, version] = [untrusted(&raw_name), untrusted(&version)].map(|text| text.to_string());
    let with_version = if version.is_empty() { name } else { format!("{name}/{version}") };
    ClientName { name: (&*raw_name).into(), with_version: with_version.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_descriptions_and_few_are_kept() {
        let clients = ClientNames::default();
        let named = |info: &str| {
            let info = Raw::parse(&bytes::Bytes::copy_from_slice(info.as_bytes())).expect("JSON");
            clients.lock().name(&info).with_version.to_string()
        };
        for _ in 0..2 {
            assert_eq!(named(r#"{"name":"a","version":"1"}"#), "a/1");
            assert_eq!(named(r#"{"name":"a\u001b","version":""}"#), "a\\u{1b}");
            assert_eq!(named("{}"), "");
        }
        assert_eq!(clients.lock().0.len(), 3);
        let long = "n".repeat(MOST_BYTES);
        assert!(named(&format!(r#"{{"name":"{long}"}}"#)).starts_with("nnn"));
        assert_eq!(clients.lock().0.len(), 3, "a long description is not kept");
        for number in 0..2 * MOST {
            assert_eq!(named(&format!(r#"{{"name":"{number}"}}"#)), number.to_string());
        }
        assert_eq!(clients.lock().0.len(), MOST);
    }
}
