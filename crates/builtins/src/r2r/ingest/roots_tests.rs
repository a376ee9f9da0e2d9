//! Tests of paths that are opened, and of those that try to lead outside (S27).

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use futures_util::StreamExt;
use tempfile::TempDir;

use super::*;
use crate::r2r::ingest::source::Faults;

const CANARY: &[u8] = b"canary of the outside";

/// Makes a folder `allowed` with `in/a.md`, beside a folder `outside`.
fn place() -> (TempDir, Roots) {
    let dir = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(dir.path().join("allowed/in")).expect("made");
    fs::create_dir_all(dir.path().join("outside/in")).expect("made");
    fs::write(dir.path().join("allowed/in/a.md"), "inside").expect("written");
    for name in ["secret.md", "in/a.md"] {
        fs::write(dir.path().join("outside").join(name), CANARY).expect("written");
    }
    let roots = Roots::new(&[dir.path().join("allowed")], 1000);
    (dir, roots)
}

fn read(source: &SourceFile) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let digest = source.digest().await.unwrap_or_default();
        let pieces = source.pieces(&digest, &Faults::default(), Box::new(|_| {}));
        pieces.filter_map(async |piece| piece.ok()).collect::<Vec<_>>().await.concat()
    })
}

#[test]
fn a_file_in_the_folder_is_opened_and_named_by_the_folder() {
    let (dir, roots) = place();
    for path in ["allowed/in/a.md", "allowed//in/./a.md"] {
        let path = dir.path().join(path);
        let source = roots.open(path.to_str().expect("UTF-8")).expect("inside");
        assert_eq!((source.name.as_str(), source.len), ("allowed/in/a.md", 6));
        assert_eq!(read(&source), b"inside");
    }
}

// RULES S27
#[test]
fn every_hostile_path_is_refused_and_says_what_would_be_right() {
    let (dir, roots) = place();
    let root = dir.path().display().to_string();
    let inside = dir.path().join("allowed");
    symlink(dir.path().join("outside/secret.md"), inside.join("link.md")).expect("linked");
    symlink(dir.path().join("outside"), inside.join("out")).expect("linked");
    symlink("in/a.md", inside.join("own.md")).expect("linked");
    symlink("in", inside.join("loop")).expect("linked");
    let pipe = std::process::Command::new("mkfifo").arg(inside.join("pipe.md")).status();
    assert!(pipe.expect("mkfifo runs").success());
    let _socket = std::os::unix::net::UnixListener::bind(inside.join("socket.md")).expect("bound");
    fs::write(inside.join("empty.md"), "").expect("written");
    fs::write(inside.join("large.md"), [b'x'; 1001]).expect("written");
    let below = [
        "link.md",
        "out/secret.md",
        "out/in/a.md",
        "own.md",
        "loop/a.md",
        "pipe.md",
        "socket.md",
        "in",
        "",
        ".",
        "/",
        "../outside/secret.md",
        "in/../../outside/secret.md",
        "in/..",
        "in/../in/a.md",
        "..",
        "in/a.md/",
        "in/a.md/x",
        "none.md",
        "empty.md",
        "large.md",
        "in/a.md\0",
        "in\0/a.md",
        "in/a\n.md",
        "%2e%2e/outside/secret.md",
    ];
    let hostile = below.iter().map(|path| format!("{root}/allowed/{path}"));
    let others = [
        format!("{root}/outside/secret.md"),
        format!("{root}/allowed/../outside/secret.md"),
        format!("{root}/allowedx/secret.md"),
        format!("{root}/allowed"),
        "allowed/in/a.md".to_owned(),
        "./in/a.md".to_owned(),
        "~/a.md".to_owned(),
        String::new(),
        "/etc/passwd".to_owned(),
        "/proc/self/environ".to_owned(),
        "/dev/zero".to_owned(),
        format!("/proc/self/root{root}/outside/secret.md"),
        format!("file://{root}/allowed/in/a.md"),
        format!("{root}/allowed/{}", "x".repeat(5000)),
        format!("{root}/allowed/{}", "d/".repeat(1000)),
    ];
    // A path parser ignores a final slash, so this path names the file.
    for path in hostile.chain(others).filter(|path| !path.ends_with("in/a.md/")) {
        let refusal = roots.open(&path).map(|source| source.name).expect_err(&path);
        let said: serde_json::Value = refusal.raw().read().expect("JSON");
        for member in ["message", "field", "rejected_value", "valid_range", "suggestion"] {
            assert!(said[member].is_string() && (said[member] != "" || path.is_empty()), "{path}: {said}");
        }
        assert_eq!(said["field"], "file_path");
        assert!(!said.to_string().contains("canary"));
    }
}

#[test]
fn without_a_folder_nothing_is_opened_and_the_setting_is_named() {
    let refusal = Roots::new(&[], 1000).open("/etc/hostname").expect_err("no folder");
    assert!(refusal.raw().as_str().contains("ingest_roots"), "{refusal:?}");
}

#[test]
fn a_folder_that_is_a_link_is_the_operators_own() {
    let (dir, _) = place();
    symlink(dir.path().join("allowed"), dir.path().join("shown")).expect("linked");
    let roots = Roots::new(&[dir.path().join("shown")], 1000);
    for path in ["shown/in/a.md", "allowed/in/a.md"] {
        let path = dir.path().join(path).display().to_string();
        assert_eq!(roots.open(&path).expect("inside").name, "shown/in/a.md");
    }
}

#[test]
fn files_of_one_name_in_two_folders_have_two_names() {
    let names = |paths: &[&str]| {
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        let roots = Roots::new(&paths, 1);
        roots.all.into_iter().map(|root| root.label).collect::<Vec<_>>()
    };
    assert_eq!(names(&["/a/one", "/a/two"]), ["one", "two"]);
    assert_eq!(names(&["/a/docs", "/b/docs"]), ["a/docs", "b/docs"]);
    assert_eq!(names(&["/a", "/"]), ["a", "root"]);
}

// RULES S27
/// Another thread keeps replacing the file and its folder by links that lead outside, and back.
#[test]
fn a_thousand_races_lead_outside_never() {
    let (dir, roots) = place();
    let (inside, outside) = (dir.path().join("allowed"), dir.path().join("outside"));
    let stop = AtomicBool::new(false);
    let path = inside.join("in/a.md").display().to_string();
    let (mut opened, mut refused, mut leaked) = (0, 0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (file, folder) = (inside.join("in/a.md"), inside.join("in"));
            while !stop.load(Ordering::Relaxed) {
                let _ = fs::rename(&file, inside.join("kept.md"));
                let _ = symlink(outside.join("secret.md"), &file);
                thread::yield_now();
                let _ = fs::rename(inside.join("kept.md"), &file);
                let _ = fs::rename(&folder, inside.join("kept"));
                let _ = symlink(outside.join("in"), &folder);
                thread::yield_now();
                let _ = fs::remove_file(&folder);
                let _ = fs::rename(inside.join("kept"), &folder);
            }
        });
        let mut tries = 0;
        // At least a thousand times, and until both outcomes occurred.
        while tries < 1000 || ((opened == 0 || refused == 0) && tries < 100_000) {
            tries += 1;
            match roots.open(&path) {
                Ok(source) => {
                    opened += 1;
                    leaked += usize::from(read(&source) != b"inside");
                }
                Err(_) => refused += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(leaked, 0);
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused");
}
