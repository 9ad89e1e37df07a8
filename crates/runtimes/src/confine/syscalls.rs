//! System calls that no agent needs and that lead out of the cage.

use std::{collections::BTreeMap, io};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::{Network, message::Walls};

/// On x86-64 every call has a second number, which filters are blind to unless it is listed.
const X32: i64 = 0x4000_0000;

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
    if walls == Walls::Bare {
        refuse_sockets(&mut refused, network)?;
    }
    let mut unknown = Rules::new();
    // Whoever finds these missing falls back to calls that can be judged: the flags of `clone3` are in memory, and
    // what is put into an `io_uring` does not pass here.
    for call in [libc::SYS_clone3, libc::SYS_io_uring_setup] {
        refuse(&mut unknown, call, vec![]);
    }
    Ok(vec![program(refused, libc::EPERM)?, program(unknown, libc::ENOSYS)?])
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
