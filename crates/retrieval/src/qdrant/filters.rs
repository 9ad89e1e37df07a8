//! Conditions on points. Every one of them begins with the tenant.

use serde_json::{Value, json};
use skein_core::model::{LogId, OrgId, RepoId};
use uuid::Uuid;

use super::points::Kind;

pub(super) fn is(key: &str, value: impl Into<Value>) -> Value {
    json!({"key": key, "match": {"value": value.into()}})
}

pub(super) fn any<T: serde::Serialize>(key: &str, values: &[T]) -> Value {
    json!({"key": key, "match": {"any": values}})
}

pub(super) fn at_most(key: &str, value: i64) -> Value {
    json!({"key": key, "range": {"lte": value}})
}

/// Not closed at this generation.
pub(super) fn open_at(generation: i64) -> Value {
    json!({"should": [
        {"is_empty": {"key": "to"}},
        {"key": "to", "range": {"gt": generation}},
    ]})
}

pub(super) fn all(conditions: Vec<Value>) -> Value {
    json!({"must": conditions})
}

/// What belongs to a repository.
pub(super) fn of_repo(org: OrgId, repo: RepoId, kind: Kind) -> Vec<Value> {
    vec![is("org", org.to_string()), is("repo", repo.to_string()), is("kind", kind.name())]
}

/// What belongs to files that were written by runs, by the ids of those files.
pub(super) fn of_files(org: OrgId, repo: RepoId, kind: Kind, files: &[Uuid]) -> Value {
    let mut conditions = of_repo(org, repo, kind);
    conditions.push(match kind {
        Kind::File => json!({"has_id": files}),
        Kind::Chunk | Kind::Repo | Kind::Document => any("file", files),
    });
    all(conditions)
}

/// What belongs to the documents of some logs.
pub(super) fn of_logs(org: OrgId, logs: &[LogId], kind: Kind) -> Vec<Value> {
    let logs: Vec<String> = logs.iter().map(ToString::to_string).collect();
    vec![is("org", org.to_string()), any("log", &logs), is("kind", kind.name())]
}
