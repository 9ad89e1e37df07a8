//! `docs/cli.md` says what `--help` says.

use std::{fs, path::Path};

use crate::common::{Ran, skein};

#[test]
#[expect(clippy::disallowed_methods, reason = "this is no setting of the program")]
fn the_written_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");

    let reference = Ran::of(skein().arg("reference")).stdout;

    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &reference).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == reference, "docs/cli.md is old; run the tests with UPDATE_DOCS=1");
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = Ran::of(skein().args(["completions", shell]));

        assert_eq!(ran.code, Some(0), "{shell}");
        assert!(ran.stdout.contains("skein"), "{shell}");
    }
}

#[test]
fn a_command_line_that_makes_no_sense_exits_with_2() {
    for arguments in [&["sessions"][..], &["session", "show"], &["serve", "--port", "1"]] {
        let ran = Ran::of(skein().args(arguments));

        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
    }
}

#[test]
fn the_openapi_document_needs_no_home() {
    let document = Ran::of(skein().arg("openapi")).json();

    assert_eq!(document["openapi"], "3.1.0");
}
