//! The place where requests are counted for the limits of their callers.
//!
//! Not here: the limits and their counts (`limits`).

use super::Manager;
use super::error::Error;
use super::limits::{Admission, CountedRequest, LimitUsage};
use super::routed_request::RoutedRequest;
use super::snapshot::Scope;
use auth::Principal;

impl Manager {
    /// Whether requests have to be counted.
    pub(crate) fn has_limits(&self) -> bool {
        self.limits.is_on()
    }

    /// Returns an admission that several requests to servers share, because they are for one request of a client.
    pub(crate) fn shared_admission(&self) -> Admission {
        if self.has_limits() { Admission::shared() } else { Admission::default() }
    }

    /// Counts `request` of `client` for the limits of its caller, or refuses it. A refused call is recorded.
    pub(crate) async fn admit(
        &self,
        client: (&Principal, &Scope),
        request: &mut RoutedRequest,
    ) -> Result<(), Error> {
        let (principal, scope) = client;
        let mut admission = std::mem::take(&mut request.admission);
        let (view, server, tool) = (scope.view.as_ref(), request.server_name(), request.tool());
        let counted = CountedRequest { principal, view, server, tool };
        let admitted = self.limits.admit(counted, &mut admission).await;
        request.admission = admission;
        let Err(limited) = admitted else { return Ok(()) };
        let refused = Error::Limited(Box::new(limited));
        if request.tool().is_none() {
            return Err(refused);
        }
        self.call_recorded(request, std::pin::pin!(std::future::ready(Err(refused)))).await.map(drop)
    }

    /// How often each limit of callers was reached.
    pub fn limit_usage(&self) -> Vec<LimitUsage> {
        self.limits.usage()
    }
}
