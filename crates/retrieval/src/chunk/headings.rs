//! Markdown by its headings.

use super::{lines::Lines, units::Unit};

/// One unit per section, with the headings above it as its names.
pub(super) fn units(lines: &Lines<'_>) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut above: Vec<(usize, String)> = Vec::new();
    let mut current = Unit::plain(0, 0);
    let mut fence: Option<&str> = None;
    for row in 0..lines.count() {
        let line = lines.line(row);
        if let Some(marker) = fence_marker(line) {
            match fence {
                None => fence = Some(marker),
                Some(open) if open == marker => fence = None,
                Some(_) => {}
            }
        }
        if fence.is_none()
            && let Some((level, title)) = heading(line)
        {
            if row > 0 {
                current.last = row - 1;
                units.push(current);
            }
            above.retain(|(outer, _)| *outer < level);
            above.push((level, title.to_owned()));
            let path: Vec<&str> = above.iter().map(|(_, title)| title.as_str()).collect();
            current = Unit { symbols: vec![path.join(" > ")], ..Unit::plain(row, row) };
            // A chapter begins anew; its sections may stand together.
            current.is_apart = level <= 2;
        }
    }
    current.last = lines.count().saturating_sub(1);
    if lines.count() > 0 {
        units.push(current);
    }
    units
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let title = line.get(level..)?.strip_prefix(' ')?.trim().trim_end_matches('#').trim_end();
    ((1..=6).contains(&level) && !title.is_empty()).then_some((level, title))
}

fn fence_marker(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    if line.starts_with("```") {
        Some("```")
    } else if line.starts_with("~~~") {
        Some("~~~")
    } else {
        None
    }
}
