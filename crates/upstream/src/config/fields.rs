//! The fields of one server that concern its transport.
//!
//! Not here: what they mean (`transport`, `builtin`).

use settings::Setting;

/// The fields of one server that concern its transport, if they are present.
pub struct TransportFields<'a>(pub(super) Vec<(&'static str, Setting<'a>)>);

impl<'a> TransportFields<'a> {
    /// Returns the setting of the field `name`.
    pub fn get(&self, name: &str) -> Option<&Setting<'a>> {
        self.0.iter().find(|(field, _)| *field == name).map(|(_, setting)| setting)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &Setting<'a>)> {
        self.0.iter().map(|(field, setting)| (*field, setting))
    }
}

/// Returns the field `name`. If it is missing, reports that with `hint`.
pub fn require<'g, 'a>(
    given: &'g TransportFields<'a>,
    name: &str,
    server: &Setting<'_>,
    hint: &str,
) -> Option<&'g Setting<'a>> {
    let found = given.get(name);
    if found.is_none() {
        server.key_problem(format!("`{name}` is missing"), Some(hint.to_owned()));
    }
    found
}
