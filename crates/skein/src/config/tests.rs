use tempfile::TempDir;

use super::*;

fn load(file: &str, variables: &[(&str, &str)], flags: &Flags) -> Result<Config, ConfigProblem> {
    let home = TempDir::new().unwrap();
    std::fs::write(home.path().join("config.toml"), file).unwrap();
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let mut config =
        Config::load(home.path(), &Environment::new(variables.iter().map(owned)), flags)?;
    config.check()?;
    config.file = "config.toml".into();
    Ok(config)
}

/// Without the directory, which differs from run to run.
fn problem(file: &str, variables: &[(&str, &str)]) -> (String, Option<String>) {
    let problem = load(file, variables, &Flags::default()).unwrap_err();
    let text = problem.to_string();
    let text = text.find("config.toml").map_or(text.as_str(), |at| &text[at..]).to_owned();
    (text, problem.hint)
}

#[test]
fn a_flag_beats_skein_variables_beat_agent_variables_beat_the_file() {
    let file = "[server]\nlisten = '127.0.0.1:1'\n[sessions]\nidle_timeout_minutes = 1\n";
    let minutes = |variables: &[(&str, &str)]| {
        load(file, variables, &Flags::default()).unwrap().settings.sessions.idle_timeout_minutes
    };
    let listen = |variables: &[(&str, &str)], flag: Option<&str>| {
        let flags = Flags { listen: flag.map(str::to_owned), ..Flags::default() };
        load(file, variables, &flags).unwrap().settings.server.listen
    };

    assert_eq!(minutes(&[]), 1.0);
    assert_eq!(minutes(&[("AGENT_SESSION_IDLE_TIMEOUT", "0.25")]), 0.25);
    assert_eq!(
        minutes(&[
            ("SKEIN_SESSIONS__IDLE_TIMEOUT_MINUTES", "3"),
            ("AGENT_SESSION_IDLE_TIMEOUT", "2"),
        ]),
        3.0
    );
    assert_eq!(listen(&[], None), "127.0.0.1:1");
    assert_eq!(listen(&[("SKEIN_SERVER__LISTEN", "127.0.0.1:2")], None), "127.0.0.1:2");
    assert_eq!(
        listen(&[("SKEIN_SERVER__LISTEN", "127.0.0.1:2")], Some("127.0.0.1:3")),
        "127.0.0.1:3"
    );
}

#[test]
fn the_whole_documented_file_is_well_formed() {
    let file = r#"
        [server]
        listen = "127.0.0.1:7534"
        [store]
        url = "sqlite"
        [payloads]
        url = "db"
        [redis]
        url = "redis://127.0.0.1:6379"
        [retrieval]
        url = "embedded"
        [retrieval.embeddings]
        base_url = "http://127.0.0.1:8080/v1"
        model = "all-minilm"
        key_env = "EMBEDDINGS_KEY"
        dimensions = 384
        timeout_seconds = 30
        batch = 32
        [workspace]
        root = "/srv/repos"
        [sessions]
        max_active_agents = 5
        idle_timeout_minutes = 30
        chain_days = 30
        [budgets]
        user_tokens = 1000
        [providers.openai]
        base_url = "https://api.openai.com/v1"
        key_env = "OPENAI_API_KEY"
        chain = "server"
        background = "on"
        [conversation_contexts.strict]
        system_prompt = "Be strict."
        model = "gpt-5"
        temperature = 0.2
        [agents.echo]
        runtime = "echo"
        reply_bytes = 2000
    "#;

    let config = load(file, &[], &Flags::default()).unwrap();

    assert_eq!(config.settings.agents["echo"].reply_bytes, Some(2000));
    assert_eq!(config.unused_sections(), ["redis"]);
}

#[test]
fn a_setting_that_does_not_exist_is_refused_with_those_that_do() {
    let section = problem("[sever]\nlisten = 'x'\n", &[]);
    let key = problem("[store]\nuri = 'sqlite'\n", &[]);
    let variable = problem("", &[("SKEIN_STORE__URI", "sqlite")]);

    assert_eq!(section.0, "config.toml: sever: there is no such setting");
    assert!(section.1.unwrap().starts_with("the sections are server, store, payloads"));
    assert_eq!(
        key,
        (
            "config.toml: store.uri: there is no such setting".to_owned(),
            Some("[store] has url, migrate_url, connections".to_owned())
        )
    );
    assert_eq!(
        variable.0,
        "environment variable SKEIN_STORE__URI: store.uri: there is no such setting"
    );
}

#[test]
fn unusable_values_are_refused_with_their_place_and_what_would_be_right() {
    let problems = [
        problem("[server]\nlisten = 'nowhere'\n", &[]),
        problem("[server]\ndrain_seconds = 'long'\n", &[]),
        problem("[store]\nurl = 'postgres://db/skein'\n", &[]),
        problem("[store]\nurl = 'mysql://db/skein'\n", &[]),
        problem("[store]\nmigrate_url = 'sqlite'\n", &[]),
        problem("[payloads]\nurl = 's3://bucket'\n", &[]),
        problem("[agents.mine]\nruntime = 'acp'\n", &[]),
        problem("[agents.x]\nruntime = 'magic'\n", &[]),
        problem("[agents.x]\nreply_bytes = 1\n", &[]),
        problem("[sessions]\ndefault_agent = 'nobody'\n", &[]),
        problem("[limits]\ninstruction_bytes = 0\n", &[]),
    ]
    .map(|(text, hint)| format!("{text} | {}", hint.unwrap_or_default()));

    insta::assert_snapshot!(problems.join("\n"), @r#"
    config.toml: server.listen: "nowhere" is not an address and a port | write it like 127.0.0.1:7534 or [::1]:7534; port 0 takes a free one
    config.toml: server.drain_seconds: invalid type: found string "long", expected u64 | 
    config.toml: store.url: the address names no role to log in as | write it like postgres://role@host/database
    config.toml: store.url: this is not a store that Skein knows | use "sqlite", or postgres://role@host/database
    config.toml: store.migrate_url: this is not a PostgreSQL address | write it like postgres://role@host/database
    config.toml: payloads.url: payloads outside the database are not in this version yet | use "db"
    config.toml: agents.mine: agent "mine" has no command | add command = ["PROGRAM", …]; known without one: gemini, codex, claude, opencode, goose
    config.toml: agents.x.runtime: "magic" is not known here | use echo, local, responses, acp
    config.toml: agents.x: agent "x" has no runtime | add runtime = …; this version has: acp, echo, local, responses
    config.toml: sessions.default_agent: there is no agent "nobody" | the agents are echo, local
    config.toml: limits.instruction_bytes: 0 would refuse everything | leave it out for the default
    "#);
}

#[test]
fn conversation_contexts_follow_the_rules_of_the_api() {
    let with = |lines: &str| problem(&format!("[conversation_contexts.strict]\n{lines}\n"), &[]).0;

    let problems = [
        with("model = 'm'"),
        with("system_prompt = 'x'\ntemperature = 2.1"),
        with("system_prompt = \"a\\u0000b\""),
        with("system_prompt = 'x'\nprompt = 'y'"),
        problem("[conversation_contexts.' ']\nsystem_prompt = 'x'\n", &[]).0,
    ];

    insta::assert_snapshot!(problems.join("\n"), @"
    config.toml: conversation_contexts.strict: missing field `system_prompt`
    config.toml: conversation_contexts.strict: temperature: must be between 0 and 2
    config.toml: conversation_contexts.strict: systemPrompt: must not contain NUL characters
    config.toml: conversation_contexts.strict.prompt: there is no such setting
    config.toml: conversation_contexts. : name: must not be empty
    ");
}

#[test]
fn an_idle_timeout_that_is_no_time_refuses_to_start() {
    for value in ["0", "-1", "-0.5", "nan", "soon"] {
        let refused = load("", &[("AGENT_SESSION_IDLE_TIMEOUT", value)], &Flags::default());

        let problem = refused.unwrap_err();
        assert_eq!(problem.origin, "environment variable AGENT_SESSION_IDLE_TIMEOUT", "{value}");
        assert_eq!(problem.key.as_deref(), Some("sessions.idle_timeout_minutes"), "{value}");
    }
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let variables = [("AGENT_SESSION_IDLE_TIMEOUT", ""), ("SKEIN_STORE__URL", "")];

    let config = load("", &variables, &Flags::default()).unwrap();

    assert_eq!(config.settings, Settings::default());
}

#[test]
fn every_value_is_shown_with_its_origin_and_without_secrets() {
    let file = "[redis]\nurl = 'redis://:secret@db'\n[agents.echo]\nenv = { API_KEY = 'secret' }\n";
    let flags = Flags { listen: Some("127.0.0.1:1".to_owned()), ..Flags::default() };
    let variables = [("SKEIN_LIMITS__QUEUED_TURNS", "7")];

    let values = load(file, &variables, &flags).unwrap().shown_values();

    let line = |key: &str| {
        let shown = values.iter().find(|shown| shown.key == key).unwrap();
        let origin = shown.origin.rsplit('/').next().unwrap();
        format!("{} ({origin})", shown.value)
    };
    assert_eq!(line("server.listen"), "\"127.0.0.1:1\" (flag --listen)");
    assert_eq!(line("limits.queued_turns"), "7 (environment variable SKEIN_LIMITS__QUEUED_TURNS)");
    assert_eq!(line("store.url"), "\"sqlite\" (default)");
    assert_eq!(line("redis.url"), "\"redis://:(hidden)@db\" (config.toml)");
    assert_eq!(line("agents.echo.env.API_KEY"), "\"(hidden)\" (config.toml)");
}

#[test]
fn the_role_of_an_address_is_the_one_that_logs_in() {
    let role = |url: &str| Store { url: url.to_owned(), ..Store::default() }.role();

    let roles = [
        "postgres://skein@db/skein",
        "postgresql://sk%40in:pass:word@db:5432/skein?sslmode=disable",
        "postgres://skein@%2Frun%2Fpostgresql/skein",
        "postgres://db/a@b",
        "postgres://:pass@db/skein",
    ]
    .map(role);

    let (skein, odd) = (Some("skein".to_owned()), Some("sk@in".to_owned()));
    assert_eq!(roles, [skein.clone(), odd, skein, None, None]);
}

#[test]
fn embeddings_that_cannot_be_used_are_refused_with_what_would_be_right() {
    let with = |line: &str| {
        let endpoint = "base_url = 'http://127.0.0.1:1/v1'\nmodel = 'tiny'\n";
        problem(&format!("[retrieval.embeddings]\n{endpoint}{line}\n"), &[]).0
    };

    let other = problem("[retrieval]\nurl = 'elsewhere'\n", &[]);
    let address = problem("[retrieval.embeddings]\nbase_url = 'tiny'\nmodel = 'x'\n", &[]);
    let model = problem("[retrieval.embeddings]\nbase_url = 'http://a/v1'\n", &[]);

    assert_eq!(other.0, "config.toml: retrieval.url: this is not an index that Skein knows");
    assert_eq!(
        address.0,
        "config.toml: retrieval.embeddings.base_url: this is not an HTTP address"
    );
    assert!(model.0.contains("missing field `model`"), "{}", model.0);
    let name = problem("[retrieval]\nurl = 'http://a:6333'\ncollection = 'a/b'\n", &[]);
    assert!(name.0.contains("retrieval.collection: this is not the name of a collection"));
    assert!(with("batch = 0").contains("retrieval.embeddings.batch: "));
    assert!(with("dimensions = 0").contains("retrieval.embeddings.dimensions: "));
    assert!(with("timeout_seconds = 0").contains("retrieval.embeddings.timeout_seconds: "));
    assert!(with("api_key = 's3cret'").contains("there is no such setting"));
}
