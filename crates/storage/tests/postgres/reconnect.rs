//! A connection that breaks costs retries and refusals, never an acknowledgement that is lost or doubled.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicUsize, Ordering},
};

use skein_core::ports::{ChangeSet, Storage, StoreError};
use skein_storage::postgres::PostgresStore;
use skein_testkit::World;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    task::JoinSet,
};
use tokio_postgres::{Config, config::Host};

use super::server::{Database, Server, connect};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_set_goes_on_over_another_connection_when_its_own_is_ended() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let store: Arc<dyn Storage> = Arc::new(database.open(4).await);
    let world = World::new(Arc::clone(&store)).await;
    let (administrator, _driver) = connect(&database.app).await;

    for round in 0..20 {
        administrator
            .execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                 WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()",
                &[],
            )
            .await
            .expect("the end of all connections");
        world.commit(saying(&world, &format!("round {round}"))).await;
    }

    assert_eq!(world.log(world.session.id).await.len(), 21);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_not_answered_is_done_once_and_acknowledged() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let line = Line::to(&database).await;
    let store: Arc<dyn Storage> =
        Arc::new(PostgresStore::open(&line.url, 2).await.expect("a store"));
    let world = World::new(Arc::clone(&store)).await;

    // The first is undone by the server and done again, the second was kept.
    for (cuts, cut) in [Cut::BeforeCommit, Cut::AfterCommit].into_iter().enumerate() {
        let before = world.log(world.session.id).await.len();
        line.cut(cut);

        let committed = store.commit(&world.as_owner(), saying(&world, "once")).await;

        let events = committed.unwrap_or_else(|error| panic!("{cut:?}: {error}")).events;
        let log = world.log(world.session.id).await;
        assert_eq!(log.len() - before, 1, "{cut:?}");
        assert_eq!(events.last().map(|event| event.seq), log.last().map(|event| event.seq));
        assert_eq!(line.cuts.load(Ordering::SeqCst), 1 + cuts, "{cut:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_is_unavailable_and_comes_back() {
    let Some(server) = Server::from_environment() else { return };
    let database = server.fresh_database().await;
    let line = Line::to(&database).await;
    let store: Arc<dyn Storage> =
        Arc::new(PostgresStore::open(&line.url, 2).await.expect("a store"));
    let world = World::new(Arc::clone(&store)).await;

    line.cut(Cut::Everything);
    let written = store.commit(&world.as_owner(), saying(&world, "lost")).await;
    let read = store.find_session(&world.as_owner(), world.session.id).await;
    line.cut(Cut::Nothing);
    world.commit(saying(&world, "and on")).await;

    assert!(matches!(written, Err(StoreError::Unavailable(_))), "{written:?}");
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    assert_eq!(world.log(world.session.id).await.len(), 2);
}

fn saying(world: &World, text: &str) -> ChangeSet {
    let events = vec![world.message(world.session.log, text)];
    ChangeSet { events, ..ChangeSet::default() }
}

/// What becomes of the line between the store and the server.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(u8)]
enum Cut {
    Nothing,
    /// The next COMMIT does not reach the server.
    BeforeCommit,
    /// The next COMMIT reaches the server, whose answer does not come back.
    AfterCommit,
    /// Nothing comes through.
    Everything,
}

impl Cut {
    const ALL: [Self; 4] = [Self::Nothing, Self::BeforeCommit, Self::AfterCommit, Self::Everything];
}

/// A line to the server that can be cut.
struct Line {
    url: String,
    cut: Arc<AtomicU8>,
    /// How many commits were cut off.
    cuts: Arc<AtomicUsize>,
    _directory: TempDir,
    _tasks: JoinSet<()>,
}

impl Line {
    async fn to(database: &Database) -> Self {
        let config: Config = database.app.parse().expect("a URL");
        let Some(Host::Unix(socket)) = config.get_hosts().first() else { panic!("a socket") };
        let server = socket.join(".s.PGSQL.5432");
        let directory = tempfile::tempdir().expect("a directory");
        let listener =
            UnixListener::bind(directory.path().join(".s.PGSQL.5432")).expect("a listener");
        let url = format!(
            "host={} user={} dbname={}",
            directory.path().display(),
            config.get_user().expect("a user"),
            config.get_dbname().expect("a database")
        );
        let (cut, cuts) = (Arc::new(AtomicU8::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        let state = (Arc::clone(&cut), Arc::clone(&cuts));
        tasks.spawn(async move {
            let mut calls = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (server, (cut, cuts)) = (server.clone(), state.clone());
                calls.spawn(async move { carry(client, &server, &cut, &cuts).await });
            }
        });
        Self { url, cut, cuts, _directory: directory, _tasks: tasks }
    }

    fn cut(&self, cut: Cut) {
        self.cut.store(cut as u8, Ordering::SeqCst);
    }
}

/// Carries bytes both ways until an end hangs up or the line is cut.
async fn carry(
    mut client: UnixStream,
    server: &std::path::Path,
    cut: &AtomicU8,
    cuts: &AtomicUsize,
) {
    let Ok(mut server) = UnixStream::connect(server).await else { return };
    let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        let (bytes, is_up) = tokio::select! {
            read = client.read(&mut up) => (read.unwrap_or(0), true),
            read = server.read(&mut down) => (read.unwrap_or(0), false),
        };
        let now = Cut::ALL[usize::from(cut.load(Ordering::SeqCst))];
        if bytes == 0 || now == Cut::Everything {
            return;
        }
        if !is_up {
            if client.write_all(&down[..bytes]).await.is_err() {
                return;
            }
            continue;
        }
        let is_commit = up[..bytes].windows(6).any(|part| part == b"COMMIT");
        match now {
            Cut::BeforeCommit if is_commit => {
                cut.store(Cut::Nothing as u8, Ordering::SeqCst);
                cuts.fetch_add(1, Ordering::SeqCst);
                return;
            }
            Cut::AfterCommit if is_commit => {
                cut.store(Cut::Nothing as u8, Ordering::SeqCst);
                cuts.fetch_add(1, Ordering::SeqCst);
                server.write_all(&up[..bytes]).await.ok();
                // Its answer says that it is done, and is kept from the client.
                let answered = server.read(&mut down).await.unwrap_or(0);
                assert_ne!(answered, 0, "the server answers");
                return;
            }
            _ => {}
        }
        if server.write_all(&up[..bytes]).await.is_err() {
            return;
        }
    }
}
