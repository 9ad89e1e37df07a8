//! The lines of a prompt as steps.

use serde_json::{Value, json};

use super::options::{Garbage, Reaction, parse};

/// One line of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Say(String),
    SaySlowly { chunks: usize, pause_ms: u64 },
    Think(String),
    Plan(Vec<String>),
    Tool { call: Call, end: ToolEnd },
    Diff { path: String, text: String },
    Ask { id: String, kind: String, path: String, reaction: Option<Reaction> },
    AskMany { count: usize },
    DeafUntil { path: String },
    Write { path: String, text: String },
    Append { path: String, text: String },
    Read { path: String },
    Usage { input: u64, output: u64 },
    Stall,
    WaitFor { path: String },
    Flood { count: usize, rate: u64 },
    Stamp { count: usize, pause_ms: u64 },
    ForkDetached { count: usize },
    Garbage { kind: Garbage, count: usize },
    LongLine { mb: usize },
    Stderr(String),
    Late { count: usize },
    Exit { code: i32 },
    Crash { signal: i32 },
    Env,
    Pwd,
    History,
    Stop { reason: String },
    Fail { code: i64, message: String },
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) args: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ToolEnd {
    Completed(Value),
    Failed(Value),
    Never,
}

/// A line that is not a command, or not a whole one, is repeated back.
pub(super) fn steps(prompt: &str) -> Vec<Step> {
    let lines = prompt.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| step(line).unwrap_or_else(|| Step::Say(format!("I heard: {line}")))).collect()
}

fn step(line: &str) -> Option<Step> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    Some(match word {
        "say" => Step::Say(text(rest)),
        "say-slowly" => {
            let (chunks, pause_ms) = two(rest)?;
            Step::SaySlowly { chunks: number(chunks)?, pause_ms: number(pause_ms)? }
        }
        "think" => Step::Think(text(rest)),
        "plan" => Step::Plan(rest.split('|').map(|step| step.trim().to_owned()).collect()),
        "tool" | "fail-tool" | "open-tool" => tool(word, rest)?,
        "diff" => {
            let (path, new) = two(rest)?;
            Step::Diff { path: path.to_owned(), text: text(new) }
        }
        "ask" => ask(rest)?,
        "ask-many" => Step::AskMany { count: number(rest)? },
        "usage" => {
            let (input, output) = two(rest)?;
            Step::Usage { input: number(input)?, output: number(output)? }
        }
        "stall" => Step::Stall,
        "flood" => {
            let (count, rate) = two(rest)?;
            Step::Flood { count: number(count)?, rate: number(rate)? }
        }
        "stamp" => {
            let (count, pause_ms) = two(rest)?;
            Step::Stamp { count: number(count)?, pause_ms: number(pause_ms)? }
        }
        "garbage" => {
            let (kind, count) = rest.split_once(' ').unwrap_or((rest, "1"));
            Step::Garbage { kind: kind.parse().ok()?, count: number(count)? }
        }
        "stderr" => Step::Stderr(text(rest)),
        "stop" => Step::Stop { reason: rest.to_owned() },
        "fail" => {
            let (code, message) = two(rest)?;
            Step::Fail { code: number(code)?, message: text(message) }
        }
        _ => return file(word, rest).or_else(|| process(word, rest)),
    })
}

/// What touches the file system.
fn file(word: &str, rest: &str) -> Option<Step> {
    let whole = || (!rest.is_empty()).then(|| rest.to_owned());
    Some(match word {
        "write" | "append" => {
            let (path, new) = two(rest)?;
            let (path, text) = (path.to_owned(), text(new));
            if word == "write" { Step::Write { path, text } } else { Step::Append { path, text } }
        }
        "read" => Step::Read { path: whole()? },
        "wait-for" => Step::WaitFor { path: whole()? },
        "deaf-until" => Step::DeafUntil { path: whole()? },
        "pwd" => Step::Pwd,
        _ => return None,
    })
}

/// What is about the process and its session.
fn process(word: &str, rest: &str) -> Option<Step> {
    Some(match word {
        "fork-detached" if rest.is_empty() => Step::ForkDetached { count: 1 },
        "fork-detached" => Step::ForkDetached { count: number(rest)? },
        "long-line" => Step::LongLine { mb: number(rest)? },
        "late" => Step::Late { count: number(rest)? },
        "exit" => Step::Exit { code: number(rest)? },
        "crash" => Step::Crash { signal: number(rest)? },
        "env" => Step::Env,
        "history" => Step::History,
        _ => return None,
    })
}

/// `ID NAME KIND {args} -> {result}`; both are JSON.
fn tool(word: &str, rest: &str) -> Option<Step> {
    let (id, rest) = two(rest)?;
    let (name, rest) = two(rest)?;
    let (kind, rest) = rest.split_once(' ').unwrap_or((rest, "{}"));
    let (args, result) = rest.split_once(" -> ").unwrap_or((rest, "{}"));
    let args = serde_json::from_str(args).ok()?;
    let result: Value = serde_json::from_str(result).unwrap_or_else(|_| json!({"text": result}));
    let call = Call { id: id.to_owned(), name: name.to_owned(), kind: kind.to_owned(), args };
    let end = match word {
        "tool" => ToolEnd::Completed(result),
        "fail-tool" => ToolEnd::Failed(result),
        _ => ToolEnd::Never,
    };
    Some(Step::Tool { call, end })
}

fn ask(rest: &str) -> Option<Step> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (id, kind, path, reaction) = match words.as_slice() {
        [id, kind, path] => (id, kind, path, None),
        [id, kind, path, reaction] => (id, kind, path, Some(reaction.parse().ok()?)),
        _ => return None,
    };
    let owned = |word: &&str| (*word).to_owned();
    Some(Step::Ask { id: owned(id), kind: owned(kind), path: owned(path), reaction })
}

fn two(rest: &str) -> Option<(&str, &str)> {
    rest.split_once(' ').map(|(first, second)| (first, second.trim_start()))
}

fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    parse(text).ok()
}

fn text(written: &str) -> String {
    written.replace("\\n", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_has_arguments_and_a_result() {
        let found = steps(r#"tool t1 list_files search {"path": "a b"} -> {"count": 2}"#);

        let call = Call {
            id: "t1".to_owned(),
            name: "list_files".to_owned(),
            kind: "search".to_owned(),
            args: json!({"path": "a b"}),
        };
        assert_eq!(found, [Step::Tool { call, end: ToolEnd::Completed(json!({"count": 2})) }]);
    }

    #[test]
    fn lines_are_steps_and_what_is_no_command_is_repeated() {
        let found = steps("say a\\nb\n\n  flood 10 0\nsay-slowly many\nhello there\n");

        assert_eq!(
            found,
            [
                Step::Say("a\nb".to_owned()),
                Step::Flood { count: 10, rate: 0 },
                Step::Say("I heard: say-slowly many".to_owned()),
                Step::Say("I heard: hello there".to_owned()),
            ]
        );
    }

    #[test]
    fn the_reaction_to_a_refusal_can_be_named() {
        let found = steps("ask p1 edit notes.md cancelled\nask p2 read notes.md");

        let ask = |id: &str, kind: &str, reaction| Step::Ask {
            id: id.to_owned(),
            kind: kind.to_owned(),
            path: "notes.md".to_owned(),
            reaction,
        };
        assert_eq!(found, [ask("p1", "edit", Some(Reaction::Cancelled)), ask("p2", "read", None)]);
    }
}
