//! The addresses of clients: the peer of a connection, or what trusted proxies say about it. And limits of how often one
//! address may send a request: a bucket of tokens for each, which fills up with time.
//!
//! Invariants: a header counts only if the peer is a trusted proxy. It is read from its end, where the nearest proxy has
//! written, up to the first address that is no trusted proxy: that is the client. The client may have written everything before
//! it, so nothing of that is read. A part that names no address ends the search, and the last address that is certain counts.
//! Only the configured header is read. A client could choose between two, because proxies write one and pass the other one on.
//!
//! An address that sends too much is refused. The addresses of one IPv6 network (/48) together get four times the limit of
//! one. No other address is affected. Addresses that were not seen for the longest time are forgotten. Behind a proxy that is
//! not trusted all clients have one address, so the limits allow what thousands of clients need.
//!
//! Source: RFC 7239, sections 4, 6 and 7.4; RFC 9110, section 5.6.1.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{Extensions, HeaderMap};
use ipnet::IpNet;
use lru::LruCache;
use tokio::time::Instant;

use runtime::rate;
use runtime::telemetry::limit::Limit;
use settings::words;

/// The address of clients. Addresses of IPv6 with the same first 64 bits are one, because a single client has all of
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientAddress(IpAddr);

impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        })
    }
}

impl ClientAddress {
    /// The network of IPv6 that one customer of a provider may have: those with the same first 48 bits.
    pub(crate) fn network(self) -> Option<IpNet> {
        if self.0.is_ipv6() { IpNet::new(self.0, 48).ok().map(|network| network.trunc()) } else { None }
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

words! {
    /// The header in which proxies name the addresses of clients.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum AddressHeader {
        /// Addresses, separated by commas. Nearly all proxies write it.
        #[default]
        XForwardedFor = "X-Forwarded-For",
        /// Elements with `for=`, as in RFC 7239.
        Forwarded = "Forwarded",
    }
}

/// The proxies that say where a request comes from.
#[derive(Debug)]
pub(crate) struct TrustedProxies {
    networks: Vec<IpNet>,
    header: AddressHeader,
}

impl TrustedProxies {
    /// The proxies in `networks`, which write `header`.
    pub(crate) const fn new(networks: Vec<IpNet>, header: AddressHeader) -> Self {
        Self { networks, header }
    }

    /// Returns the client of a request with `headers` that `peer` sent.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> ClientAddress {
        let mut certain = peer.to_canonical();
        if !self.trusts(certain) {
            return certain.into();
        }
        let mut named = self.header.addresses(headers);
        while self.trusts(certain)
            && let Some(Some(address)) = named.next()
        {
            certain = address;
        }
        certain.into()
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(&address))
    }
}

impl AddressHeader {
    /// The addresses in `headers`, the one that was written last first; `None` for a part that names none.
    fn addresses(self, headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
        let lines = headers.get_all(self.as_str()).iter().rev();
        let parts = lines.flat_map(|line| parts_from_end(line.as_bytes(), b','));
        parts.filter(|part| !part.is_empty()).map(move |part| match self {
            Self::XForwardedFor => address_in(part),
            Self::Forwarded => address_in(unquoted(value_of_for(part)?)),
        })
    }
}

/// The parts of `text` between separators that are not in quotes, the last part first.
fn parts_from_end(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let (text, mut is_quoted) = (rest.take()?, false);
        for at in (0..text.len()).rev() {
            if text[at] == b'"' && !ends_with_escape(&text[..at]) {
                is_quoted = !is_quoted;
            } else if text[at] == separator && !is_quoted {
                rest = Some(&text[..at]);
                return Some(text[at + 1..].trim_ascii());
            }
        }
        Some(text.trim_ascii())
    })
}

/// Whether the byte after `text` is escaped.
fn ends_with_escape(text: &[u8]) -> bool {
    text.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The value of the only `for` in an element of `Forwarded`.
fn value_of_for(element: &[u8]) -> Option<&[u8]> {
    let mut values = parts_from_end(element, b';').filter_map(|pair| {
        let (name, value) = pair.split_at(pair.iter().position(|byte| *byte == b'=')?);
        name.trim_ascii().eq_ignore_ascii_case(b"for").then(|| value[1..].trim_ascii())
    });
    let value = values.next()?;
    values.next().is_none().then_some(value)
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value)
}

/// Reads an address with or without a port, which may be a hidden one (`_port`).
fn address_in(node: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(node).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let (address, port): (IpAddr, _) = if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        (address.parse::<Ipv6Addr>().ok()?.into(), port)
    } else {
        let (address, port) = text.split_at(text.find(':')?);
        (address.parse::<Ipv4Addr>().ok()?.into(), port)
    };
    let is_port_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(is_port_byte);
    let is_read = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    is_read.then(|| address.to_canonical())
}

/// Limit of addresses and networks that are known, with about 100 bytes each.
const MAX_ADDRESSES: NonZeroUsize = NonZeroUsize::new(4_096).expect("not zero");

/// How many times as much as one address a network of IPv6 may send, which somebody can have alone.
const SHARE_OF_NETWORK: u32 = 4;

/// The limit of one kind of requests.
pub(crate) struct AddressRate {
    /// The time in which one token comes back.
    pause: Duration,
    /// The time in which an empty bucket fills up.
    depth: Duration,
    /// When the bucket of each address and network will be full.
    full_at: Mutex<LruCache<Source, Instant>>,
}

/// A source of requests, which has a bucket of its own.
#[derive(PartialEq, Eq, Hash)]
enum Source {
    Address(ClientAddress),
    Network(IpNet),
}

impl AddressRate {
    /// A limit of `burst` requests at once and then one each `pause`.
    pub(crate) fn new(burst: u32, pause: Duration) -> Self {
        Self { pause, depth: pause * burst, full_at: Mutex::new(LruCache::new(MAX_ADDRESSES)) }
    }

    /// Counts a request. The error is the seconds after which its address may send the next one. A program that embeds Switchyard
    /// does not tell addresses, and limits its clients itself.
    pub(crate) fn take(&self, request: &Extensions) -> Result<(), u64> {
        self.take_from(request.get().copied())
    }

    /// Counts a request from `address`, like [`Self::take`].
    pub(crate) fn take_from(&self, address: Option<ClientAddress>) -> Result<(), u64> {
        let Some(address) = address else { return Ok(()) };
        let (now, mut all) = (Instant::now(), self.full_at.lock().unwrap_or_else(PoisonError::into_inner));
        let mut take = |source, pause| {
            let full_at = all.get_or_insert_mut(source, || now);
            rate::take(full_at, now, pause, self.depth)
        };
        // First, so that the flood of one address takes nothing from its neighbors.
        let taken = take(Source::Address(address), self.pause).and_then(|()| match address.network() {
            Some(network) => take(Source::Network(network), self.pause / SHARE_OF_NETWORK),
            None => Ok(()),
        });
        taken.or_else(|wait| {
            Limit::AuthorizationRate.met(Err(wait.as_secs() + u64::from(wait.subsec_nanos() > 0)))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const PROXY: &str = "10.0.0.1";

    fn network(text: &str) -> IpNet {
        text.parse().expect("a network")
    }

    /// The client of a request of `peer` with `lines` in `header`, behind the proxies in `10.0.0.0/24` and `2001:db8:1::/48`.
    fn client(header: AddressHeader, peer: &str, lines: &[&[u8]]) -> String {
        let proxies = TrustedProxies::new(vec![network("10.0.0.0/24"), network("2001:db8:1::/48")], header);
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header.as_str(), HeaderValue::from_bytes(line).expect("a header"));
        }
        proxies.client(peer.parse().expect("an address"), &headers).to_string()
    }

    #[test]
    fn client_is_the_last_address_that_is_no_trusted_proxy() {
        for (lines, expected) in [
            (&[] as &[&str], PROXY),
            (&["192.0.2.7"], "192.0.2.7"),
            (&[" 192.0.2.7\t"], "192.0.2.7"),
            (&["198.51.100.1, 192.0.2.7"], "192.0.2.7"),
            (&["198.51.100.1,,, 192.0.2.7,"], "192.0.2.7"),
            (&["198.51.100.1", "192.0.2.7"], "192.0.2.7"),
            (&["192.0.2.7, 10.0.0.9"], "192.0.2.7"),
            (&["192.0.2.7", "10.0.0.9, 10.0.0.8"], "192.0.2.7"),
            (&["192.0.2.7, 2001:db8:1::5, 10.0.0.9"], "192.0.2.7"),
            (&["10.0.0.9, 10.0.0.8"], "10.0.0.9"),
            (&["192.0.2.7:443"], "192.0.2.7"),
            (&["192.0.2.7:_hidden"], "192.0.2.7"),
            (&["2001:db8::7"], "2001:db8::"),
            (&["[2001:db8::7]"], "2001:db8::"),
            (&["[2001:db8::7]:443"], "2001:db8::"),
            (&["::ffff:192.0.2.7"], "192.0.2.7"),
            (&["[::ffff:192.0.2.7]:1"], "192.0.2.7"),
            (&["192.0.2.7, ::ffff:10.0.0.9"], "192.0.2.7"),
            // The nearest proxy does not know it, or says what is no address.
            (&["192.0.2.7, unknown"], PROXY),
            (&["192.0.2.7, _hidden"], PROXY),
            (&["192.0.2.7, unknown, 10.0.0.9"], "10.0.0.9"),
            (&["192.0.2.7, 192.0.2"], PROXY),
            (&["192.0.2.7, 192.0.2.300"], PROXY),
            (&["192.0.2.7, 192.0.2.7:"], PROXY),
            (&["192.0.2.7, 192.0.2.7:1:2"], PROXY),
            (&["192.0.2.7, [192.0.2.7]"], PROXY),
            (&["192.0.2.7, [2001:db8::7"], PROXY),
            (&["192.0.2.7, [2001:db8::7]443"], PROXY),
            (&["192.0.2.7, fe80::1%eth0"], PROXY),
            (&["192.0.2.7, for=192.0.2.7"], PROXY),
            (&["192.0.2.7, 192.0.2.7 198.51.100.1"], PROXY),
            (&["\", 192.0.2.7"], "192.0.2.7"),
        ] {
            let bytes: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
            assert_eq!(client(AddressHeader::XForwardedFor, PROXY, &bytes), expected, "{lines:?}");
        }
        assert_eq!(client(AddressHeader::XForwardedFor, PROXY, &[b"192.0.2.7, \xff\xfe"]), PROXY);
        assert_eq!(client(AddressHeader::XForwardedFor, PROXY, &[b"\xff, 192.0.2.7"]), "192.0.2.7");
        assert_eq!(client(AddressHeader::XForwardedFor, "::ffff:10.0.0.1", &[b"192.0.2.7"]), "192.0.2.7");
    }

    #[test]
    fn element_of_forwarded_is_read_whatever_stands_before_it() {
        for (line, expected) in [
            ("for=192.0.2.7", "192.0.2.7"),
            ("For=\"192.0.2.7:80\"", "192.0.2.7"),
            ("for=\"[2001:db8::7]:4711\"", "2001:db8::"),
            ("by=10.0.0.1;proto=https;FOR=192.0.2.7;host=gw.example", "192.0.2.7"),
            ("for=198.51.100.1, for=192.0.2.7;proto=http", "192.0.2.7"),
            ("for=192.0.2.7, for=10.0.0.9;by=_secret", "192.0.2.7"),
            ("for=192.0.2.7 ; host = gw", "192.0.2.7"),
            // The client began a quoted string, and the proxy did not end it.
            ("for=\"198.51.100.1, for=192.0.2.7", "192.0.2.7"),
            ("for=\"\\, for=192.0.2.7;host=\"gw\"", "192.0.2.7"),
            // The proxy repeats a `Host` that the client chose.
            ("for=192.0.2.7;host=\"a;for=198.51.100.1\"", "192.0.2.7"),
            ("for=192.0.2.7;host=\"a, for=198.51.100.1\"", "192.0.2.7"),
            ("for=192.0.2.7;host=\"a\\\", for=198.51.100.1;b=\\\"\"", "192.0.2.7"),
            ("for=192.0.2.7;host=a;for=198.51.100.1", PROXY),
            ("for=192.0.2.7, for=unknown", PROXY),
            ("for=192.0.2.7, for=_hidden", PROXY),
            ("for=192.0.2.7, for=\"_hidden:80\"", PROXY),
            ("for=192.0.2.7, proto=https", PROXY),
            ("for=192.0.2.7, for", PROXY),
            ("for=192.0.2.7, for=", PROXY),
            ("for=192.0.2.7, for=\"", PROXY),
            ("192.0.2.7", PROXY),
        ] {
            assert_eq!(client(AddressHeader::Forwarded, PROXY, &[line.as_bytes()]), expected, "{line}");
        }
    }

    #[test]
    fn header_of_a_stranger_and_the_other_header_change_nothing() {
        assert_eq!(client(AddressHeader::XForwardedFor, "192.0.2.1", &[b"198.51.100.1"]), "192.0.2.1");
        assert_eq!(client(AddressHeader::Forwarded, "192.0.2.1", &[b"for=198.51.100.1"]), "192.0.2.1");
        let proxies = |header| TrustedProxies::new(vec![network("10.0.0.1/32")], header);
        let mut headers = HeaderMap::new();
        headers.append("forwarded", HeaderValue::from_static("for=198.51.100.1"));
        headers.append("x-forwarded-for", HeaderValue::from_static("192.0.2.7"));
        let peer = PROXY.parse().expect("an address");
        let client = |header| proxies(header).client(peer, &headers).to_string();
        assert_eq!(client(AddressHeader::XForwardedFor), "192.0.2.7");
        assert_eq!(client(AddressHeader::Forwarded), "198.51.100.1");
        let nobody = TrustedProxies::new(Vec::new(), AddressHeader::XForwardedFor);
        assert_eq!(nobody.client(peer, &headers).to_string(), PROXY);
    }

    #[test]
    fn ten_thousand_addresses_are_read_as_far_as_they_are_certain() {
        let many = |address: &str| vec![address; 10_000].join(",");
        for (line, expected) in [
            (format!("{},192.0.2.7", many("198.51.100.1")), "192.0.2.7"),
            (format!("192.0.2.7,{}", many("10.0.0.2")), "192.0.2.7"),
            (format!("{},\"", many("198.51.100.1")), PROXY),
            ("\\\"".repeat(10_000), PROXY),
        ] {
            assert_eq!(client(AddressHeader::XForwardedFor, PROXY, &[line.as_bytes()]), expected);
            client(AddressHeader::Forwarded, PROXY, &[line.as_bytes()]);
        }
    }

    #[test]
    fn one_network_of_ipv6_is_one_client() {
        let at = |address: &str| ClientAddress::from(address.parse::<IpAddr>().expect("an address"));
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:192.0.2.1"), at("192.0.2.1"));
        assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
    }

    proptest! {
        // RULES G1
        #[test]
        fn client_cannot_choose_its_address_by_what_it_sends(
            sent in prop::collection::vec(prop_oneof![
                "[ -~\t]{0,40}".prop_map(String::into_bytes),
                "(for=|\"|,|;|\\\\|=|[0-9.:\\[\\]]|unknown|_x| ){0,20}".prop_map(String::into_bytes),
                prop::collection::vec(0x80_u8.., 0..8),
            ], 0..4),
            is_appended in any::<bool>(),
        ) {
            for (header, own) in
                [(AddressHeader::XForwardedFor, "192.0.2.7"), (AddressHeader::Forwarded, "for=192.0.2.7;host=gw")]
            {
                // A proxy appends to the last line, or adds a line.
                let mut lines = sent.clone();
                match lines.last_mut() {
                    Some(last) if is_appended => last.extend([b", ", own.as_bytes()].concat()),
                    _ => lines.push(own.as_bytes().to_vec()),
                }
                let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
                prop_assert_eq!(client(header, PROXY, &lines), "192.0.2.7");
            }
        }
    }

    fn from(address: [u8; 4]) -> Extensions {
        let mut request = Extensions::new();
        request.insert(ClientAddress::from(IpAddr::from(address)));
        request
    }

    #[tokio::test(start_paused = true)]
    async fn flood_of_one_address_shuts_out_no_other_one() {
        let rate = AddressRate::new(3, Duration::from_millis(1_500));
        let (flood, other) = (from([192, 0, 2, 1]), from([192, 0, 2, 2]));
        assert_eq!((0..1_000).filter(|_| rate.take(&flood).is_ok()).count(), 3);
        assert_eq!(rate.take(&flood), Err(2), "whole seconds, rounded up");
        assert_eq!(rate.take(&other), Ok(()));
        tokio::time::advance(Duration::from_millis(1_500)).await;
        assert_eq!((0..10).filter(|_| rate.take(&flood).is_ok()).count(), 1);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(
            (0..10).filter(|_| rate.take(&flood).is_ok()).count(),
            3,
            "never more than the bucket holds"
        );
        assert_eq!(rate.take(&Extensions::new()), Ok(()), "an unknown address");
    }

    #[tokio::test(start_paused = true)]
    async fn flood_of_many_addresses_of_one_network_leaves_something_to_others() {
        let rate = AddressRate::new(3, Duration::from_secs(4));
        let take = |address: String| {
            let address: IpAddr = address.parse().expect("an address");
            rate.take_from(Some(address.into()))
        };
        let flood = |at: u16| take(format!("2001:db8:1:{at:x}::1"));
        assert_eq!((0..10_000).filter(|at| flood(*at).is_ok()).count(), 3 * 4);
        assert_eq!(flood(20_000), Err(1));
        assert_eq!(take("2001:db8:2::1".to_owned()), Ok(()), "another network");
        // One address that floods alone takes a quarter.
        assert_eq!((0..10_000).filter(|_| take("2001:db8:3:1::1".to_owned()).is_ok()).count(), 3);
        assert_eq!((0..10_000).filter(|at| take(format!("2001:db8:3:{at:x}::1")).is_ok()).count(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn ten_thousand_addresses_stay_within_the_limit() {
        let rate = AddressRate::new(1, Duration::from_hours(1));
        let address = |at: u32| from(at.to_be_bytes());
        assert!((0..10_000).all(|at| rate.take(&address(at)).is_ok()));
        assert_eq!(rate.full_at.lock().expect("no panic").len(), MAX_ADDRESSES.get());
        assert!(rate.take(&address(9_999)).is_err(), "the last ones are known");
    }
}
