//! The instruction: what stands on the command line, and what comes on stdin.

use std::io::{self, IsTerminal, Read};

use crate::failure::{Exit, Failure};

/// More than any server takes; smaller limits are the server's.
const MAX_STDIN_BYTES: u64 = 32 * 1024 * 1024;

/// The words, a blank line, and the input; either alone when the other is missing.
pub(super) async fn read(words: &[String]) -> Result<String, Failure> {
    let words = words.join(" ");
    // On a thread of its own, so that Ctrl-C need not wait for an input that never ends.
    let input = tokio::task::spawn_blocking(stdin)
        .await
        .map_err(|error| Failure::new(Exit::Failed, "stdin cannot be read").because(error))??;
    join(words, input).ok_or_else(|| {
        Failure::new(Exit::Usage, "there is nothing to ask")
            .hint("write it like skein ask \"what does this do?\", or send it on stdin")
    })
}

fn join(words: String, input: String) -> Option<String> {
    match (words.trim().is_empty(), input.trim().is_empty()) {
        (true, true) => None,
        (false, true) => Some(words),
        (true, false) => Some(input),
        (false, false) => Some(format!("{words}\n\n{input}")),
    }
}

/// Nothing when a person sits there.
fn stdin() -> Result<String, Failure> {
    let unreadable = || Failure::new(Exit::Usage, "stdin cannot be read");
    let input = io::stdin();
    if input.is_terminal() {
        return Ok(String::new());
    }
    let mut bytes = Vec::new();
    let read = input.lock().take(MAX_STDIN_BYTES + 1).read_to_end(&mut bytes);
    match read {
        Ok(_) if bytes.len() as u64 > MAX_STDIN_BYTES => {
            let reason = format!("it has more than {MAX_STDIN_BYTES} bytes");
            Err(unreadable().because(reason))
        }
        Ok(_) => String::from_utf8(bytes).map_err(|_| unreadable().because("it is not UTF-8 text")),
        // Nobody left anything there.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error()) => {
            Ok(String::new())
        }
        Err(error) => Err(unreadable().because(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_is_added_after_a_blank_line() {
        let joined = |words: &str, input: &str| join(words.to_owned(), input.to_owned());

        assert_eq!(joined("explain", "a\nb\n").as_deref(), Some("explain\n\na\nb\n"));
        assert_eq!(joined("explain", "\n").as_deref(), Some("explain"));
        assert_eq!(joined("", "what?\n").as_deref(), Some("what?\n"));
        assert_eq!(joined(" ", ""), None);
    }
}
