//! How long it takes to decide what a turn sends, with many files of which few have changed.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use skein_core::{
    model::{FileFate, SessionId, TurnState},
    ports::Chunk,
};

use super::{
    desk::{Desk, command},
    source::{Source, chunk},
};
use crate::{
    arguments::RunArguments,
    report::{Report, Target, milliseconds},
    text::Noise,
    turns::quantile,
};

const FILES: usize = 200;
const EDITED: usize = 5;
const CHUNKS: usize = 8;
const PLANS: usize = 300;

pub(super) async fn measure(arguments: &RunArguments, report: &mut Report) -> anyhow::Result<()> {
    let desk = Desk::new(arguments).await?;
    let mut noise = Noise::new(42);
    let files = Source::files(&mut noise, FILES);
    let chunks: Vec<Chunk> = (0..CHUNKS).map(|number| chunk(&mut noise, number)).collect();
    let session = show_all(&desk, &files, &chunks).await?;
    let (mut intakes, mut plans) = (Vec::new(), Vec::new());
    for plan in 0..PLANS {
        let mut now = files.clone();
        for edit in 0..EDITED {
            now[(plan * EDITED + edit) % FILES].edit(&mut noise);
        }
        let given = now.iter().map(Source::as_active).collect();
        desk.retriever.find_next(&chunks[..]);
        let began = Instant::now();
        let command = command(Some(session), "what changed?", given)?;
        intakes.push(milliseconds(began.elapsed()));
        let began = Instant::now();
        let planned = desk.orchestrator.dry_run(&desk.scope(), &command).await?;
        plans.push(milliseconds(began.elapsed()));
        let sent = planned.turn.request.files.iter().filter(|file| file.fate == FileFate::Sent);
        ensure!(sent.count() == EDITED, "other files than the edited ones are sent");
    }
    let kilobytes = files.iter().map(|file| file.content().len()).sum::<usize>() / 1_000;
    eprintln!("Context: plans over {FILES} files, {kilobytes} KB, {EDITED} of them edited");
    let target = Target::AtMost(5.0);
    let p50 = quantile(&plans, 0.5);
    report.judged("Context", "a plan over 200 files, p50 ms", (p50, None), target);
    report.plain("Context", "a plan over 200 files, p99 ms", quantile(&plans, 0.99));
    let name = "checking and hashing these 200 files at intake, p50 ms";
    report.plain("Context", name, quantile(&intakes, 0.5));
    Ok(())
}

/// The turns after which the provider has seen every file and passage. The double takes no request over 2 MB.
async fn show_all(desk: &Desk, files: &[Source], chunks: &[Chunk]) -> anyhow::Result<SessionId> {
    let mut session = None;
    for part in files.chunks(FILES / 4) {
        desk.retriever.find_next(chunks);
        let given = part.iter().map(Source::as_active).collect();
        let command = command(session, "read this", given)?;
        let executed = desk.orchestrator.execute(&desk.scope(), command, None).await?;
        let state = &executed.turn.state;
        ensure!(matches!(state, TurnState::Completed(_)), "the turn did not complete: {state:?}");
        session = Some(executed.session);
    }
    session.context("no files")
}
