//! The addresses that a client may connect to.
//!
//! An operator may name any address in a configuration file. A server may name URLs too, such as the one of its
//! authorization server. Such a URL could lead Switchyard to a service that only its own network can reach.
//!
//! Invariant: the rule is applied to the address that is connected to, after names are resolved, so a name that resolves
//! to a private address is refused too.
//!
//! Not here: redirects, which the client follows within one origin only.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};
use std::vec;

use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower::Service;
use url::{Host, Url};

/// The addresses that a client may connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DialPolicy {
    /// All addresses, for a URL from the configuration.
    Anywhere,
    /// Addresses of the public internet only, for a URL that somebody else wrote.
    Public,
}

impl DialPolicy {
    fn has(self, address: IpAddr) -> bool {
        self == Self::Anywhere || is_public(address)
    }

    /// Whether the host of `url` may be an address that is in reach. Names are checked when they are resolved.
    pub(super) fn has_host(self, url: &Url) -> bool {
        match url.host() {
            Some(Host::Ipv4(address)) => self.has(address.into()),
            Some(Host::Ipv6(address)) => self.has(address.into()),
            Some(Host::Domain(_)) | None => true,
        }
    }
}

/// Whether an address is one of the public internet.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => is_public_v4(mapped),
            None => is_public_v6(address),
        },
    }
}

/// IANA IPv4 special-purpose address registry.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_special = match first {
        0 | 240..=255 => true,
        100 => second & 0xc0 == 64,
        192 => second == 0 && third == 0,
        198 => second & 0xfe == 18,
        _ => false,
    };
    !(is_special
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast())
}

/// Global unicast addresses without the ones that lead to IPv4 addresses and those for documentation.
const fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let is_global_unicast = first & 0xe000 == 0x2000;
    let is_special =
        (first == 0x2001 && (second < 0x200 || second == 0xdb8)) || first == 0x2002 || first == 0x3fff;
    is_global_unicast && !is_special
}

/// Resolves names to the addresses that are in reach.
#[derive(Clone)]
pub(super) struct Resolver {
    system: GaiResolver,
    dial_policy: DialPolicy,
}

impl Resolver {
    pub(super) fn new(dial_policy: DialPolicy) -> Self {
        Self { system: GaiResolver::new(), dial_policy }
    }
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<vec::IntoIter<SocketAddr>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.system.poll_ready(context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (resolving, dial_policy) = (self.system.call(name), self.dial_policy);
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                resolving.await?.filter(|address| dial_policy.has(address.ip())).collect();
            if found.is_empty() { Err(out_of_reach()) } else { Ok(found.into_iter()) }
        })
    }
}

/// The error for a host without an address in reach.
pub(super) fn out_of_reach() -> io::Error {
    let reason = "the host has no public address, and only those may be reached here";
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for public in
            ["1.1.1.1", "100.128.0.1", "192.0.1.1", "198.20.0.1", "2606:4700::1111", "::ffff:8.8.8.8"]
        {
            assert!(is_public(public.parse().expect("an address")), "{public}");
        }
        for special in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "64:ff9b::a00:1",
            "2001::1",
            "2001:db8::1",
            "2002:a00:1::",
            "::ffff:10.0.0.1",
        ] {
            assert!(!is_public(special.parse().expect("an address")), "{special}");
        }
    }
}
