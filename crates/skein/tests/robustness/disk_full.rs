//! A full disk refuses writes, keeps reads alive, and needs no restart once there is room again.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;

use crate::{
    common::{TestHome, TestServer},
    harness::{Api, Reply, eventually},
    verify,
};

const DISK: &str = "size=48m";

/// A small file system that is unmounted whatever happens.
struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// The reason is for people.
    fn mount(path: &Path) -> Result<Self, String> {
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", DISK, "skein-test"])
            .arg(path)
            .output()
            .map_err(|error| format!("mount cannot be run: {error}"))?;
        if output.status.success() {
            Ok(Self { path: path.to_owned() })
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    }

    /// Takes all the room there is but so many bytes.
    fn fill(&self, name: &str, left_bytes: u64) -> PathBuf {
        let ballast = self.path.join(name);
        let mut file = File::create(&ballast).unwrap();
        for size in [1024 * 1024, 4096, 1] {
            let piece = vec![0; size];
            while file.write_all(&piece).is_ok() {}
        }
        let size_bytes = file.metadata().unwrap().len();
        file.set_len(size_bytes.saturating_sub(left_bytes)).unwrap();
        ballast
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.path).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} could not be unmounted", self.path.display());
        }
    }
}

#[tokio::test]
async fn a_full_disk_answers_507_keeps_reads_alive_and_recovers_without_a_restart() {
    let home = TestHome::new();
    let disk = match SmallDisk::mount(home.path()) {
        Ok(disk) => disk,
        Err(reason) => return eprintln!("skipped, a file system cannot be mounted here: {reason}"),
    };
    let mut server = TestServer::on(home.clone()).await;
    let api = Api::of(&server);
    let session = api.create(json!({"agent": "echo"})).await;
    let first = api.prompt(&session, "before").await;
    api.finished(&session, &first).await;
    let mut accepted = vec![first];

    // Room for a few more turns, so that some are cut off between their beginning and their end.
    let most = disk.fill("most", 2 * 1024 * 1024);
    let refused = prompt_until_refused(&api, &session, &mut accepted).await;
    let rest = disk.fill("rest", 0);

    assert_eq!(refused.refusal(), (507, "storage_full".to_owned()));
    let path = format!("/api/sessions/{session}");
    for read in ["", "/messages", "/turns", "/turns/last"] {
        api.get(&format!("{path}{read}")).await.expect(200);
    }
    api.get("/api/sessions").await.expect(200);
    refuses_every_write(&api, &session).await;
    let log = api.log(&session).await;
    assert_eq!(log.ids(), (1..=log.0.len() as u64).collect::<Vec<_>>());

    fs::remove_file(most).unwrap();
    fs::remove_file(rest).unwrap();
    // What was accepted is run to its end without anybody asking again.
    verify::settled_session(&api, &session).await;
    let after = eventually("a write is taken again", async || {
        let body = json!({"text": "after", "onBusy": "enqueue"});
        let reply = api.post(&format!("{path}/prompt"), body).await;
        (reply.status == 202).then(|| reply.text("turnId"))
    })
    .await;
    accepted.push(after);

    let turns = verify::settled_session(&api, &session).await;
    let stored: Vec<&String> = turns.iter().map(|turn| &turn.id).collect();
    assert_eq!(stored, accepted.iter().collect::<Vec<_>>());
    server.restart().await;
    let again = verify::settled_session(&Api::of(&server), &session).await;
    assert_eq!(again, turns);
    assert!(!server.log().contains("panicked"), "{}", server.log());
    eprintln!("{} turns acknowledged around a full disk: all there", accepted.len());
    server.kill();
    drop(disk);
}

/// Text that does not compress; another one for every number.
fn noise(number: u64, bytes: u64) -> String {
    (0..bytes / 16)
        .map(|n| (number * 1_000_003 + n).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17))
        .map(|word| format!("{word:016x}"))
        .collect()
}

async fn prompt_until_refused(api: &Api, session: &str, accepted: &mut Vec<String>) -> Reply {
    let path = format!("/api/sessions/{session}/prompt");
    until_refused(async |number| {
        let body = json!({"text": noise(number, 64_000), "onBusy": "enqueue"});
        let reply = api.post(&path, body).await;
        if reply.status == 202 {
            accepted.push(reply.text("turnId"));
        }
        reply
    })
    .await
}

/// Every kind of write is refused alike.
async fn refuses_every_write(api: &Api, session: &str) {
    let path = format!("/api/sessions/{session}");
    let refusals = [
        until_refused(async |number| {
            api.post("/api/sessions", json!({"description": noise(number, 16_000)})).await
        })
        .await,
        until_refused(async |number| {
            api.patch(&path, json!({"description": noise(number, 16_000)})).await
        })
        .await,
        until_refused(async |number| {
            let body = json!({"instruction": noise(number, 16_000)});
            api.post("/api/ai/agent/execute", body).await
        })
        .await,
    ];
    for refusal in refusals {
        assert_eq!(refusal.refusal(), (507, "storage_full".to_owned()));
    }
}

/// What is free inside files that exist already may still be used, so a refusal can take a few writes.
async fn until_refused(mut write: impl AsyncFnMut(u64) -> Reply) -> Reply {
    for number in 0..2_000 {
        let reply = write(number).await;
        if reply.status >= 300 {
            return reply;
        }
    }
    panic!("the full disk takes writes without end");
}
