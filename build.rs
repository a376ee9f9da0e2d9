//! Compresses the files that become part of the program: the pages of the documentation, and the `OpenAPI` document.
//!
//! `config::documentation` includes the list of pages, and `library` the document. Pages for those who change Switchyard are
//! left out, and pages that say the same for each client, as in `mcp_servers.yaml` of the repository.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Folders of `docs` whose pages are left out.
const LEFT_OUT: [&str; 2] = ["contributing", "clients"];

fn main() -> io::Result<()> {
    writeln!(io::stdout(), "cargo::rerun-if-changed=docs\ncargo::rerun-if-changed=openapi")?;
    let of_cargo =
        |name: &str| env::var_os(name).map(PathBuf::from).ok_or_else(|| io::Error::other("run it by cargo"));
    let (root, out) = (of_cargo("CARGO_MANIFEST_DIR")?, of_cargo("OUT_DIR")?);
    let docs = root.join("docs");
    let mut pages = Vec::new();
    collect(&docs, &docs, &mut pages)?;
    pages.sort();
    let mut list = String::from("&[\n");
    for page in pages {
        let name = page.replace('/', "-") + ".gz";
        compress(&docs.join(&page), &out.join(&name))?;
        let bytes = format!(r#"include_bytes!(concat!(env!("OUT_DIR"), "/{name}"))"#);
        writeln!(list, "    ({page:?}, {bytes}.as_slice()),").map_err(io::Error::other)?;
    }
    list.push_str("]\n");
    fs::write(out.join("documentation.rs"), list)?;
    compress(&root.join("openapi/switchyard.json"), &out.join("openapi.json.gz"))
}

fn compress(from: &Path, to: &Path) -> io::Result<()> {
    let mut compressed = GzEncoder::new(fs::File::create(to)?, Compression::best());
    io::copy(&mut fs::File::open(from)?, &mut compressed)?;
    compressed.finish().map(drop)
}

/// Adds the pages below `folder`, by their paths from `docs` with `/`.
fn collect(docs: &Path, folder: &Path, pages: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.strip_prefix(docs).map_err(io::Error::other)?;
        let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
        let name = parts.join("/");
        if path.is_dir() && !LEFT_OUT.contains(&name.as_str()) {
            collect(docs, &path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(name);
        }
    }
    Ok(())
}
