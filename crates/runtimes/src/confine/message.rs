//! What Skein and the supervisor say to each other, over the socket that is the supervisor's standard input.
//!
//! The end of that socket is what ties the agent's life to Skein's: when Skein closes it, or dies, everything in the
//! cage is killed.

use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Network, ProcessLimits};

/// A plan names some hundred paths; more than this is no plan.
const LONGEST_BYTES: u32 = 16 * 1024 * 1024;
const MOST_HANDLES: usize = 4;

/// From Skein, first: everything about the cage. With it come two handles: the agent's standard input and its workspace.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Of the program that wrote it. Another one may mean something else by the same words.
    pub(super) version: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) workspace: PathBuf,
    /// Device and inode of the workspace, as Skein opened it.
    pub(super) identity: (u64, u64),
    pub(super) home: PathBuf,
    pub(super) readable: Vec<PathBuf>,
    pub(super) writable: Vec<PathBuf>,
    pub(super) walls: Walls,
    pub(super) network: Network,
    pub(super) limits: ProcessLimits,
}

/// What the supervisor finds around itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Walls {
    /// bubblewrap's: mounts, processes and user ids of their own, and perhaps a network.
    Namespaces,
    /// None: what is here is the machine.
    Bare,
}

/// From Skein, later, as a byte of its own: the agent's processes are to end.
pub(super) const TERMINATE: u8 = b'T';

/// From the supervisor.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// The agent runs. With it comes a handle of the supervisor's process.
    Started {
        shortcomings: Vec<String>,
    },
    Failed(Failure),
    /// The agent has ended, and so has everything it left behind.
    Exited(Ended),
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Failure {
    NotFound,
    Workspace(String),
    Cage(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ended {
    Code(i32),
    Signal(i32),
}

/// Sends one message, and handles with it.
pub(super) fn send<T: Serialize>(
    stream: &UnixStream,
    message: &T,
    handles: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?.to_be_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_HANDLES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !handles.is_empty() && !control.push(SendAncillaryMessage::ScmRights(handles)) {
        return Err(io::Error::other("too many handles for one message"));
    }
    let sent = sendmsg(stream, &[IoSlice::new(&length)], &mut control, SendFlags::NOSIGNAL)?;
    let mut stream = stream;
    stream.write_all(&length[sent..])?;
    stream.write_all(&body)
}

/// The next message and its handles, or `None` when the other side has ended.
pub(super) fn receive<T: DeserializeOwned>(
    stream: &UnixStream,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut length = [0_u8; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_HANDLES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let slices = &mut [IoSliceMut::new(&mut length)];
    let read = recvmsg(stream.as_fd(), slices, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    if read == 0 {
        return Ok(None);
    }
    let mut handles = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            handles.extend(received);
        }
    }
    let mut stream = stream;
    stream.read_exact(&mut length[read..])?;
    let mut body = vec![0; checked_length(length)?];
    stream.read_exact(&mut body)?;
    Ok(Some((serde_json::from_slice(&body)?, handles)))
}

/// How long the message is whose first four bytes these are.
fn checked_length(length: [u8; 4]) -> io::Result<usize> {
    match u32::from_be_bytes(length) {
        length if length <= LONGEST_BYTES => Ok(length as usize),
        length => Err(io::Error::other(format!("a message of {length} bytes"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_with_their_handles_and_then_the_end() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        let report = Report::Exited(Ended::Code(3));

        send(&ours, &report, &[reader.as_fd()]).unwrap();
        drop((ours, reader));
        let (received, mut handles) = receive::<Report>(&theirs).unwrap().unwrap();
        writer.write_all(b"through").unwrap();
        drop(writer);
        let mut text = String::new();
        io::PipeReader::from(handles.remove(0)).read_to_string(&mut text).unwrap();

        assert_eq!((received, text.as_str()), (report, "through"));
        assert!(receive::<Report>(&theirs).unwrap().is_none());
    }
}
