//! Tokens are made, listed and ended.

use crate::common::{Ran, TestHome, TestServer};

fn with_token(home: &TestHome, token: &str, arguments: &[&str]) -> Ran {
    Ran::of(home.command(arguments).env("SKEIN_TOKEN", token))
}

#[tokio::test]
async fn a_token_works_until_it_is_revoked() {
    let server = TestServer::start().await;
    let home = server.home();

    let made = home.run(&["token", "create", "ci", "--role", "viewer", "--json"]).json();
    let secret = made["token"].as_str().unwrap();
    let reads = with_token(home, secret, &["session", "list"]).code;
    let writes = with_token(home, secret, &["session", "new"]).code;
    let listed = home.run(&["token", "list"]).stdout;
    let revoked = home.run(&["token", "revoke", made["id"].as_str().unwrap()]);
    let after = with_token(home, secret, &["session", "list"]).code;

    assert_eq!((reads, writes), (Some(0), Some(4)));
    assert!(listed.lines().any(|line| line.ends_with("\tci")), "{listed}");
    assert!(!listed.contains(secret));
    assert_eq!(revoked.code, Some(0));
    assert_eq!(after, Some(4));
}

#[test]
fn the_secret_alone_goes_to_stdout() {
    let home = TestHome::new();

    let made = home.run(&["token", "create", "script"]);

    assert_eq!(made.code, Some(0), "{}", made.stderr);
    assert!(made.stdout.starts_with("skein_"), "{}", made.stdout);
    assert_eq!(made.stdout.lines().count(), 1);
    assert_eq!(with_token(&home, made.stdout.trim(), &["session", "list"]).code, Some(0));
}
