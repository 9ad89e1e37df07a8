//! bubblewrap's part: namespaces, and mounts that leave out what is not the agent's business.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    io::{self, Write},
    path::{Component, Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use super::{
    Launcher, Network,
    places::Places,
    support::{Bubblewrap, Nesting},
};

/// For programs that insist on `/tmp`; everything else finds `TMPDIR`.
const TEMPORARY_BYTES: &str = "536870912";
const LINKS_AT_MOST: usize = 40;

/// Sees whether bubblewrap may do here what it is needed for.
pub(super) fn try_out(launcher: &Launcher) -> Bubblewrap {
    let Some(bubblewrap) = &launcher.bubblewrap else { return Bubblewrap::Missing };
    let mut reason = String::new();
    for nesting in [Nesting::Forbidden, Nesting::Possible] {
        let mut command = Command::new(bubblewrap);
        command.env_clear().args(namespaces(nesting, Network::Deny));
        command.args(["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--"]);
        command.arg(&launcher.skein).args(["__confine", "--probe"]).stdin(Stdio::null());
        match command.output() {
            Ok(output) if output.status.success() => {
                if is_inside(&output.stdout) {
                    return Bubblewrap::Works { version: version(bubblewrap), nesting };
                }
                reason = "it ran nothing in namespaces of its own".to_owned();
            }
            Ok(output) => reason = last_line(&output.stderr),
            Err(error) => return Bubblewrap::Fails { reason: error.to_string() },
        }
    }
    Bubblewrap::Fails { reason }
}

/// For [`try_out`], from inside: says which process of which namespaces this is.
pub fn locate() -> ExitCode {
    let located = location().and_then(|location| io::stdout().write_all(location.as_bytes()));
    if located.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn location() -> io::Result<String> {
    let [user, pid] = ["user", "pid"].map(|kind| fs::read_link(format!("/proc/self/ns/{kind}")));
    Ok(format!("{} {} {}", std::process::id(), user?.display(), pid?.display()))
}

/// Whether somebody who was asked where they are is the first process of other namespaces than these.
fn is_inside(said: &[u8]) -> bool {
    let Ok(ours) = location() else { return false };
    let said = String::from_utf8_lossy(said);
    let (said, ours): (Vec<_>, Vec<_>) = (said.split(' ').collect(), ours.split(' ').collect());
    match (&said[..], &ours[..]) {
        (["1", user, pid], [_, our_user, our_pid]) => user != our_user && pid != our_pid,
        _ => false,
    }
}

/// The arguments before the command to run.
pub(super) fn arguments(
    places: &Places,
    workspace: &Path,
    skein: &Path,
    nesting: Nesting,
    network: Network,
) -> Vec<OsString> {
    let mut mounts = Mounts::new(places, workspace, skein);
    mounts.add_links(&places.named);
    let mut arguments: Vec<OsString> =
        namespaces(nesting, network).into_iter().map(OsString::from).collect();
    arguments.extend(mounts.into_arguments());
    arguments
}

/// Without `--die-with-parent`: a bubblewrap that is killed as it begins can leave a process which waits for it for ever.
/// The supervisor's lifeline does the same work, and reaches one that starts late.
fn namespaces(nesting: Nesting, network: Network) -> Vec<&'static str> {
    let mut arguments = vec![
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--as-pid-1",
        "--new-session",
        "--cap-drop",
        "ALL",
    ];
    if nesting == Nesting::Forbidden {
        arguments.push("--disable-userns");
    }
    if network == Network::Deny {
        arguments.push("--unshare-net");
    }
    arguments
}

/// What is put at a path.
#[derive(Debug)]
enum Mount {
    Readable,
    Writable,
    Link { target: PathBuf },
    Processes,
    Devices,
    Temporary,
    EmptyFile,
    EmptyDirectory,
}

/// By path, so that a directory comes before what is in it.
#[derive(Debug)]
struct Mounts(BTreeMap<PathBuf, Mount>);

impl Mounts {
    fn new(places: &Places, workspace: &Path, skein: &Path) -> Self {
        let mut mounts = BTreeMap::new();
        let mut put = |path: &Path, mount| mounts.insert(path.to_owned(), mount);
        put(skein, Mount::Readable);
        for path in &places.readable {
            put(path, Mount::Readable);
        }
        for path in &places.masked {
            let seen = places.readable.iter().chain(&places.writable);
            if seen.into_iter().any(|place| path.starts_with(place)) {
                put(path, if path.is_dir() { Mount::EmptyDirectory } else { Mount::EmptyFile });
            }
        }
        for path in &places.writable {
            put(path, Mount::Writable);
        }
        put(Path::new("/tmp"), Mount::Temporary);
        put(Path::new("/proc"), Mount::Processes);
        put(Path::new("/dev"), Mount::Devices);
        put(workspace, Mount::Writable);
        // What is in there is made anew.
        mounts.retain(|path, _| {
            let made = ["/proc", "/dev"].map(Path::new);
            made.contains(&path.as_path()) || !made.iter().any(|place| path.starts_with(place))
        });
        Self(mounts)
    }

    /// Makes every path reachable by its own name, over all of its links.
    fn add_links(&mut self, paths: &[PathBuf]) {
        for path in paths {
            for (link, target) in links(path) {
                let shown = self.0.keys().any(|place| link.starts_with(place) && place != &link);
                if !shown {
                    self.0.entry(link).or_insert(Mount::Link { target });
                }
            }
        }
    }

    fn into_arguments(self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut closing: Vec<OsString> = Vec::new();
        for (path, mount) in self.0 {
            let path = path.as_os_str();
            let parts: &[&OsStr] = match &mount {
                Mount::Readable => &["--ro-bind".as_ref(), path, path],
                Mount::Writable => &["--bind".as_ref(), path, path],
                Mount::Link { target } => &["--symlink".as_ref(), target.as_os_str(), path],
                Mount::Processes => &["--proc".as_ref(), path],
                Mount::Devices => &["--dev".as_ref(), path],
                Mount::Temporary => {
                    &["--size".as_ref(), TEMPORARY_BYTES.as_ref(), "--tmpfs".as_ref(), path]
                }
                Mount::EmptyFile => &["--ro-bind".as_ref(), "/dev/null".as_ref(), path],
                Mount::EmptyDirectory => {
                    closing.extend(["--remount-ro".into(), path.to_owned()]);
                    &["--tmpfs".as_ref(), path]
                }
            };
            arguments.extend(parts.iter().map(|part| part.to_os_string()));
        }
        arguments.extend(closing);
        arguments.extend(["--remount-ro", "/"].map(OsString::from));
        arguments
    }
}

/// The links that a path leads over, with what each says.
fn links(path: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut found = Vec::new();
    let mut rest: Vec<_> =
        path.components().rev().map(|part| part.as_os_str().to_owned()).collect();
    let mut walked = PathBuf::new();
    while let Some(part) = rest.pop() {
        match Path::new(&part).components().next() {
            Some(Component::ParentDir) => {
                walked.pop();
                continue;
            }
            Some(Component::CurDir) | None => continue,
            Some(_) => walked.push(&part),
        }
        if let Ok(target) = fs::read_link(&walked) {
            found.push((walked.clone(), target.clone()));
            if found.len() > LINKS_AT_MOST {
                break;
            }
            walked.pop();
            rest.extend(target.components().rev().map(|part| part.as_os_str().to_owned()));
        }
    }
    found
}

fn version(bubblewrap: &Path) -> String {
    let output = Command::new(bubblewrap).env_clear().arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let text = text.unwrap_or_default();
    text.strip_prefix("bubblewrap ").unwrap_or(&text).to_owned()
}

fn last_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    line.strip_prefix("bwrap: ").unwrap_or(line).trim().to_owned()
}
