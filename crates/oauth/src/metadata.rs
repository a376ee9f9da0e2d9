//! The metadata of protected resources and authorization servers, and where it is looked for.
//!
//! Source: RFC 8414, sections 2 and 3.1; RFC 9728, section 3.1; `OpenID` Connect Discovery 1.0, section 4; MCP
//! 2026-07-28 `basic/authorization/authorization-server-discovery`.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use url::Url;

use crate::error::Error;
use crate::limits::{check_urls, text};

/// The metadata of an authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationServer {
    /// Its identifier. Credentials belong to it.
    pub issuer: String,
    /// Where a person logs in.
    #[serde(with = "optional_url", default)]
    pub authorization_endpoint: Option<Url>,
    /// Where tokens are given.
    #[serde(with = "optional_url", default)]
    pub token_endpoint: Option<Url>,
    /// Where clients register themselves.
    #[serde(with = "optional_url", default)]
    pub registration_endpoint: Option<Url>,
    /// Where tokens are revoked.
    #[serde(with = "optional_url", default)]
    pub revocation_endpoint: Option<Url>,
    /// The scopes that it knows.
    #[serde(deserialize_with = "or_absent", default, skip_serializing_if = "Vec::is_empty")]
    pub scopes_supported: Vec<String>,
    /// The grants that it knows; `None` if it does not say.
    #[serde(deserialize_with = "or_absent", default)]
    pub grant_types_supported: Option<Vec<String>>,
    /// How clients can authenticate at the token endpoint; `None` if it does not say.
    #[serde(deserialize_with = "or_absent", default)]
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// How the client can prove that it began the login; `None` if it does not say.
    #[serde(deserialize_with = "or_absent", default)]
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// Whether a URL can be the id of a client.
    #[serde(deserialize_with = "or_absent", default)]
    pub client_id_metadata_document_supported: bool,
    /// Whether every authorization response has the parameter `iss`.
    #[serde(deserialize_with = "is_promised", default)]
    pub authorization_response_iss_parameter_supported: bool,
}

impl AuthorizationServer {
    /// The endpoints of a server of the revision 2025-03-26, which has no metadata.
    pub(crate) fn with_default_endpoints(origin: &Url) -> Self {
        let at = |path: &str| origin.join(path).ok();
        Self {
            issuer: without_slash(origin),
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            registration_endpoint: at("/register"),
            revocation_endpoint: None,
            scopes_supported: Vec::new(),
            grant_types_supported: None,
            token_endpoint_auth_methods_supported: None,
            code_challenge_methods_supported: Some(vec!["S256".into()]),
            client_id_metadata_document_supported: false,
            authorization_response_iss_parameter_supported: false,
        }
    }

    /// The URLs to which a credential of the client may be sent.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Url> {
        [&self.token_endpoint, &self.revocation_endpoint].into_iter().flatten()
    }

    /// Fails if a value of it is too long.
    pub(crate) fn check_lengths(&self) -> Result<(), Error> {
        check_urls([
            ("issuer", self.issuer.as_str()),
            ("authorization_endpoint", text(self.authorization_endpoint.as_ref())),
            ("token_endpoint", text(self.token_endpoint.as_ref())),
            ("registration_endpoint", text(self.registration_endpoint.as_ref())),
            ("revocation_endpoint", text(self.revocation_endpoint.as_ref())),
        ])
    }

    /// The part of it that a renewal or a revocation needs, which is kept with a login.
    pub(crate) fn for_renewal(self) -> Self {
        Self {
            registration_endpoint: None,
            scopes_supported: Vec::new(),
            grant_types_supported: None,
            token_endpoint_auth_methods_supported: None,
            code_challenge_methods_supported: None,
            ..self
        }
    }

    /// Whether its scopes contain `scope`.
    pub(crate) fn has_scope(&self, scope: &str) -> bool {
        self.scopes_supported.iter().any(|supported| supported == scope)
    }
}

/// Reads a member that may be absent. `null` and a value of another type count as absent, because many services write all
/// members that they know.
fn or_absent<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: DeserializeOwned + Default,
    D: Deserializer<'de>,
{
    Ok(T::deserialize(Value::deserialize(from)?).unwrap_or_default())
}

/// Reads a promise that protects logins. A value of another type counts as one: without it, an answer of another
/// authorization server would not be seen.
fn is_promised<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(!matches!(Value::deserialize(from)?, Value::Null | Value::Bool(false)))
}

/// A URL that may be absent. A value that is no URL counts as absent.
pub(crate) mod optional_url {
    use serde::{Deserializer, Serialize, Serializer};
    use url::Url;

    #[allow(clippy::ref_option)] // serde calls it with a reference to the field
    pub(crate) fn serialize<S: Serializer>(url: &Option<Url>, to: S) -> Result<S::Ok, S::Error> {
        url.as_ref().map(Url::as_str).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Url>, D::Error> {
        let text: Option<String> = super::or_absent(from)?;
        Ok(text.and_then(|text| Url::parse(&text).ok()).filter(Url::has_host))
    }
}

/// The metadata of a protected resource.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Resource {
    /// Its identifier, which is sent as it is written here.
    #[serde(rename = "resource")]
    pub(crate) identifier: String,
    #[serde(deserialize_with = "or_absent", default)]
    pub(crate) authorization_servers: Vec<String>,
    #[serde(deserialize_with = "or_absent", default)]
    pub(crate) scopes_supported: Vec<String>,
}

impl Resource {
    /// Fails if a value of it is too long.
    pub(crate) fn check_lengths(&self) -> Result<(), Error> {
        let servers = self.authorization_servers.iter().map(|url| ("authorization_servers", url.as_str()));
        check_urls(servers.chain([("resource", self.identifier.as_str())]))
    }

    /// Whether it describes `server`: the same origin, and a path that begins with its path.
    pub(crate) fn describes(&self, server: &Url) -> bool {
        let Ok(url) = Url::parse(&self.identifier) else { return false };
        let (prefix, path) = (url.path().trim_end_matches('/'), server.path());
        let rest = path.strip_prefix(prefix);
        let is_query_right = url.query().is_none() || url.query() == server.query();
        url.origin() == server.origin()
            && is_query_right
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Returns where the metadata of the resource `server` may be, in order.
pub(crate) fn resource_places(server: &Url) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    let mut paths = vec![format!("/.well-known/oauth-protected-resource{path}")];
    if !path.is_empty() {
        paths.push("/.well-known/oauth-protected-resource".into());
    }
    below(server, &paths)
}

/// Returns where the metadata of `issuer` may be, in order.
pub(crate) fn server_places(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    below(issuer, &paths)
}

fn below(url: &Url, paths: &[String]) -> Vec<Url> {
    let at = |path: &String| {
        let mut place = url.clone();
        place.set_path(path);
        place.set_query(None);
        place.set_fragment(None);
        place
    };
    paths.iter().map(at).collect()
}

/// Returns `url` as an identifier: without fragment, and without a path that is only a slash.
pub(crate) fn without_slash(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    let is_root = url.path() == "/" && url.query().is_none();
    if is_root { url.as_str().trim_end_matches('/').to_owned() } else { url.into() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(places: &[Url]) -> Vec<&str> {
        places.iter().map(Url::as_str).collect()
    }

    fn parse(url: &str) -> Url {
        Url::parse(url).expect("a URL")
    }

    #[test]
    fn metadata_is_looked_for_in_the_order_of_the_specification() {
        assert_eq!(
            texts(&server_places(&parse("https://a/tenant1/"))),
            [
                "https://a/.well-known/oauth-authorization-server/tenant1",
                "https://a/.well-known/openid-configuration/tenant1",
                "https://a/tenant1/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            texts(&server_places(&parse("https://a"))),
            [
                "https://a/.well-known/oauth-authorization-server",
                "https://a/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            texts(&resource_places(&parse("https://a:81/mcp/x?key=1"))),
            [
                "https://a:81/.well-known/oauth-protected-resource/mcp/x",
                "https://a:81/.well-known/oauth-protected-resource",
            ]
        );
        assert_eq!(
            texts(&resource_places(&parse("https://a"))),
            ["https://a/.well-known/oauth-protected-resource"]
        );
    }

    #[test]
    fn member_that_is_null_or_of_another_type_counts_as_absent() {
        let names = [
            "authorization_endpoint",
            "registration_endpoint",
            "revocation_endpoint",
            "scopes_supported",
            "grant_types_supported",
            "token_endpoint_auth_methods_supported",
            "code_challenge_methods_supported",
            "client_id_metadata_document_supported",
        ];
        let plain = json!({"issuer": "https://a", "token_endpoint": "https://a/token"});
        let absent: AuthorizationServer = serde_json::from_value(plain.clone()).expect("metadata");
        assert!(absent.token_endpoint.is_some() && absent.grant_types_supported.is_none());
        for value in [json!(null), json!(7), json!({}), json!([null])] {
            let mut members = plain.clone();
            for name in names {
                members[name] = value.clone();
            }
            assert_eq!(serde_json::from_value::<AuthorizationServer>(members).expect("metadata"), absent);
            let mut members = json!({"resource": "https://a/mcp", "authorization_servers": ["https://b"]});
            members["scopes_supported"] = value.clone();
            let resource: Resource = serde_json::from_value(members.clone()).expect("metadata");
            assert_eq!(resource.authorization_servers, ["https://b"], "{value}");
            members["authorization_servers"] = value;
            let resource: Resource = serde_json::from_value(members).expect("metadata");
            assert!(resource.authorization_servers.is_empty());
        }
    }

    #[test]
    fn promise_to_name_the_issuer_counts_in_each_spelling() {
        for (value, expected) in [
            (json!(null), false),
            (json!(false), false),
            (json!(true), true),
            (json!("true"), true),
            (json!(1), true),
        ] {
            let members =
                json!({"issuer": "https://a", "authorization_response_iss_parameter_supported": value});
            let server: AuthorizationServer = serde_json::from_value(members).expect("metadata");
            assert_eq!(server.authorization_response_iss_parameter_supported, expected, "{value}");
        }
    }

    #[test]
    fn a_resource_describes_what_is_below_it() {
        let describes = |resource: &str, server: &str| {
            let identifier = resource.to_owned();
            Resource { identifier, authorization_servers: vec![], scopes_supported: vec![] }
                .describes(&parse(server))
        };
        for resource in ["https://h/mcp", "https://h/mcp/", "https://h", "https://h:443/", "HTTPS://H/mcp"] {
            assert!(describes(resource, "https://h/mcp"), "{resource}");
        }
        for resource in [
            "https://h/mc",
            "https://h/mcp/x",
            "http://h/mcp",
            "https://h:81/mcp",
            "https://h.example/mcp",
            "https://h/MCP",
            "https://h/mcp?tenant=2",
            "mcp",
            "",
        ] {
            assert!(!describes(resource, "https://h/mcp"), "{resource}");
        }
        assert!(describes("https://h/a", "https://h/a/b") && !describes("https://h/a", "https://h/ab"));
    }

    #[test]
    fn an_identifier_has_no_fragment_and_no_lone_slash() {
        assert_eq!(without_slash(&parse("https://H:443/#x")), "https://h");
        assert_eq!(without_slash(&parse("https://h/mcp/")), "https://h/mcp/");
    }
}
