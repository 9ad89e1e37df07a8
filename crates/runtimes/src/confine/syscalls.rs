//! System calls that no agent needs and that lead out of the cage.

use std::{collections::BTreeMap, io};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::{Network, message::Walls};

/// On x86-64 every call has a second number, which filters are blind to unless it is listed.
const X32: i64 = 0x4000_0000;

/// Newer than the list of numbers that is used here, and the same on all architectures.
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Filters for the thread that is to start the agent.
pub(super) fn filters(walls: Walls, network: Network) -> io::Result<Vec<BpfProgram>> {
    let mut refused = Rules::new();
    for call in [
        // Keys that were put into the kernel by whoever started Skein.
        libc::SYS_add_key,
        libc::SYS_keyctl,
        libc::SYS_request_key,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_open_by_handle_at,
        libc::SYS_kcmp,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_fsopen,
        libc::SYS_mount_setattr,
        libc::SYS_setns,
    ] {
        refuse(&mut refused, call, vec![]);
    }
    let new_user = libc::CLONE_NEWUSER as u64;
    refuse(&mut refused, libc::SYS_unshare, rule(&[masked(0, new_user, new_user)])?);
    refuse(&mut refused, libc::SYS_clone, rule(&[masked(0, new_user, new_user)])?);
    // Typing into somebody's terminal.
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        let request = u64::from(request as u32);
        refuse(&mut refused, libc::SYS_ioctl, rule(&[masked(1, 0xffff_ffff, request)])?);
    }
    refuse_other_processes(&mut refused)?;
    if walls == Walls::Bare {
        refuse_sockets(&mut refused, network)?;
    }
    Ok(vec![
        program(refused, libc::EPERM)?,
        program(unknown(walls), libc::ENOSYS)?,
        program(attributes(), libc::EOPNOTSUPP)?,
    ])
}

/// Limits, priorities, processors and memory of anybody but the caller itself, whom these calls know as 0. Neither
/// Landlock nor the kernel's rules for tracing are asked about most of them, only whether the user is the same.
fn refuse_other_processes(rules: &mut Rules) -> io::Result<()> {
    for call in [
        libc::SYS_prlimit64,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
        libc::SYS_migrate_pages,
        libc::SYS_move_pages,
    ] {
        refuse(rules, call, rule(&[(0, SeccompCmpOp::Ne, 0)])?);
    }
    // These can also mean a group of processes or all of a user's; one process is:
    let process = [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)];
    for (call, kind) in process {
        refuse(rules, call, rule(&[(0, SeccompCmpOp::Ne, kind)])?);
        refuse(rules, call, rule(&[(1, SeccompCmpOp::Ne, 0)])?);
    }
    Ok(())
}

/// Calls that programs can do without when the kernel does not have them.
fn unknown(walls: Walls) -> Rules {
    let mut calls = vec![
        // The flags of `clone3` are in memory, and what is put into an `io_uring` does not pass here.
        libc::SYS_clone3,
        libc::SYS_io_uring_setup,
        // Memory and handles of other processes. Debuggers have `ptrace`, about which Landlock is asked.
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_process_madvise,
        libc::SYS_process_mrelease,
        libc::SYS_pidfd_getfd,
    ];
    if walls == Walls::Bare {
        // Without a namespace these reach what other programs of the user have made.
        calls.extend([
            libc::SYS_shmget,
            libc::SYS_shmat,
            libc::SYS_shmctl,
            libc::SYS_msgget,
            libc::SYS_msgsnd,
            libc::SYS_msgrcv,
            libc::SYS_msgctl,
            libc::SYS_semget,
            libc::SYS_semop,
            libc::SYS_semtimedop,
            libc::SYS_semctl,
            libc::SYS_mq_open,
            libc::SYS_mq_unlink,
        ]);
    }
    let mut rules = Rules::new();
    calls.into_iter().for_each(|call| refuse(&mut rules, call, vec![]));
    rules
}

/// Landlock does not rule over attributes of files. Programs that copy files go on where a file system has none.
fn attributes() -> Rules {
    let mut rules = Rules::new();
    for call in [
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_fremovexattr,
        SETXATTRAT,
        REMOVEXATTRAT,
        FILE_SETATTR,
    ] {
        refuse(&mut rules, call, vec![]);
    }
    rules
}

/// Without namespaces a socket file anywhere on the machine can be connected to, so there are no such sockets at all,
/// except pairs. Without a network there are no others either; netlink only tells what interfaces there are.
fn refuse_sockets(rules: &mut Rules, network: Network) -> io::Result<()> {
    match network {
        Network::Allow => {
            let unix = libc::AF_UNIX as u64;
            refuse(rules, libc::SYS_socket, rule(&[(0, SeccompCmpOp::Eq, unix)])?);
        }
        Network::Deny => {
            let netlink = libc::AF_NETLINK as u64;
            refuse(rules, libc::SYS_socket, rule(&[(0, SeccompCmpOp::Ne, netlink)])?);
        }
    }
    // One of a pair of these can still send to any address.
    let datagram = libc::SOCK_DGRAM as u64;
    refuse(rules, libc::SYS_socketpair, rule(&[masked(1, 0xf, datagram)])?);
    Ok(())
}

/// Restricts this thread and what it starts.
pub(super) fn apply(filters: &[BpfProgram]) -> io::Result<()> {
    filters
        .iter()
        .try_for_each(|filter| seccompiler::apply_filter(filter).map_err(io::Error::other))
}

fn refuse(rules: &mut Rules, call: i64, conditions: Vec<SeccompRule>) {
    let numbers = if cfg!(target_arch = "x86_64") { vec![call, call | X32] } else { vec![call] };
    for number in numbers {
        rules.entry(number).or_default().extend(conditions.iter().cloned());
    }
}

type Condition = (u8, SeccompCmpOp, u64);

fn masked(argument: u8, mask: u64, value: u64) -> Condition {
    (argument, SeccompCmpOp::MaskedEq(mask), value)
}

fn rule(conditions: &[Condition]) -> io::Result<Vec<SeccompRule>> {
    let conditions = conditions.iter().map(|(argument, operator, value)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
    });
    let conditions = conditions.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
    Ok(vec![SeccompRule::new(conditions).map_err(io::Error::other)?])
}

fn program(rules: Rules, errno: i32) -> io::Result<BpfProgram> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let refusal = SeccompAction::Errno(errno as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, architecture);
    filter.and_then(BpfProgram::try_from).map_err(io::Error::other)
}
