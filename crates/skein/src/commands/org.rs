//! `skein org …`

use serde_json::json;

use super::{Context, text, with_client};
use crate::{
    cli::OrgCommand,
    failure::Failure,
    output,
    transport::{Call, Target},
};

pub(super) async fn run(context: &Context, command: OrgCommand) -> Result<(), Failure> {
    let OrgCommand::Add { name } = command;
    let call = Call::post(Target::new(&["api", "orgs"]), json!({"name": name}));
    let answer = with_client(context, async |client| client.call(call).await).await?;
    context.print(&answer, || output::line(text(&answer.value, "id")))
}
