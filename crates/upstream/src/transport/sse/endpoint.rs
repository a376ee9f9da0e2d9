//! The first event of a stream, which has the URL for requests.

use std::sync::Arc;

use url::Url;

use crate::close_reason::Closing;
use crate::error::Error;
use crate::transport::flood_guard::FloodGuard;
use crate::transport::handshake;
use net::http::EventStream;
use net::sse::Item;
use protocol::sanitize::shown;

/// Waits for the first event, which has the URL for requests.
pub(super) async fn endpoint(name: &Arc<str>, base: &Url, stream: &mut EventStream) -> Result<Url, Error> {
    let floods = FloodGuard::new(name, &Closing::default());
    while let Some(item) = floods.next(stream).await? {
        let Item::Event(event) = item else { break };
        if event.name != "endpoint" {
            continue;
        }
        let text = String::from_utf8_lossy(&event.data);
        let url =
            base.join(text.trim()).map_err(|_| handshake::refused("the endpoint it names is no URL"))?;
        return if url.origin() == base.origin() {
            Ok(url)
        } else {
            // Its path could hold a secret.
            let origin = shown(&url.origin().ascii_serialization());
            Err(handshake::refused(&format!(
                "the server names an endpoint at another origin, {origin}, which is not followed; have it name a path \
                 or its public address, or put that address in `url`"
            )))
        };
    }
    Err(handshake::refused("the server's event stream does not begin with an endpoint"))
}
