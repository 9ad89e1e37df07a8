//! What PostgreSQL keeps apart by itself, when the application forgets its filter.

use std::sync::Arc;

use skein_core::{
    model::{AgentContextVersion, Checkpoint, CheckpointId, CheckpointState, Sha256Hash},
    ports::{
        ChangeSet, Clock, IdempotencyRecord, Ids, NewPayload, PayloadBody, Resource, ResourceKind,
        Write,
    },
};
use skein_testkit::{
    World,
    stories::{
        chains::{advancing, chain, file_item},
        documents::{creating, document},
        permissions::{asked, put},
        plans::planned,
    },
};
use tokio_postgres::Client;
use uuid::Uuid;

use super::server::{Database, Server, connect};

/// Tables that nothing writes yet: their capabilities come later. Policies are checked on them all the same.
const UNUSED: [&str; 1] = ["outputs"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_without_a_filter_shows_the_callers_org_and_nothing_else() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let [acme, globex] = two_orgs(&database).await;
    let (client, _driver) = connect(&database.app).await;
    let tables = tenant_tables(&client).await;
    assert!(tables.len() > 20, "{tables:?}");

    for (mine, theirs) in [(&acme, &globex), (&globex, &acme)] {
        set_org(&client, &mine.org.id.to_string()).await;
        for table in &tables {
            // As an application would that forgot its filter.
            let orgs = orgs_seen(&client, table).await;

            let is_unused = UNUSED.contains(&table.as_str());
            assert_eq!(orgs.contains(mine.org.id.as_uuid()), !is_unused, "own rows of {table}");
            assert!(!orgs.contains(theirs.org.id.as_uuid()), "foreign rows of {table}");
            assert!(orgs.iter().all(|org| org == mine.org.id.as_uuid()), "{table}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_org_no_row_is_seen_at_all() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let [acme, _] = two_orgs(&database).await;
    let (client, _driver) = connect(&database.app).await;
    let tables = tenant_tables(&client).await;
    let unset = async || {
        for table in &tables {
            assert!(orgs_seen(&client, table).await.is_empty(), "{table}");
        }
    };

    unset().await;
    // A pooled connection keeps the name of the setting, but no value, once its transaction has ended.
    client.batch_execute("BEGIN").await.expect("a transaction");
    let local = "SELECT set_config('skein.org', $1, true)";
    client.execute(local, &[&acme.org.id.to_string()]).await.expect("a setting");
    assert!(!orgs_seen(&client, "sessions").await.is_empty());
    client.batch_execute("COMMIT").await.expect("the end");
    unset().await;
    set_org(&client, "").await;
    unset().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_another_org_can_be_neither_added_nor_changed_nor_removed() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let [acme, globex] = two_orgs(&database).await;
    let (client, _driver) = connect(&database.app).await;
    let (owner, _owner_driver) = connect(&database.owner).await;
    let tables = tenant_tables(&client).await;
    let foreign = acme.org.id.to_string();
    for table in &tables {
        set_org(&client, &globex.org.id.to_string()).await;
        set_org(&owner, &foreign).await;

        // A foreign row as it is, taken past the guard and put in again.
        let added = copy_foreign_row(&client, &owner, table).await;
        if let Some(code) = added {
            assert_eq!(code, "42501", "adding to {table}");
        } else {
            assert!(UNUSED.contains(&table.as_str()), "{table} has no row");
        }
        for statement in [
            format!("UPDATE {table} SET org_id = org_id WHERE org_id = '{foreign}'"),
            format!("DELETE FROM {table} WHERE org_id = '{foreign}'"),
        ] {
            match client.execute(&statement, &[]).await {
                Ok(changed) => assert_eq!(changed, 0, "{statement}"),
                Err(refused) => assert_eq!(code(&refused), "42501", "{statement}"),
            }
        }
        // A row of one's own cannot be given away either.
        // A turn that has ended never changes, so only a pending one shows what the policy says.
        let rows = if table == "turns" { "WHERE status = 'pending'" } else { "" };
        let give = format!("UPDATE {table} SET org_id = '{foreign}' {rows}");
        match client.execute(&give, &[]).await {
            Ok(changed) => assert_eq!(changed, 0, "{give}"),
            Err(refused) => assert_eq!(code(&refused), "42501", "{give}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_org_can_be_made_from_within_another_but_not_read_or_changed() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let [acme, globex] = two_orgs(&database).await;
    let (client, _driver) = connect(&database.app).await;
    let add = "INSERT INTO orgs (id, name) VALUES (gen_random_uuid(), $1)";

    let without_org = client.execute(add, &[&"Nowhere"]).await.expect_err("a refusal");
    set_org(&client, &acme.org.id.to_string()).await;
    client.execute(add, &[&"Initech"]).await.expect("an org");
    let returned = client.query(&format!("{add} RETURNING name"), &[&"Hooli"]).await;
    let names: Vec<String> = client
        .query("SELECT name FROM orgs", &[])
        .await
        .expect("the orgs")
        .iter()
        .map(|row| row.get(0))
        .collect();
    let changed = client.execute("UPDATE orgs SET name = 'x'", &[]).await.expect_err("a refusal");

    assert_eq!(code(&without_org), "42501");
    assert_eq!(code(&returned.expect_err("a refusal")), "42501");
    assert_eq!(names, [acme.org.name.as_str()]);
    assert_eq!(code(&changed), "42501");
    assert_ne!(acme.org.name, globex.org.name);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_of_a_foreign_context_cannot_be_added_as_ones_own() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let [acme, globex] = two_orgs(&database).await;
    let (client, _driver) = connect(&database.app).await;
    set_org(&client, &acme.org.id.to_string()).await;
    let context: Uuid = client
        .query_one("SELECT id FROM agent_contexts WHERE org_id IS NOT NULL", &[])
        .await
        .expect("a context")
        .get(0);
    set_org(&client, &globex.org.id.to_string()).await;

    let refused = client
        .execute(
            "INSERT INTO agent_context_versions (org_id, context_id, version, spec, spec_hash)
             VALUES ($1, $2, 2, '', '')",
            &[globex.org.id.as_uuid(), &context],
        )
        .await
        .expect_err("a refusal");

    assert_eq!(code(&refused), "23503");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_table_of_tenants_is_left_open() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let (client, _driver) = connect(&database.app).await;

    let open: Vec<String> = client
        .query(
            "SELECT relname::text FROM pg_class
             WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
               AND NOT (relrowsecurity AND relforcerowsecurity) ORDER BY 1",
            &[],
        )
        .await
        .expect("the tables")
        .iter()
        .map(|row| row.get(0))
        .collect();

    assert_eq!(open, ["nodes", "schema_migrations"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_only_added_cannot_be_changed_by_the_application() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    // With a configured agent, which belongs to no org.
    two_orgs(&database).await;
    let (client, _driver) = connect(&database.app).await;

    for statement in [
        "UPDATE events SET seq = 1",
        "DELETE FROM events",
        "UPDATE audit SET action = 'x'",
        "DELETE FROM audit",
        "TRUNCATE audit",
        "UPDATE agent_context_versions SET spec = ''",
        "UPDATE conversation_context_versions SET spec = ''",
        "UPDATE agent_contexts SET name = 'x'",
        "UPDATE agent_contexts SET current_version = 9",
        "INSERT INTO agent_contexts (id, name, origin, current_version)
         VALUES (gen_random_uuid(), 'x', 'api', 1)",
    ] {
        let refused = client.batch_execute(statement).await.expect_err(statement);
        let code = refused.code().map(|code| code.code().to_owned());
        assert_eq!(code.as_deref(), Some("42501"), "{statement}");
    }
}

/// Two orgs with a row in every table that is in use.
async fn two_orgs(database: &Database) -> [World; 2] {
    let store = Arc::new(database.open(4).await);
    let acme = World::named(Arc::clone(&store) as _, "Acme", 1).await;
    let globex = World::named(store, "Globex", 2).await;
    for world in [&acme, &globex] {
        stock(world).await;
    }
    [acme, globex]
}

async fn stock(world: &World) {
    let finished = world.finish(&world.begin(planned(world)).await).await;
    let held = vec![file_item(world, "src/lib.rs")];
    world.commit(advancing(world.session.log, chain(&finished, 1), held)).await;
    let question = asked(world, "t.1").await;
    let agent: AgentContextVersion = world.draft_agent_context("reviewer");
    let payload = NewPayload {
        id: world.payload_id(),
        log: world.session.log,
        media_type: "text/plain".to_owned(),
        sha256: Sha256Hash::of(b"part"),
        size_bytes: 4,
        body: PayloadBody::Parts { count: 1 },
    };
    let checkpoint = Checkpoint {
        id: CheckpointId::from_uuid(world.ids.next()),
        session: world.session.id,
        seq: 1,
        reason: "a pause".to_owned(),
        state: CheckpointState::default(),
        at: world.clock.now(),
    };
    let record = IdempotencyRecord {
        key: "key".to_owned(),
        fingerprint: Sha256Hash::of(b"body"),
        resource: Resource { kind: ResourceKind::Session, id: *world.session.id.as_uuid() },
        created_at: world.clock.now(),
    };
    let document = document(world, world.session.log, "a.txt");
    world.commit(creating(&document, "text")).await;
    let part = Write::PutPayloadPart { payload: payload.id, part: 0, body: "part".into() };
    world
        .commit(ChangeSet {
            writes: vec![
                put(&question),
                Write::CreateToken(world.token("laptop")),
                Write::CreateRepo(world.draft_repo("skein")),
                Write::PutAgentContext(Box::new(agent)),
                Write::PutConversationContext(Box::new(world.draft_conversation_context("polite"))),
                part,
                Write::PutPayload(payload),
                Write::PutCheckpoint(Box::new(checkpoint)),
            ],
            idempotency: Some(record),
            ..ChangeSet::default()
        })
        .await;
}

/// Every table that holds rows of orgs, whatever its name.
async fn tenant_tables(client: &Client) -> Vec<String> {
    let rows = client
        .query(
            "SELECT c.table_name::text FROM information_schema.columns c
             JOIN information_schema.tables t USING (table_schema, table_name)
             WHERE c.table_schema = 'public' AND c.column_name = 'org_id' AND t.table_type = 'BASE TABLE'
             ORDER BY 1",
            &[],
        )
        .await
        .expect("the tables");
    rows.iter().map(|row| row.get(0)).collect()
}

/// The orgs of all rows that a table shows. Configured agents have none and are everybody's.
async fn orgs_seen(client: &Client, table: &str) -> Vec<Uuid> {
    let sql = format!("SELECT DISTINCT org_id FROM {table} WHERE org_id IS NOT NULL");
    client.query(&sql, &[]).await.expect(table).iter().map(|row| row.get(0)).collect()
}

async fn set_org(client: &Client, org: &str) {
    client.execute("SELECT set_config('skein.org', $1, false)", &[&org]).await.expect("a setting");
}

/// What the database says when a row that the owner sees is added by somebody of another org.
async fn copy_foreign_row(client: &Client, owner: &Client, table: &str) -> Option<String> {
    let row =
        format!("SELECT row_to_json(t)::text FROM {table} t WHERE org_id IS NOT NULL LIMIT 1");
    let json: String = owner.query_opt(&row, &[]).await.expect(table)?.get(0);
    let add = format!(
        "INSERT INTO {table} OVERRIDING SYSTEM VALUE
         SELECT * FROM json_populate_record(NULL::{table}, $1::text::json)"
    );
    let refused = client.execute(&add, &[&json]).await.expect_err(table);
    Some(code(&refused).to_owned())
}

fn code(error: &tokio_postgres::Error) -> &str {
    error.code().map_or("", |code| code.code())
}
