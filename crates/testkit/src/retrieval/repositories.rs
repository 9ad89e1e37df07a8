//! What a run makes of a repository.

use skein_core::{
    model::Sha256Hash,
    ports::{Chunk, IndexJob, RetrievalQuery},
};

use super::{Shelf, job, query, repo, scope};

const POOL: &str = "use std::time::Duration;\n\n/// Hands out connections.\npub struct ConnectionPool {\n    idle: Vec<u8>,\n}\n";

pub async fn a_passage_is_found_with_its_place_and_its_exact_text(shelf: Shelf) {
    let tree = shelf.tree("a");
    let text = format!("{POOL}\n{}", "// filler\n".repeat(200));
    tree.write("src/pool.rs", &text);
    shelf.update(&scope(1), repo(1), &tree).await;

    let found = shelf.search(&scope(1), query(repo(1), "where is ConnectionPool?")).await;

    let first = &found[0];
    let expected: Vec<&str> = text.lines().collect();
    let lines = &expected[first.start_line as usize - 1..first.end_line as usize];
    assert!(first.text.contains("pub struct ConnectionPool {"));
    assert_eq!(first.text, lines.join("\n"));
    assert_eq!(first.path, "src/pool.rs");
    assert_eq!(first.language.as_deref(), Some("rust"));
    assert_eq!(first.symbol.as_deref(), Some("ConnectionPool"));
    assert_eq!(first.sha256, Sha256Hash::of(first.text.as_bytes()));
    assert_eq!(first.file_sha256, Some(Sha256Hash::of(text.as_bytes())));
    assert!(uuid::Uuid::parse_str(&first.id).is_ok());
}

pub async fn an_unchanged_repository_stays_as_it_is(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("src/pool.rs", POOL).write("README.md", "# Pool\n\nKeeps connections.\n");
    let before = shelf.update(&scope(1), repo(1), &tree).await;
    let found = all(&shelf, "pool connections").await;

    let after = shelf.update(&scope(1), repo(1), &tree).await;

    assert_eq!(after, before);
    assert_eq!(all(&shelf, "pool connections").await, found);
    assert_eq!(found.len(), 2);
}

pub async fn a_changed_file_is_found_as_it_is_now(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n").write("b.txt", "the carpenter listens\n");
    shelf.update(&scope(1), repo(1), &tree).await;
    // Of the same length, within the same moment.
    tree.write("a.txt", "the oyster sings\n");

    let status = shelf.update(&scope(1), repo(1), &tree).await;

    assert_eq!((status.files, status.chunks), (2, 2));
    assert_eq!(all(&shelf, "walrus").await, []);
    assert_eq!(texts(&all(&shelf, "oyster").await), ["the oyster sings"]);
    assert_eq!(texts(&all(&shelf, "carpenter").await), ["the carpenter listens"]);
}

pub async fn a_deleted_file_is_found_no_more(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n").write("b.txt", "the carpenter sings\n");
    shelf.update(&scope(1), repo(1), &tree).await;
    tree.remove("a.txt");

    let status = shelf.update(&scope(1), repo(1), &tree).await;

    assert_eq!((status.files, status.chunks), (1, 1));
    assert_eq!(texts(&all(&shelf, "sings").await), ["the carpenter sings"]);
}

pub async fn a_renamed_file_is_found_under_its_new_name(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("old.txt", "the walrus sings\n");
    shelf.update(&scope(1), repo(1), &tree).await;
    tree.rename("old.txt", "new.txt");

    let status = shelf.update(&scope(1), repo(1), &tree).await;

    assert_eq!((status.files, status.chunks), (1, 1));
    assert_eq!(shelf.paths(&scope(1), query(repo(1), "walrus")).await, ["new.txt"]);
}

pub async fn passages_keep_their_ids_when_others_change(shelf: Shelf) {
    let tree = shelf.tree("a");
    let function =
        |name: &str| format!("fn {name}() {{\n{}}}\n\n", "    call_something();\n".repeat(40));
    tree.write("a.rs", &format!("{}{}", function("walrus"), function("oyster")));
    shelf.update(&scope(1), repo(1), &tree).await;
    let before = all(&shelf, "oyster").await;
    tree.write("a.rs", &format!("{}{}", function("carpenter"), function("oyster")));

    shelf.update(&scope(1), repo(1), &tree).await;

    let after = all(&shelf, "oyster").await;
    assert_eq!((before.len(), after.len()), (1, 1));
    assert_eq!(after[0].id, before[0].id);
    assert_ne!(after[0].file_sha256, before[0].file_sha256);
    assert_eq!(all(&shelf, "walrus").await, []);
}

pub async fn a_commit_is_indexed_as_it_was(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("a.txt", "the walrus sings\n").write("b.txt", "the carpenter sings\n");
    let first = tree.commit();
    tree.write("a.txt", "the oyster sings\n").remove("b.txt");
    let second = tree.commit();
    tree.write("a.txt", "the gryphon sings\n");
    let at = |commit: &str| IndexJob { commit: Some(commit.to_owned()), ..job(repo(1), &tree) };

    let status = shelf.try_index(&scope(1), at(&first)).await.expect("the first commit");
    let of_first = all(&shelf, "sings").await;
    shelf.try_index(&scope(1), at(&second)).await.expect("the second commit");
    let of_second = all(&shelf, "sings").await;
    let now = shelf.update(&scope(1), repo(1), &tree).await;

    assert_eq!(status.commit, Some(first));
    assert_eq!(now.commit, Some(second));
    assert_eq!(texts(&of_first), ["the walrus sings", "the carpenter sings"]);
    assert_eq!(texts(&of_second), ["the oyster sings"]);
    assert_eq!(texts(&all(&shelf, "sings").await), ["the gryphon sings"]);
}

pub async fn secrets_and_what_git_ignores_are_not_found(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("a.txt", "walrus\n")
        .write(".env", "walrus\n")
        .write("deploy/id_rsa", "walrus\n")
        .write("server.pem", "walrus\n")
        .write(".hidden/a.txt", "walrus\n")
        .write("build/a.txt", "walrus\n")
        .write("data.bin", "walrus\0\n")
        .write("large.txt", &"walrus\n".repeat(20_000))
        .write(".gitignore", "build/\n");

    let status = shelf.update(&scope(1), repo(1), &tree).await;

    let skipped: Vec<(&str, u64)> =
        status.skipped.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    assert_eq!(
        skipped,
        [("binary", 1), ("hidden", 2), ("ignored", 1), ("secret", 3), ("too_large", 1)]
    );
    assert_eq!(shelf.paths(&scope(1), query(repo(1), "walrus")).await, ["a.txt"]);
}

pub async fn a_removed_repository_is_found_no_more(shelf: Shelf) {
    let (a, b) = (shelf.tree("a"), shelf.tree("b"));
    a.write("a.txt", "walrus\n");
    b.write("b.txt", "walrus\n");
    shelf.update(&scope(1), repo(1), &a).await;
    shelf.update(&scope(1), repo(2), &b).await;

    shelf.index.remove_repo(&scope(1), repo(1)).await.expect("it is removed");
    shelf.index.remove_repo(&scope(1), repo(1)).await.expect("there is nothing to remove");

    assert_eq!(all(&shelf, "walrus").await, []);
    assert_eq!(shelf.index.index_status(&scope(1), repo(1)).await.expect("a status"), None);
    assert_eq!(shelf.paths(&scope(1), query(repo(2), "walrus")).await, ["b.txt"]);
    shelf.update(&scope(1), repo(1), &a).await;
    assert_eq!(all(&shelf, "walrus").await.len(), 1);
}

pub async fn tenants_do_not_see_each_other(shelf: Shelf) {
    let (a, b) = (shelf.tree("a"), shelf.tree("b"));
    a.write("a.txt", "walrus\n");
    b.write("b.txt", "walrus\n");
    shelf.update(&scope(1), repo(1), &a).await;

    let of_other = shelf.paths(&scope(2), query(repo(1), "walrus")).await;
    let status = shelf.index.index_status(&scope(2), repo(1)).await.expect("a status");
    shelf.update(&scope(2), repo(1), &b).await;
    let own = shelf.paths(&scope(2), query(repo(1), "walrus")).await;
    shelf.index.remove_repo(&scope(2), repo(1)).await.expect("it is removed");

    assert_eq!(of_other, [] as [&str; 0]);
    assert_eq!(status, None);
    assert_eq!(own, ["b.txt"]);
    assert_eq!(shelf.paths(&scope(1), query(repo(1), "walrus")).await, ["a.txt"]);
}

async fn all(shelf: &Shelf, text: &str) -> Vec<Chunk> {
    let mut found =
        shelf.search(&scope(1), RetrievalQuery { limit: 100, ..query(repo(1), text) }).await;
    found.sort_by(|a, b| (&a.path, a.start_line).cmp(&(&b.path, b.start_line)));
    found
}

fn texts(chunks: &[Chunk]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk.text.as_str()).collect()
}
