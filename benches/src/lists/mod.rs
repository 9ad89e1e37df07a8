//! Lists at a million sessions: the newest of two statuses with their total, for those who see all, few or many.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use rusqlite::Connection as Sqlite;
use serde::Deserialize;

use crate::{
    arguments::RunArguments,
    client::{Connection, Endpoint},
    postgres::cluster::{Cluster, Database},
    report::{Report, Target, milliseconds},
    subject::{Home, Server},
    turns::quantile,
};

const SQLITE: &str = include_str!("sqlite.sql");
const POSTGRES: &str = include_str!("postgres.sql");

/// `active` stands for three states, so this merges four scans.
const PATH: &str = "/api/sessions?status=active,completed&limit=20";
const WARM_UP: usize = 200;
const READS: usize = 2_000;

/// What is in a store, and who sees how much of it.
#[derive(Debug, Clone, Copy)]
struct Shape {
    of_member: usize,
    public: usize,
}

/// Those who ask.
struct Callers {
    owner: Endpoint,
    member: Endpoint,
}

#[derive(Deserialize)]
struct WhoAmI {
    org: Org,
}

#[derive(Deserialize)]
struct Org {
    id: String,
}

#[derive(Deserialize)]
struct CreatedUser {
    token: String,
}

#[derive(Deserialize)]
struct Page {
    sessions: Vec<serde_json::Value>,
    total: usize,
}

pub(crate) async fn measure(arguments: &RunArguments, report: &mut Report) -> anyhow::Result<()> {
    let few = Shape { of_member: arguments.listed / 1_000, public: 0 };
    let many = Shape { of_member: 0, public: arguments.listed / 10 * 3 };
    for shape in [few, many] {
        let home = Home::new(arguments)?;
        on_store(arguments, report, (&home, None), shape).await?;
    }
    let Some(cluster) = Cluster::start(&arguments.postgres_data)? else { return Ok(()) };
    for (name, shape) in [("few", few), ("many", many)] {
        let database = cluster.create(name).await?;
        let home = Home::on(arguments, &database.settings())?;
        home.migrate(arguments).await?;
        on_store(arguments, report, (&home, Some(&database)), shape).await?;
    }
    Ok(())
}

/// Fills a store and reads from it as its owner and as a member.
async fn on_store(
    arguments: &RunArguments,
    report: &mut Report,
    (home, database): (&Home, Option<&Database<'_>>),
    shape: Shape,
) -> anyhow::Result<()> {
    let server = Server::start_skein(arguments, home).await?;
    let token = add_member(&server).await?;
    server.stop().await?;
    let began = Instant::now();
    match database {
        Some(database) => {
            let script = script(POSTGRES, arguments, shape);
            database.connect().await?.batch_execute(&format!("{script} ANALYZE")).await?;
        }
        None => seed_sqlite(home, &script(SQLITE, arguments, shape))?,
    }
    eprintln!("{} sessions in {:.0} s", arguments.listed, began.elapsed().as_secs_f64());
    let server = Server::start_skein(arguments, home).await?;
    let callers = Callers {
        owner: server.endpoint.clone(),
        member: Endpoint { token: Some(token), ..server.endpoint.clone() },
    };
    let engine = if database.is_some() { "PostgreSQL" } else { "SQLite" };
    let seen = shape.of_member + shape.public;
    if shape.public == 0 {
        let who = format!("{engine}, as the owner of all");
        judge(report, &who, &callers.owner, arguments.listed).await?;
    }
    let who = format!("{engine}, as a member who sees {seen}");
    judge(report, &who, &callers.member, seen).await?;
    server.stop().await
}

/// A member of the owner's org; gives their token.
async fn add_member(server: &Server) -> anyhow::Result<String> {
    let mut connection = server.connect().await?;
    let who: WhoAmI = serde_json::from_slice(connection.get("/api/whoami").await?)?;
    let path = format!("/api/orgs/{}/users", who.org.id);
    let body = br#"{"name":"member","role":"member"}"#;
    let created: CreatedUser = connection.post_json(&path, body).await?;
    Ok(created.token)
}

fn script(template: &str, arguments: &RunArguments, shape: Shape) -> String {
    template
        .replace("{sessions}", &arguments.listed.to_string())
        .replace("{members}", &shape.of_member.to_string())
        .replace("{public}", &shape.public.to_string())
}

fn seed_sqlite(home: &Home, script: &str) -> anyhow::Result<()> {
    let database = Sqlite::open(home.database()?)?;
    database.execute_batch("PRAGMA synchronous = off; PRAGMA foreign_keys = off; BEGIN")?;
    database.execute_batch(script).context("the store cannot be filled")?;
    database.execute_batch("COMMIT; PRAGMA wal_checkpoint(truncate)")?;
    Ok(())
}

async fn judge(
    report: &mut Report,
    who: &str,
    caller: &Endpoint,
    sees: usize,
) -> anyhow::Result<()> {
    let mut connection = Connection::open(caller).await?;
    let page: Page = serde_json::from_slice(connection.get(PATH).await?)?;
    // Four fifths of the sessions are in the states that are asked for, spread evenly.
    ensure!(page.sessions.len() == 20, "{who}: {} sessions on the page", page.sessions.len());
    let share = page.total as f64 / sees as f64;
    ensure!((0.75..0.85).contains(&share), "{who}: the total is {}", page.total);
    let mut latencies = Vec::with_capacity(READS);
    for round in 0..WARM_UP + READS {
        let before = Instant::now();
        connection.get(PATH).await?;
        if round >= WARM_UP {
            latencies.push(milliseconds(before.elapsed()));
        }
    }
    let (p50, p95) = (quantile(&latencies, 0.5), quantile(&latencies, 0.95));
    report.judged("Lists", &format!("{who}, p50 ms"), (p50, None), Target::AtMost(2.0));
    report.plain("Lists", &format!("{who}, p95 ms"), p95);
    Ok(())
}
