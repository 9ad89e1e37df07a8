//! What goes to a model, how soon its first words come back, and what a long answer costs.

mod desk;
mod first_text;
mod long_answer;
mod planning;
mod provider;
mod sent_bytes;
mod source;
mod talk;

pub(crate) use provider::serve;

use crate::{arguments::RunArguments, report::Report};

pub(crate) async fn measure(arguments: &RunArguments, report: &mut Report) -> anyhow::Result<()> {
    sent_bytes::measure(arguments, report).await?;
    planning::measure(arguments, report).await?;
    first_text::measure(arguments, report).await?;
    long_answer::measure(arguments, report).await
}
