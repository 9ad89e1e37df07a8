//! Files and passages that look like source: lines, indentation and quotes, so that JSON has something to escape.

use std::fmt::Write as _;

use skein_core::{policy::active_files::ActiveFile, ports::Chunk};
use skein_testkit::passage;

use crate::text::Noise;

/// A passage of the size that the index cuts.
const CHUNK_BYTES: usize = 1_500;

/// So many bytes of source.
pub(super) fn source(noise: &mut Noise, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 96);
    while text.len() < bytes {
        let (indent, name) = ("    ".repeat((noise.next() % 4) as usize), noise.text(12));
        let length = 8 + (noise.next() % 32) as usize;
        let value = noise.text(length);
        let _ = writeln!(text, "{indent}let {name} = call(\"{value}\")?;");
    }
    text.truncate(bytes);
    text
}

/// A file in a workspace, as a thick client has it.
#[derive(Debug, Clone)]
pub(super) struct Source {
    path: String,
    content: String,
}

impl Source {
    /// Files of 4 to 20 KB, `count` of them, evenly spread.
    pub(super) fn files(noise: &mut Noise, count: usize) -> Vec<Self> {
        let size = |index: usize| 4_000 + 16_000 * index / count.saturating_sub(1).max(1);
        let file = |index: usize| Self {
            path: format!("src/module_{index:03}/file_{index:03}.rs"),
            content: source(noise, size(index)),
        };
        (0..count).map(file).collect()
    }

    /// One line in the middle changes; the size does not.
    pub(super) fn edit(&mut self, noise: &mut Noise) {
        let start = self.content.len() / 2;
        let end = (start + 40).min(self.content.len());
        self.content.replace_range(start..end, &noise.text(end - start));
    }

    pub(super) fn as_active(&self) -> ActiveFile {
        ActiveFile {
            path: self.path.clone(),
            content: Some(self.content.clone()),
            is_open: true,
            ..ActiveFile::default()
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn content(&self) -> &str {
        &self.content
    }
}

/// A passage of a file that nobody has open.
pub(super) fn chunk(noise: &mut Noise, number: usize) -> Chunk {
    let text = source(noise, CHUNK_BYTES);
    passage(&format!("chunk-{number}"), &format!("lib/indexed_{number}.rs"), &text, &text)
}
