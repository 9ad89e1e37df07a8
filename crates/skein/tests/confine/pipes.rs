//! What goes in and out of a cage.

use std::fs;

use skein_runtimes::confine::{Caged, ConfineError, Exit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::desk::{BOTH, Desk, outcome, write};

#[tokio::test]
async fn exit_codes_signals_and_texts_come_through() {
    for walls in BOTH {
        let desk = Desk::new();

        let code = outcome(desk.shell(walls, "echo out; echo err >&2; pwd; exit 7").await).await;
        let signal = outcome(desk.shell(walls, "kill -SEGV $$").await).await;

        let said = format!("out\n{}\n", desk.workspace().display());
        assert_eq!(code, (said, "err\n".to_owned(), Exit::Code(7)), "{walls:?}");
        assert_eq!(signal, (String::new(), String::new(), Exit::Signal(11)), "{walls:?}");
    }
}

#[tokio::test]
async fn a_hundred_megabytes_go_in_and_out() {
    const MEGABYTES: usize = 100;
    for walls in BOTH {
        let desk = Desk::new();
        let Caged { mut stdin, mut stdout, cage, stderr: _stderr, .. } =
            desk.shell(walls, "exec cat").await;

        let part = vec![b'x'; 1_000_000];
        let write = async {
            for _ in 0..MEGABYTES {
                stdin.write_all(&part).await.unwrap();
            }
            drop(stdin);
        };
        let read = async {
            let (mut total, mut buffer) = (0, vec![0; 1 << 16]);
            loop {
                match stdout.read(&mut buffer).await.unwrap() {
                    0 => break total,
                    length => total += length,
                }
            }
        };
        let ((), total) = tokio::join!(write, read);

        assert_eq!(total, MEGABYTES * part.len(), "{walls:?}");
        assert_eq!(cage.exited().await, Exit::Code(0), "{walls:?}");
    }
}

#[tokio::test]
async fn an_agent_finds_what_it_works_with_and_nothing_of_skeins() {
    for walls in BOTH {
        let desk = Desk::new();
        write(&desk.base.join("shared/notes"), "readable");
        let mut confinement = desk.confinement(walls);
        confinement.read_paths = vec![desk.base.join("shared")];
        let script = "set -e; cat ../../shared/notes; echo; mkdir -p \"$HOME/.config\" src; \
                      echo kept > \"$HOME/.config/x\"; echo t > \"$TMPDIR/t\"; echo made > src/made; \
                      mv src/made made; sh -c 'echo ok > /dev/null'; cat /proc/self/stat > /dev/null; \
                      git init -q .; umask; ! cat /etc/shadow 2> /dev/null; echo fine";

        let caged = desk.spawn(&confinement, &["sh", "-c", script]).await.unwrap();
        let (said, complained, exit) = outcome(caged).await;

        let expected = "readable\n0022\nfine\n";
        assert_eq!(
            (said.as_str(), complained.as_str(), exit),
            (expected, "", Exit::Code(0)),
            "{walls:?}"
        );
        let kept = fs::read_to_string(desk.home().join(".config/x")).unwrap();
        let made = fs::read_to_string(desk.workspace().join("made")).unwrap();
        assert_eq!((kept.as_str(), made.as_str()), ("kept\n", "made\n"), "{walls:?}");
    }
}

/// A link that an agent leaves in its home leads Skein nowhere when it builds the next cage.
#[tokio::test]
async fn a_home_that_was_prepared_by_the_agent_leads_nowhere() {
    for walls in BOTH {
        let desk = Desk::new();
        fs::create_dir(desk.base.join("outside")).unwrap();
        let plant = format!(
            "rm -rf \"$HOME/.cache\"; ln -s {}/outside \"$HOME/.cache\"",
            desk.base.display()
        );

        let first = outcome(desk.shell(walls, &plant).await).await;
        let second = desk.spawn(&desk.confinement(walls), &["true"]).await;

        assert_eq!(first.2, Exit::Code(0), "{first:?}");
        assert!(matches!(second, Err(ConfineError::Cage { .. })), "{second:?}");
        assert_eq!(fs::read_dir(desk.base.join("outside")).unwrap().count(), 0);
    }
}

/// What is refused to agents is nothing that they miss in their own work.
#[tokio::test]
async fn usual_programs_do_without_what_is_refused() {
    for walls in BOTH {
        let desk = Desk::new();
        let script = "set -e; echo a > a; cp -a a b; cp --preserve=all a c; mv a d; install -m 755 d e; \
                      tar -cf t.tar b; tar -xpf t.tar; ulimit -S -n 100; nice -n 1 true; ionice -c 3 true; \
                      taskset -c 0 true; echo fine";

        let outcome = outcome(desk.shell(walls, script).await).await;

        assert_eq!(outcome, ("fine\n".to_owned(), String::new(), Exit::Code(0)), "{walls:?}");
    }
}

#[tokio::test]
async fn an_agent_is_told_the_directory_that_it_is_in() {
    for walls in BOTH {
        let desk = Desk::new();

        let caged = desk.spawn(&desk.confinement(walls), &["env"]).await.unwrap();
        let (said, _, _) = outcome(caged).await;

        let told: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("PWD=")).collect();
        assert_eq!(told, [desk.workspace().to_str().unwrap()], "{walls:?}");
    }
}
