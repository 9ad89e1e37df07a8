//! Ways around the rules by way of the kernel: mounts, devices, privileges.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::{fd::AsRawFd, unix::fs::FileTypeExt},
    path::Path,
    process::Command,
};

use rustix::{
    fs::{FileType, MemfdFlags},
    mount::mount_bind,
};

use crate::{
    Outcome, Probe, Targets,
    files::{done, found, special},
    perl,
};

pub(super) const PROBES: &[Probe] = &[
    ("bind_mount", |t| {
        fs::create_dir_all("mount")?;
        mount_bind(&t.outside, "mount")?;
        let outcome = t.read("mount/secret");
        rustix::mount::unmount("mount", rustix::mount::UnmountFlags::DETACH).ok();
        outcome
    }),
    ("mount_in_user_namespace", mount_in_user_namespace),
    ("user_namespace", |_| ran(Command::new("unshare").args(["--user", "true"]))),
    ("chroot", |t| {
        fs::create_dir_all("jail")?;
        rustix::process::chroot("jail")?;
        (0..20).try_for_each(|_| std::env::set_current_dir(".."))?;
        t.read(Path::new(".").join(t.outside.strip_prefix("/")?).join("secret"))
    }),
    ("device_in_workspace", |_| special(Path::new("device"), FileType::CharacterDevice)),
    ("block_devices", |_| {
        let devices = fs::read_dir("/dev")?.flatten();
        let mut blocks =
            devices.filter(|device| device.file_type().is_ok_and(|kind| kind.is_block_device()));
        let opened = blocks.find(|device| File::open(device.path()).is_ok());
        opened.map(|device| device.path().display().to_string()).ok_or_else(|| "none".into())
    }),
    ("kernel_memory", |_| done(File::open("/proc/kcore"))),
    ("kernel_log", |_| done(File::open("/dev/kmsg"))),
    ("core_pattern", |_| opened_for_writing("/proc/sys/kernel/core_pattern")),
    ("system_request", |_| opened_for_writing("/proc/sysrq-trigger")),
    ("out_of_memory_score", |_| {
        fs::write("/proc/self/oom_score_adj", "-500")?;
        Ok("lowered".into())
    }),
    ("control_group", |t| {
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"];
        let made = roots.iter().map(|root| format!("{root}/skein-probe-{}", t.marker));
        let made = made.into_iter().find(|path| fs::create_dir(path).is_ok()).ok_or("none")?;
        done(fs::remove_dir(made))
    }),
    ("capabilities", |_| {
        let status = fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find(|line| line.starts_with("CapEff:")).ok_or("unknown")?;
        let zeros = line.trim_start_matches("CapEff:").trim().chars().all(|digit| digit == '0');
        if zeros { Err("none".into()) } else { Ok(line.to_owned()) }
    }),
    ("new_privileges", |_| {
        let status = fs::read_to_string("/proc/self/status")?;
        let held = status.lines().any(|line| line == "NoNewPrivs:\t1");
        if held { Err("programs give none".into()) } else { Ok("programs may give some".into()) }
    }),
    ("become_another_user", |_| {
        perl("$> = 65534; $> == 65534 or die $!; print 'became nobody'", &[])
    }),
    ("program_in_memory", program_in_memory),
    ("terminals", |_| {
        let mut paths: Vec<_> = ["/dev/console", "/dev/tty1", "/dev/tty0"].map(Into::into).into();
        let pts = fs::read_dir("/dev/pts").into_iter().flatten().flatten();
        paths.extend(pts.map(|entry| entry.path()).filter(|path| !path.ends_with("ptmx")));
        let opened = paths.iter().find(|path| OpenOptions::new().write(true).open(path).is_ok());
        opened.map(|path| path.display().to_string()).ok_or_else(|| "none".into())
    }),
    ("type_into_terminal", |_| {
        // There is no terminal to type into here, and whoever may try is told so.
        perl(
            "my $key = 'x'; ioctl(STDIN, 0x5412, $key); die 'refused' if $!{EPERM}; print \"let through: $!\"",
            &[],
        )
    }),
    ("io_uring", |_| {
        perl(
            "syscall(425, 1, 0); die $! if $!{EPERM} || $!{ENOSYS}; print \"let through: $!\"",
            &[],
        )
    }),
    ("kernel_keys", |_| {
        let call = if cfg!(target_arch = "x86_64") { "250" } else { "219" };
        perl("my $k = syscall($ARGV[0] + 0, 0, -3, 0); die $! if $k < 0; print $k", &[call])
    }),
    ("kernel_programs", |_| {
        let call = if cfg!(target_arch = "x86_64") { "321" } else { "280" };
        let script =
            "syscall($ARGV[0] + 0, 999, 0, 0); die $! if $!{EPERM}; print \"let through: $!\"";
        perl(script, &[call])
    }),
    ("system_v_memory", |_| system_v("shmget(0, 4096, 0600)", "shmctl($id, 0, 0)")),
    ("system_v_messages", |_| system_v("msgget(0, 0600)", "msgctl($id, 0, 0)")),
    ("system_v_semaphores", |_| system_v("semget(0, 1, 0600)", "semctl($id, 0, 0, 0)")),
    ("other_mounts", |t| {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let roots = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        let inside = t.outside.strip_prefix("/")?;
        let found_secret = roots.map(|root| t.read(Path::new(root).join(inside).join("secret")));
        found(found_secret.into_iter().filter(Result::is_ok).count())
    }),
];

fn opened_for_writing(path: &str) -> Outcome {
    done(OpenOptions::new().write(true).open(path))
}

fn ran(command: &mut Command) -> Outcome {
    let output = command.output()?;
    match output.status.success() {
        true => Ok("ran".into()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into()),
    }
}

/// Makes something that every process of the user can find, and takes it away again.
fn system_v(make: &str, remove: &str) -> Outcome {
    perl(&format!("my $id = {make}; defined $id or die $!; {remove}; print 'made'"), &[])
}

fn mount_in_user_namespace(_: &Targets) -> Outcome {
    fs::create_dir_all("mount")?;
    let mut inside = Command::new("unshare");
    ran(inside.args(["--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "mount"]))
}

/// A program that is no file runs by the same rules as one that is.
fn program_in_memory(targets: &Targets) -> Outcome {
    let handle = rustix::fs::memfd_create("cat", MemfdFlags::empty())?;
    let mut program = File::from(handle);
    program.write_all(&fs::read("/usr/bin/cat")?)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), program.as_raw_fd());
    targets.expect_secret(Command::new(path).arg(targets.outside.join("secret")).output()?.stdout)
}
