//! A chart of the ratios: a bar for the median of the rounds, a line for their spread.
//!
//! Plain SVG without a library; it follows the color scheme of the reader's page, light or dark.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::measure::Row;
use crate::stats::Spread;

/// The left edge of the bars, and the width of a ratio of one.
const LEFT: f64 = 330.0;
const ONE: f64 = 400.0;
/// The end of the axis.
const MOST: f64 = 1.1;
const LINE: f64 = 24.0;
const TOP: f64 = 56.0;
/// The ratio that the gateway must reach.
const TARGET: f64 = 0.85;
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#1f2328}.soft{fill:#59636e}\
.bar{fill:#2f6fb5}.spread{stroke:#1f2328;stroke-width:1.5}.grid{stroke:#d1d9e0}.target{stroke:#b35900;stroke-width:2;stroke-dasharray:5 4}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9198a1}.bar{fill:#4a90d9}.spread{stroke:#e6edf3}.grid{stroke:#3d444d}.target{stroke:#f0a050}}";

/// Draws the gateway's rate as a share of the rate of the limit.
pub fn write(path: &Path, rows: &[Row]) -> anyhow::Result<()> {
    let shown: Vec<(&Row, Spread)> = rows
        .iter()
        .filter(|row| row.group != "scale" && row.way.starts_with("gateway"))
        .filter_map(|row| row.of_limit.map(|spread| (row, spread)))
        .collect();
    fs::write(path, draw(&shown)).with_context(|| path.display().to_string())
}

#[allow(clippy::cast_precision_loss)] // some tens of rows
fn draw(rows: &[(&Row, Spread)]) -> String {
    let bottom = TOP + LINE * rows.len() as f64;
    let (width, height) = (LEFT + ONE * MOST + 70.0, bottom + 34.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"Calls per second through the gateway as a share of the limit\">\n<style>{STYLE}</style>\n<text x=\"10\" y=\"22\" font-weight=\"600\">Calls per second through the gateway, as a share of the limit (a hop that looks at nothing)</text>\n"
    );
    for step in 0..=5 {
        let value = f64::from(step) * 0.2;
        line(&mut svg, "grid", (x(value), TOP - 8.0), (x(value), bottom));
        label(&mut svg, "soft", (x(value), bottom + 18.0), "middle", &format!("{value:.1}"));
    }
    for (at, (row, spread)) in rows.iter().enumerate() {
        bar(&mut svg, TOP + LINE * at as f64, row, *spread);
    }
    line(&mut svg, "target", (x(TARGET), TOP - 8.0), (x(TARGET), bottom));
    label(&mut svg, "soft", (x(TARGET), TOP - 12.0), "middle", "0.85");
    svg.push_str("</svg>\n");
    svg
}

fn bar(svg: &mut String, top: f64, row: &Row, spread: Spread) {
    let what = row.way.strip_prefix("gateway").unwrap_or(&row.way);
    let name = format!("{}{what}, {} conn.", row.group, row.connections);
    let middle = top + LINE / 2.0;
    label(svg, "", (LEFT - 10.0, middle + 4.5), "end", &name);
    let width = x(spread.median) - LEFT;
    let _ = writeln!(
        svg,
        "<rect class=\"bar\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"15\" rx=\"2\"/>",
        top + 4.5
    );
    line(svg, "spread", (x(spread.least), middle), (x(spread.most), middle));
    label(svg, "", (x(MOST) + 12.0, middle + 4.5), "start", &format!("{:.2}", spread.median));
}

/// The horizontal position of a ratio.
fn x(ratio: f64) -> f64 {
    LEFT + ratio.clamp(0.0, MOST) * ONE
}

fn line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn label(svg: &mut String, class: &str, at: (f64, f64), anchor: &str, text: &str) {
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{text}</text>",
        at.0, at.1
    );
}
