//! Limits of how often one address may send a request: a bucket of tokens for each, which fills up with time.
//!
//! Invariants: an address that sends too much is refused. The addresses of one IPv6 network (/48) together get four times
//! the limit of one. No other address is affected. Addresses that were not seen for the longest time are forgotten, so
//! many of them cost little memory. The work of all addresses together has limits of its own: documents of clients,
//! registrations, grants (`authorization`), and the memory of requests.
//!
//! The address is that of the client, if the proxies before the gateway are trusted (`client_address`). Behind others all clients
//! have one, so the limits allow what thousands of clients need.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Extensions;
use ipnet::IpNet;
use lru::LruCache;
use tokio::time::Instant;

use crate::client_address::ClientAddress;
use runtime::rate;
use runtime::telemetry::limit::Limit;

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

    use super::*;

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
