//! Texts that were uploaded to a session.

use skein_core::{
    model::{DocumentId, LogId, Scope},
    ports::{IndexDocument, RetrievalQuery},
};
use uuid::Uuid;

use super::{Shelf, log, query, repo, scope};

pub async fn a_document_is_found_in_its_log_only(shelf: Shelf) {
    add(&shelf, &scope(1), document(1, log(1), "the walrus sings\n")).await;
    add(&shelf, &scope(1), document(2, log(2), "the walrus sleeps\n")).await;

    assert_eq!(find(&shelf, &scope(1), &[log(1)], "walrus").await, ["the walrus sings"]);
    assert_eq!(find(&shelf, &scope(1), &[log(2)], "walrus").await, ["the walrus sleeps"]);
    assert_eq!(find(&shelf, &scope(1), &[], "walrus").await, [] as [&str; 0]);
    assert_eq!(find(&shelf, &scope(1), &[log(3)], "walrus").await, [] as [&str; 0]);
    // A fork sees its own documents and those of the log that it came from.
    assert_eq!(find(&shelf, &scope(1), &[log(1), log(2)], "walrus").await.len(), 2);
}

pub async fn a_document_is_replaced_whole(shelf: Shelf) {
    add(&shelf, &scope(1), document(1, log(1), "the walrus sings\n")).await;

    let count = add(&shelf, &scope(1), document(1, log(1), "the oyster sings\n")).await;

    assert_eq!(count, 1);
    assert_eq!(find(&shelf, &scope(1), &[log(1)], "walrus").await, [] as [&str; 0]);
    assert_eq!(find(&shelf, &scope(1), &[log(1)], "sings").await, ["the oyster sings"]);
}

pub async fn documents_are_known_with_their_passages(shelf: Shelf) {
    let (first, second) = (document(1, log(1), "the walrus sings\n"), document(2, log(2), "\n"));
    let ids = [first.id, second.id, document(3, log(1), "").id];
    let known = async |number| {
        let known = shelf.index.document_passages(&scope(number), &ids).await;
        let known = known.expect("the index answers");
        ids.map(|id| known.get(&id).copied())
    };
    let before = known(1).await;

    let counts = [add(&shelf, &scope(1), first).await, add(&shelf, &scope(1), second).await];
    let after = known(1).await;
    shelf.index.remove_documents(&scope(1), log(1)).await.expect("they are removed");

    assert_eq!(before, [None, None, None]);
    assert_eq!(after, [Some(counts[0]), Some(counts[1]), None]);
    assert_eq!(known(1).await, [None, Some(counts[1]), None]);
    assert_eq!(known(2).await, [None, None, None]);
}

pub async fn documents_are_removed_with_their_log(shelf: Shelf) {
    add(&shelf, &scope(1), document(1, log(1), "the walrus sings\n")).await;
    add(&shelf, &scope(1), document(2, log(1), "the oyster sings\n")).await;
    add(&shelf, &scope(1), document(3, log(2), "the gryphon sings\n")).await;

    shelf.index.remove_documents(&scope(1), log(1)).await.expect("they are removed");
    shelf.index.remove_documents(&scope(1), log(9)).await.expect("there are none");

    let found = find(&shelf, &scope(1), &[log(1), log(2)], "sings").await;
    assert_eq!(found, ["the gryphon sings"]);
}

pub async fn a_document_may_be_large(shelf: Shelf) {
    let line = "{\"path\": \"/orders\", \"summary\": \"lists orders\"},\n";
    let text = format!("{}{{\"path\": \"/walrus\"}}\n", line.repeat(6_000));
    let large = IndexDocument {
        name: "openapi.json".to_owned(),
        media_type: "application/json".to_owned(),
        ..document(1, log(1), &text)
    };

    let count = add(&shelf, &scope(1), large).await;

    assert!(count > 100);
    let found = find(&shelf, &scope(1), &[log(1)], "walrus").await;
    assert_eq!(found.len(), 1);
    assert!(text.contains(&found[0]));
}

pub async fn documents_are_found_beside_a_repository(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("src/a.rs", "// the walrus sings\n").write("src/b.py", "# the walrus sings\n");
    shelf.update(&scope(1), repo(1), &tree).await;
    add(&shelf, &scope(1), document(1, log(1), "the walrus of the contract\n")).await;
    let query = RetrievalQuery { documents: vec![log(1)], ..query(repo(1), "walrus") };

    let mut paths = shelf.paths(&scope(1), query.clone()).await;
    paths.sort();
    assert_eq!(paths, ["contract.txt", "src/a.rs", "src/b.py"]);

    // Filters are about the repository.
    let mut narrowed = shelf
        .paths(
            &scope(1),
            RetrievalQuery {
                language: Some("rust".to_owned()),
                paths: vec!["src".to_owned()],
                ..query
            },
        )
        .await;
    narrowed.sort();
    assert_eq!(narrowed, ["contract.txt", "src/a.rs"]);
}

pub async fn documents_of_another_tenant_are_not_found(shelf: Shelf) {
    add(&shelf, &scope(1), document(1, log(1), "the walrus sings\n")).await;

    let of_other = find(&shelf, &scope(2), &[log(1)], "walrus").await;
    shelf.index.remove_documents(&scope(2), log(1)).await.expect("there are none");

    assert_eq!(of_other, [] as [&str; 0]);
    assert_eq!(find(&shelf, &scope(1), &[log(1)], "walrus").await, ["the walrus sings"]);
}

fn document(number: u128, log: LogId, text: &str) -> IndexDocument {
    IndexDocument {
        id: DocumentId::from_uuid(Uuid::from_u128(0x7000_8000_0000_0000_0005_0000 + number)),
        log,
        name: "contract.txt".to_owned(),
        media_type: "text/plain".to_owned(),
        text: text.to_owned(),
    }
}

async fn add(shelf: &Shelf, scope: &Scope, document: IndexDocument) -> u32 {
    shelf.index.add_document(scope, document).await.expect("the document is indexed")
}

async fn find(shelf: &Shelf, scope: &Scope, logs: &[LogId], text: &str) -> Vec<String> {
    let query = RetrievalQuery { repo: None, documents: logs.to_vec(), ..query(repo(1), text) };
    shelf.search(scope, query).await.into_iter().map(|chunk| chunk.text).collect()
}
