//! The headers of a client's request that some server gets (`forward_headers`).
//!
//! Not here: the headers of one server (`upstream`).

use std::sync::atomic::Ordering;

use http::HeaderMap;

use super::{Manager, Snapshot};
use protocol::{ErrorCode, Problem};
use upstream::{ForwardedHeaders, MAX_FORWARDED_BYTES};

impl Snapshot {
    /// Whether a server gets headers of clients.
    pub(super) fn forwards_headers(&self) -> bool {
        self.servers().iter().any(|server| !server.upstream.config().forwarded_headers().is_empty())
    }
}

impl Manager {
    /// Returns the headers of a request with `headers` that its calls carry on. For most configurations one comparison
    /// decides.
    pub fn forwarded(&self, headers: &HeaderMap) -> Result<Option<ForwardedHeaders>, Box<Problem>> {
        if !self.published.forwards_headers.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let snapshot = self.snapshot();
        let servers = snapshot.servers().iter();
        let names = servers.flat_map(|server| server.upstream.config().forwarded_headers());
        ForwardedHeaders::of(headers, names).map_err(|_| {
            let text =
                format!("the headers that servers get of clients have more than {MAX_FORWARDED_BYTES} bytes");
            Box::new(Problem::new(ErrorCode::HeadersTooLarge, text))
        })
    }
}
