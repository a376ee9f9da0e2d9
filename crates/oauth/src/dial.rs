//! HTTP to the services that metadata names: which of them may be reached, and how much they may answer.
//!
//! A server chooses its metadata, so a URL in it could lead Switchyard to a service of its own network. Invariants: an
//! address outside of the public internet is refused, unless the URL has the host of the MCP server itself or one that
//! the operator listed. Plain HTTP is used only where the server itself is that close. A redirect is followed within
//! its origin only, and credentials in a URL are not sent. A request is marked, so that no route of a Switchyard that
//! changes something accepts it.
//!
//! Not here: what an answer means.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};
use net::http::{
    CDN_LOOP, CDN_TOKEN, Client, DialPolicy, Network, RequestBuilder, ResponseLimits, WholeResponse,
    retry_after,
};
use runtime::shutdown::Shutdown;
use serde::de::DeserializeOwned;
use url::{Host, Url};

use crate::error::Error;

const LIMITS: ResponseLimits = ResponseLimits { bytes: 256 * 1024, time: Duration::from_secs(10) };
/// Origins whose connections are kept. A login uses two or three.
const MAX_CLIENTS: usize = 8;

/// Sends requests to the services that the metadata of one server names.
pub struct Services {
    server: Url,
    allowed_hosts: Vec<String>,
    /// The way to the MCP server.
    network: Network,
    shutdown: Shutdown,
    /// The most recently used is the last.
    clients: Mutex<Vec<Arc<Client>>>,
    /// The issuer that refused the parameter `resource`.
    refuses_resource: Mutex<Option<String>>,
}

/// The answer to a request for a JSON document.
#[derive(Debug)]
pub(crate) enum Document<T> {
    /// The document.
    Found(T),
    /// There is none at this place.
    Absent,
    /// There is an answer that is not the document.
    Unreadable(String),
}

impl Services {
    /// The services of the MCP server at `server`. `allowed_hosts` may have any address, see
    /// [`Settings::operator_hosts`](crate::Settings::operator_hosts).
    pub fn new(server: &Url, allowed_hosts: &[String], network: &Network, shutdown: &Shutdown) -> Self {
        Self {
            server: server.clone(),
            allowed_hosts: allowed_hosts.to_vec(),
            network: network.clone(),
            shutdown: shutdown.clone(),
            clients: Mutex::default(),
            refuses_resource: Mutex::default(),
        }
    }

    /// Records that the authorization server `issuer` refuses the parameter `resource`, until the process ends.
    pub(crate) fn omit_resource_at(&self, issuer: &str) {
        let mut refuses = self.refuses_resource.lock().unwrap_or_else(PoisonError::into_inner);
        if refuses.as_deref() != Some(issuer) {
            let issuer = settings::one_line(issuer);
            tracing::warn!(%issuer, "the authorization server refuses the parameter `resource`, which is left out from now on");
            *refuses = Some(issuer);
        }
    }

    /// Whether `issuer` refused the parameter `resource`.
    pub(crate) fn omits_resource_at(&self, issuer: &str) -> bool {
        let refuses = self.refuses_resource.lock().unwrap_or_else(PoisonError::into_inner);
        refuses.as_deref() == Some(&*settings::one_line(issuer))
    }

    /// Sends `request` to `url`, and returns its response whatever the status.
    pub(crate) async fn send(&self, url: &Url, request: RequestBuilder) -> Result<WholeResponse, Error> {
        let client = self.client(url)?;
        // A URL of the metadata may lead to a gateway, which recognizes the request by this header.
        let request = request.header(&CDN_LOOP, &CDN_TOKEN.into());
        Ok(client.fetch(request, LIMITS).await?)
    }

    /// Reads the JSON document at `url`.
    pub(crate) async fn document<T: DeserializeOwned>(&self, url: &Url) -> Result<Document<T>, Error> {
        let request = RequestBuilder::new(Method::GET, url.clone());
        let response = self.send(url, request).await?;
        if let Some(later) = later(&response) {
            return Err(later);
        }
        if response.status != StatusCode::OK {
            return Ok(Document::Absent);
        }
        Ok(match response.json() {
            Ok(document) => Document::Found(document),
            Err(error) => Document::Unreadable(error.to_string()),
        })
    }

    fn client(&self, url: &Url) -> Result<Arc<Client>, Error> {
        let dial_policy = self.dial_policy(url)?;
        let origin = url.origin().ascii_serialization();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = clients.iter().position(|client| **client.origin() == *origin) {
            let client = clients.remove(at);
            clients.push(Arc::clone(&client));
            return Ok(client);
        }
        // The certificate of Switchyard is for the MCP server.
        let is_server = url.origin() == self.server.origin();
        let network = if is_server { self.network.clone() } else { self.network.to_others() };
        let client = Client::new(url, (dial_policy, &network), 1, &self.shutdown);
        let client = Arc::new(client.map_err(|error| Error::refused(format!("{}: {error}", shown(url))))?);
        if clients.len() >= MAX_CLIENTS {
            clients.remove(0);
        }
        clients.push(Arc::clone(&client));
        Ok(client)
    }

    /// Returns the addresses that `url` may have, or an error if it may not be requested.
    pub(crate) fn dial_policy(&self, url: &Url) -> Result<DialPolicy, Error> {
        let is_own = url.host().is_some() && url.host() == self.server.host();
        let host = url.host_str().unwrap_or_default();
        let is_listed = self.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host));
        let is_close = is_own || is_listed;
        let is_plain_allowed = self.server.scheme() == "http" && is_close || is_listed && is_loopback(url);
        let refused = |why: &str| Err(Error::refused(format!("{} is not contacted: {why}", shown(url))));
        if !url.username().is_empty() || url.password().is_some() {
            return refused("it has a user or a password");
        }
        match url.scheme() {
            "https" => {}
            "http" if is_plain_allowed => {}
            "http" => return refused("it is not https"),
            _ => return refused("it is no URL of HTTP"),
        }
        if is_close {
            Ok(DialPolicy::Anywhere)
        } else if is_loopback(url) {
            refused("its host is this machine; `allowed_hosts` can list it")
        } else {
            Ok(DialPolicy::Public)
        }
    }
}

/// Returns the error of a status that asks to try again later.
pub(crate) fn later(response: &WholeResponse) -> Option<Error> {
    let status = response.status;
    let is_later = status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
        || status.is_server_error();
    is_later.then(|| Error::Later {
        reason: format!("it answered with status {}", status.as_u16()),
        retry_after: retry_after(&response.headers),
    })
}

/// Returns the origin of `url`, because a path or query could hold a secret.
pub(crate) fn shown(url: &Url) -> String {
    settings::one_line(&url.origin().ascii_serialization())
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|mapped| mapped.is_loopback())
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dial_policy(server: &str, allowed: &[&str], url: &str) -> Result<DialPolicy, Error> {
        let allowed: Vec<String> = allowed.iter().map(|host| (*host).to_owned()).collect();
        let services = Services::new(&parse(server), &allowed, &Network::default(), &Shutdown::new());
        let url = parse(url);
        // The client itself refuses literal addresses, without a connection.
        services.client(&url).and_then(|_| services.dial_policy(&url))
    }

    fn parse(url: &str) -> Url {
        Url::parse(url).expect("a URL")
    }

    #[test]
    fn a_public_server_cannot_name_addresses_of_this_network() {
        for url in [
            "https://127.0.0.1/",
            "http://127.0.0.1/",
            "https://localhost/",
            "https://a.localhost:8443/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://169.254.169.254/latest/meta-data",
            "http://169.254.169.254/latest/meta-data",
            "https://10.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "http://login.example.org/",
            "https://user:pw@login.example.org/",
            "ftp://login.example.org/",
            "file:///etc/passwd",
        ] {
            let refused = dial_policy("https://mcp.example.com/mcp", &[], url);
            assert!(matches!(refused, Err(Error::Refused { .. })), "{url}: {refused:?}");
        }
        let public = dial_policy("https://mcp.example.com/mcp", &[], "https://login.example.org/");
        assert_eq!(public, Ok(DialPolicy::Public));
    }

    #[test]
    fn a_server_may_name_its_own_host_and_the_operator_any() {
        for (server, allowed, url) in [
            ("http://localhost:3000/mcp", "", "http://localhost:4000/token"),
            ("http://10.0.0.1/mcp", "", "http://10.0.0.1:4000/token"),
            ("https://10.0.0.1/mcp", "", "https://10.0.0.1/token"),
            ("https://mcp.example.com/", "10.0.0.2", "https://10.0.0.2/token"),
            ("http://mcp.internal/", "login.internal", "http://login.internal/token"),
            ("https://mcp.example.com/", "localhost", "http://localhost:4000/token"),
        ] {
            assert_eq!(dial_policy(server, &[allowed], url), Ok(DialPolicy::Anywhere), "{server} {url}");
        }
        // A server with TLS cannot ask for less, and a close server opens nothing beside itself.
        for (server, allowed, url) in [
            ("https://10.0.0.1/mcp", "", "http://10.0.0.1/token"),
            ("https://mcp.example.com/", "login.internal", "http://login.internal/token"),
            ("http://10.0.0.1/mcp", "", "https://10.0.0.2/token"),
            ("http://127.0.0.1:3000/mcp", "", "http://127.0.0.2/token"),
        ] {
            assert!(dial_policy(server, &[allowed], url).is_err(), "{server} {url}");
        }
    }

    #[test]
    fn kept_clients_are_bounded() {
        let services = Services::new(&parse("https://h/"), &[], &Network::default(), &Shutdown::new());
        for at in 0..50 {
            services.client(&parse(&format!("https://h{at}.example.org/"))).expect("a client");
        }
        assert_eq!(services.clients.lock().expect("lock").len(), MAX_CLIENTS);
    }
}
