//! What the index already knows about a file.

use std::collections::HashMap;

use tokio::runtime::Handle;
use uuid::Uuid;

use super::{
    Inner,
    client::{Fields, Point},
    filters::{all, any, is, of_repo, open_at},
    points::{FileState, Kind, RepoState},
};
use crate::{
    fault::Fault,
    pipeline::{self, Evidence, Known, Order},
    walk::{Found, RULES, Stat},
};

/// More versions of as many files as are asked for at once there cannot be: one is visible, one may be staged.
const VERSIONS: usize = 4;

/// The files of one repository.
pub(super) struct Ledger<'a> {
    pub inner: &'a Inner,
    pub handle: &'a Handle,
    pub order: &'a Order,
    pub state: &'a RepoState,
}

impl pipeline::Ledger for Ledger<'_> {
    type Id = Uuid;

    fn known(&self, files: &[Found]) -> Result<Vec<Vec<Known<Uuid>>>, Fault> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let mut conditions = of_repo(self.order.org, self.order.job.repo, Kind::File);
        conditions.extend([
            any("path", &paths),
            is("is_complete", true),
            open_at(self.state.visible),
        ]);
        let fields = Fields {
            payload: &[
                "path", "sha256", "chunks", "from", "size", "mtime_ns", "ctime_ns", "inode", "blob",
            ],
            vector: None,
        };
        let limit = files.len() * VERSIONS;
        let filter = all(conditions);
        let found = self.inner.client.scroll(&filter, fields, (limit, None));
        let (mut found, _) = self.handle.block_on(found)?;
        found.sort_by_key(|point: &Point<FileState>| point.payload.from);
        let mut by_path: HashMap<String, Vec<Known<Uuid>>> = HashMap::new();
        for point in found {
            let path = point.payload.path.clone();
            let mut known = known(point);
            if self.state.rules != RULES {
                known.evidence = Evidence::default();
            }
            by_path.entry(path).or_default().push(known);
        }
        Ok(files.iter().map(|file| by_path.remove(&file.path).unwrap_or_default()).collect())
    }
}

fn known(point: Point<FileState>) -> Known<Uuid> {
    let Point { id, payload: file, .. } = point;
    let stat = match (file.size, file.mtime_ns, file.ctime_ns, file.inode) {
        (Some(size), Some(mtime_ns), Some(ctime_ns), Some(inode)) => Some(Stat {
            size: size.cast_unsigned(),
            mtime_ns,
            ctime_ns,
            inode: inode.cast_unsigned(),
        }),
        _ => None,
    };
    Known {
        id,
        chunks: file.chunks,
        sha256: *file.sha256.as_bytes(),
        evidence: Evidence { stat, blob: file.blob },
    }
}
