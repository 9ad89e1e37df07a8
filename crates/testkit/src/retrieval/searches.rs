//! What a search finds, and in which order.

use skein_core::ports::RetrievalQuery;

use super::{Shelf, query, repo, scope};

pub async fn a_definition_comes_first(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write(
        "src/uses.rs",
        &"fn run() {\n    open_session();\n    open_session();\n    open_session();\n}\n".repeat(3),
    )
    .write("src/zz.rs", "/// Opens it.\npub fn open_session() -> u8 {\n    0\n}\n")
    .write("docs/guide.md", "# Guide\n\nCall open_session. Then open_session again.\n");
    shelf.update(&scope(1), repo(1), &tree).await;

    for text in ["open_session", "where is open_session defined?", "openSession"] {
        let paths = shelf.paths(&scope(1), query(repo(1), text)).await;
        assert_eq!(paths[0], "src/zz.rs", "{text}");
        assert_eq!(paths.len(), 3);
    }
}

pub async fn words_of_the_path_count(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("src/checkpoint/restore.txt", "It is brought back.\n")
        .write("src/other/notes.txt", "It is brought back.\n");
    shelf.update(&scope(1), repo(1), &tree).await;

    let paths = shelf.paths(&scope(1), query(repo(1), "how is a checkpoint brought back?")).await;

    assert_eq!(paths, ["src/checkpoint/restore.txt", "src/other/notes.txt"]);
}

pub async fn words_find_identifiers_and_identifiers_find_words(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("a.py", "def maxRetryCount():\n    return 3\n")
        .write("b.py", "def max_retry_count():\n    return 3\n")
        .write("c.txt", "The max retry count is three.\n");
    shelf.update(&scope(1), repo(1), &tree).await;

    for text in ["max retry count", "maxRetryCount", "max_retry_count", "MAX_RETRY_COUNT"] {
        let mut paths = shelf.paths(&scope(1), query(repo(1), text)).await;
        paths.sort();
        assert_eq!(paths, ["a.py", "b.py", "c.txt"], "{text}");
    }
}

pub async fn paths_and_languages_narrow_a_search(shelf: Shelf) {
    let tree = shelf.tree("a");
    for path in ["src/a.rs", "src/deep/b.rs", "src/c.py", "srcs/d.rs", "e.md"] {
        tree.write(path, "walrus\n");
    }
    shelf.update(&scope(1), repo(1), &tree).await;
    let narrowed = async |paths: &[&str], language: Option<&str>| {
        let query = RetrievalQuery {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            language: language.map(str::to_owned),
            ..query(repo(1), "walrus")
        };
        let mut paths = shelf.paths(&scope(1), query).await;
        paths.sort();
        paths
    };

    assert_eq!(narrowed(&["src"], None).await, ["src/a.rs", "src/c.py", "src/deep/b.rs"]);
    assert_eq!(narrowed(&["src/*.rs"], None).await, ["src/a.rs"]);
    assert_eq!(narrowed(&["**/*.py", "e.md"], None).await, ["e.md", "src/c.py"]);
    assert_eq!(narrowed(&[], Some("python")).await, ["src/c.py"]);
    assert_eq!(narrowed(&["src/deep", "srcs"], Some("rust")).await, ["src/deep/b.rs", "srcs/d.rs"]);
    assert_eq!(narrowed(&["nowhere"], None).await, [] as [&str; 0]);
}

pub async fn a_query_has_no_syntax(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("a.txt", "alpha beta\n").write("b.txt", "gamma near delta\n");
    shelf.update(&scope(1), repo(1), &tree).await;
    let cases = [
        ("\"alpha", 1),
        ("alpha AND gamma", 2),
        ("alpha NOT beta", 1),
        ("alp*", 0),
        ("text:alpha", 1),
        ("NEAR(alpha gamma, 1)", 2),
        ("^alpha", 1),
        ("-alpha", 1),
        ("{symbol} : alpha", 1),
        ("'); DROP TABLE chunks; --alpha", 1),
        ("alpha\0beta", 1),
        ("\"\"\"\" ((( ))) +++", 0),
        ("%_", 0),
        ("", 0),
        ("\u{202e}\u{1f980}", 0),
    ];

    for (text, expected) in cases {
        let found = shelf.search(&scope(1), query(repo(1), text)).await;
        assert_eq!(found.len(), expected, "{text:?}");
    }
    let long = "alpha ".repeat(100_000);
    assert_eq!(shelf.search(&scope(1), query(repo(1), &long)).await.len(), 1);
}

pub async fn a_search_without_a_match_finds_nothing(shelf: Shelf) {
    let tree = shelf.tree("a");
    tree.write("a.txt", "alpha\n");
    shelf.update(&scope(1), repo(1), &tree).await;

    assert_eq!(shelf.search(&scope(1), query(repo(1), "zyzzyva")).await, []);
    assert_eq!(shelf.search(&scope(1), query(repo(9), "alpha")).await, []);
    let nowhere = RetrievalQuery { repo: None, ..query(repo(1), "alpha") };
    assert_eq!(shelf.search(&scope(1), nowhere).await, []);
}

pub async fn no_more_than_the_limit_is_found(shelf: Shelf) {
    let tree = shelf.tree("a");
    for number in 0..30 {
        tree.write(&format!("{number}.txt"), "walrus\n");
    }
    shelf.update(&scope(1), repo(1), &tree).await;

    for limit in [0, 1, 7, 30, u32::MAX] {
        let found =
            shelf.search(&scope(1), RetrievalQuery { limit, ..query(repo(1), "walrus") }).await;
        assert_eq!(found.len(), limit.min(30) as usize);
        assert!(found.is_sorted_by(|a, b| a.score >= b.score));
    }
}
