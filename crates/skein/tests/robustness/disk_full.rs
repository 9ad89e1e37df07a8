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

    /// Takes all the room that is left.
    fn fill(&self) -> PathBuf {
        let ballast = self.path.join("ballast");
        let mut file = File::create(&ballast).unwrap();
        for size in [1024 * 1024, 4096, 1] {
            let piece = vec![0; size];
            while file.write_all(&piece).is_ok() {}
        }
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
    let session = api.create(json!({})).await;
    let first = api.prompt(&session, "before").await;
    api.finished(&session, &first).await;
    let mut accepted = vec![first];

    let ballast = disk.fill();
    let refused = prompt_until_refused(&api, &session, &mut accepted).await;

    assert_eq!(refused.refusal(), (507, "storage_full".to_owned()));
    let path = format!("/api/sessions/{session}");
    for read in ["", "/messages", "/turns", "/turns/last"] {
        api.get(&format!("{path}{read}")).await.expect(200);
    }
    api.get("/api/sessions").await.expect(200);
    refuses_every_write(&api, &session).await;
    let log = api.log(&session).await;
    assert_eq!(log.ids(), (1..=log.0.len() as u64).collect::<Vec<_>>());

    fs::remove_file(ballast).unwrap();
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

/// What is free inside files that exist already may still be used, so this can take a few.
async fn prompt_until_refused(api: &Api, session: &str, accepted: &mut Vec<String>) -> Reply {
    let path = format!("/api/sessions/{session}/prompt");
    // Text that does not compress.
    let text: String = (0_u64..4_000)
        .map(|n| format!("{:016x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17)))
        .collect();
    for _ in 0..2_000 {
        let reply = api.post(&path, json!({"text": text, "onBusy": "enqueue"})).await;
        if reply.status != 202 {
            return reply;
        }
        accepted.push(reply.text("turnId"));
    }
    panic!("the full disk took {} turns", accepted.len());
}

/// Every kind of write is refused alike.
async fn refuses_every_write(api: &Api, session: &str) {
    let big = "y".repeat(10_000);
    let path = format!("/api/sessions/{session}");
    let replies = [
        api.post("/api/sessions", json!({"description": big})).await,
        api.patch(&path, json!({"description": big})).await,
        api.post("/api/ai/agent/execute", json!({"instruction": big})).await,
    ];
    for reply in replies {
        assert_eq!(reply.refusal(), (507, "storage_full".to_owned()));
    }
}
