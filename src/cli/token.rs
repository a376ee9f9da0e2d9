//! `switchyard token`: signs a JSON Web Token as the configured issuer would.
//!
//! For an instance that is its own issuer (a shared secret), and for tests. If only a public key is
//! configured, the command line names the private key, which is read for this one signature.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use secrecy::ExposeSecret;

use super::Token;
use super::error::CommandError;
use auth::{Grant, Signer};

/// Limit of the size of a private key, in bytes.
const MAX_KEY_BYTES: u64 = 64 * 1024;
/// The longest lifetime of a token.
const MAX_LIFETIME: Duration = Duration::from_hours(365 * 24);

/// Makes the token and writes it on its own line.
pub(super) fn run(token: &Token, out: &mut dyn Write) -> Result<(), CommandError> {
    print(&token.file.load()?.server.auth, token, out)
}

fn print(config: &auth::Config, token: &Token, out: &mut dyn Write) -> Result<(), CommandError> {
    let not_in_use = "tokens are not in use here: `server.auth_mode` is neither `jwt` nor `any`";
    let jwt = config.tokens().ok_or_else(|| CommandError::Refused(not_in_use.to_owned()))?;
    let private_key = token.private_key.as_deref().map(read).transpose()?;
    let signer = Signer::new(jwt, private_key.as_deref(), token.kid.as_deref())?;
    let grant = Grant { subject: &token.sub, role: token.role, lifetime: token.ttl };
    let token = signer.sign(&grant, SystemTime::now())?;
    Ok(writeln!(out, "{}", token.expose_secret())?)
}

fn read(path: &Path) -> Result<Vec<u8>, CommandError> {
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_KEY_BYTES).read_to_end(&mut content));
    let failed = |reason| CommandError::Refused(format!("cannot read {}: {reason}", path.display()));
    read.map(|_| content).map_err(failed)
}

/// Parses `--ttl`: a number and a unit, such as `90s`, `30m`, `1h` or `7d`.
pub(crate) fn parse_lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = settings::parse_duration(text);
    let lifetime = lifetime.filter(|time| *time >= Duration::from_secs(1) && *time <= MAX_LIFETIME);
    lifetime.ok_or_else(|| "expected a time such as 90s, 30m, 1h or 7d, at most 365d".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ConfigFile;
    use crate::config::Config;
    use auth::Role;

    const FILE: &str = "server:\n  auth_mode: jwt\n  jwt:\n    issuer: switchyard\n    audience: switchyard\n    \
                        algorithm: HS256\n    secret: 0123456789abcdef0123456789abcdef\n";

    fn request() -> Token {
        Token {
            file: ConfigFile { config: "mcp_servers.yaml".into(), is_default: false },
            sub: "alice".into(),
            role: Role::Superuser,
            ttl: Duration::from_hours(1),
            private_key: None,
            kid: None,
        }
    }

    fn config(file: &str) -> auth::Config {
        let absent = |_: &str| Err(std::env::VarError::NotPresent);
        Config::parse(Path::new("mcp_servers.yaml"), file.as_bytes(), &absent).expect("valid").server.auth
    }

    #[test]
    fn unsignable_token_is_reported() {
        let error = |config: &auth::Config, request: &Token| {
            print(config, request, &mut Vec::new()).expect_err("refused").to_string()
        };
        assert!(error(&config(""), &request()).contains("auth_mode"));
        let missing = Token { private_key: Some("no-such-file".into()), ..request() };
        assert!(error(&config(FILE), &missing).contains("no-such-file"));
        let nobody = Token { sub: String::new(), ..request() };
        assert!(error(&config(FILE), &nobody).contains("would not be accepted"));
    }

    #[test]
    fn lifetimes_have_a_unit() {
        for (text, seconds) in
            [("90s", 90), ("30m", 1_800), ("1h", 3_600), ("365d", 31_536_000), ("1.5h", 5_400)]
        {
            assert_eq!(parse_lifetime(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "h", "1", "0s", "500ms", "-1h", "1 h", "366d", "99999999999999999999d", "1ü"] {
            assert!(parse_lifetime(text).is_err(), "{text}");
        }
    }
}
