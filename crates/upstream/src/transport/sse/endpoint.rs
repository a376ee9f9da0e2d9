//! The first event of a stream, which has the URL for requests.

use std::sync::Arc;

use url::Url;

use crate::close_reason::Closing;
use crate::error::Error;
use crate::transport::flood_guard::FloodGuard;
use crate::transport::handshake;
use net::http::EventStream;
use net::sse::Item;

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
            Err(handshake::refused("the server names an endpoint at another origin, which is not followed"))
        };
    }
    Err(handshake::refused("the server's event stream does not begin with an endpoint"))
}
