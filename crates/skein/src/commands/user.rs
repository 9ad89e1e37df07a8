//! `skein user …`

use serde_json::{Value, json};

use super::{Context, more, text, with_client};
use crate::{
    cli::{UserCommand, UserRole},
    failure::Failure,
    output,
    transport::{Call, Target},
};

pub(super) async fn run(context: &Context, command: UserCommand) -> Result<(), Failure> {
    match command {
        UserCommand::Add { name, role, org } => {
            add(context, json!({"name": name, "role": role.name()}), org).await
        }
        UserCommand::List { limit, cursor } => {
            let users = Target::new(&["api", "users"]);
            list(context, users.query("limit", limit).query("cursor", cursor)).await
        }
    }
}

async fn add(context: &Context, body: Value, org: Option<String>) -> Result<(), Failure> {
    let answer = with_client(context, async |client| {
        let org = match org {
            Some(org) => org,
            None => {
                let me = client.call(Call::get(Target::new(&["api", "whoami"]))).await?;
                text(&me.value["org"], "id").to_owned()
            }
        };
        client.call(Call::post(Target::new(&["api", "orgs", &org, "users"]), body)).await
    })
    .await?;
    context.print(&answer, || {
        let id = text(&answer.value, "id");
        output::note(&format!("user {id}; the secret of their token is not shown again:"));
        output::line(text(&answer.value, "token"))
    })
}

async fn list(context: &Context, target: Target) -> Result<(), Failure> {
    let answer = with_client(context, async |client| client.call(Call::get(target)).await).await?;
    context.print(&answer, || print_list(&answer.value))
}

impl UserRole {
    const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }
}

fn print_list(page: &Value) -> Result<(), Failure> {
    let row = |user: &Value| {
        let state = if user["disabled"] == true { "disabled" } else { "active" };
        vec![
            text(user, "id").to_owned(),
            text(user, "role").to_owned(),
            state.to_owned(),
            text(user, "name").to_owned(),
        ]
    };
    let rows: Vec<_> = page["users"].as_array().into_iter().flatten().map(row).collect();
    output::table(&["id", "role", "state", "name"], &rows)?;
    more(page);
    Ok(())
}
