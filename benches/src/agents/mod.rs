//! Agents with processes of their own: how long an update takes to the client, five agents that stream at once, and what
//! an agent costs to start and to keep.

mod desk;
mod follow;
mod others;
mod starts;
mod streams;
mod updates;

use crate::{arguments::RunArguments, report::Report};

pub(crate) async fn measure(arguments: &RunArguments, report: &mut Report) -> anyhow::Result<()> {
    updates::measure(arguments, report).await?;
    streams::measure(arguments, report).await?;
    starts::measure(arguments, report).await
}
