//! What goes in and out of a cage.

use skein_runtimes::confine::Exit;

use crate::desk::{BOTH, Desk, outcome};

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
