//! Where the lines of a text begin and end.

/// A text with its lines, counted from 0.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut starts = vec![0];
        starts.extend(memchr::memchr_iter(b'\n', text.as_bytes()).map(|end| end + 1));
        // What follows the last line end is a line only if there is something.
        if starts.last() == Some(&text.len()) {
            starts.pop();
        }
        Self { text, starts }
    }

    pub(super) const fn text(&self) -> &'a str {
        self.text
    }

    pub(super) fn count(&self) -> usize {
        self.starts.len()
    }

    /// Lines `first` to `last`, without the end of the last.
    pub(super) fn range(&self, first: usize, last: usize) -> &'a str {
        let text = &self.text[self.start(first)..self.start(last + 1)];
        let text = text.strip_suffix('\n').unwrap_or(text);
        text.strip_suffix('\r').unwrap_or(text)
    }

    pub(super) fn line(&self, row: usize) -> &'a str {
        self.range(row, row)
    }

    pub(super) fn is_blank(&self, row: usize) -> bool {
        self.line(row).trim_start().is_empty()
    }

    /// Bytes of the lines `first` to `last`.
    pub(super) fn bytes(&self, first: usize, last: usize) -> usize {
        self.start(last + 1) - self.start(first)
    }

    fn start(&self, row: usize) -> usize {
        self.starts.get(row).copied().unwrap_or(self.text.len())
    }
}
