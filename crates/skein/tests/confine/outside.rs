//! Everything around a cage that an agent might want: files, sockets, processes, all with a secret in them.

use std::{
    collections::BTreeMap,
    fs::{self, File, Permissions},
    io::Write,
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::PermissionsExt,
            net::{SocketAddr, UnixDatagram, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
};

use serde_json::json;

use crate::desk::{Desk, write};

const SECRET: &str = "the-secret-outside";

/// Lives as long as its test.
pub(crate) struct Outside {
    base: PathBuf,
    shared: [PathBuf; 2],
    victim: Child,
    datagrams: UnixDatagram,
    /// A file that was left open for whoever is started.
    _inherited: File,
}

impl Outside {
    /// Fills the surroundings of a desk, and tells the agent about them in `targets.json`.
    pub(crate) fn around(desk: &Desk) -> Self {
        let base = desk.base.clone();
        let marker = base.file_name().unwrap().to_str().unwrap().to_owned();
        plant_files(&base);
        let shared = ["/tmp", "/dev/shm"]
            .map(|place| Path::new(place).join(format!("skein-probe-{marker}")));
        shared.iter().for_each(|path| write(path, SECRET));
        let inherited = File::open(base.join("outside/secret")).unwrap();
        rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
        let victim = Command::new("sleep").arg("1000").spawn().unwrap();
        fs::create_dir(base.join("run")).unwrap();
        let datagrams = UnixDatagram::bind(base.join("run/log.sock")).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        let targets = json!({
            "outside": base.join("outside"),
            "skein_home": base.join("skein"),
            "shared": shared,
            "other_home": base.join("home/alice"),
            "stream_socket": base.join("run/docker.sock"),
            "datagram_socket": base.join("run/log.sock"),
            "abstract_socket": marker,
            "tcp": serve_tcp(),
            "udp": serve_udp(),
            "skein_pid": std::process::id(),
            "victim_pid": victim.id(),
            "secret": SECRET,
            "marker": marker,
        });
        serve_unix(&SocketAddr::from_pathname(base.join("run/docker.sock")).unwrap());
        serve_unix(&SocketAddr::from_abstract_name(&marker).unwrap());
        write(&desk.workspace().join("targets.json"), &targets.to_string());
        Self { base, shared, victim, datagrams, _inherited: inherited }
    }

    /// Every file outside of the workspace and the agent's home, with its bytes, and what came in by datagram.
    pub(crate) fn content(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut content = BTreeMap::new();
        collect(&self.base, &self.base, &mut content);
        for path in &self.shared {
            content.insert(path.clone(), fs::read(path).unwrap());
        }
        let mut datagram = [0; 64];
        if let Ok(length) = self.datagrams.recv(&mut datagram) {
            content.insert("datagram".into(), datagram[..length].to_vec());
        }
        content
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.victim.kill().ok();
        self.victim.wait().ok();
        self.shared.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

fn plant_files(base: &Path) {
    for name in [
        "outside/secret",
        "outside/linked",
        "outside/movable",
        "outside/exchanged",
        "outside/appended",
        "outside/truncated",
        "outside/cut",
        "outside/deletable",
        "outside/mode",
        "repos/other/secret",
        "home/alice/.ssh/id_ed25519",
        "home/alice/.ssh/authorized_keys",
        "home/alice/.bashrc",
        "skein/skein.db",
        "skein/token",
        "skein/agents/2/home/secret",
    ] {
        write(&base.join(name), SECRET);
    }
    fs::create_dir(base.join("outside/empty")).unwrap();
    fs::create_dir_all(base.join("skein/agents/1/home")).unwrap();
    write(&base.join("outside/tool"), &format!("#!/bin/sh\necho {SECRET}\n"));
    fs::set_permissions(base.join("outside/tool"), Permissions::from_mode(0o755)).unwrap();
}

fn collect(base: &Path, directory: &Path, content: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let own = ["repos/web", "skein/agents/1/home"].map(|place| base.join(place));
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if own.contains(&path) {
            continue;
        }
        let bytes = if kind.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        content.insert(path.clone(), bytes);
        if kind.is_dir() {
            collect(base, &path, content);
        }
    }
}

fn serve_tcp() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.write_all(SECRET.as_bytes()).ok();
        }
    });
    address
}

fn serve_udp() -> std::net::SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut datagram = [0; 64];
        while let Ok((_, from)) = socket.recv_from(&mut datagram) {
            socket.send_to(SECRET.as_bytes(), from).ok();
        }
    });
    address
}

fn serve_unix(address: &SocketAddr) {
    let listener = UnixListener::bind_addr(address).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.write_all(SECRET.as_bytes()).ok();
        }
    });
}
