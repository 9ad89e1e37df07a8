//! The workspace root: which directories agents may work in, decided by opening them.

use std::{
    io::{self, Read},
    path::{Component, Path, PathBuf},
};

use async_trait::async_trait;
use cap_std::{ambient_authority, fs::Dir};
use skein_core::{
    model::OrgId,
    ports::{WorkspaceError, Workspaces},
};

/// Files are indexed up to a tenth of this.
const MAX_TEXT_BYTES: u64 = 1024 * 1024;

/// Stands for the id of an organisation in the path of a root.
const ORG: &str = "{org}";

/// Work trees under one root, or one for each organisation, and single ones that the operator vouched for.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceRoot {
    root: Option<PathBuf>,
    /// A file with one absolute path per line, read anew each time: work trees that the operator vouched for.
    trusted: Option<PathBuf>,
}

impl WorkspaceRoot {
    /// Without a root no path is allowed.
    pub fn new(root: Option<PathBuf>) -> Self {
        Self { root, trusted: None }
    }

    /// Also allows the work trees that are listed in this file, and nothing above or below them.
    pub fn trusting(self, list: PathBuf) -> Self {
        Self { trusted: Some(list), ..self }
    }

    /// Exactly a listed work tree: the same directory by its real path, whichever way it is written.
    fn resolve_trusted(&self, path: &Path) -> Option<Result<String, WorkspaceError>> {
        let list = std::fs::read_to_string(self.trusted.as_ref()?).ok()?;
        let real = path.is_absolute().then(|| path.canonicalize().ok()).flatten()?;
        let real = real.to_str()?;
        list.lines().find(|line| *line == real)?;
        let tree = Dir::open_ambient_dir(real, ambient_authority());
        let checked = tree.map_err(WorkspaceError::Unreadable).and_then(|tree| check_git(&tree));
        Some(checked.map(|()| real.to_owned()))
    }

    fn root_of(&self, org: OrgId) -> Option<PathBuf> {
        let root = self.root.as_ref()?;
        match root.to_str() {
            Some(text) if text.contains(ORG) => {
                Some(PathBuf::from(text.replace(ORG, &org.to_string())))
            }
            _ => Some(root.clone()),
        }
    }

    /// Follows links inside the root only; whatever leads out of it fails to open.
    fn resolve_blocking(&self, org: OrgId, path: &Path) -> Result<String, WorkspaceError> {
        if let Some(trusted) = self.resolve_trusted(path) {
            return trusted;
        }
        let configured = &self.root_of(org).ok_or(WorkspaceError::NoRoot)?;
        let root_path = configured.canonicalize().map_err(WorkspaceError::Unreadable)?;
        let root = Dir::open_ambient_dir(&root_path, ambient_authority())
            .map_err(WorkspaceError::Unreadable)?;
        let inside = relative_to(path, configured)
            .or_else(|| relative_to(path, &root_path))
            .ok_or(WorkspaceError::Outside)?;
        let tree = root.open_dir(&inside).map_err(|error| refusal(&inside, error))?;
        let real = root.canonicalize(&inside).map_err(|error| refusal(&inside, error))?;
        check_git(&tree)?;
        let real = root_path.join(real);
        let text = real.to_str().ok_or(WorkspaceError::NotARepository)?;
        Ok(text.trim_end_matches('/').to_owned())
    }
}

#[async_trait]
impl Workspaces for WorkspaceRoot {
    async fn resolve(&self, org: OrgId, path: &str) -> Result<String, WorkspaceError> {
        let (workspaces, path) = (self.clone(), PathBuf::from(path));
        tokio::task::spawn_blocking(move || workspaces.resolve_blocking(org, &path))
            .await
            .unwrap_or_else(|error| Err(WorkspaceError::Unreadable(io::Error::other(error))))
    }

    async fn read(
        &self,
        org: OrgId,
        work_tree: &str,
        paths: Vec<String>,
    ) -> Result<Vec<Option<String>>, WorkspaceError> {
        let (workspaces, work_tree) = (self.clone(), PathBuf::from(work_tree));
        tokio::task::spawn_blocking(move || {
            let real = workspaces.resolve_blocking(org, &work_tree)?;
            let tree = Dir::open_ambient_dir(real, ambient_authority())
                .map_err(WorkspaceError::Unreadable)?;
            Ok(paths.iter().map(|path| read_text(&tree, path)).collect())
        })
        .await
        .unwrap_or_else(|error| Err(WorkspaceError::Unreadable(io::Error::other(error))))
    }
}

/// Only what is a file, because anything else could keep us waiting.
fn read_text(tree: &Dir, path: &str) -> Option<String> {
    let is_file = tree.symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    let file = is_file.then(|| tree.open(path).ok()).flatten()?;
    let mut bytes = Vec::new();
    file.take(MAX_TEXT_BYTES).read_to_end(&mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}

/// The part below the root, by whole components, so that `/srv/repos-other` is not inside `/srv/repos`.
fn relative_to(path: &Path, root: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return Some(path.to_owned());
    }
    let inside = path.strip_prefix(root).ok()?;
    Some(if inside.as_os_str().is_empty() { PathBuf::from(".") } else { inside.to_owned() })
}

/// The sandbox answers an escape with a refusal; anything else is simply not there.
fn refusal(inside: &Path, error: io::Error) -> WorkspaceError {
    let climbs = inside.components().any(|part| part == Component::ParentDir);
    match error.kind() {
        io::ErrorKind::PermissionDenied => WorkspaceError::Outside,
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if !climbs => {
            WorkspaceError::NotARepository
        }
        _ if climbs => WorkspaceError::Outside,
        _ => WorkspaceError::Unreadable(error),
    }
}

/// `.git` is a directory with a HEAD, or the file of a linked work tree; neither may lead elsewhere.
fn check_git(tree: &Dir) -> Result<(), WorkspaceError> {
    let git = tree.symlink_metadata(".git").map_err(|_| WorkspaceError::NotARepository)?;
    let is_repository = git.is_file() || (git.is_dir() && tree.is_file(".git/HEAD"));
    if is_repository { Ok(()) } else { Err(WorkspaceError::NotARepository) }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    /// A root with one repository, a plain directory, and a repository beside the root.
    struct Place {
        _directory: tempfile::TempDir,
        base: PathBuf,
        workspaces: WorkspaceRoot,
    }

    fn repository(path: &Path) {
        fs::create_dir_all(path.join(".git")).unwrap();
        fs::write(path.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    fn place() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        repository(&base.join("repos/web"));
        repository(&base.join("repos-other/web"));
        repository(&base.join("outside"));
        fs::create_dir_all(base.join("repos/plain")).unwrap();
        let workspaces = WorkspaceRoot::new(Some(base.join("repos")));
        Place { _directory: directory, base, workspaces }
    }

    fn org(number: u128) -> OrgId {
        OrgId::from_uuid(uuid::Uuid::from_u128(number))
    }

    async fn verdict(place: &Place, path: &str) -> String {
        match place.workspaces.resolve(org(1), path).await {
            Ok(real) => real.replace(place.base.to_str().unwrap(), ""),
            Err(error) => format!("{error:?}").split('(').next().unwrap().to_owned(),
        }
    }

    #[tokio::test]
    async fn only_git_work_trees_under_the_root_are_allowed_however_they_are_written() {
        let place = place();
        let base = place.base.to_str().unwrap().to_owned();
        symlink(place.base.join("outside"), place.base.join("repos/link-out")).unwrap();
        symlink("web", place.base.join("repos/link-in")).unwrap();
        symlink("loop", place.base.join("repos/loop")).unwrap();
        symlink(place.base.join("outside/.git"), place.base.join("repos/plain/.git")).unwrap();

        let table = [
            (format!("{base}/repos/web"), "/repos/web"),
            ("web".to_owned(), "/repos/web"),
            (format!("{base}/repos/web/"), "/repos/web"),
            (format!("{base}/repos/./web/../web"), "/repos/web"),
            (format!("{base}/repos/link-in"), "/repos/web"),
            (format!("{base}/outside"), "Outside"),
            (format!("{base}/repos-other/web"), "Outside"),
            (format!("{base}/repos/../outside"), "Outside"),
            (format!("{base}/repos/web/../../outside"), "Outside"),
            ("../outside".to_owned(), "Outside"),
            (format!("{base}/repos/link-out"), "Outside"),
            ("/etc".to_owned(), "Outside"),
            (format!("{base}/repos/plain"), "NotARepository"),
            (format!("{base}/repos/missing"), "NotARepository"),
            (format!("{base}/repos/web/.git/HEAD"), "NotARepository"),
        ];
        for (path, expected) in table {
            assert_eq!(verdict(&place, &path).await, expected, "{path}");
        }
        assert_eq!(verdict(&place, "loop").await, "Unreadable");
    }

    #[tokio::test]
    async fn a_directory_replaced_by_a_link_is_noticed_on_the_next_check() {
        let place = place();
        assert_eq!(verdict(&place, "web").await, "/repos/web");

        fs::rename(place.base.join("repos/web"), place.base.join("moved")).unwrap();
        symlink(place.base.join("outside"), place.base.join("repos/web")).unwrap();

        assert_eq!(verdict(&place, "web").await, "Outside");
    }

    #[tokio::test]
    async fn without_a_root_nothing_is_allowed() {
        let refused = WorkspaceRoot::new(None).resolve(org(1), "/anything").await;

        assert!(matches!(refused, Err(WorkspaceError::NoRoot)));
    }

    #[tokio::test]
    async fn organisations_with_roots_of_their_own_do_not_reach_each_other() {
        let place = place();
        let trees = [1, 2].map(|number| place.base.join(format!("orgs/{}/web", org(number))));
        trees.iter().for_each(|tree| repository(tree));
        let workspaces = WorkspaceRoot::new(Some(place.base.join("orgs/{org}")));
        let [own, other] = trees.map(|tree| tree.to_str().unwrap().to_owned());

        let found = workspaces.resolve(org(1), &own).await.unwrap();
        let foreign = workspaces.resolve(org(1), &other).await;
        let climbing = workspaces.resolve(org(1), &format!("../{}/web", org(2))).await;

        assert_eq!(found, own);
        assert!(matches!(foreign, Err(WorkspaceError::Outside)), "{foreign:?}");
        assert!(matches!(climbing, Err(WorkspaceError::Outside)), "{climbing:?}");
    }
}
