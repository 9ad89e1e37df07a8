//! Access rows carry their session's state, whoever writes at the same time.

use std::sync::Arc;

use skein_core::{
    model::{SessionStateName, Turn},
    ports::{ChangeSet, Counting, SessionFilter, SessionQuery, Storage, Visibility, Write},
};
use skein_testkit::World;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use super::server::{Server, connect};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_takes_part_while_a_session_moves_sees_it_where_it_went() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let store: Arc<dyn Storage> = Arc::new(database.open(2).await);
    let world = World::new(Arc::clone(&store)).await;
    let (mover, _driver) = connect(&database.app).await;
    let org = world.org.id.to_string();
    mover.execute("SELECT set_config('skein.org', $1, false)", &[&org]).await.expect("a setting");

    // As the engine moves a session, but slowly.
    mover
        .batch_execute(
            "BEGIN; UPDATE sessions SET state = 'active'; UPDATE session_access SET state = 'active'",
        )
        .await
        .expect("a move");
    let turn = Turn { created_by: world.member.id, ..world.queued_turn(&world.session) };
    let taking_part = ChangeSet {
        writes: vec![Write::CreateTurn { session: world.session.id, turn: Box::new(turn) }],
        ..ChangeSet::default()
    };
    let (writer, scope) = (Arc::clone(&store), world.as_owner());
    let mut part = JoinSet::new();
    part.spawn(async move { writer.commit(&scope, taking_part).await });
    until_somebody_waits(&mover).await;
    mover.batch_execute("COMMIT").await.expect("the end of the move");
    part.join_next().await.expect("a task").expect("its end").expect("a commit");

    for (state, count) in [(SessionStateName::Active, 1), (SessionStateName::Created, 0)] {
        let query = SessionQuery {
            visibility: Visibility::ReadableBy(world.member.id),
            filter: SessionFilter { states: vec![state], ..SessionFilter::default() },
            from: None,
            offset: 0,
            limit: 9,
            counting: Counting::Exact,
        };
        let page = store.list_sessions(&world.as_owner(), &query).await.expect("a page");
        assert_eq!((page.sessions.len(), page.total), (count, count as u64), "{state}");
    }
}

/// Returns once a connection of this database waits for a row that another one holds.
async fn until_somebody_waits(client: &Client) {
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    for _ in 0..2_000 {
        // A view of the statistics is kept for a transaction.
        client.execute("SELECT pg_stat_clear_snapshot()", &[]).await.expect("a fresh view");
        let row = client.query_one(waiting, &[]).await.expect("the connections");
        if row.get::<_, i64>(0) > 0 {
            return;
        }
        client.execute("SELECT pg_sleep(0.005)", &[]).await.expect("a pause");
    }
    panic!("nobody waits");
}
