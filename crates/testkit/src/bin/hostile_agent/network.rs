//! Ways over sockets.

use std::{
    io::Read,
    net::{TcpStream, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixStream},
    },
    time::Duration,
};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sendto, socketpair};

use crate::{Outcome, Probe, Targets, perl};

/// Whoever listens answers at once.
const ANSWER: Duration = Duration::from_secs(2);

pub(super) const PROBES: &[Probe] = &[
    ("unix_socket", |t| hear(t, UnixStream::connect(&t.stream_socket)?)),
    ("unix_socket_by_proc", |t| {
        let path = format!("/proc/self/root{}", t.stream_socket.display());
        hear(t, UnixStream::connect(path)?)
    }),
    ("unix_datagram_of_pair", |t| {
        let flags = SocketFlags::CLOEXEC;
        let (one, _other) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        let address = SocketAddrUnix::new(&t.datagram_socket)?;
        sendto(&one, b"planted", rustix::net::SendFlags::empty(), &address)?;
        Ok("sent".into())
    }),
    ("abstract_socket", |t| {
        let address = SocketAddr::from_abstract_name(&t.abstract_socket)?;
        hear(t, UnixStream::connect_addr(&address)?)
    }),
    ("tcp", |t| {
        let mut stream = TcpStream::connect_timeout(&t.tcp, ANSWER)?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        t.expect_secret(said)
    }),
    ("udp", |t| {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(ANSWER))?;
        socket.send_to(b"hello", t.udp)?;
        let mut answer = [0; 64];
        let (length, _) = socket.recv_from(&mut answer)?;
        t.expect_secret(&answer[..length])
    }),
    ("raw_socket", |_| {
        let script = "socket(my $s, 2, 3, 1) or die $!; print 'opened'";
        perl(script, &[])
    }),
    ("packet_socket", |_| perl("socket(my $s, 17, 3, 768) or die $!; print 'opened'", &[])),
];

fn hear(targets: &Targets, mut stream: UnixStream) -> Outcome {
    stream.set_read_timeout(Some(ANSWER))?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    targets.expect_secret(said)
}
