//! The servers that can have a URI, and the URI there.

use std::sync::Arc;

/// A resource as its server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerResource {
    /// The server's name.
    pub server: Arc<str>,
    /// The URI there.
    pub uri: String,
}

/// The servers that can have a URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UriServers {
    /// One server, which lists the URI or has a matching template.
    Listed(ServerResource),
    /// No server lists it; these may have it, the most likely first.
    Guessed(Vec<ServerResource>),
    /// Several servers have it; the URIs that are not ambiguous.
    Ambiguous(Vec<String>),
}

impl UriServers {
    /// Whether no server lists the URI.
    pub(crate) const fn are_guessed(&self) -> bool {
        matches!(self, Self::Guessed(_))
    }

    /// Returns those places that `is_wanted`. A place that is not wanted is none.
    pub(crate) fn only(self, is_wanted: impl Fn(&ServerResource) -> bool) -> Self {
        match self {
            Self::Listed(place) if !is_wanted(&place) => Self::Guessed(Vec::new()),
            Self::Guessed(places) => Self::Guessed(places.into_iter().filter(is_wanted).collect()),
            known => known,
        }
    }

    /// Returns the places of the URI without `end`.
    pub(crate) fn without_end(self, end: &str) -> Self {
        let cut = |uri: String| uri.strip_suffix(end).map_or_else(|| uri.clone(), str::to_owned);
        let at = |place: ServerResource| ServerResource { uri: cut(place.uri), ..place };
        match self {
            Self::Listed(place) => Self::Listed(at(place)),
            Self::Guessed(places) => Self::Guessed(places.into_iter().map(at).collect()),
            Self::Ambiguous(uris) => Self::Ambiguous(uris.into_iter().map(cut).collect()),
        }
    }

    /// The servers to be asked, best first; the error has the URIs that are not ambiguous.
    pub(crate) fn into_vec(self) -> Result<Vec<ServerResource>, Vec<String>> {
        match self {
            Self::Listed(place) => Ok(vec![place]),
            Self::Guessed(places) => Ok(places),
            Self::Ambiguous(candidates) => Err(candidates),
        }
    }
}
