//! `switchyard key new`: prints a new API key, only once, and the lines of the configuration file that
//! accept it.
//!
//! Invariant: only the hash is meant to be stored. The output is YAML, with the key in a comment.

use std::io::{self, Write};

use secrecy::ExposeSecret;

use auth::Role;

/// Makes a key with the name `id`, or with a random name.
pub(crate) fn new(id: Option<&str>, role: Role, out: &mut dyn Write) -> io::Result<()> {
    let id = id.map_or_else(random_id, str::to_owned);
    let (key, hash) = auth::generate(&id);
    write!(
        out,
        "# The key, shown this once. Send it as `Authorization: Bearer <key>` or `X-API-Key: <key>`:\n\
         #   {}\n\
         # Lines for the configuration file; a second key is a second item of `api_keys`:\n\
         server:\n\
         \x20 auth_mode: api_key\n\
         \x20 api_keys:\n\
         \x20   - id: \"{id}\"\n\
         \x20     hash: {hash}\n\
         \x20     role: {role}\n",
        key.expose_secret(),
    )
}

fn random_id() -> String {
    format!("key-{:06x}", rand::random::<u32>() & 0x00ff_ffff)
}

/// Parses `--id`; the error describes a valid id.
pub(crate) fn parse_id(text: &str) -> Result<String, String> {
    let fits = auth::is_id(text);
    fits.then(|| text.to_owned()).ok_or_else(|| "lower-case letters, digits and `-`, at most 64".into())
}

/// Parses `--role`; the error lists the roles.
pub(crate) fn parse_role(text: &str) -> Result<Role, String> {
    Role::from_name(text).ok_or_else(|| "expected `reader`, `caller` or `superuser`".into())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use http::HeaderMap;

    use super::*;
    use crate::config::Config;
    use auth::{Authenticator, Principal};

    #[test]
    fn printed_configuration_authenticates_the_printed_key() {
        for (id, role) in [(Some("ci"), Role::Reader), (Some("123"), Role::Caller), (None, Role::Superuser)] {
            let mut printed = Vec::new();
            new(id, role, &mut printed).expect("written");
            let config = Config::parse(Path::new("mcp_servers.yaml"), &printed, &|_| {
                Err(std::env::VarError::NotPresent)
            });
            let config = config.expect("valid");
            let text = String::from_utf8(printed).expect("text");
            let key = text.lines().find_map(|line| line.strip_prefix("#   ")).expect("the key");
            let headers =
                HeaderMap::from_iter([("x-api-key".parse().expect("a name"), key.parse().expect("a value"))]);
            let who = Authenticator::new(&config.server.auth).expect("no files").authenticate(&headers);
            let id = key.strip_prefix("swy_").and_then(|rest| rest.split_once('_')).expect("the form").0;
            assert_eq!(who, Ok(Principal::new(format!("key:{id}"), role)));
            assert_eq!(text.matches(key).count(), 1);
        }
    }
}
