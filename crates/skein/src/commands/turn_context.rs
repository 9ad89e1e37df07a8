//! What a turn sent, kept back and why, for people.

use serde_json::Value;

use super::text;
use crate::{failure::Failure, output};

/// Facts first, then a line for every file and passage.
pub(super) fn print(context: &Value) -> Result<(), Failure> {
    for (name, value) in facts(context) {
        output::line(&format!("{name:<10} {}", output::printable(&value)))?;
    }
    let rows: Vec<_> = files(context).chain(chunks(context)).collect();
    match rows.is_empty() {
        true => Ok(()),
        false => output::table(&["what", "fate", "size", "where", "why"], &rows),
    }
}

fn facts(context: &Value) -> Vec<(&'static str, String)> {
    let chain = &context["chain"];
    let bytes = |field: &str| context[field].as_u64().unwrap_or(0);
    let facts = [
        ("turn", text(context, "turnId").to_owned()),
        ("chain", format!("{}: {}", text(chain, "decision"), text(chain, "detail"))),
        ("after", text(chain, "previousResponseId").to_owned()),
        ("expires", text(chain, "expiresAt").to_owned()),
        ("volume", output::traffic(bytes("bytesSent"), bytes("bytesSaved"))),
        ("rebuilt", rebuilt(&context["rehydrated"])),
        ("passages", difference(&context["difference"])),
    ];
    facts.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// What a provider that had forgotten was told again.
fn rebuilt(manifest: &Value) -> String {
    if !manifest.is_object() {
        return String::new();
    }
    let count = |field: &str| manifest[field].as_array().map_or(0, Vec::len);
    let (turns, files, chunks) = (count("turns"), count("files"), count("chunks"));
    let left_out = manifest["turnsLeftOut"].as_u64().unwrap_or(0);
    format!("{turns} turns, {files} files, {chunks} passages; {left_out} older turns left out")
}

/// Against the turn before.
fn difference(difference: &Value) -> String {
    let count = |field: &str| difference[field].as_array().map_or(0, Vec::len);
    let (added, removed, kept) = (count("added"), count("removed"), count("kept"));
    match added + removed + kept {
        0 => String::new(),
        _ => format!("{added} added, {removed} removed, {kept} kept since the turn before"),
    }
}

fn files(context: &Value) -> impl Iterator<Item = Vec<String>> {
    context["files"].as_array().into_iter().flatten().map(|file| {
        vec![
            "file".to_owned(),
            text(file, "fate").to_owned(),
            output::size(file["sizeBytes"].as_u64().unwrap_or(0)),
            text(file, "path").to_owned(),
            text(file, "reason").to_owned(),
        ]
    })
}

fn chunks(context: &Value) -> impl Iterator<Item = Vec<String>> {
    context["chunks"].as_array().into_iter().flatten().map(|chunk| {
        let lines = (&chunk["startLine"], &chunk["endLine"]);
        vec![
            "passage".to_owned(),
            text(chunk, "fate").to_owned(),
            chunk["sizeBytes"].as_u64().map(output::size).unwrap_or_default(),
            format!("{}:{}-{}", text(chunk, "path"), lines.0, lines.1),
            text(chunk, "reason").to_owned(),
        ]
    })
}
