//! Ways to files outside of the workspace.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use rustix::{
    fs::{XattrFlags, fremovexattr, fsetxattr, lremovexattr, lsetxattr, removexattr, setxattr},
    io::Errno,
};

use crate::{Outcome, Probe, Targets, perl};

const ATTRIBUTE: &str = "user.skein-probe";
const SWAPS: usize = 3_000;

pub(super) const PROBES: &[Probe] = &[
    ("parent_directory", |t| t.read("../../outside/secret")),
    ("absolute_path", |t| t.read(t.outside.join("secret"))),
    ("list_outside", |t| found(fs::read_dir(&t.outside)?.count())),
    ("list_above", |t| {
        t.expect_secret(names(Path::new(".."))?.join(" ").replace("other", &t.secret))
    }),
    ("symlink_read", symlink_read),
    ("symlink_write", symlink_write),
    ("symlink_of_parts", symlink_of_parts),
    ("symlink_swap_race", symlink_swap_race),
    ("proc_self_root", |t| t.read(below("/proc/self/root", &t.outside.join("secret")))),
    ("proc_1_root", |t| t.read(below("/proc/1/root", &t.outside.join("secret")))),
    ("proc_self_cwd", |t| t.read("/proc/self/cwd/../../outside/secret")),
    ("proc_thread_self_root", |t| {
        t.read(below("/proc/thread-self/root", &t.outside.join("secret")))
    }),
    ("hard_link_in", hard_link_in),
    ("hard_link_out", |t| {
        fs::write("own", "own")?;
        done(fs::hard_link("own", t.outside.join("planted-link")))
    }),
    ("rename_in", |t| done(fs::rename(t.outside.join("movable"), "moved"))),
    ("rename_out", |t| {
        fs::write("own", "own")?;
        done(fs::rename("own", t.outside.join("planted-file")))
    }),
    ("rename_exchange", |t| {
        fs::write("own", "own")?;
        let (from, to) = (rustix::fs::CWD, t.outside.join("exchanged"));
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        Ok(rustix::fs::renameat_with(from, "own", from, to, flags).map(|()| "exchanged".into())?)
    }),
    ("create_outside", |t| done(fs::write(t.outside.join("created"), "x"))),
    ("append_outside", |t| append(t.outside.join("appended"))),
    ("open_and_truncate", |t| {
        done(OpenOptions::new().write(true).truncate(true).open(t.outside.join("truncated")))
    }),
    ("truncate_by_name", |t| {
        let path = t.outside.join("cut").display().to_string();
        perl("truncate($ARGV[0], 0) or die $!; print 'cut'", &[&path])
    }),
    ("delete_outside", |t| done(fs::remove_file(t.outside.join("deletable")))),
    ("make_directory_outside", |t| done(fs::create_dir(t.outside.join("made")))),
    ("remove_directory_outside", |t| done(fs::remove_dir(t.outside.join("empty")))),
    ("make_fifo_outside", |t| special(&t.outside.join("fifo"), rustix::fs::FileType::Fifo)),
    ("make_symlink_outside", |t| done(symlink("x", t.outside.join("planted-symlink")))),
    ("change_mode_outside", |t| {
        let mode = fs::Permissions::from_mode(0o777);
        done(fs::set_permissions(t.outside.join("mode"), mode))
    }),
    ("set_attribute_outside", |t| {
        Ok(setxattr(t.outside.join("mode"), ATTRIBUTE, b"x", XattrFlags::empty())
            .map(|()| "set".into())?)
    }),
    ("set_attribute_of_link_outside", |t| {
        Ok(lsetxattr(t.outside.join("mode"), ATTRIBUTE, b"x", XattrFlags::empty())
            .map(|()| "set".into())?)
    }),
    ("set_attribute_by_handle", |_| {
        fs::write("own", "own")?;
        Ok(fsetxattr(fs::File::open("own")?, ATTRIBUTE, b"x", XattrFlags::empty())
            .map(|()| "set".into())?)
    }),
    ("remove_attribute_outside", |t| removed(removexattr(t.outside.join("mode"), ATTRIBUTE))),
    ("remove_attribute_of_link_outside", |t| {
        removed(lremovexattr(t.outside.join("mode"), ATTRIBUTE))
    }),
    ("remove_attribute_by_handle", |_| {
        fs::write("own", "own")?;
        removed(fremovexattr(fs::File::open("own")?, ATTRIBUTE))
    }),
    ("run_program_outside", |t| {
        t.expect_secret(Command::new(t.outside.join("tool")).output()?.stdout)
    }),
    ("other_repository", |t| t.read("../other/secret")),
    ("other_home_key", |t| t.read(t.other_home.join(".ssh/id_ed25519"))),
    ("other_home_plant_key", |t| append(t.other_home.join(".ssh/authorized_keys"))),
    ("other_home_bashrc", |t| append(t.other_home.join(".bashrc"))),
    ("home_of_user", home_of_user),
    ("skein_database", |t| t.read(t.skein_home.join("skein.db"))),
    ("skein_database_write", |t| append(t.skein_home.join("skein.db"))),
    ("skein_token", |t| t.read(t.skein_home.join("token"))),
    ("skein_list", |t| {
        // Its own home is in there, behind an empty directory.
        t.expect_secret(names(&t.skein_home)?.join(" ").replace("token", &t.secret))
    }),
    ("home_of_other_session", |t| t.read(t.skein_home.join("agents/2/home/secret"))),
    ("climb_out_of_home", |t| t.read("../../skein/agents/1/home/../../../token")),
    ("shared_temporary_read", |t| t.read(&t.shared[0])),
    ("shared_temporary_write", |t| append(t.shared[0].clone())),
    ("shared_memory_read", |t| t.read(&t.shared[1])),
    ("shared_memory_write", |t| append(t.shared[1].clone())),
    ("etc_shadow", |_| found(fs::read("/etc/shadow")?.len())),
    ("etc_write", |t| plant(format!("/etc/skein-probe-{}", t.marker))),
    ("usr_write", |t| plant(format!("/usr/skein-probe-{}", t.marker))),
    ("root_write", |t| plant(format!("/skein-probe-{}", t.marker))),
    ("var_write", |t| plant(format!("/var/skein-probe-{}", t.marker))),
    ("log_read", |_| found(fs::read_dir("/var/log")?.count())),
    ("inherited_handles", inherited_handles),
];

/// That there is nothing to remove is known only to who may remove it.
fn removed(result: rustix::io::Result<()>) -> Outcome {
    match result {
        Ok(()) | Err(Errno::NODATA) => Ok("removed".into()),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn done<T>(result: std::io::Result<T>) -> Outcome {
    result.map(|_| "done".to_owned()).map_err(Into::into)
}

pub(super) fn found(count: usize) -> Outcome {
    match count {
        0 => Err("there was nothing".into()),
        count => Ok(format!("found {count}")),
    }
}

/// Makes a file in a place of the system, and takes it away again if that worked.
fn plant(path: String) -> Outcome {
    fs::write(&path, "x")?;
    done(fs::remove_file(&path))
}

fn append(path: impl Into<PathBuf>) -> Outcome {
    done(OpenOptions::new().append(true).open(path.into())?.write_all(b"planted"))
}

fn names(path: &Path) -> std::io::Result<Vec<String>> {
    fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().display().to_string())).collect()
}

fn below(root: &str, path: &Path) -> PathBuf {
    let mut whole = PathBuf::from(root);
    whole.extend(path.components().skip(1));
    whole
}

pub(super) fn special(path: &Path, kind: rustix::fs::FileType) -> Outcome {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let device = rustix::fs::makedev(1, 3);
    Ok(rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, device).map(|()| "made".into())?)
}

fn symlink_read(targets: &Targets) -> Outcome {
    fs::remove_file("link").ok();
    symlink(targets.outside.join("secret"), "link")?;
    targets.read("link")
}

fn symlink_write(targets: &Targets) -> Outcome {
    fs::remove_file("write-link").ok();
    symlink(targets.outside.join("linked"), "write-link")?;
    append("write-link")
}

fn symlink_of_parts(targets: &Targets) -> Outcome {
    fs::remove_file("up").ok();
    symlink("..", "up")?;
    targets.read("up/../outside/secret")
}

/// Swaps a directory for a link to the outside, over and over, while somebody reads through it.
fn symlink_swap_race(targets: &Targets) -> Outcome {
    fs::create_dir_all("race-inside")?;
    fs::write("race-inside/secret", "inside")?;
    fs::remove_file("race-outside").ok();
    symlink(&targets.outside, "race-outside")?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let from = rustix::fs::CWD;
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            while !stop.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(from, "race-inside", from, "race-outside", flags).ok();
            }
        });
        let outcome = (0..SWAPS).find_map(|_| targets.read("race-inside/secret").ok());
        stop.store(true, Ordering::Relaxed);
        outcome.ok_or_else(|| "never won the race".into())
    })
}

fn hard_link_in(targets: &Targets) -> Outcome {
    fs::remove_file("hard").ok();
    fs::hard_link(targets.outside.join("secret"), "hard")?;
    targets.read("hard")
}

/// The home of the user that this runs as, by the user database, whatever `HOME` says.
fn home_of_user(_: &Targets) -> Outcome {
    let user = rustix::process::getuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd")?;
    let line = users.lines().find(|line| line.split(':').nth(2) == Some(&user));
    let home = line.and_then(|line| line.split(':').nth(5)).ok_or("this user has no home")?;
    let files = [".bashrc", ".profile", ".ssh", ".config"].map(|name| Path::new(home).join(name));
    found(files.iter().filter(|path| fs::read(path).is_ok() || fs::read_dir(path).is_ok()).count())
}

/// What was left open by whoever started this, read as it is: opening it anew would be another matter.
fn inherited_handles(targets: &Targets) -> Outcome {
    // Only files: a pipe may have no end. From their beginning: others may have the same handle.
    let script = r#"for my $n (3 .. 1023) {
        my $handle;
        open($handle, "<&=", $n) && -f $handle or next;
        sysseek($handle, 0, 0);
        sysread($handle, my $text, 65536);
        print $text;
    }"#;
    targets.expect_secret(Command::new("perl").args(["-e", script]).output()?.stdout)
}
