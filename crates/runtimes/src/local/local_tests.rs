//! Whole answers of the local agent, from passages as the index gives them.

use std::sync::Arc;

use skein_core::{
    model::{ChunkText, FileText, SessionId, Sha256Hash, TurnId},
    ports::{Origin, Passage, PastTurn},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::*;

const THREAD: &str = "/// What is woven.\npub struct Thread {\n    pub id: u32,\n}";

fn chunk(path: &str, start_line: u32, text: &str, score: f64) -> Chunk {
    let lines = u32::try_from(text.lines().count()).unwrap();
    Chunk {
        id: format!("{path}:{start_line}"),
        path: path.to_owned(),
        start_line,
        end_line: start_line + lines - 1,
        language: None,
        symbol: None,
        sha256: Sha256Hash::of(text.as_bytes()),
        file_sha256: None,
        origin: Origin::Commit,
        text: text.to_owned(),
        score,
        lexical: score,
    }
}

/// Looks, chooses and answers as a turn does.
async fn ask(
    instruction: &str,
    earlier: &[&str],
    found: Vec<Chunk>,
    files: Vec<FileText>,
) -> Vec<AgentUpdate> {
    let earlier: Vec<String> = earlier.iter().map(|text| (*text).to_owned()).collect();
    let chosen = Local.choose(Asked { instruction, earlier: &earlier }, found);
    let (session, turn) = (SessionId::from_uuid(Uuid::nil()), TurnId::from_uuid(Uuid::nil()));
    let passages = chosen.into_iter().map(|chunk| Passage {
        score: chunk.score,
        chunk: ChunkText {
            chunk_id: chunk.id,
            path: chunk.path,
            start_line: chunk.start_line,
            end_line: chunk.end_line,
            text: chunk.text,
        },
    });
    let history =
        earlier.into_iter().map(|instruction| PastTurn { instruction, answer: "…".to_owned() });
    let prompt = Prompt {
        session,
        turn,
        system_prompt: None,
        model: None,
        temperature: None,
        previous_response_id: None,
        open_calls: Vec::new(),
        history: history.collect(),
        passages: passages.collect(),
        files,
        instruction: Arc::from(instruction),
        mode: Mode::Ask,
    };
    let cancel = CancellationToken::new();
    let request =
        RunRequest { session, turn, prompt: Arc::new(prompt), body: None, attempts: 1, cancel };
    Local.run(request).collect().await
}

fn text(updates: &[AgentUpdate]) -> String {
    let texts = updates.iter().filter_map(|update| match update {
        AgentUpdate::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[tokio::test]
async fn the_definition_comes_first_with_its_place_and_its_own_lines() {
    let found = vec![
        chunk("docs/threads.md", 1, "Threads are woven. A thread, once cut, stays woven.", 1.0),
        chunk("src/thread.rs", 7, THREAD, 0.8),
    ];

    let updates = ask("Where is a Thread woven?", &[], found, Vec::new()).await;

    insta::assert_snapshot!(text(&updates), @r##"
    The best match is in `src/thread.rs:7-10`.

    ### src/thread.rs:7-10

    Matches `thread`, `woven`.

    ```rust
    /// What is woven.
    pub struct Thread {
        pub id: u32,
    }
    ```

    ### docs/threads.md:1-1

    Matches `thread`, `woven`.

    ```markdown
    Threads are woven. A thread, once cut, stays woven.
    ```

    *From Skein's `local` agent, which searches and quotes. No language model wrote this.*
    "##);
    assert!(updates.len() > 3, "it comes in pieces: {updates:?}");
}

#[tokio::test]
async fn below_the_threshold_nothing_is_quoted() {
    let found = vec![chunk("src/a.rs", 1, "fn session() {}", 0.3)];

    let updates = ask("where are quantum flux session capacitors?", &[], found, Vec::new()).await;

    insta::assert_snapshot!(text(&updates), @r##"
    Nothing found for `quantum`, `flux`, `session`, `capacitors`.

    The nearest places have little of it:

    - `src/a.rs:1-1` has `session`

    Other words may find more: this agent compares words, not meanings.

    *From Skein's `local` agent, which searches and quotes. No language model wrote this.*
    "##);
}

#[tokio::test]
async fn without_an_index_it_says_how_to_make_one() {
    let updates = ask("where is the parser?", &[], Vec::new(), Vec::new()).await;

    let text = text(&updates);
    assert!(text.starts_with("Nothing found for `parser`."), "{text}");
    assert!(text.contains("skein index add ."), "{text}");
}

#[tokio::test]
async fn what_is_this_gives_the_readme_and_the_manifest() {
    let found = vec![
        chunk("README.md", 40, "## Cargo\n\nInstall with cargo.", 1.0),
        chunk("Cargo.toml", 1, "[package]\nname = \"loom\"", 0.9),
        chunk("README.md", 1, "# Loom\n\nWeaves threads.", 0.5),
    ];

    let updates = ask("What is this?", &[], found, Vec::new()).await;

    insta::assert_snapshot!(text(&updates), @r##"
    What the repository says of itself:

    ### README.md:1-3

    ```markdown
    # Loom

    Weaves threads.
    ```

    ### README.md:40-42

    ```markdown
    ## Cargo

    Install with cargo.
    ```

    The manifest:

    ### Cargo.toml:1-2

    ```toml
    [package]
    name = "loom"
    ```

    *From Skein's `local` agent, which searches and quotes. No language model wrote this.*
    "##);
}

#[tokio::test]
async fn the_callers_own_version_of_a_file_is_quoted() {
    let file = FileText {
        path: "src/new.rs".to_owned(),
        content: "\n\nfn weave_threads() {}\n".to_owned(),
    };

    let updates = ask("where are threads weaved?", &[], Vec::new(), vec![file]).await;

    let text = text(&updates);
    assert!(text.starts_with("`weave_threads` is defined in `src/new.rs:3`."), "{text}");
}

#[tokio::test]
async fn a_follow_up_says_what_it_looked_for() {
    let found = vec![chunk("tests/thread.rs", 1, "#[test]\nfn a_thread_is_woven() {}", 1.0)];

    let updates =
        ask("and where is it tested?", &["where are threads woven?"], found, Vec::new()).await;

    let text = text(&updates);
    assert!(text.contains("Looked for `threads`, `woven` too"), "{text}");
    assert!(text.contains("### tests/thread.rs:1-2"), "{text}");
}

#[test]
fn what_is_looked_for_is_the_instruction_unless_it_does_not_stand_alone() {
    let look = |instruction, earlier: &[String]| Local.look_for(Asked { instruction, earlier });
    let earlier = ["where are threads woven?".to_owned()];

    assert_eq!(look("where is Thread", &[]).text, "where is Thread");
    assert_eq!(
        look("and where is it tested?", &earlier).text,
        "and where is it tested? threads woven"
    );
    assert!(look("what is this?", &[]).paths.contains(&"README.md".to_owned()));
    assert_eq!((Local.recalls("where is Thread"), Local.recalls("who calls it?")), (0, 16));
}

#[test]
fn uses_come_before_the_definition_when_they_are_asked_for() {
    let found = || {
        vec![
            chunk("src/thread.rs", 7, THREAD, 1.6),
            chunk("src/loom.rs", 1, "let woven = weave(Thread { id: 1 });", 0.9),
            chunk("tests/loom.rs", 1, "assert_eq!(pull(Thread { id: 2 }), 2);", 0.8),
        ]
    };
    let paths = |instruction, earlier: &[String]| -> Vec<String> {
        let chosen = Local.choose(Asked { instruction, earlier }, found());
        chosen.into_iter().map(|chunk| chunk.path).collect()
    };

    let uses = paths("where is Thread used?", &[]);
    let calls = paths("who calls it?", &["where is Thread defined?".to_owned()]);
    let definition = paths("where is Thread defined?", &[]);

    assert_eq!(uses, ["src/loom.rs", "tests/loom.rs", "src/thread.rs"]);
    assert_eq!(calls, uses);
    assert_eq!(definition[0], "src/thread.rs");
}

#[test]
fn what_is_quoted_depends_on_words_and_not_on_the_scale_of_a_search() {
    let found = |score: fn(f64) -> f64| {
        let places = [
            ("src/thread.rs", THREAD, 1.6),
            ("src/loom.rs", "fn weave(thread: Thread) {\n    thread.pull();\n}", 0.9),
            ("src/dye.rs", "fn dye_wool() {}", 0.05),
        ];
        let chunks = places.into_iter().map(|(path, text, lexical)| {
            let lexical_only = chunk(path, 1, text, lexical);
            Chunk { score: score(lexical), ..lexical_only }
        });
        chunks.collect::<Vec<_>>()
    };
    let asked = Asked { instruction: "where is Thread defined?", earlier: &[] };
    let paths = |found: Vec<Chunk>| -> Vec<String> {
        Local.choose(asked, found).into_iter().map(|chunk| chunk.path).collect()
    };

    let by_words = paths(found(|lexical| lexical));
    // As ranks give them when meaning counts too: close to each other, and in another order.
    let by_both = paths(found(|lexical| 1.0 - lexical / 100.0));

    assert_eq!(by_words, ["src/thread.rs", "src/loom.rs"]);
    assert_eq!(by_both, by_words);
}
