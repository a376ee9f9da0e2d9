//! Built-in servers in the configuration: which kinds the program has, and the options that each kind reads.
//!
//! Invariant: nothing here names a kind. The program passes its kinds.

use std::fmt::Debug;
use std::sync::Arc;

use settings::{Fields, Setting};

use crate::ServerContext;
use crate::connection::Connector;

/// The kinds of built-in servers that a program has, in the order in which messages list them.
pub type Kinds = &'static [BuiltinKind];

/// One kind of built-in server.
#[derive(Debug, Clone, Copy)]
pub struct BuiltinKind {
    /// The value of `builtin` that selects it.
    pub name: &'static str,
    /// The fields of a server that it accepts in addition to `builtin`.
    pub fields: &'static [&'static str],
    /// Reads these fields from the settings of a server. Returns `None` if they are not usable, after reporting a
    /// problem.
    pub read: fn(&Setting<'_>) -> Option<Arc<dyn BuiltinOptions>>,
}

/// The options of one built-in server, as its kind has read them. `Debug` must show no secret.
pub trait BuiltinOptions: Debug + Send + Sync {
    /// Returns the connector of the server called `name`. Its tasks run in the group of `server_context.shutdown`.
    fn connector(&self, name: &Arc<str>, server_context: &ServerContext) -> Arc<dyn Connector>;

    /// Returns a warning for the operator about valid options.
    fn warning(&self) -> Option<&'static str> {
        None
    }

    /// Returns the setting, if any, that makes answers depend on the client, so that they cannot be cached for all.
    fn per_client_setting(&self) -> Option<&'static str> {
        None
    }
}

/// The fields of all kinds. A field of several kinds occurs several times.
pub(super) fn fields(kinds: Kinds) -> impl Iterator<Item = &'static str> {
    kinds.iter().flat_map(|kind| kind.fields.iter().copied())
}

/// Whether a kind accepts `field`.
pub(super) fn takes(kinds: Kinds, field: &str) -> bool {
    field == "builtin" || fields(kinds).any(|known| known == field)
}

/// Takes the fields of built-in servers, which [`read`] reads where a server is built-in.
pub(super) fn take(fields: &mut Fields<'_>, kinds: Kinds) {
    fields.describe("builtin", "which built-in server", || "required for `builtin`".into());
    for name in self::fields(kinds).filter(|name| *name != "url").chain(["builtin"]) {
        fields.take(name);
    }
    let server = fields.setting();
    if server.is_any() {
        read(server, kinds);
        for kind in kinds {
            (kind.read)(server);
        }
    }
}

/// Reads the options of the selected kind.
pub(super) fn read(server: &Setting<'_>, kinds: Kinds) -> Option<Arc<dyn BuiltinOptions>> {
    let hint = format!("add `builtin:` with one of {}", names(kinds.iter(), ", "));
    let choices: Vec<_> = kinds.iter().map(|kind| (kind.name, kind)).collect();
    let kind = server.require("builtin", &hint)?.choice(&choices)?;
    refuse_others(server, kinds, kind);
    (kind.read)(server)
}

/// Whether a setting of a server is given. In those of older files, null means absent.
pub(super) fn given(server: &Setting<'_>, name: &str) -> bool {
    let is_absent = |setting: &Setting<'_>| setting.is_null() && matches!(name, "url" | "transport");
    server.member(name).is_some_and(|setting| !is_absent(&setting))
}

fn refuse_others(server: &Setting<'_>, kinds: Kinds, kind: &BuiltinKind) {
    let others = fields(kinds).filter(|field| !kind.fields.contains(field) && given(server, field));
    for field in others {
        let takers = names(kinds.iter().filter(|other| other.fields.contains(&field)), " or ");
        let what = format_args!("builtin `{}`", kind.name);
        server.refuse_member(field, what, format!("it belongs to builtin {takers}"));
    }
}

fn names<'a>(kinds: impl Iterator<Item = &'a BuiltinKind>, between: &str) -> String {
    kinds.map(|kind| format!("`{}`", kind.name)).collect::<Vec<_>>().join(between)
}
