//! Cycles between the modules of one folder.
//!
//! A module refers to another one by a path that begins with `crate::`, `super::` or `self::`. A path into a module
//! below counts for the folder in which both have a common parent. Code under `#[cfg(test)]` is not read.
//!
//! Reads lines and not a syntax tree, like the rest of this test.

use std::collections::{BTreeMap, BTreeSet};

use super::paths;

/// The path of a module within its crate; the root is empty.
pub(crate) type Module = Vec<String>;

/// Groups of sibling modules that refer to each other in a circle, as `folder: a b c`.
pub(crate) fn cycles(modules: &BTreeMap<Module, String>) -> Vec<String> {
    let mut siblings: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (module, code) in modules {
        for target in references(module, code, modules) {
            let common = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
            if common < module.len() && common < target.len() {
                let edges = siblings.entry(module[..common].to_vec()).or_default();
                edges.entry(module[common].clone()).or_default().insert(target[common].clone());
            }
        }
    }
    let found = siblings.iter().flat_map(|(folder, edges)| {
        let folder = folder.join("/");
        circles(edges).into_iter().map(move |circle| format!("{folder}: {}", circle.join(" ")))
    });
    found.collect()
}

/// Groups of names of which each can be reached from each other one.
fn circles(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = edges
        .keys()
        .map(|start| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
            while let Some(name) = open.pop() {
                let next = edges.get(name).into_iter().flatten();
                open.extend(next.filter(|name| seen.insert(*name)));
            }
            (start, seen)
        })
        .collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (start, seen) in &reached {
        let back = |name: &&&String| reached.get(**name).is_some_and(|its| its.contains(*start));
        let circle: BTreeSet<String> = seen.iter().filter(back).map(|name| (*name).clone()).collect();
        if circle.len() > 1 {
            found.insert(circle.into_iter().collect());
        }
    }
    found.into_iter().collect()
}

/// The modules that `code` of `module` refers to.
fn references(module: &Module, code: &str, modules: &BTreeMap<Module, String>) -> BTreeSet<Module> {
    let mut found = BTreeSet::new();
    for start in ["crate::", "super::", "self::"] {
        let paths = paths::starting_with(code, start);
        found.extend(paths.iter().filter_map(|path| resolved(module, path, modules)));
    }
    found.remove(module);
    found
}

/// The longest module that `path`, written in `module`, leads to. `None` for a path out of the crate.
fn resolved(module: &Module, path: &[String], modules: &BTreeMap<Module, String>) -> Option<Module> {
    let mut target: Module = match path.first()?.as_str() {
        "crate" => Vec::new(),
        _ => module.clone(),
    };
    for part in path {
        match part.as_str() {
            "crate" | "self" => {}
            "super" => _ = target.pop()?,
            name => target.push(name.to_owned()),
        }
    }
    while !modules.contains_key(&target) {
        target.pop()?;
    }
    Some(target)
}

#[test]
fn cycles_are_found_through_lists_and_below_modules() {
    let crate_of = |files: &[(&str, &str)]| {
        let module =
            |path: &str| path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        cycles(&files.iter().map(|(path, code)| (module(path), (*code).to_owned())).collect())
    };
    let parent = ("", "mod a; mod b; mod c;");
    assert_eq!(crate_of(&[parent, ("a", "use crate::b::X;"), ("b", "use super::a;")]), [": a b"]);
    assert_eq!(
        crate_of(&[parent, ("a", "use crate::{c, b::{X, Y}};"), ("b", ""), ("c", "use super::a::Z;")]),
        [": a c"]
    );
    assert_eq!(
        crate_of(&[parent, ("a", ""), ("a/x", "fn f() { super::super::b::g() }"), ("b", "use crate::a::x;")]),
        [": a b"]
    );
    assert_eq!(
        crate_of(&[parent, ("a", ""), ("a/x", "use super::y;"), ("a/y", "use crate::a::x::X;")]),
        ["a: x y"]
    );
    assert_eq!(
        crate_of(&[parent, ("a", "use crate::{b, c};"), ("b", "use crate::a;"), ("c", "")]),
        [": a b"],
        "a module without references does not end the search"
    );
    assert_eq!(crate_of(&[parent, ("a", "use crate::b;"), ("b", "use crate::c;"), ("c", "")]), [""; 0]);
    assert_eq!(crate_of(&[parent, ("a", "use super::Root;"), ("b", "mycrate::a")]), [""; 0]);
}
