//! The roots of `inputSchema` and `outputSchema`.
//!
//! Both revisions require `"type": "object"` of an `inputSchema`, and the legacy one of an `outputSchema` too. The
//! arguments of a call are an object in any case, so adding this type changes nothing. The members that SDKs check are
//! `$schema`, `properties` and `required`.

use super::shapes::{Checker, Fit, Shape};
use super::{INPUT, OUTPUT, json_schema};
use crate::{Version, sanitize};
use json::Raw;

/// A schema that can be offered.
#[derive(Default)]
pub(super) struct Schema {
    /// The schema to offer instead, or `None` in it to leave it out; `None` if it is valid.
    #[allow(clippy::option_option)] // replaced, left out and kept are three cases
    pub(super) changed: Option<Option<Raw>>,
    /// Whether it says `true` or `false` about a property. The legacy revisions require an object there.
    pub(super) has_booleans: bool,
}

/// The type that a schema declares for its values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RootType {
    Object,
    Missing,
    /// An object among others, or in another spelling.
    Includes,
    Other,
}

/// Checks an `inputSchema`.
pub(super) fn input(schema: Option<Raw>, checker: &mut Checker) -> Result<Schema, String> {
    let any = || Raw::of(&serde_json::json!({"type": "object"}));
    let Some(schema) = schema else {
        checker.record(format!("{INPUT} is missing and accepts any object now"));
        return Ok(Schema { changed: Some(Some(any())), has_booleans: false });
    };
    if schema.is_object() {
        return match root_type(&schema) {
            RootType::Other => {
                let text =
                    schema.get("type").map(|found| sanitize::shown(found.as_str())).unwrap_or_default();
                Err(format!("its {INPUT} has the type {text}, and arguments are an object"))
            }
            root => Ok(root_members(&schema, (INPUT, root != RootType::Object), checker)),
        };
    }
    // PHP prints an empty object as `[]`.
    if schema.is_null() || schema.as_str() == "true" || is_empty_list(&schema) {
        checker.record(format!("{INPUT} is {} and accepts any object now", schema.as_str()));
        return Ok(Schema { changed: Some(Some(any())), has_booleans: false });
    }
    Err(format!("its {INPUT} is no schema"))
}

/// Checks an `outputSchema` of a server of the revision `server`. It is optional, so a schema that no client can use is
/// left out.
pub(super) fn output(schema: Option<Raw>, server: Version, checker: &mut Checker) -> Schema {
    let Some(schema) = schema else { return Schema::default() };
    let without = Schema { changed: Some(None), has_booleans: false };
    if !schema.is_object() {
        checker.record(format!("{OUTPUT} is no object and was left out"));
        return without;
    }
    let root = root_type(&schema);
    if root == RootType::Other && !server.has_any_output() {
        checker.record(format!("{OUTPUT} has another type than object and was left out"));
        return without;
    }
    let gets_type = matches!(root, RootType::Missing | RootType::Includes) && !server.has_any_output();
    let offered = root_members(&schema, (OUTPUT, gets_type), checker);
    // The TypeScript SDK compiles each of these when it reads the list, and refuses the list if one does not compile.
    match json_schema::flaw_of_output(offered.changed.as_ref().and_then(Option::as_ref).unwrap_or(&schema)) {
        Some(flaw) => {
            checker.record(format!("{OUTPUT} is not valid ({flaw}) and was left out"));
            without
        }
        None => offered,
    }
}

fn is_empty_list(value: &Raw) -> bool {
    value.as_str().starts_with('[') && value.elements().next().is_none()
}

fn root_type(schema: &Raw) -> RootType {
    let Some(found) = schema.get("type").filter(|found| !found.is_null()) else { return RootType::Missing };
    let is_object =
        |text: &Raw| text.as_part().text().is_some_and(|text| text.eq_ignore_ascii_case("object"));
    if found.as_part().says("object") {
        RootType::Object
    } else if is_object(&found) || found.elements().any(|element| is_object(&element)) {
        RootType::Includes
    } else {
        RootType::Other
    }
}

/// Checks the members of an object schema called `name`, and sets its type if it `gets_type`.
fn root_members(schema: &Raw, (name, gets_type): (&str, bool), checker: &mut Checker) -> Schema {
    let mut changes: Vec<(&'static str, Option<Raw>)> = Vec::new();
    if gets_type {
        checker.record(format!("{name} has the type \"object\" now"));
        changes.push(("type", Some(Raw::of("object"))));
    }
    let mut has_booleans = false;
    for (member, shape) in
        [("$schema", Shape::Text), ("required", Shape::List(&Shape::Text)), ("properties", Shape::AnyObject)]
    {
        let Some(value) = schema.get(member) else { continue };
        let at = format!("{name}.{member}");
        match checker.fit(&value, &shape, &at) {
            Fit::Repaired(value) => changes.push((member, Some(value))),
            Fit::Unfit(why) => {
                checker.record(format!("{at} {why} and was left out"));
                changes.push((member, None));
            }
            Fit::Fits if member == "properties" => {
                let properties = properties(&value, &at, checker);
                has_booleans = properties.has_booleans;
                changes.extend(properties.changed.map(|value| (member, value)));
            }
            Fit::Fits => {}
        }
    }
    settle_duplicates(schema, &mut changes);
    Schema { changed: super::edited(schema, &changes).map(Some), has_booleans }
}

/// Makes each member that was checked the only one of its name. Clients read the last one, and the first was checked.
fn settle_duplicates(schema: &Raw, changes: &mut Vec<(&'static str, Option<Raw>)>) {
    if schema.duplicate_key().is_none() {
        return;
    }
    for member in ["type", "$schema", "required", "properties"] {
        if schema.as_part().count(member) > 1 && changes.iter().all(|(changed, _)| *changed != member) {
            changes.push((member, schema.get(member)));
        }
    }
}

/// Replaces each property that is no schema by one that accepts anything.
fn properties(properties: &Raw, at: &str, checker: &mut Checker) -> Schema {
    let (mut has_booleans, mut is_changed, any) = (false, false, Raw::empty_object());
    let members: Vec<_> = properties.members().collect();
    let mut edits = Vec::with_capacity(members.len());
    for (name, schema) in &members {
        let is_boolean = matches!(schema.as_str(), "true" | "false");
        has_booleans |= is_boolean;
        let is_schema = is_boolean || schema.is_object();
        if !is_schema {
            is_changed = true;
            checker.record(format!("{at}.{} is no schema and accepts anything now", sanitize::shown(name)));
        }
        edits.push((&**name, Some(if is_schema { schema } else { &any })));
    }
    let changed = is_changed.then(|| Some(Raw::empty_object().edit(&edits)));
    Schema { changed, has_booleans }
}
