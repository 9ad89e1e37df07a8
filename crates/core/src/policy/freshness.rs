//! Whether an indexed passage is still in its file.

use crate::ports::Chunk;

/// The passage as the file has it now: its lines may have moved. `None` when it is not in the file any more.
pub fn relocated(chunk: Chunk, content: &str) -> Option<Chunk> {
    let places = content.match_indices(&chunk.text).map(|(at, _)| at);
    let starts = places.filter(|at| *at == 0 || content.as_bytes()[at - 1] == b'\n');
    let line_of = |at: usize| content[..at].matches('\n').count() + 1;
    let lines = starts.map(|at| u32::try_from(line_of(at)).unwrap_or(u32::MAX));
    let start_line = lines.min_by_key(|line| line.abs_diff(chunk.start_line))?;
    let end_line = start_line + (chunk.end_line - chunk.start_line);
    Some(Chunk { start_line, end_line, ..chunk })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Sha256Hash, ports::Origin};

    fn chunk(start_line: u32, end_line: u32, text: &str) -> Chunk {
        Chunk {
            id: "c".to_owned(),
            path: "a.rs".to_owned(),
            start_line,
            end_line,
            language: None,
            symbol: None,
            sha256: Sha256Hash::of(text.as_bytes()),
            file_sha256: None,
            origin: Origin::WorkTree,
            text: text.to_owned(),
            score: 1.0,
            lexical: 1.0,
        }
    }

    fn lines(content: &str, chunk: Chunk) -> Option<(u32, u32)> {
        relocated(chunk, content).map(|chunk| (chunk.start_line, chunk.end_line))
    }

    #[test]
    fn lines_follow_the_text() {
        let text = "fn a() {\n}";

        assert_eq!(lines("fn a() {\n}\n", chunk(1, 2, text)), Some((1, 2)));
        assert_eq!(lines("// new\n\nfn a() {\n}\n", chunk(1, 2, text)), Some((3, 4)));
        assert_eq!(lines("fn b() {\n}\n", chunk(1, 2, text)), None);
        assert_eq!(lines("// fn a() {\n}\n", chunk(1, 2, text)), None, "not a line of its own");
    }

    #[test]
    fn of_several_places_the_nearest_counts() {
        let content = "x\n\n\n\nx\n\nx\n";

        assert_eq!(lines(content, chunk(4, 4, "x")), Some((5, 5)));
        assert_eq!(lines(content, chunk(9, 9, "x")), Some((7, 7)));
    }
}
