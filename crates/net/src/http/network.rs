//! The way to the services that the configuration describes: proxies, and files for TLS.

use std::fmt;
use std::sync::Arc;

use url::Url;

use super::proxy::{Proxies, Proxy};
use super::tls::{Tls, TlsFiles};

/// Proxies and TLS of one server, or of all services that have no settings of their own. Clones share the files for TLS.
#[derive(Clone, Default)]
pub struct Network {
    proxies: Option<Arc<Proxies>>,
    tls: Option<Arc<Tls>>,
}

impl Network {
    /// A way through `proxies`, if there are any, with the files of `tls`.
    pub fn new(proxies: Option<Arc<Proxies>>, tls: Option<TlsFiles>) -> Self {
        Self { proxies, tls: tls.map(Tls::new) }
    }

    /// The way to a service that another party named. It has the same proxies and trusted authorities, but not the
    /// certificate of Switchyard, which is for one server.
    #[must_use]
    pub fn to_others(&self) -> Self {
        Self { proxies: self.proxies.clone(), tls: self.tls.as_ref().map(|tls| tls.without_identity()) }
    }

    /// Returns the proxy for a request to `url`; `None` if it goes there directly.
    pub fn proxy(&self, url: &Url) -> Option<&Arc<Proxy>> {
        self.proxies.as_ref()?.find(url)
    }

    pub(super) const fn tls(&self) -> Option<&Arc<Tls>> {
        self.tls.as_ref()
    }
}

impl PartialEq for Network {
    fn eq(&self, other: &Self) -> bool {
        let files = |network: &Self| network.tls.as_ref().map(|tls| tls.files().clone());
        self.proxies == other.proxies && files(self) == files(other)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.tls.as_ref().map(|tls| tls.files());
        f.debug_struct("Network").field("proxies", &self.proxies).field("tls", &files).finish()
    }
}
