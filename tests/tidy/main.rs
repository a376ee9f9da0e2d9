//! Checks that the compiler does not make: cycles between modules, names of types, file heads and lengths, files that
//! pages name, and no trace of one machine.
//!
//! It reads lines, not a syntax tree: it finds paths that begin with `crate::`, `super::`, `std::` or `tokio::`
//! outside comments, which is all that the rules are about. Which crate may use which, the compiler checks.

mod cycles;
mod paths;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates that are functions of their arguments: no runtime, no clock, no sockets, no files.
const PURE: &[&str] = &["json", "protocol"];
const IMPURE: &[&str] = &["time", "net", "fs", "thread", "process", "env"];

/// Folders of one crate, at most, from its `src` to a file.
const MAX_FOLDERS: usize = 3;

/// Names that each module may give to a type of its own, because it is read with the name of the module.
const SHARED_NAMES: &[&str] = &["Error", "Config", "State"];

const MAX_LINES: usize = 600;

/// The page of the requirements for attack and failure. Each of its ids stands above a test, behind `// RULES`.
const REQUIREMENTS: &str = include_str!("../../docs/contributing/requirements.md");

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
fn modules_of_a_folder_form_no_cycle() {
    let mut crates: BTreeMap<String, BTreeMap<cycles::Module, String>> = BTreeMap::new();
    for source in sources().iter().filter(|source| !source.is_for_tests()) {
        let code = without_tests(&source.code).to_owned();
        crates.entry(source.package.clone()).or_default().insert(source.module.clone(), code);
    }
    assert!(crates.len() > 10, "only {} crates found", crates.len());
    complain(crates.iter().flat_map(|(package, modules)| {
        cycles::cycles(modules)
            .into_iter()
            .map(move |cycle| format!("{package}/{cycle}: these modules form a cycle"))
    }));
}

#[test]
fn a_type_name_has_one_meaning_in_a_crate() {
    let mut files: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for source in sources().iter().filter(|source| !source.is_for_tests()) {
        for name in types(&source.code).filter(|name| !SHARED_NAMES.contains(name)) {
            files.entry((source.package.clone(), name.to_owned())).or_default().push(source.name());
        }
    }
    assert!(files.len() > 1_000, "only {} types found", files.len());
    complain(files.iter().filter(|(_, files)| files.len() > 1).map(|((package, name), files)| {
        format!("{package}: {name} is the name of {} types: {}", files.len(), files.join(", "))
    }));
}

#[test]
fn types_are_found_under_every_visibility_and_outside_of_tests() {
    let code = "struct A;\npub enum B {\n    C,\n}\npub(in super::super) trait D<T> {}\npub type E = u8;\nuse f::struct_G;";
    assert_eq!(types(code).collect::<Vec<_>>(), ["A", "B", "D", "E"]);
    assert_eq!(types("struct A;\n#[cfg(test)]\nmod tests {\nstruct B;\n}").collect::<Vec<_>>(), ["A"]);
}

#[test]
fn built_in_servers_use_the_api_of_upstream_only() {
    let built_in = |source: &&Source| source.package == "builtins" && !source.is_for_tests();
    complain(sources().iter().filter(built_in).flat_map(|source| {
        let wrong = roots(&source.code, "upstream::").into_iter().filter(|root| root != "api");
        wrong.map(|root| format!("{}: uses upstream::{root}", source.name())).collect::<Vec<_>>()
    }));
}

#[test]
fn folders_are_at_most_three_deep() {
    complain(sources().iter().filter_map(|source| {
        let folders = source.inside.components().count() - 1;
        (folders > MAX_FOLDERS)
            .then(|| format!("{}: {folders} folders, at most {MAX_FOLDERS}", source.name()))
    }));
}

#[test]
fn json_and_protocol_are_pure() {
    let pure = |source: &&Source| PURE.contains(&source.package.as_str());
    complain(sources().iter().filter(pure).flat_map(|source| {
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
fn files_named_in_pages_for_contributors_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = tracked_files().into_iter().filter(|path| path.starts_with(root.join("docs/contributing")));
    let named: Vec<(PathBuf, String)> = pages
        .flat_map(|page| {
            let text = fs::read_to_string(&page).unwrap_or_default(); // deleted just now
            files_named(&text).into_iter().map(move |path| (page.clone(), path)).collect::<Vec<_>>()
        })
        .collect();
    assert!(named.len() > 50, "only {} files are named", named.len());
    let missing = named.iter().filter(|(_, path)| !root.join(path).exists());
    complain(missing.map(|(page, path)| format!("{}: there is no {path}", page.display())));
}

#[test]
fn every_rule_is_found_at_a_test() {
    let files = tracked_files().into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let texts = files.map(|path| fs::read_to_string(path).unwrap_or_default());
    let found: BTreeSet<String> = texts.flat_map(|text| rules_at_tests(&text)).collect();
    let known = requirements(REQUIREMENTS);
    assert!(known.len() >= 50, "only {} requirements found", known.len());
    let missing = known.difference(&found).map(|id| format!("{id}: above no test stands `// RULES {id}`"));
    let unknown = found
        .difference(&known)
        .map(|id| format!("{id}: docs/contributing/requirements.md has no such requirement"));
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

/// One source file.
struct Source {
    /// The folder of its crate: `json`, or `switchyard` for the root package.
    package: String,
    /// `["transport", "stdio"]`; `mod.rs` is its folder, and the root of the crate is empty.
    module: Vec<String>,
    /// The path from the root of the repository.
    path: PathBuf,
    /// The path from `src` of its crate.
    inside: PathBuf,
    text: String,
    /// The text without comment lines.
    code: String,
}

impl Source {
    fn new(path: &Path, text: String) -> Option<Self> {
        let (package, inside) = match path.strip_prefix("crates") {
            Ok(rest) => {
                let package = rest.components().next()?.as_os_str().to_string_lossy().into_owned();
                (package.clone(), rest.strip_prefix(Path::new(&package).join("src")).ok()?)
            }
            Err(_) => ("switchyard".to_owned(), path.strip_prefix("src").ok()?),
        };
        let stem = inside.with_extension("").to_string_lossy().into_owned();
        let is_name = |part: &&str| !["mod", "lib", "main"].contains(part);
        let module = stem.split('/').filter(is_name).map(str::to_owned).collect();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let (path, inside) = (path.to_owned(), inside.to_owned());
        Some(Self { package, module, path, inside, code: lines.join("\n"), text })
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Whether it is compiled for tests only.
    fn is_for_tests(&self) -> bool {
        let names = ["fixture", "fake", "testing", "hostile", "sample", "double", "mock_filter"];
        self.package == "testkit"
            || self.module.iter().any(|part| part.contains("tests") || names.contains(&part.as_str()))
    }
}

fn without_tests(code: &str) -> &str {
    code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// The names of the types that `code` defines outside of functions and tests.
fn types(code: &str) -> impl Iterator<Item = &str> {
    without_tests(code).lines().filter_map(|line| {
        let line = match line.strip_prefix("pub(") {
            Some(rest) => rest.split_once(") ")?.1,
            None => line.strip_prefix("pub ").unwrap_or(line),
        };
        let (kind, rest) = line.split_once(' ')?;
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        ["struct", "enum", "trait", "type", "union"].contains(&kind).then_some(name)
    })
}

/// The first names after `prefix`, also inside braces: `crate::{a::b, c}` gives `a` and `c`.
fn roots(code: &str, prefix: &str) -> BTreeSet<String> {
    paths::starting_with(code, prefix).into_iter().filter_map(|path| path.into_iter().nth(1)).collect()
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = tracked_files().into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let sources: Vec<Source> = files
        .filter_map(|path| {
            let text = fs::read_to_string(&path).ok()?;
            Source::new(path.strip_prefix(root).ok()?, text)
        })
        .collect();
    assert!(sources.len() > 500, "only {} source files found", sources.len());
    sources
}

/// The files that git tracks or would add: no build products and no caches.
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

/// The ids of a page that has a row `- **S1** …` for each.
fn requirements(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("** "));
    rows.flat_map(|(id, _)| rules(id)).collect()
}

/// `S1, R12: why` gives `S1` and `R12`.
fn rules(ids: &str) -> Vec<String> {
    let words = ids.split([' ', ',', ':', '.', ';']).filter(|word| !word.is_empty());
    let is_id = |word: &&str| word.starts_with(['S', 'R', 'G']) && word[1..].parse::<u8>().is_ok();
    words.take_while(is_id).map(str::to_owned).collect()
}

/// The paths of sources in backticks, from the root of the repository.
fn files_named(page: &str) -> Vec<String> {
    let quoted = page.split('`').skip(1).step_by(2);
    let is_source = |text: &&str| text.starts_with("crates/") || text.starts_with("src/");
    quoted.filter(is_source).map(str::to_owned).collect()
}

fn complain(found: impl IntoIterator<Item = String>) {
    let found: Vec<String> = found.into_iter().collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}
