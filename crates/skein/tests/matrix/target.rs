//! The server under attack, on either engine.

use std::{fs, path::PathBuf};

use crate::{
    common::{TestHome, TestServer},
    harness::{AGENTS, Api},
};

/// A home that is ready to be served, with a root for work trees.
pub(crate) struct Target {
    home: TestHome,
}

impl Target {
    pub(crate) fn on(home: TestHome) -> Self {
        let root = home.file("root");
        fs::create_dir_all(&root).unwrap();
        let root = root.canonicalize().unwrap();
        let root = root.to_str().unwrap();
        home.write_config(&format!("{AGENTS}\n[workspace]\nroot = '{root}'\n"));
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
