//! The services that are reached without the proxy.
//!
//! Invariant: entries are compared with the host that the URL names. No name is resolved for that, because the proxy may
//! be the only one that can resolve it.

use std::net::IpAddr;
use std::str::FromStr;

use url::{Host, Url};

/// The services that are reached without the proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoProxy(pub(super) Vec<Entry>);

/// One entry: a host, a domain with all hosts in it, an address, a range of addresses, or `*`; with a port or for all ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    All,
    /// A name in lower case, and whether it stands for itself too and not only for the names below it.
    Domain(String, bool),
    /// An address and how many of its leading bits count.
    Range(IpAddr, u32),
}

impl NoProxy {
    /// Reads `entries`. The error is the entry that has no known form.
    pub fn parse<'e>(entries: impl IntoIterator<Item = &'e str>) -> Result<Self, &'e str> {
        let read = |entry: &'e str| entry.parse().map_err(|()| entry);
        let parts = entries.into_iter().flat_map(|entries| entries.split(','));
        parts.map(str::trim).filter(|entry| !entry.is_empty()).map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Whether `url` is reached without the proxy.
    pub(super) fn has(&self, url: &Url) -> bool {
        let Some(host) = url.host() else { return false };
        self.0.iter().any(|entry| {
            entry.port.is_none_or(|port| url.port_or_known_default() == Some(port)) && entry.hosts.has(&host)
        })
    }
}

impl Hosts {
    fn has(&self, host: &Host<&str>) -> bool {
        let address = match host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(IpAddr::from(*address)),
            Host::Ipv6(address) => Some(IpAddr::from(*address).to_canonical()),
        };
        match (self, host) {
            (Self::All, _) => true,
            (Self::Domain(domain, is_itself), Host::Domain(name)) => {
                let name = name.strip_suffix('.').unwrap_or(name);
                let below = name.strip_suffix(domain.as_str());
                below.is_some_and(|below| below.ends_with('.') || *is_itself && below.is_empty())
            }
            (Self::Range(network, bits), _) => {
                address.is_some_and(|address| prefix(address, *bits) == prefix(*network, *bits))
            }
            (Self::Domain(..), _) => false,
        }
    }
}

/// The leading `bits` of an address, and its kind.
fn prefix(address: IpAddr, bits: u32) -> (bool, u128) {
    let (is_v4, value, length) = match address {
        IpAddr::V4(address) => (true, u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (false, address.to_bits(), 128),
    };
    (is_v4, value.checked_shr(length - bits.min(length)).unwrap_or(0))
}

impl FromStr for Entry {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.to_ascii_lowercase();
        if let Some(hosts) = range(&text) {
            return Ok(Self { hosts, port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| ())?)),
            None => (text.as_str(), None),
        };
        let hosts = match range(host) {
            Some(range) => range,
            None => Hosts::of_name(host).ok_or(())?,
        };
        Ok(Self { hosts, port })
    }
}

impl Hosts {
    fn of_name(host: &str) -> Option<Self> {
        if host == "*" {
            return Some(Self::All);
        }
        let below = host.strip_prefix("*.");
        // `.example.org` is `example.org` and all below it to most programs.
        let domain = below.or_else(|| host.strip_prefix('.')).unwrap_or(host);
        let domain = domain.strip_suffix('.').unwrap_or(domain);
        let is_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) || !byte.is_ascii();
        let is_name = !domain.is_empty() && !domain.starts_with('.') && domain.bytes().all(is_byte);
        is_name.then(|| Self::Domain(domain.to_owned(), below.is_none()))
    }
}

/// Reads an address, which may be in brackets, or a range of addresses such as `10.0.0.0/8`.
fn range(text: &str) -> Option<Hosts> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse().ok()?)),
        None => (text, None),
    };
    let bare = address.strip_prefix('[').and_then(|address| address.strip_suffix(']')).unwrap_or(address);
    let address: IpAddr = bare.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits: u32 = bits.unwrap_or(most);
    (bits <= most).then_some(Hosts::Range(address, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(entry: &str, url: &str) -> bool {
        NoProxy::parse([entry]).expect(entry).has(&Url::parse(url).expect(url))
    }

    #[test]
    fn entries_are_hosts_domains_addresses_ranges_and_ports() {
        for (entry, url, expected) in [
            ("example.org", "https://example.org/", true),
            ("EXAMPLE.org", "https://example.org./", true),
            ("example.org", "https://a.example.org/", true),
            ("example.org", "https://notexample.org/", false),
            (".example.org", "https://a.example.org/", true),
            (".example.org", "https://example.org/", true),
            ("*.example.org", "https://a.example.org/", true),
            ("*.example.org", "https://example.org/", false),
            ("example.org:8443", "https://example.org:8443/", true),
            ("example.org:8443", "https://example.org/", false),
            ("example.org:443", "https://example.org/", true),
            ("10.0.0.0/8", "http://10.255.0.1/", true),
            ("10.0.0.0/8", "http://11.0.0.1/", false),
            ("10.0.0.0/8", "http://10.example.org/", false),
            ("0.0.0.0/0", "http://8.8.8.8/", true),
            ("0.0.0.0/0", "http://[2001:db8::1]/", false),
            ("192.168.1.7", "http://192.168.1.7:81/", true),
            ("192.168.1.7:80", "http://192.168.1.7:81/", false),
            ("fd00::/8", "http://[fd12::1]/", true),
            ("[fd12::1]:81", "http://[fd12::1]:81/", true),
            ("[fd12::1]:81", "http://[fd12::1]/", false),
            ("::ffff:10.0.0.1", "http://10.0.0.1/", false),
            ("10.0.0.1", "http://[::ffff:10.0.0.1]/", true),
            ("*", "http://anything/", true),
            ("a.example, b.example", "http://b.example/", true),
        ] {
            assert_eq!(has(entry, url), expected, "{entry} for {url}");
        }
    }

    #[test]
    fn an_entry_of_no_known_form_is_returned() {
        for entry in ["http://a.example", "a b", "10.0.0.0/33", "a.example:port", "a.*", "::1:x", ".", "/8"] {
            assert_eq!(NoProxy::parse(["ok.example", entry]), Err(entry));
        }
        assert_eq!(NoProxy::parse(["", " , "]), Ok(NoProxy::default()));
    }
}
