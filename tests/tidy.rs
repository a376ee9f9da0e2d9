//! What the compiler does not check: floors, file heads and lengths, and no trace of one machine.
//!
//! It reads lines, not a syntax tree: it finds paths that begin with `crate::`, `std::` or `tokio::`
//! outside comments, which is all that the rules are about.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file imports only floors below its own and its own module (see `ARCHITECTURE.md`). `main`
/// stands on the command line, hence one above it.
const FLOORS: &[(usize, &[&str])] = &[
    (9, &["main"]),
    (8, &["cli"]),
    (7, &["app"]),
    (6, &["config"]),
    (5, &["downstream", "admin"]),
    (4, &["gateway"]),
    (3, &["manager"]),
    (2, &["upstream"]),
    (1, &["wire", "auth", "memory", "store", "telemetry", "shutdown", "worker"]),
    (0, &["hex", "protocol", "regular_file", "secret", "settings"]),
];

/// `protocol` is a function of its arguments: no runtime, no clock, no sockets, no files.
const IMPURE: &[&str] = &["time", "net", "fs", "thread", "process", "env"];

const MAX_LINES: usize = 400;

/// The rules for failure and attack that have a figure. Each is found at its tests by `// RULES` and its id.
const RULES: &str = "S1 S2 S5 S6 S7 S8 S9 S10 S11 S12 S13 S15 S16 S17 S18 S19 S20 S21 S22 S24 S25 S26 S27 S28 \
    R1 R2 R3 R6 R7 R8 R9 R10 R11 R12 R13 R14 R16 R17 R18 R19 R20 R21 R24 R25 R26 R27 R28 R32 G1 G5";

/// Spelled in two parts, or this file would be the first to break the rule.
const MACHINE: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("artif", "actory"),
    concat!("registry.np", "mjs"),
    concat!("python", "hosted"),
    concat!("index.cra", "tes.io"),
];

#[test]
fn every_file_says_what_it_is_for_and_fits_in_a_head() {
    complain(sources().iter().filter_map(|source| {
        let lines = source.text.lines().count();
        if !source.text.starts_with("//!") {
            return Some(format!("{}: does not start with `//!`", source.name()));
        }
        (lines > MAX_LINES).then(|| format!("{}: {lines} lines, at most {MAX_LINES}", source.name()))
    }));
}

#[test]
fn a_module_imports_only_floors_below_its_own() {
    complain(sources().iter().flat_map(Source::bad_imports));
}

#[test]
fn the_protocol_is_pure() {
    complain(sources().iter().filter(|source| source.module[0] == "protocol").flat_map(|source| {
        let impure = roots(&source.code, "std::").into_iter().filter(|root| IMPURE.contains(&root.as_str()));
        let runtime = source.code.contains("tokio").then(|| "tokio".to_owned());
        impure.chain(runtime).map(|what| format!("{}: uses {what}", source.name())).collect::<Vec<_>>()
    }));
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let home = std::env::var("HOME").map(|home| format!("{home}/")).unwrap_or_default();
    let own = [env!("CARGO_MANIFEST_DIR"), home.as_str()].into_iter().filter(|path| path.len() > 4);
    let forbidden: Vec<&str> = MACHINE.iter().copied().chain(own).collect();
    complain(tracked_files().iter().flat_map(|path| {
        let text = fs::read_to_string(path).unwrap_or_default(); // not text, or deleted just now
        let found = forbidden.iter().filter(|word| text.contains(**word));
        found.map(|word| format!("{}: contains {word:?}", path.display())).collect::<Vec<_>>()
    }));
}

#[test]
fn every_rule_is_found_at_a_test() {
    let files = tracked_files().into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let texts = files.map(|path| fs::read_to_string(path).unwrap_or_default());
    let found: BTreeSet<String> = texts.flat_map(|text| rules_at_tests(&text)).collect();
    let known: BTreeSet<String> = RULES.split(' ').map(str::to_owned).collect();
    let missing = known.difference(&found).map(|id| format!("{id}: above no test stands `// RULES {id}`"));
    let unknown =
        found.difference(&known).map(|id| format!("{id}: is a rule that tests/tidy.rs does not list"));
    complain(missing.chain(unknown));
}

#[test]
fn a_rule_counts_only_above_a_test() {
    let is_at = |text: &str| rules_at_tests(text).into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(
        is_at("/// RULES S1, R12: so\n#[tokio::test(start_paused = true)]\nasync fn a() {}"),
        "R12 S1"
    );
    assert_eq!(is_at("// RULES G1\nfuzz_target!(|data| {});"), "G1");
    assert_eq!(is_at("// RULES S1\nfn helper() {}\n#[test]\nfn a() {}"), "");
    assert_eq!(is_at("//! RULES S1\n\nuse x;\n// see RULES\n#[test]\nfn a() {}"), "");
}

#[test]
fn imports_are_found_in_every_form_they_are_written_in() {
    let code = "use crate::{wire::{a, b}, auth};\nlet x = crate::store::memory::new();\nuse mycrate::no;";
    assert_eq!(roots(code, "crate::"), ["auth", "store", "wire"].map(str::to_owned).into());
    let source = |path: &str, text: &str| Source::new(Path::new(path), text.to_owned());
    let bad = |path: &str, text: &str| !source(path, text).bad_imports().is_empty();
    assert!(bad("manager/mod.rs", "use crate::gateway::x;"), "upwards");
    assert!(bad("wire/sse.rs", "use crate::{auth, protocol};"), "sideways");
    assert!(bad("upstream/pool.rs", "use super::super::manager;"), "round the back");
    assert!(bad("new_part.rs", ""), "without a floor");
    assert!(!bad("gateway/mod.rs", "use crate::{manager, gateway::era, protocol};"));
    assert!(!bad("upstream/transport/sse.rs", "// crate::app\nuse super::super::pool;"));
    assert!(!bad("protocol/raw_tests.rs", "use super::super::message;\nuse super::*;"));
}

struct Source {
    /// `["upstream", "transport", "stdio"]`; `mod.rs` is its folder, `x_tests.rs` is `x::tests`.
    module: Vec<String>,
    path: PathBuf,
    text: String,
    /// The text without comment lines.
    code: String,
}

impl Source {
    fn new(path: &Path, text: String) -> Self {
        let stem = path.with_extension("");
        let stem = stem.to_string_lossy().replace("_tests", "/tests");
        let module = stem.split('/').filter(|part| *part != "mod").map(str::to_owned).collect();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        Self { module, path: path.to_owned(), code: lines.join("\n"), text }
    }

    fn name(&self) -> String {
        format!("src/{}", self.path.display())
    }

    fn bad_imports(&self) -> Vec<String> {
        let top = self.module[0].as_str();
        if top == "lib" {
            return Vec::new();
        }
        let Some(floor) = floor_of(top) else {
            return vec![format!("{}: `{top}` has no floor in tests/tidy.rs", self.name())];
        };
        let mut imported = roots(&self.code, "crate::");
        imported.extend(roots(&self.code, "switchyard::"));
        // A chain of `super` as long as the module's path ends at the root of the crate.
        let up = "super::".repeat(self.module.len());
        let climbs = self.code.lines().filter(|line| line.starts_with(&format!("use {up}")));
        let climbs = climbs.map(|line| format!("{}: `{line}` leaves the module", self.name()));
        let allowed = |root: &String| root == top || floor_of(root).is_none_or(|its| its < floor);
        let wrong = imported.iter().filter(|root| !allowed(root));
        wrong.map(|root| format!("{}: floor {floor} imports `{root}`", self.name())).chain(climbs).collect()
    }
}

/// `None` for what is not a module: a macro or an item re-exported at the root.
fn floor_of(module: &str) -> Option<usize> {
    FLOORS.iter().find(|(_, modules)| modules.contains(&module)).map(|(floor, _)| *floor)
}

/// The first names after `prefix`, also inside braces: `crate::{a::b, c}` gives `a` and `c`.
fn roots(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(list) => found.extend(heads_of_list(list)),
            None => found.extend(head(rest)),
        }
    }
    found
}

fn heads_of_list(list: &str) -> Vec<String> {
    let (mut depth, mut heads, mut start) = (0, Vec::new(), 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                heads.extend(head(&list[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                heads.extend(head(&list[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    heads
}

fn head(path: &str) -> Option<String> {
    let name: String = path.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = tracked_files().into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let sources: Vec<Source> = files
        .filter_map(|path| {
            let text = fs::read_to_string(&path).ok()?;
            path.strip_prefix(&root).ok().map(|inside| Source::new(inside, text))
        })
        .collect();
    assert!(sources.len() > 10, "only {} source files found", sources.len());
    sources
}

/// What git knows and what it would add: build products and caches are neither.
fn tracked_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.output().expect("git runs");
    assert!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    names.split('\0').filter(|name| !name.is_empty()).map(|name| root.join(name)).collect()
}

/// The ids in comments that stand, with its attributes, right above a test or the target of a fuzzer.
fn rules_at_tests(text: &str) -> BTreeSet<String> {
    let (mut found, mut above, mut is_test) = (BTreeSet::new(), Vec::new(), false);
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("//") {
            above.extend(line.split_once("RULES ").into_iter().flat_map(|(_, ids)| rules(ids)));
        } else if line.starts_with("#[") {
            is_test |= line.contains("test]") || line.contains("test(");
        } else {
            let counts = is_test && line.contains("fn ") || line.starts_with("fuzz_target!");
            found.extend(above.drain(..).filter(|_| counts));
            is_test = false;
        }
    }
    found
}

/// `S1, R12: why` gives `S1` and `R12`.
fn rules(ids: &str) -> Vec<String> {
    let words = ids.split([' ', ',', ':', '.', ';']).filter(|word| !word.is_empty());
    let is_id = |word: &&str| word.starts_with(['S', 'R', 'G']) && word[1..].parse::<u8>().is_ok();
    words.take_while(is_id).map(str::to_owned).collect()
}

fn complain(found: impl IntoIterator<Item = String>) {
    let found: Vec<String> = found.into_iter().collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}
