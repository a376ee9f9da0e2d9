//! Literal secrets in the settings of a server, found by their names and their forms.
//!
//! Invariant: a reference to a variable is no secret, and neither is the text around it.

use std::ops::Range;

use super::references::has_reference;

/// Parts of the names of settings whose values are secret.
const WORDS: [&str; 8] = ["key", "token", "secret", "passw", "pwd", "auth", "credential", "cookie"];
/// Beginnings of the tokens of well-known services.
const BEGINNINGS: [&str; 27] = [
    "AIza",
    "AKIA",
    "ATATT3",
    "dop_v1_",
    "eyJ",
    "figd_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "glsa_",
    "gsk_",
    "hf_",
    "lin_api_",
    "npm_",
    "ntn_",
    "pk_live_",
    "pplx-",
    "rk_live_",
    "shpat_",
    "sk-",
    "sk_live_",
    "tvly-",
    "xapp-",
    "xox",
];
/// Words before the credential in a header.
const SCHEMES: [&str; 3] = ["Bearer ", "Basic ", "Token "];

/// Whether a setting with this name is likely to be secret.
pub(crate) fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

/// Returns the parts of `value`, the value of `name`, that are secrets, from left to right.
pub(crate) fn parts(name: &str, value: &str) -> Vec<Range<usize>> {
    if value.contains("://") {
        return in_urls(value);
    }
    let whole = |from: usize| std::iter::once(from..value.len()).collect();
    if let Some((header, credential)) = value.split_once(':').filter(|(header, _)| is_header(header)) {
        let blanks = credential.len() - credential.trim_start().len();
        return parts_of(header, credential.trim_start(), header.len() + 1 + blanks);
    }
    if looks_secret(value) && !has_reference(value) {
        return whole(0);
    }
    let in_fields = in_fields(value);
    if in_fields.is_empty() { parts_of(name, value, 0) } else { in_fields }
}

/// Returns the parts of an argument after `option` that are secrets. It may be an option with its value.
pub(crate) fn in_argument(option: &str, text: &str) -> Vec<Range<usize>> {
    let is_name = |name: &str| !name.contains("://") && !name.contains([':', ';', ' ']);
    match text.split_once('=').filter(|(name, _)| is_name(name)) {
        Some((name, value)) => {
            let at = name.len() + 1;
            let found = parts(name, value).into_iter();
            found.map(|part| part.start + at..part.end + at).collect()
        }
        None => parts(option, text),
    }
}

/// The whole of `value` without the scheme before it, if `name` sounds secret. `at` is where `value` begins.
fn parts_of(name: &str, value: &str, at: usize) -> Vec<Range<usize>> {
    let scheme = SCHEMES
        .iter()
        .find(|scheme| value.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme)));
    let from = scheme.map_or(0, |scheme| scheme.len());
    let is_secret = sounds_secret(name) && is_literal(&value[from..]) && !is_path(value);
    is_secret.then_some(at + from..at + value.len()).into_iter().collect()
}

/// Whether the text before a colon is the name of a header with a credential.
fn is_header(text: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    !text.is_empty() && text.chars().all(is_of_name) && sounds_secret(text)
}

/// Whether `value` begins as the tokens of well-known services do.
fn looks_secret(value: &str) -> bool {
    value.len() > 8 && BEGINNINGS.iter().any(|beginning| value.starts_with(beginning))
}

/// Whether `value` is a non-empty literal without references.
fn is_literal(value: &str) -> bool {
    let is_setting = matches!(value, "true" | "false" | "none")
        || value.bytes().all(|byte| byte.is_ascii_digit())
        || value.starts_with('-');
    !is_setting && !has_reference(value)
}

fn is_path(value: &str) -> bool {
    ["~/", "./", "../"].iter().any(|begin| value.starts_with(begin))
        || value.strip_prefix('/').is_some_and(|rest| rest.contains('/'))
}

/// Passwords in the fields of a connection string, as in `Server=a;Password=b`.
fn in_fields(value: &str) -> Vec<Range<usize>> {
    let (mut at, mut found) = (0, Vec::new());
    for field in value.split_inclusive(';') {
        let text = field.trim_end_matches(';');
        if let Some((name, secret)) = text.split_once('=') {
            let begin = at + name.len() + 1;
            let is_password = ["password", "pwd"].iter().any(|word| name.trim().eq_ignore_ascii_case(word));
            if is_password && !secret.is_empty() && is_literal(secret) {
                found.push(begin..begin + secret.len());
            }
        }
        at += field.len();
    }
    found
}

/// Passwords and values of queries in the URLs of a text.
fn in_urls(value: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (at, _) in value.match_indices("://") {
        let begin = at + "://".len();
        // Another URL in this one is read by itself.
        let rest = &value[begin..];
        let rest = &rest[..rest.find("://").unwrap_or(rest.len())];
        let url =
            &rest[..rest.find(|c: char| c.is_whitespace() || "\"'`<>".contains(c)).unwrap_or(rest.len())];
        let authority = &url[..url.find(['/', '?', '#']).unwrap_or(url.len())];
        if let Some((user, _)) = authority.rsplit_once('@') {
            let password = user.split_once(':');
            let (from, secret) = password.map_or((0, user), |(name, password)| (name.len() + 1, password));
            // A user without a password may be a token.
            if !secret.is_empty() && !has_reference(secret) && (password.is_some() || looks_secret(secret)) {
                found.push(begin + from..begin + from + secret.len());
            }
        }
        let query = url.split_once('?').map(|(before, query)| (begin + before.len() + 1, query));
        let query = query.map(|(at, query)| (at, query.split('#').next().unwrap_or_default()));
        let (mut at, query) = query.unwrap_or_default();
        for pair in query.split('&') {
            if let Some((name, secret)) = pair.split_once('=')
                && (sounds_secret(name) || looks_secret(secret))
                && !secret.is_empty()
                && is_literal(secret)
            {
                found.push(at + name.len() + 1..at + pair.len());
            }
            at += pair.len() + 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_by_name_and_by_form_and_references_are_none() {
        for (name, value, expected) in [
            ("--api-key", "canary", "[]"),
            ("API_TOKEN", "canary", "[]"),
            ("Authorization", "Bearer canary", "Bearer []"),
            ("--header", "Authorization: Bearer canary", "Authorization: Bearer []"),
            ("--header", "X-Team: red", "X-Team: red"),
            ("", "postgresql://me:canary@db/x", "postgresql://me:[]@db/x"),
            ("", "postgresql://me:p@canary@db:5432", "postgresql://me:[]@db:5432"),
            ("", "postgresql://me:${PASSWORD}@db/x", "postgresql://me:${PASSWORD}@db/x"),
            (
                "",
                "https://a/mcp?x=1&token=canary&api_key=canary#f",
                "https://a/mcp?x=1&token=[]&api_key=[]#f",
            ),
            ("", "https://a/mcp?token=${TOKEN}", "https://a/mcp?token=${TOKEN}"),
            ("", "https://a,https://b/?token=canary", "https://a,https://b/?token=[]"),
            ("", "https://p/https://me:canary@b/?api_key=canary", "https://p/https://me:[]@b/?api_key=[]"),
            ("", "https://ghp_canarycanary@a/b.git", "https://[]@a/b.git"),
            ("AUTH_URL", "https://a/login", "https://a/login"),
            ("", "Server=a;Password=canary;Encrypt=true", "Server=a;Password=[];Encrypt=true"),
            ("", "ghp_canarycanary", "[]"),
            ("MAX_TOKENS", "4096", "4096"),
            ("API_KEY", "${API_KEY}", "${API_KEY}"),
            ("API_KEY", "", ""),
            ("--private-key", "/home/me/key.pem", "/home/me/key.pem"),
            ("--verbose", "canary", "canary"),
        ] {
            let mut shown = value.to_owned();
            for part in parts(name, value).into_iter().rev() {
                shown.replace_range(part, "[]");
            }
            assert_eq!(shown, expected, "{name} {value}");
        }
    }
}
