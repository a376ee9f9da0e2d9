//! The name in the certificate of a client: the key of `client_roles`.
//!
//! Invariants: the name is the first URI among the subject alternative names, else the first DNS name, else the first
//! e-mail address, else the only common name. It begins with its kind, so that a name of one kind never stands for
//! another: an authority may check DNS names and not common names. An empty, overlong or unprintable name is none.
//!
//! Not here: whether the certificate is good, which the handshake has checked before.

use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The longest name in bytes: it is a key of maps and is logged.
const MAX_NAME_BYTES: usize = 256;

/// Returns the name of the client with the certificate `der`.
pub(super) fn name_in(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let alternative = certificate.subject_alternative_name().ok()?;
    let names = alternative.map(|found| found.value.general_names.as_slice()).unwrap_or_default();
    let first = |kind: &'static str, of: fn(&GeneralName<'_>) -> Option<String>| {
        names.iter().find_map(of).map(|name| (kind, name))
    };
    let name = first("uri:", uri).or_else(|| first("dns:", dns)).or_else(|| first("email:", email));
    let (kind, name) = name.or_else(|| Some(("cn:", common_name(&certificate)?)))?;
    let fits = (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control);
    fits.then(|| format!("{kind}{name}"))
}

/// The kinds of names, as a name in `client_roles` begins with one.
pub(super) const KINDS: [&str; 4] = ["dns:", "email:", "uri:", "cn:"];

/// Returns `name` with the kind that it most likely has, for a hint.
pub(super) fn with_kind(name: &str) -> String {
    let kind = if name.contains("://") {
        "uri:"
    } else if name.contains('@') {
        "email:"
    } else if name.contains('.') && !name.contains(' ') {
        "dns:"
    } else {
        "cn:"
    };
    format!("{kind}{name}")
}

fn uri(name: &GeneralName<'_>) -> Option<String> {
    if let GeneralName::URI(text) = name { Some((*text).to_owned()) } else { None }
}

fn dns(name: &GeneralName<'_>) -> Option<String> {
    if let GeneralName::DNSName(text) = name { Some((*text).to_owned()) } else { None }
}

fn email(name: &GeneralName<'_>) -> Option<String> {
    if let GeneralName::RFC822Name(text) = name { Some((*text).to_owned()) } else { None }
}

/// Which one of several names counts is not defined, so several are none.
fn common_name(certificate: &X509Certificate<'_>) -> Option<String> {
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?.to_owned();
    names.next().is_none().then_some(name)
}
