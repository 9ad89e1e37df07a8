//! The server under attack, on either engine.

use std::{fs, path::PathBuf};

use tokio_postgres::{Config, NoTls, config::Host};

use crate::{
    common::{TestHome, TestServer},
    harness::{AGENTS, Api},
};

/// A home that is ready to be served, with a root for work trees.
pub(crate) struct Engine {
    home: TestHome,
}

impl Engine {
    pub(crate) fn sqlite() -> Self {
        Self::with_store("")
    }

    /// In an empty database of its own. `None` where no server was started for the tests, except in CI, where that
    /// is an error.
    #[expect(
        clippy::disallowed_methods,
        reason = "where the tests' server is comes from their script"
    )]
    pub(crate) async fn postgres() -> Option<Self> {
        let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
        let app = variable("SKEIN_TEST_POSTGRES");
        let in_ci = variable("CI").is_some_and(|ci| ci == "true");
        assert!(!in_ci || app.is_some(), "SKEIN_TEST_POSTGRES is not set in CI");
        let (app, owner) = (app?, variable("SKEIN_TEST_POSTGRES_OWNER")?);
        let (client, connection) = tokio_postgres::connect(&owner, NoTls).await.unwrap();
        let mut driver = tokio::task::JoinSet::new();
        driver.spawn(connection);
        let row = client.query_one("SELECT gen_random_uuid()::text", &[]).await.unwrap();
        let name = format!("skein_matrix_{}", row.get::<_, String>(0).replace('-', ""));
        client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (app, owner) = (url(&app, &name), url(&owner, &name));
        let engine =
            Self::with_store(&format!("[store]\nurl = '{app}'\nmigrate_url = '{owner}'\n"));
        engine.home.run(&["migrate", "up", "--json"]).json();
        Some(engine)
    }

    fn with_store(store: &str) -> Self {
        let home = TestHome::new();
        let root = home.file("root");
        fs::create_dir_all(&root).unwrap();
        let root = root.canonicalize().unwrap();
        let root = root.to_str().unwrap();
        home.write_config(&format!("{store}{AGENTS}\n[workspace]\nroot = '{root}'\n"));
        Self { home }
    }

    pub(crate) async fn start(&self) -> (TestServer, Api) {
        let server = TestServer::on(self.home.clone()).await;
        let owner = Api::of(&server);
        (server, owner)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.home.file("root").canonicalize().unwrap()
    }
}

/// The address of a database in the form that settings have.
fn url(login: &str, database: &str) -> String {
    let config: Config = login.parse().unwrap();
    let Host::Unix(directory) = &config.get_hosts()[0] else { panic!("not a socket: {login}") };
    let directory = directory.to_str().unwrap().replace('/', "%2F");
    format!("postgres://{}@{directory}/{database}", config.get_user().unwrap())
}
