//! Names of clients, as events have them.
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
pub(super) struct KnownNames(VecDeque<(Box<[u8]>, Arc<str>)>);

impl ClientNames {
    pub(super) fn lock(&self) -> MutexGuard<'_, KnownNames> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownNames {
    /// Returns name and version of the client that describes itself with `info`, as in `User-Agent`.
    pub(super) fn name(&mut self, info: &Raw) -> Arc<str> {
        let described: &[u8] = info.bytes();
        if let Some((_, name)) = self.0.iter().find(|(known, _)| **known == *described) {
            return Arc::clone(name);
        }
        let name: Arc<str> = read(info).into();
        if described.len() <= MOST_BYTES {
            if self.0.len() == MOST {
                self.0.pop_front();
            }
            self.0.push_back((described.into(), Arc::clone(&name)));
        }
        name
    }
}

fn read(info: &Raw) -> String {
    let [name, version] = ["name", "version"].map(|member| info.text(member).unwrap_or_default());
    let [name, version] = [untrusted(&name), untrusted(&version)].map(|text| text.to_string());
    if version.is_empty() { name } else { format!("{name}/{version}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_descriptions_and_few_are_kept() {
        let clients = ClientNames::default();
        let named = |info: &str| {
            let info = Raw::parse(&bytes::Bytes::copy_from_slice(info.as_bytes())).expect("JSON");
            clients.lock().name(&info).to_string()
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
