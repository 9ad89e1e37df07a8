//! `skein token …`

use serde_json::{Map, Value};
use skein_core::ports::Clock;

use super::{Context, Format, ids, more, text, with_client};
use crate::{
    cli::{TokenCommand, TokenRole},
    failure::Failure,
    output,
    system::System,
    transport::{Call, Target},
};

pub(super) async fn run(context: &Context, command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Create { name, role, expires_at, session } => {
            let mut body = Map::from_iter([
                ("name".to_owned(), Value::from(name)),
                ("role".to_owned(), Value::from(role.name())),
            ]);
            if let Some(expires_at) = expires_at {
                body.insert("expiresAt".to_owned(), expires_at.into());
            }
            create(context, body, session).await
        }
        TokenCommand::List { limit, cursor } => {
            list(context, tokens().query("limit", limit).query("cursor", cursor)).await
        }
        TokenCommand::Revoke { id } => revoke(context, &id).await,
    }
}

async fn create(
    context: &Context,
    mut body: Map<String, Value>,
    session: Option<String>,
) -> Result<(), Failure> {
    let answer = with_client(context, async |client| {
        if let Some(session) = session {
            let session = ids::session(client, &session).await?;
            body.insert("sessionId".to_owned(), session.into());
        }
        client.call(Call::post(tokens(), body.into())).await
    })
    .await?;
    context.print(&answer, || {
        output::note(&format!(
            "token {}; its secret is not shown again:",
            text(&answer.value, "id")
        ));
        output::line(text(&answer.value, "token"))
    })
}

async fn list(context: &Context, target: Target) -> Result<(), Failure> {
    let answer = with_client(context, async |client| client.call(Call::get(target)).await).await?;
    context.print(&answer, || print_list(&answer.value))
}

async fn revoke(context: &Context, id: &str) -> Result<(), Failure> {
    let id = with_client(context, async |client| {
        let id = ids::token(client, id).await?;
        client.call(Call::delete(Target::new(&["api", "tokens", &id]))).await?;
        Ok(id)
    })
    .await?;
    match context.format {
        // The REST answer has no body.
        Format::Json => Ok(()),
        Format::Text => output::line(&format!("{id} revoked")),
    }
}

impl TokenRole {
    const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Admin => "admin",
        }
    }
}

fn tokens() -> Target {
    Target::new(&["api", "tokens"])
}

fn print_list(page: &Value) -> Result<(), Failure> {
    let now = System.now();
    let row = |token: &Value| {
        let ends = match (token["revokedAt"].as_str(), token["expiresAt"].as_str()) {
            (Some(_), _) => "revoked",
            (None, Some(expires_at)) => expires_at,
            (None, None) => "never",
        };
        vec![
            text(token, "id").to_owned(),
            text(token, "role").to_owned(),
            output::time(text(token, "createdAt"), now),
            ends.to_owned(),
            text(token, "name").to_owned(),
        ]
    };
    let rows: Vec<_> = page["tokens"].as_array().into_iter().flatten().map(row).collect();
    output::table(&["id", "role", "created", "ends", "name"], &rows)?;
    more(page);
    Ok(())
}
