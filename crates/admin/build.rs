//! Takes the files of Swagger UI that `/docs/` needs out of their archive, each compressed.

use std::error::Error;
use std::fs::File;
use std::io::{self, Cursor, Write as _};
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;
use zip::ZipArchive;

const FILES: [&str; 9] = [
    "index.html",
    "index.css",
    "favicon-16x16.png",
    "favicon-32x32.png",
    "swagger-ui.css",
    "swagger-ui-bundle.js",
    "swagger-ui-standalone-preset.js",
    "oauth2-redirect.html",
    "oauth2-redirect.js",
];

fn main() -> Result<(), Box<dyn Error>> {
    writeln!(io::stdout(), "cargo::rerun-if-changed=build.rs")?;
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("run it by cargo")?);
    let mut archive = ZipArchive::new(Cursor::new(SWAGGER_UI_VENDORED))?;
    let prefix = archive.file_names().next().ok_or("an empty archive")??.into_owned();
    for name in FILES {
        let compressed = File::create(folder.join(format!("{name}.gz")))?;
        let mut compressed = GzEncoder::new(compressed, Compression::best());
        io::copy(&mut archive.by_name(&format!("{prefix}dist/{name}"))?, &mut compressed)?;
        compressed.finish()?;
    }
    Ok(())
}
