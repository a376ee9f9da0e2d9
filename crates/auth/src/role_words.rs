//! The role that the claims of a token name: in which claim, and in which words.
//!
//! Invariants: a role comes from a claim that is there, never from its absence. With a `role_map`, only the words in it
//! count: another system may use the name of one of our roles for something else. If there are several
//! words, the strongest role counts.
//!
//! Not here: whether the token is good (`jwt`).

use std::collections::BTreeMap;

use serde_json::Value;

use super::principal::{Person, Principal, Role};
use super::{Denied, Reason};
use json::Raw;
use settings::{Fields, FromSetting, Setting, settings};

/// The claims that may name the role when none is configured, in order of preference.
const ROLE_CLAIMS: [&str; 3] = ["role", "roles", SCOPE];
/// In the place of a view: all that there is.
pub const EVERYTHING: &str = "*";
/// The view of a token that names none. No view has this name.
const NO_VIEW: &str = "";
/// The claim that an authorization server fills with what a client asked it for (RFC 9068, section 2.2.3).
const SCOPE: &str = "scope";

/// The longest subject, in bytes: it is a key of maps and is logged.
pub(super) const MAX_SUBJECT_BYTES: usize = 256;

settings! {
    /// Where tokens name a role, and the words they use for it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RoleWords {
        /// the claim with the role, also as a path such as `realm_access.roles`; `role_claim` is accepted too
        pub claim as "roles_claim": Option<String> => "`role`, else `roles`, else `scope`", with filled;
        /// words of another system and the role of each ([below](#role-words-of-another-system))
        pub map as "role_map": Option<BTreeMap<String, Role>> => "the names of the roles", with read_role_map;
        /// the claim with the [view](../views.md#a-view-for-each-user) of a token, also as a path. A token without it sees
        /// nothing, unless it is that of a superuser
        pub view_claim: Option<String> => "every token sees everything", with filled;
        /// words of another system, such as groups, and the view of each. The first word of the token that is here counts.
        /// `"*"` in the place of a view is everything
        pub view_map: Option<BTreeMap<String, String>> => "the names of the views";
    }
}

/// How tokens name their view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewWords {
    /// The claim.
    pub claim: String,
    /// The words of that claim and the view of each; none if the words are the names of views.
    pub views: Option<BTreeMap<String, String>>,
}

impl RoleWords {
    /// How tokens name their view; none if they name none.
    pub(super) fn view_words(&self) -> Option<ViewWords> {
        let mut views = self.view_map.clone();
        if let Some(views) = &mut views {
            views.retain(|_, view| view != EVERYTHING);
        }
        Some(ViewWords { claim: self.view_claim.clone()?, views })
    }

    /// Reads `role_claim`, the other name of `roles_claim`.
    pub(super) fn read_other_name(&mut self, fields: &mut Fields<'_>) {
        let Some(other) = fields.take("role_claim") else { return };
        if fields.setting().member("roles_claim").is_some() {
            other.key_problem("it means the same as `roles_claim`", Some("keep one of the two".into()));
        }
        self.claim = filled(&other).or(self.claim.take());
    }

    /// The strongest role that `claims` name.
    pub(super) fn role_in(&self, claims: &Raw) -> Option<Role> {
        let named = match &self.claim {
            Some(name) => find_claim(claims, name),
            None => ROLE_CLAIMS.iter().find_map(|name| claims.get(name)),
        }?;
        words_in(&named)?.iter().filter_map(|word| self.role_of(word)).max()
    }

    /// The principal that `claims` name, bound to the view that they name.
    pub(super) fn bound(&self, principal: &Principal, claims: &Raw) -> Principal {
        let Some(claim) = &self.view_claim else { return principal.clone() };
        let named = find_claim(claims, claim).filter(|claim| !claim.is_null());
        if named.is_none() && principal.role() == Role::Superuser {
            return principal.clone();
        }
        let words = named.and_then(|named| words_in(&named)).unwrap_or_default();
        match &self.view_map {
            Some(map) => match words.iter().find_map(|word| map.get(word)) {
                Some(view) if view == EVERYTHING => principal.clone(),
                view => principal.bound_to(Some(view.map_or(NO_VIEW, String::as_str).into())),
            },
            None => principal.bound_to(Some(words.first().map_or(NO_VIEW, String::as_str).into())),
        }
    }

    /// The person that `claims` of the login service `issuer` name. If no claim names roles, the person is a caller.
    pub fn person(&self, issuer: &str, claims: &Raw, person: Person) -> Result<Principal, Denied> {
        let subject = claims.get_as::<String>("sub").filter(|subject| is_subject(subject));
        let subject = subject.ok_or(Denied::Credential(Reason::Claims))?;
        let role = match (&self.claim, &self.map) {
            (None, None) => Role::Caller,
            _ => self.role_in(claims).ok_or(Denied::NoRole)?,
        };
        Ok(self.bound(&Principal::of_person(issuer, &subject, role, person), claims))
    }

    fn role_of(&self, word: &str) -> Option<Role> {
        match &self.map {
            Some(map) => map.get(word).copied(),
            None => Role::from_name(word),
        }
    }

    /// The claim, and the word in it, by which a token of our own names `role`.
    pub(super) fn words_for(&self, role: Role) -> Option<(&str, &str)> {
        let word = match &self.map {
            Some(map) => map.iter().find(|(_, mapped)| **mapped == role).map(|(word, _)| word.as_str())?,
            None => role.as_str(),
        };
        Some((self.claim.as_deref().unwrap_or(ROLE_CLAIMS[0]), word))
    }

    /// The scope that names `role`, if the role is read from the scopes.
    pub(super) fn scope_for(&self, role: Role) -> Option<String> {
        let (claim, word) = self.words_for(role)?;
        (self.claim.is_some() && claim == SCOPE).then(|| word.to_owned())
    }

    /// The scopes to ask for. Which those are is known only where the role is said to be one.
    pub(super) fn scopes(&self) -> Vec<String> {
        match (&self.claim, &self.map) {
            (Some(claim), Some(map)) if claim == SCOPE => map.keys().cloned().collect(),
            (Some(claim), None) if claim == SCOPE => Role::ALL.map(|role| role.as_str().to_owned()).into(),
            _ => Vec::new(),
        }
    }
}

/// The words of a claim: the elements of a list, or the parts between spaces.
fn words_in(claim: &Raw) -> Option<Vec<String>> {
    Some(match claim.read::<Value>().ok()? {
        Value::Array(items) => items.iter().map(word).collect::<Option<_>>()?,
        Value::String(text) => text.split(' ').map(str::to_owned).collect(),
        other => Vec::from_iter(word(&other)),
    })
}

/// A text, a number or a truth value as the word of a map.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Reads `role_map`: words of another system and the role of each.
pub fn read_role_map(setting: &Setting<'_>) -> Option<BTreeMap<String, Role>> {
    if setting.entries()?.is_empty() {
        let hint = "such as `role_map: {admin: superuser}`, or remove it".to_owned();
        setting.key_problem("no word is listed, so no token would have a role", Some(hint));
    }
    BTreeMap::from_setting(setting)
}

/// A claim by its name, or by a path such as `realm_access.roles`. A name in the path may have dots itself, as the
/// clients in `resource_access.my.client.roles` and the URLs that some login services use.
fn find_claim(claims: &Raw, name: &str) -> Option<Raw> {
    let below = |(dot, _)| find_claim(&claims.get(&name[..dot])?, &name[dot + 1..]);
    claims.get(name).or_else(|| name.match_indices('.').find_map(below))
}

/// A text of a length that a claim can have.
pub(super) fn filled(setting: &Setting<'_>) -> Option<String> {
    setting
        .parsed("a text of 1 to 1024 bytes", |text| (1..=1024).contains(&text.len()).then(|| text.to_owned()))
}

/// Whether `text` can be the `sub` of a token.
pub(super) fn is_subject(text: &str) -> bool {
    (1..=MAX_SUBJECT_BYTES).contains(&text.len()) && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn role(claim: Option<&str>, map: Option<&[(&str, Role)]>, claims: &str) -> Option<Role> {
        let map = map.map(|map| map.iter().map(|(word, role)| ((*word).to_owned(), *role)).collect());
        let words = RoleWords { claim: claim.map(str::to_owned), map, view_claim: None, view_map: None };
        words.role_in(&Raw::parse(&Bytes::copy_from_slice(claims.as_bytes())).expect("JSON"))
    }

    #[test]
    fn token_is_bound_to_the_view_that_its_claim_names() {
        let words = |map: Option<&[(&str, &str)]>| RoleWords {
            claim: None,
            map: None,
            view_claim: Some("groups".to_owned()),
            view_map: map
                .map(|map| map.iter().map(|(word, view)| ((*word).into(), (*view).into())).collect()),
        };
        let view = |words: &RoleWords, role: Role, claims: &str| {
            let claims = Raw::parse(&Bytes::copy_from_slice(claims.as_bytes())).expect("JSON");
            let bound = words.bound(&Principal::of_token("ann", role), &claims);
            (bound.view().map(ToString::to_string), bound.role())
        };
        let some = |name: &str| Some(name.to_owned());
        let mapped = words(Some(&[("help", "support"), ("staff", "*")]));
        for (words, role, claims, expected) in [
            (&words(None), Role::Caller, r#"{"groups": "support"}"#, (some("support"), Role::Caller)),
            (&words(None), Role::Caller, "{}", (some(""), Role::Caller)),
            (&words(None), Role::Caller, r#"{"groups": "*"}"#, (some("*"), Role::Caller)),
            (&words(None), Role::Superuser, "{}", (None, Role::Superuser)),
            (&words(None), Role::Superuser, r#"{"groups": ["support"]}"#, (some("support"), Role::Caller)),
            (&mapped, Role::Caller, r#"{"groups": ["x", "help", "staff"]}"#, (some("support"), Role::Caller)),
            (&mapped, Role::Reader, r#"{"groups": ["staff", "help"]}"#, (None, Role::Reader)),
            (&mapped, Role::Caller, r#"{"groups": ["support"]}"#, (some(""), Role::Caller)),
            (&mapped, Role::Superuser, r#"{"groups": []}"#, (some(""), Role::Caller)),
        ] {
            assert_eq!(view(words, role, claims), expected, "{claims}");
        }
    }

    #[test]
    fn only_mapped_words_count_and_the_strongest_of_them() {
        let map = [("true", Role::Superuser), ("staff", Role::Caller), ("7", Role::Reader)];
        for (claims, expected) in [
            (r#"{"c": true}"#, Some(Role::Superuser)),
            (r#"{"c": false}"#, None),
            (r#"{"c": "staff x"}"#, Some(Role::Caller)),
            (r#"{"c": ["x", "staff", true]}"#, Some(Role::Superuser)),
            (r#"{"c": [7]}"#, Some(Role::Reader)),
            (r#"{"c": 7}"#, Some(Role::Reader)),
            (r#"{"c": "superuser"}"#, None),
            (r#"{"c": ["staff x"]}"#, None),
            (r#"{"c": null}"#, None),
            (r#"{"c": {"staff": true}}"#, None),
            ("{}", None),
        ] {
            assert_eq!(role(Some("c"), Some(&map), claims), expected, "{claims}");
        }
    }

    #[test]
    fn groups_and_roles_are_found_where_login_services_write_them() {
        let map =
            [("/ops/admins", Role::Superuser), ("mcp-users", Role::Caller), ("Two Words", Role::Reader)];
        for (claim, claims, expected) in [
            ("groups", r#"{"groups": ["/staff", "/ops/admins"]}"#, Some(Role::Superuser)),
            ("groups", r#"{"groups": ["Two Words"]}"#, Some(Role::Reader)),
            ("realm_access.roles", r#"{"realm_access": {"roles": ["mcp-users"]}}"#, Some(Role::Caller)),
            (
                "resource_access.my.client.roles",
                r#"{"resource_access": {"my": 1, "my.client": {"roles": ["mcp-users"]}}}"#,
                Some(Role::Caller),
            ),
            (
                "https://example.org/roles",
                r#"{"https://example.org/roles": ["mcp-users"]}"#,
                Some(Role::Caller),
            ),
            ("scp", r#"{"scp": "openid mcp-users"}"#, Some(Role::Caller)),
            ("realm_access.roles", r#"{"roles": ["mcp-users"]}"#, None),
            ("realm_access.roles", r#"{"realm_access": ["mcp-users"]}"#, None),
        ] {
            assert_eq!(role(Some(claim), Some(&map), claims), expected, "{claims}");
        }
    }

    #[test]
    fn without_a_map_the_names_of_roles_count() {
        assert_eq!(role(None, None, r#"{"roles": ["reader", "caller"]}"#), Some(Role::Caller));
        assert_eq!(
            role(None, None, r#"{"role": "x", "roles": "superuser"}"#),
            None,
            "the first claim counts"
        );
        assert_eq!(role(Some("a.b"), None, r#"{"a": {"b": "openid reader"}}"#), Some(Role::Reader));
        assert_eq!(role(None, None, r#"{"role": true}"#), None);
    }

    #[test]
    fn scopes_are_known_only_where_the_role_is_one() {
        let words = |claim: Option<&str>, map| RoleWords {
            claim: claim.map(str::to_owned),
            map,
            view_claim: None,
            view_map: None,
        };
        assert_eq!(words(None, None).scopes(), [""; 0]);
        assert_eq!(words(Some("scope"), None).scopes(), ["reader", "caller", "superuser"]);
        let map = Some(BTreeMap::from([("mcp:use".to_owned(), Role::Caller)]));
        assert_eq!(words(Some("scope"), map.clone()).scopes(), ["mcp:use"]);
        assert_eq!(words(Some("groups"), map).scopes(), [""; 0]);
    }
}
