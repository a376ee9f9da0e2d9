//! Converts one server of a client's file to lines of YAML.
//!
//! Members that the configuration file does not support are left out with a note. If leaving out a part
//! would change the server, such as an argument that is not a string, the whole server is left out.
//!
//! Invariant: no remark quotes a value, because any of them may be a secret.

use std::fmt::Write as _;

use super::bridge;
use super::json::{Json, Members, Unread};
use super::references::{References, TextUsage, Translated};
use super::{filters, secrets, times, yaml};
use settings::one_line;
use upstream::config::is_reserved_header;

/// Members with the URL of a server, the strongest first: Gemini CLI, Windsurf, and all others.
const URLS: [&str; 3] = ["httpUrl", "serverUrl", "url"];
/// Limit of names in one sentence.
const MAX_NAMED: usize = 20;

/// A converted server.
pub(super) struct Draft {
    /// The lines below its name.
    pub(super) yaml: String,
    /// Notes for the user.
    pub(super) remarks: Vec<String>,
    /// The one among them that names secrets.
    pub(super) of_secrets: Option<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Http,
    Sse,
    Stdio,
}

/// Converts the server with these `members`, or says why that is not possible.
pub(super) fn draft(members: &Members, references: &mut References<'_>) -> Result<Draft, String> {
    let direct = bridge::unwrapped(members);
    let members = direct.as_ref().unwrap_or(members);
    let left = members.iter().filter(|(_, value)| *value != Json::Null);
    let left = left.map(|(name, value)| (name.as_str(), value)).collect();
    let mut reader =
        Reader { left, references, yaml: String::new(), remarks: Vec::new(), secrets: Vec::new() };
    if direct.is_some() {
        reader.remarks.push(bridge::REMARK.to_owned());
    }
    reader.all()?;
    let of_secrets = reader.secret_remark();
    reader.remarks.extend(of_secrets.clone());
    reader.say_left();
    Ok(Draft { yaml: reader.yaml, remarks: reader.remarks, of_secrets })
}

/// A server during conversion.
struct Reader<'j, 'r, 'f> {
    left: Unread<'j>,
    references: &'r mut References<'f>,
    yaml: String,
    remarks: Vec<String>,
    /// Places that may contain a literal secret.
    secrets: Vec<String>,
}

impl<'j> Reader<'j, '_, '_> {
    fn take(&mut self, name: &str) -> Option<&'j Json> {
        let at = self.left.iter().position(|(key, _)| *key == name)?;
        Some(self.left.remove(at).1)
    }

    fn has(&self, name: &str) -> bool {
        self.left.iter().any(|(key, _)| *key == name)
    }

    fn all(&mut self) -> Result<(), String> {
        let env = self.left.iter().find(|(name, _)| *name == "env").map(|(_, value)| *value);
        self.references.begin_server(env);
        let kind = self.kind()?;
        self.enabled();
        match self.take("description") {
            Some(Json::Text(text)) => {
                let translated = self.references.translate(text, TextUsage::Prose);
                let text = self.translate_or_note("description", text, translated);
                let _ = writeln!(self.yaml, "    description: {}", yaml::scalar(&text));
            }
            Some(description) => self.line("description", description)?,
            None => {}
        }
        self.times(kind == Kind::Stdio);
        self.yaml.push_str(&filters::take(&mut self.left));
        if kind == Kind::Stdio {
            return self.stdio();
        }
        if kind == Kind::Sse {
            self.yaml.push_str("    transport: sse\n");
        }
        let Some(url) = URLS.iter().find_map(|name| self.take(name)) else {
            return Err("it has no `url`".into());
        };
        self.line("url", url)?;
        self.login();
        self.mapping("headers")
    }

    /// Imports `auth: oauth`. A token in its place stays behind, because clients send it in different ways.
    fn login(&mut self) {
        if self.left.iter().any(|(name, value)| *name == "auth" && value.text() == Some("oauth")) {
            self.take("auth");
            self.yaml.push_str("    auth: oauth\n");
        }
    }

    fn times(&mut self, is_program: bool) {
        let (lines, remarks) = times::take(&mut self.left, is_program);
        self.yaml.push_str(&lines);
        self.remarks.extend(remarks);
    }

    fn stdio(&mut self) -> Result<(), String> {
        let Some(command) = self.take("command") else {
            return Err("it has neither a `command` nor a `url`".into());
        };
        let split = self.split(command);
        if let Some((program, args)) = &split {
            self.line("command", program)?;
            self.arguments(args)?;
        } else {
            self.line("command", command)?;
            self.args()?;
        }
        self.mapping("env")?;
        self.env_file()?;
        self.passed()?;
        self.take("cwd").map_or(Ok(()), |cwd| self.line("cwd", cwd))
    }

    fn env_file(&mut self) -> Result<(), String> {
        let Some(file) = self.take("env_file") else { return Ok(()) };
        if file.text().is_some_and(|file| !file.starts_with(['/', '~', '$'])) {
            self.remarks.push(
                "`env_file`: a relative path begins at the folder of the configuration file here".into(),
            );
        }
        self.line("env_file", file)
    }

    /// Imports the names of variables that the program gets.
    fn passed(&mut self) -> Result<(), String> {
        let items = match self.take("pass_env") {
            None => return Ok(()),
            Some(Json::List(items)) => items,
            Some(other) => return Err(format!("`pass_env` is {}, expected a list", other.kind())),
        };
        let names: Vec<_> = items.iter().filter_map(Json::text).map(str::to_owned).collect();
        if !names.is_empty() {
            let _ = writeln!(self.yaml, "    pass_env: {}", yaml::list(&names));
        }
        Ok(())
    }

    /// Returns the transport: the named one, or one that follows from the members. As in the
    /// configuration file, a URL takes precedence over a command.
    fn kind(&mut self) -> Result<Kind, String> {
        let named = self.take("type").or_else(|| self.take("transport"));
        let Some(named) = named else {
            return Ok(if URLS.iter().any(|name| self.has(name)) { Kind::Http } else { Kind::Stdio });
        };
        let word = named.text().unwrap_or_default();
        match word.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
            "http" | "streamablehttp" => Ok(Kind::Http),
            "sse" => Ok(Kind::Sse),
            "stdio" | "local" => Ok(Kind::Stdio),
            _ if named.text().is_none() => Err(format!("its `type` is {}", named.kind())),
            _ => Err(format!("its type, `{}`, is none of `http`, `sse` and `stdio`", one_line(word))),
        }
    }

    fn enabled(&mut self) {
        let is = |value: Option<&Json>, expected| value == Some(&Json::Bool(expected));
        let (disabled, enabled) = (self.take("disabled"), self.take("enabled"));
        if is(disabled, true) || is(enabled, false) {
            self.yaml.push_str("    enabled: false\n");
        }
        let odd = |value: Option<&Json>| value.is_some_and(|value| !matches!(value, Json::Bool(_)));
        if odd(disabled) || odd(enabled) {
            self.remarks.push("whether it is disabled is not `true` or `false`: it is enabled".into());
        }
    }

    fn line(&mut self, name: &str, value: &Json) -> Result<(), String> {
        let text = self.text(name, value)?;
        let _ = writeln!(self.yaml, "    {name}: {}", yaml::scalar(&text));
        if name == "url" {
            self.judge("url", !secrets::parts("", value.text().unwrap_or_default()).is_empty());
        }
        Ok(())
    }

    /// Returns the program and the arguments of a `command` that is a whole line, as links and some clients have it.
    fn split(&mut self, command: &Json) -> Option<(Json, Vec<Json>)> {
        let has_args = |(name, value): &(&str, &Json)| *name == "args" && **value != Json::List(Vec::new());
        let text = command.text().filter(|_| !self.left.iter().any(has_args))?;
        let is_line =
            text.split_once(char::is_whitespace).is_some_and(|(first, _)| !first.contains(['/', '\\']));
        let mut words = shlex::split(text).filter(|_| is_line)?.into_iter().map(Json::Text);
        let program = words.next()?;
        self.take("args");
        self.remarks.push("`command` is a line: it is split into the program and its arguments".into());
        Some((program, words.collect()))
    }

    fn args(&mut self) -> Result<(), String> {
        match self.take("args") {
            None => Ok(()),
            Some(Json::List(items)) => self.arguments(items),
            Some(other) => Err(format!("`args` is {}, expected a list", other.kind())),
        }
    }

    fn arguments(&mut self, items: &[Json]) -> Result<(), String> {
        let mut args = Vec::new();
        let mut option = ""; // the argument before
        for (at, item) in items.iter().enumerate() {
            let path = format!("args[{at}]");
            args.push(self.argument(&path, item, is_before_script(option))?);
            let text = item.text().unwrap_or_default();
            self.judge(&path, !secrets::in_argument(option, text).is_empty());
            option = if text.starts_with('-') && !text.contains('=') { text } else { "" };
        }
        if !args.is_empty() {
            let _ = writeln!(self.yaml, "    args: {}", yaml::list(&args));
        }
        Ok(())
    }

    /// Converts `env` or `headers`.
    fn mapping(&mut self, name: &str) -> Result<(), String> {
        let members = match self.take(name) {
            None => return Ok(()),
            Some(Json::Object(members)) => members,
            Some(other) => return Err(format!("`{name}` is {}, expected an object", other.kind())),
        };
        let mut lines = String::new();
        for (key, value) in members {
            let path = format!("{name}.{}", one_line(key));
            if name == "headers" && is_reserved_header(key) {
                self.remarks.push(format!("`{path}` is left out: the protocol sets this header"));
            } else if *value == Json::Null {
                self.remarks.push(format!("`{path}` is left out: it is null"));
            } else {
                let text = self.text(&path, value)?;
                let _ = writeln!(lines, "      {}: {}", yaml::key(key), yaml::quoted(&text));
                self.judge(&path, !secrets::parts(key, value.text().unwrap_or_default()).is_empty());
            }
        }
        if !lines.is_empty() {
            let _ = write!(self.yaml, "    {name}:\n{lines}");
        }
        Ok(())
    }

    /// Converts a string for the output. Numbers and booleans become strings, as they would for a
    /// program.
    fn text(&mut self, path: &str, value: &Json) -> Result<String, String> {
        let text = match value {
            Json::Text(text) => text,
            Json::Number(number) => return Ok(number.clone()),
            Json::Bool(value) => return Ok(value.to_string()),
            _ => return Err(format!("`{path}` is {}, expected a text", value.kind())),
        };
        let translated = self.references.translate(text, TextUsage::Value);
        Ok(self.translate_or_note(path, text, translated))
    }

    /// Converts a string of `args`, which may be a script of a shell.
    fn argument(&mut self, path: &str, value: &Json, is_script: bool) -> Result<String, String> {
        let Json::Text(text) = value else { return self.text(path, value) };
        let usage = if is_script { TextUsage::Script } else { TextUsage::Argument };
        let translated = self.references.translate(text, usage);
        Ok(self.translate_or_note(path, text, translated))
    }

    /// Returns the text of `translated`, and adds notes about its references.
    fn translate_or_note(&mut self, path: &str, text: &str, translated: Translated) -> String {
        for name in &translated.left_to_program {
            let reason = "the program expands it, from its `env`";
            self.remarks.push(format!("`{path}`: `${{{}}}` stays as it is: {reason}", one_line(name)));
        }
        for name in &translated.inactive_secrets {
            let reason = "a file of others reads no secret of the vault; write it yourself if that is meant";
            self.remarks.push(format!("`{path}`: `${{{}}}` is a text here: {reason}", one_line(name)));
        }
        for name in &translated.bare {
            let advice = format!("write `$${name}` if it is a text");
            self.remarks.push(format!("`{path}`: `${name}` is read as the variable `${{{name}}}`; {advice}"));
        }
        for name in &translated.lost_defaults {
            let reason = "a default that holds a dollar sign cannot be written here";
            self.remarks.push(format!("`{path}`: the default of `{}` is left out: {reason}", one_line(name)));
        }
        if text == "~" || text.starts_with("~/") {
            self.remarks.push(format!("`{path}`: the `~` at its beginning is the home folder here"));
        }
        translated.text
    }

    /// Notes the place of a secret.
    fn judge(&mut self, path: &str, is_secret: bool) {
        self.secrets.extend(is_secret.then(|| path.to_owned()));
    }

    fn secret_remark(&self) -> Option<String> {
        let advice = "set a variable of the environment to it, and write `${NAME}` there; or run `switchyard secret set \
                      NAME`, and write `${secret:NAME}`";
        let what = names(self.secrets.iter().map(String::as_str));
        (!self.secrets.is_empty()).then(|| format!("may hold a secret, as it is written: {what}: {advice}"))
    }

    fn say_left(&mut self) {
        if !self.left.is_empty() {
            let what = names(self.left.iter().map(|(name, _)| *name));
            self.remarks.push(format!("not taken over: {what}"));
        }
    }
}

/// Formats `` `a`, `b` `` and the number of further names.
pub(super) fn names<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let more = names.len().saturating_sub(MAX_NAMED);
    let shown: Vec<_> = names.take(MAX_NAMED).map(|name| format!("`{}`", one_line(name))).collect();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", shown.join(", "))
}

/// Whether the argument after `option` is a script, as after `sh -c` and `bash -lc`.
fn is_before_script(option: &str) -> bool {
    option.ends_with('c') && option.starts_with('-') && !option.starts_with("--")
}
