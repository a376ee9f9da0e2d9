//! The environment of a child process, and the lookup of its program.
//!
//! A server needs to find programs, its home and the user's language, but not the credentials of Switchyard. It
//! therefore gets the variables of [`PASSED_ON`] and those in its configuration, and no others. Not here: a shell. The
//! command is a program, the arguments are arguments.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use secrecy::ExposeSecret;

use crate::config::Stdio;
use runtime::regular_file::explained;

/// The variables that every child inherits if they are set. It also inherits those that begin with `LC_`.
const PASSED_ON: [&str; 10] =
    ["HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// Words in the output of programs that could not reach the network.
const NETWORK_FAILURES: [&str; 6] =
    ["ENOTFOUND", "ETIMEDOUT", "ECONNREFUSED", "EAI_AGAIN", "Network is unreachable", "name resolution"];

/// Words in the output of programs that do not trust the certificate of a service.
const CERTIFICATE_FAILURES: [&str; 9] = [
    "UnknownIssuer",
    "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
    "UNABLE_TO_GET_ISSUER_CERT",
    "SELF_SIGNED_CERT",
    "CERTIFICATE_VERIFY_FAILED",
    "unable to get local issuer certificate",
    "self-signed certificate",
    "self signed certificate",
    "signed by unknown authority",
];
/// Variables with which programs trust further authorities.
pub const CERTIFICATE_VARIABLES: [&str; 5] =
    ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];

/// Advice for a path that begins with `~`.
const TILDE: &str = "; no shell replaces `~`, so write `${HOME}`";
/// The search path if `PATH` is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Returns the whole environment of the child: the allowed part of `ours`, and the configured variables.
pub(super) fn of(
    config: &Stdio,
    ours: impl Iterator<Item = (OsString, OsString)>,
) -> BTreeMap<OsString, OsString> {
    let configured = config.env.iter().map(|(name, value)| (name.into(), value.expose_secret().into()));
    ours.filter(|(name, value)| passes(config, name, value)).chain(configured).collect()
}

fn passes(config: &Stdio, name: &OsStr, value: &OsStr) -> bool {
    let is_named = |name: &str| config.pass_env.iter().any(|passed| passed == name);
    let is_usual = |name: &str| PASSED_ON.contains(&name) || name.starts_with("LC_");
    let allowed = name.to_str().is_some_and(|name| is_usual(name) || is_named(name));
    // Exported shell functions are code, not values.
    allowed && !value.as_encoded_bytes().starts_with(b"()")
}

/// Finds the file to execute for the command of `config`. The error says how to fix the command.
///
/// The error does not contain the command, because it may come from a variable with a secret value.
pub(super) fn program(config: &Stdio, environment: &BTreeMap<OsString, OsString>) -> Result<PathBuf, String> {
    let command = config.command.as_str();
    if let Some(folder) = config.cwd.as_deref().filter(|folder| !folder.is_dir()) {
        let denied = folder.metadata().err().filter(|error| error.kind() == ErrorKind::PermissionDenied);
        let denied =
            denied.map(|error| format!("its `cwd`: {}", explained(error, "enter the folders above it")));
        return Err(denied.unwrap_or_else(|| {
            let advice = if folder.starts_with("~") { TILDE } else { "" };
            format!("its `cwd` is not a folder{advice}")
        }));
    }
    let found = if command.contains('/') {
        let path = config.cwd.as_deref().unwrap_or(Path::new("")).join(command);
        match path.metadata() {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(explained(error, "enter its folders").to_string());
            }
            found => found.is_ok().then_some(path),
        }
    } else {
        let search = environment.get(OsStr::new("PATH")).cloned().unwrap_or_else(|| DEFAULT_PATH.into());
        std::env::split_paths(&search).map(|folder| folder.join(command)).find(|path| is_program(path))
    };
    let Some(path) = found else { return Err(advice(command)) };
    if is_program(&path) {
        // The child may run in another folder, where a relative path would mean another file.
        std::path::absolute(path).map_err(|error| error.to_string())
    } else if path.is_file() {
        Err("permission denied: it has no execute permission; `chmod +x` sets it".into())
    } else {
        Err("it is a folder and no program".into())
    }
}

/// Says how to fix a command that was not found.
fn advice(command: &str) -> String {
    if command.contains(char::is_whitespace) {
        "there is no such program; `command` is the program alone, put the rest into `args`".into()
    } else if command.contains('/') {
        format!("there is no such file{}", if command.starts_with('~') { TILDE } else { "" })
    } else {
        "it is not in PATH; install it, or write its full path as `command`".into()
    }
}

/// Recommends passing on the proxy variable of this process, if the child failed in the network without it.
pub(super) fn proxy_advice(config: &Stdio, reason: &str, proxy: Option<&str>) -> String {
    let failed_in_network = NETWORK_FAILURES.iter().any(|word| reason.contains(word));
    match proxy.filter(|name| failed_in_network && !gets(config, name)) {
        Some(name) => {
            format!("; {name} is set here, and the program does not get it; add `pass_env: [{name}]`")
        }
        None => String::new(),
    }
}

/// Recommends a variable for further authorities, if the child does not trust the certificate of a service. `is_set` says
/// whether a variable is set in the environment of this process.
pub(super) fn certificate_advice(config: &Stdio, reason: &str, is_set: impl Fn(&str) -> bool) -> String {
    if !CERTIFICATE_FAILURES.iter().any(|word| reason.contains(word)) {
        return String::new();
    }
    let missing: Vec<_> =
        CERTIFICATE_VARIABLES.into_iter().filter(|name| is_set(name) && !gets(config, name)).collect();
    if missing.is_empty() {
        return "; the program does not trust the authority of a certificate: name a PEM file with it in \
                NODE_EXTRA_CA_CERTS (Node.js), REQUESTS_CA_BUNDLE or SSL_CERT_FILE (others) under `env`"
            .into();
    }
    let verb = if missing.len() == 1 { "is" } else { "are" };
    let names = missing.join(", ");
    format!("; {names} {verb} set here, and the program does not get it; add `pass_env: [{names}]`")
}

fn gets(config: &Stdio, name: &str) -> bool {
    config.env.contains_key(name) || config.pass_env.iter().any(|passed| passed == name)
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(command: &str) -> Stdio {
        Stdio {
            command: command.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            pass_env: Vec::new(),
            cwd: None,
        }
    }

    #[test]
    fn a_child_sees_the_allowed_part_of_our_environment_and_its_own() {
        let ours = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("HOME", "() { :; }"),
            ("SWITCHYARD_TOKEN", "secret"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("LD_PRELOAD", "x.so"),
            ("HTTPS_PROXY", "http://proxy"),
            ("NO_PROXY", "() { :; }"),
        ];
        let mut config = config("x");
        config.env.insert("API_KEY".into(), "key".into());
        config.env.insert("LC_ALL".into(), "en_US.UTF-8".into());
        let environment = of(&config, ours.iter().map(|(name, value)| (name.into(), value.into())));
        let expected = [("API_KEY", "key"), ("LC_ALL", "en_US.UTF-8"), ("PATH", "/bin")];
        assert_eq!(environment, expected.iter().map(|(name, value)| (name.into(), value.into())).collect());
        config.pass_env = ["HTTPS_PROXY", "NO_PROXY", "API_KEY", "NOT_THERE"].map(str::to_owned).into();
        let environment = of(&config, ours.iter().map(|(name, value)| (name.into(), value.into())));
        let passed = expected.iter().chain(&[("HTTPS_PROXY", "http://proxy")]);
        assert_eq!(environment, passed.map(|(name, value)| (name.into(), value.into())).collect());
    }

    #[test]
    fn a_proxy_variable_that_is_not_passed_on_is_named_after_a_network_failure() {
        let (failed, proxy) = ("npm error code ENOTFOUND", Some("HTTPS_PROXY"));
        let advice = proxy_advice(&config("npx"), failed, proxy);
        assert!(advice.ends_with("add `pass_env: [HTTPS_PROXY]`"), "{advice}");
        assert_eq!(proxy_advice(&config("npx"), failed, None), "");
        assert_eq!(proxy_advice(&config("npx"), "no such module", proxy), "");
        let passed = Stdio { pass_env: vec!["HTTPS_PROXY".into()], ..config("npx") };
        assert_eq!(proxy_advice(&passed, failed, proxy), "");
    }

    #[test]
    fn variables_for_authorities_are_named_after_a_certificate_failure() {
        let advice = |failure: &str, config: &Stdio, set: &[&str]| {
            certificate_advice(config, failure, |name| set.contains(&name))
        };
        for failure in [
            "npm error code UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
            "Error: self-signed certificate in certificate chain",
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed",
            "invalid peer certificate: UnknownIssuer",
            "x509: certificate signed by unknown authority",
        ] {
            let set = ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"];
            let some = advice(failure, &config("npx"), &set);
            assert!(some.ends_with("`pass_env: [NODE_EXTRA_CA_CERTS, SSL_CERT_FILE]`"), "{some}");
            assert!(advice(failure, &config("npx"), &[]).contains("under `env`"), "{failure}");
            let passed = Stdio { pass_env: set.map(str::to_owned).into(), ..config("npx") };
            assert!(advice(failure, &passed, &set).contains("under `env`"), "{failure}");
        }
        assert_eq!(advice("no such module", &config("npx"), &["SSL_CERT_FILE"]), "");
    }

    #[test]
    fn a_command_that_cannot_run_comes_with_advice() {
        let environment = [("PATH".into(), "/usr/bin:/bin".into())].into();
        let reason = |config: &Stdio| program(config, &environment).expect_err("cannot run");
        assert!(reason(&config("no-such-program")).contains("not in PATH"));
        assert!(reason(&config("sh -c true")).contains("`args`"));
        assert!(reason(&config("npx -y @scope/server")).contains("`args`"));
        assert!(reason(&config("/no/such/file")).contains("no such file"));
        assert!(reason(&config("/etc/passwd")).contains("execute permission"));
        assert!(reason(&config("~/bin/server")).contains("`${HOME}`"));
        for (folder, is_tilde) in [("/no/such/folder", false), ("~/servers", true)] {
            let reason = reason(&Stdio { cwd: Some(folder.into()), ..config("sh") });
            assert!(reason.contains("`cwd`") && reason.contains("`${HOME}`") == is_tilde, "{reason}");
        }
        assert!(program(&config("sh"), &environment).expect("every system has one").is_absolute());
        let relative = Stdio { cwd: Some("/bin".into()), ..config("./sh") };
        assert_eq!(program(&relative, &environment), Ok("/bin/./sh".into()));
    }
}
