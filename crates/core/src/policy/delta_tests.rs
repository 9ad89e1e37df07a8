use uuid::Uuid;

use super::*;
use crate::model::PayloadId;

fn given(path: &str, content: &str, fate: FileFate) -> GivenFile {
    GivenFile {
        file: TurnFile {
            path: path.to_owned(),
            sha256: Sha256Hash::of(content.as_bytes()),
            size_bytes: content.len() as u64,
            is_touched: false,
            is_open: false,
            is_named: false,
            fate,
            reason: String::new(),
        },
        content: Some(Arc::from(content)),
    }
}

fn chunk(id: &str, path: &str, text: &str, file: Option<&str>) -> Chunk {
    Chunk {
        id: id.to_owned(),
        path: path.to_owned(),
        start_line: 1,
        end_line: 2,
        language: None,
        symbol: None,
        sha256: Sha256Hash::of(text.as_bytes()),
        file_sha256: file.map(|file| Sha256Hash::of(file.as_bytes())),
        origin: Origin::Commit,
        text: text.to_owned(),
        score: 1.0,
        lexical: 1.0,
    }
}

fn item(kind: ChainItemKind, item: &str, text: &str) -> ChainItem {
    ChainItem {
        kind,
        item: item.to_owned(),
        sha256: Sha256Hash::of(text.as_bytes()),
        size_bytes: text.len() as u64,
        texts: PayloadId::from_uuid(Uuid::nil()),
    }
}

#[test]
fn only_files_that_the_chain_does_not_hold_in_this_version_are_sent() {
    let held = [item(ChainItemKind::File, "a", "same"), item(ChainItemKind::File, "b", "old")];
    let files = [
        given("a", "same", FileFate::NotUsed),
        given("b", "new", FileFate::NotUsed),
        given("c", "first", FileFate::NotUsed),
        given("d", "large", FileFate::TooLarge),
        given("e", "\0", FileFate::Binary),
    ];

    let planned = plan_files(&files, &Held::live(&held));

    let fates: Vec<_> = planned.iter().map(|file| file.fate).collect();
    use FileFate::{Binary, Sent, TooLarge, Unchanged};
    assert_eq!(fates, [Unchanged, Sent, Sent, TooLarge, Binary]);
}

#[test]
fn a_passage_is_sent_once_and_never_against_a_local_version() {
    let held = [
        item(ChainItemKind::Chunk, "known", "k"),
        item(ChainItemKind::Chunk, "changed", "before"),
        item(ChainItemKind::File, "shown.rs", "edited earlier"),
    ];
    let local = [
        given("same.rs", "fn same() {}", FileFate::NotUsed),
        given("edited.rs", "fn edited() {}", FileFate::NotUsed),
    ];
    let found = [
        chunk("known", "x.rs", "k", None),
        chunk("changed", "x.rs", "after", None),
        chunk("same", "same.rs", "fn same", Some("fn same() {}")),
        chunk("edited", "edited.rs", "fn old", Some("fn old() {}")),
        chunk("gone", "edited.rs", "fn old", None),
        chunk("shown", "shown.rs", "s", Some("as indexed")),
    ];

    let planned = plan_chunks(&found, &local, &Held::live(&held), 1_000);

    let fates: Vec<_> = planned.iter().map(|chunk| chunk.fate).collect();
    use ChunkFate::{AlreadyInChain, New, StaleLocalVersion};
    assert_eq!(
        fates,
        [AlreadyInChain, New, New, StaleLocalVersion, StaleLocalVersion, StaleLocalVersion]
    );
}

#[test]
fn passages_beyond_the_budget_stay_behind_and_smaller_ones_may_still_fit() {
    let found = [
        chunk("a", "a", &"x".repeat(32), None),
        chunk("b", "b", &"x".repeat(40), None),
        chunk("c", "c", "xy", None),
    ];

    let planned = plan_chunks(&found, &[], &Held::default(), 10);

    let fates: Vec<_> = planned.iter().map(|chunk| chunk.fate).collect();
    assert_eq!(fates, [ChunkFate::New, ChunkFate::OverBudget, ChunkFate::New]);
}

#[test]
fn the_difference_names_what_came_what_went_and_what_stayed() {
    let now = plan_chunks(
        &[chunk("b", "b", "", None), chunk("c", "c", "", None)],
        &[],
        &Held::default(),
        10,
    );

    let difference = difference(&["a".to_owned(), "b".to_owned()], &now);

    let expected = ChunkDifference {
        added: vec!["c".to_owned()],
        removed: vec!["a".to_owned()],
        kept: vec!["b".to_owned()],
    };
    assert_eq!(difference, expected);
}

#[test]
fn an_older_version_that_was_shown_hides_a_passage_of_a_commit_only() {
    let held = [item(ChainItemKind::File, "a", "shown")];
    let of = |origin| Chunk { origin, ..chunk("c", "a", "newer", Some("newer")) };
    let found = [of(Origin::Commit), of(Origin::WorkTree), of(Origin::Document)];

    let planned = plan_chunks(&found, &[], &Held::live(&held), 1_000);

    let fates: Vec<_> = planned.iter().map(|chunk| chunk.fate).collect();
    assert_eq!(fates, [ChunkFate::StaleLocalVersion, ChunkFate::New, ChunkFate::New]);
}

#[test]
fn a_document_is_no_version_of_a_file_of_its_name() {
    let document =
        Chunk { origin: Origin::Document, ..chunk("c", "a", "about a", Some("about a")) };

    let planned =
        plan_chunks(&[document], &[given("a", "code", FileFate::Sent)], &Held::default(), 1_000);

    assert_eq!(planned[0].fate, ChunkFate::New);
}
