//! An indexed code base, and the local agent's answers from it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::StreamExt;
use skein_core::{
    model::{ChunkText, Mode, OrgId, RepoId, Scope, SessionId, Timestamp, TurnId, UserId},
    ports::{
        AgentRuntime, AgentUpdate, Asked, Chunk, IndexJob, IndexProgress, IndexWatch, Lookup,
        Passage, PassageIndex, PastTurn, Prompt, RetrievalQuery, Retriever, RunRequest,
    },
};
use skein_retrieval::EmbeddedIndex;
use skein_runtimes::local::Local;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A code base with its index.
pub(crate) struct Library {
    index: EmbeddedIndex,
    tree: PathBuf,
    _home: TempDir,
}

struct Unwatched;

impl IndexWatch for Unwatched {
    fn progress(&self, _: IndexProgress) {}
}

fn scope() -> Scope {
    Scope::on_behalf_of(OrgId::from_uuid(Uuid::from_u128(1)), UserId::from_uuid(Uuid::from_u128(1)))
}

fn repo() -> RepoId {
    RepoId::from_uuid(Uuid::from_u128(2))
}

impl Library {
    /// A copy, because packages have no history and an empty one makes a work tree of it.
    pub(crate) async fn of(sources: &Path) -> Self {
        let home = tempfile::tempdir().unwrap();
        let tree = home.path().canonicalize().unwrap().join("tree");
        copy(sources, &tree);
        fs::create_dir_all(tree.join(".git")).unwrap();
        let index = EmbeddedIndex::open(&home.path().join("index.db")).unwrap();
        let root = tree.to_str().unwrap().to_owned();
        let job = IndexJob { repo: repo(), root, commit: None, at: Timestamp::from_millis(0) };
        index.index_repo(&scope(), job, &Unwatched, CancellationToken::new()).await.unwrap();
        Self { index, tree, _home: home }
    }

    pub(crate) async fn search(&self, text: &str) -> Vec<Chunk> {
        self.look(text.to_owned(), Vec::new(), 20).await
    }

    async fn look(&self, text: String, paths: Vec<String>, limit: u32) -> Vec<Chunk> {
        let query = RetrievalQuery {
            text,
            repo: Some(repo()),
            documents: Vec::new(),
            paths,
            language: None,
            collection: None,
            limit,
        };
        self.index.search(&scope(), &query).await.unwrap().chunks
    }

    /// Every line of the answer that is quoted is in the file at its number. Returns how many quotes there are.
    pub(crate) async fn check_quotes(&self, instruction: &str, earlier: &[&str]) -> usize {
        let answer = self.answer(instruction, earlier).await;
        let mut lines = answer.lines();
        let mut quotes = 0;
        while let Some(line) = lines.next() {
            let Some(place) = line.strip_prefix("### ") else { continue };
            let (path, numbers) = place.rsplit_once(':').unwrap();
            let (first, last) = numbers.split_once('-').unwrap();
            let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
            let fence = lines.by_ref().find(|line| line.starts_with("```")).unwrap();
            let fence: String = fence.chars().take_while(|c| *c == '`').collect();
            let quoted: Vec<&str> = lines.by_ref().take_while(|line| *line != fence).collect();
            let file = fs::read_to_string(self.tree.join(path)).unwrap();
            let there: Vec<&str> = file.lines().skip(first - 1).take(last + 1 - first).collect();
            assert_eq!(quoted, there, "{instruction}: {place}");
            quotes += 1;
        }
        quotes
    }

    /// Looks, chooses and answers as a turn does.
    async fn answer(&self, instruction: &str, earlier: &[&str]) -> String {
        let history: Vec<String> = earlier.iter().map(|text| (*text).to_owned()).collect();
        let asked = Asked { instruction, earlier: &history };
        let wanted = Local.look_for(asked);
        let found = self.look(wanted.text, wanted.paths, wanted.limit).await;
        let passages = Local.choose(asked, found).into_iter().map(passage).collect();
        let (session, turn) = (SessionId::from_uuid(Uuid::nil()), TurnId::from_uuid(Uuid::nil()));
        let past = |instruction: &String| PastTurn {
            instruction: instruction.clone(),
            answer: String::new(),
        };
        let prompt = Prompt {
            session,
            turn,
            system_prompt: None,
            model: None,
            temperature: None,
            previous_response_id: None,
            open_calls: Vec::new(),
            history: history.iter().map(past).collect(),
            passages,
            files: Vec::new(),
            instruction: Arc::from(instruction),
            mode: Mode::Ask,
        };
        let prompt = Arc::new(prompt);
        let cancel = CancellationToken::new();
        let request = RunRequest { session, turn, prompt, body: None, attempts: 1, cancel };
        let updates: Vec<AgentUpdate> = Local.run(request).collect().await;
        let texts = updates.iter().filter_map(|update| match update {
            AgentUpdate::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

fn passage(chunk: Chunk) -> Passage {
    Passage {
        score: chunk.score,
        chunk: ChunkText {
            chunk_id: chunk.id,
            path: chunk.path,
            start_line: chunk.start_line,
            end_line: chunk.end_line,
            text: chunk.text,
        },
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_file() {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
