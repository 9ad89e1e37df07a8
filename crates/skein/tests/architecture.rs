//! The walls of the house: who may depend on whom, and that both engines have the same schema history.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::Command,
};

use serde_json::Value;

/// Every crate and what it may depend on; `skein-core` knows nobody.
const ALLOWED: &[(&str, &[&str])] = &[
    ("skein-core", &[]),
    ("skein-api", &["skein-core"]),
    ("skein-storage", &["skein-core"]),
    ("skein-retrieval", &["skein-core"]),
    ("skein-runtimes", &["skein-core"]),
    ("skein-server", &["skein-api", "skein-core"]),
    ("skein-testkit", &["skein-core"]),
    (
        "skein",
        &["skein-core", "skein-retrieval", "skein-runtimes", "skein-server", "skein-storage"],
    ),
];

/// Crates that may not be named by the core: engines, frameworks, vendors.
const FOREIGN_TO_CORE: &[&str] =
    &["axum", "rusqlite", "tokio-postgres", "reqwest", "hyper", "clap", "figment", "utoipa"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Normal and build dependencies of every crate of the workspace.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let of = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        dependencies.filter(|dependency| dependency["kind"] != "dev").map(name).collect()
    };
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages.map(|package| (name(package), of(package))).collect()
}

#[test]
fn dependencies_point_inwards_only() {
    let rules: BTreeMap<_, BTreeSet<_>> =
        ALLOWED.iter().map(|(name, allowed)| (*name, allowed.iter().copied().collect())).collect();

    let mut wrong = Vec::new();
    for (name, dependencies) in dependencies() {
        let Some(allowed) = rules.get(name.as_str()) else {
            // Programs around the product, such as benchmarks, may use what they measure.
            continue;
        };
        let ours = dependencies.iter().filter(|name| name.starts_with("skein"));
        wrong.extend(
            ours.filter(|dependency| !allowed.contains(dependency.as_str()))
                .map(|dependency| format!("{name} depends on {dependency}")),
        );
    }

    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_crate_of_the_product_has_a_rule() {
    let known: BTreeSet<_> = ALLOWED.iter().map(|(name, _)| *name).collect();
    let directories = fs::read_dir(root().join("crates")).unwrap();
    let crates = directories.map(|entry| entry.unwrap().file_name().into_string().unwrap());

    let without: Vec<_> = crates
        .map(|name| if name == "skein" { name } else { format!("skein-{name}") })
        .filter(|name| !known.contains(name.as_str()))
        .collect();

    assert_eq!(without, Vec::<String>::new());
}

#[test]
fn the_core_names_no_engine_framework_or_vendor() {
    let core = &dependencies()["skein-core"];

    let foreign: Vec<_> = FOREIGN_TO_CORE.iter().filter(|name| core.contains(**name)).collect();

    assert_eq!(foreign, Vec::<&&str>::new());
}

#[test]
fn both_engines_have_the_same_migrations_each_with_its_way_back() {
    let names = |engine: &str| -> BTreeSet<String> {
        let directory = root().join("crates/storage/migrations").join(engine);
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };

    let sqlite = names("sqlite");

    assert_eq!(sqlite, names("postgres"));
    for up in sqlite.iter().filter(|name| name.ends_with(".up.sql")) {
        let down = up.replace(".up.sql", ".down.sql");
        assert!(sqlite.contains(&down), "{up} has no way back");
    }
    assert!(!sqlite.is_empty());
}
