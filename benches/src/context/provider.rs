//! A provider in a process of its own: the strict double of the Responses API.

use std::{net::SocketAddr, process::Stdio, time::Duration};

use anyhow::Context as _;
use serde::Deserialize;
use skein_testkit::responses::{Answer, ResponsesServer, Script, Settings};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::{
    arguments::{ProviderArguments, RunArguments},
    client::Endpoint,
    subject::Home,
};

/// The agent that it answers.
pub(super) const AGENT: &str = "double";

/// Characters of one event of a long answer, as models write them: a few words.
const CHUNK_CHARS: usize = 64;

const START_LIMIT: Duration = Duration::from_secs(10);

/// Serves until the process is ended.
pub(crate) fn serve(arguments: &ProviderArguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let settings = Settings { key: None, ..Settings::default() };
        let server = ResponsesServer::start_with(settings).await?;
        let answer = match arguments.answer_bytes {
            Some(bytes) => Answer::filler(bytes).chunk_chars(CHUNK_CHARS),
            None => Answer::default(),
        };
        let ProviderArguments { pause_ms, quick_events, .. } = *arguments;
        let answer = Answer { pause_ms, quick_events, ..answer };
        server.script(Script::from(answer).always());
        println!("{}", serde_json::json!({"address": server.address()}));
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?.recv().await;
        server.stop().await;
        Ok(())
    })
}

/// It ends when this is dropped.
pub(super) struct Provider {
    address: SocketAddr,
    pub(super) pid: u32,
    _child: Child,
}

#[derive(Debug, Deserialize)]
struct Ready {
    address: SocketAddr,
}

impl Provider {
    pub(super) async fn start(arguments: &ProviderArguments) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["provider", "--pause-ms", &arguments.pause_ms.to_string()]);
        command.args(["--quick-events", &arguments.quick_events.to_string()]);
        if let Some(bytes) = arguments.answer_bytes {
            command.args(["--answer-bytes", &bytes.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("the provider cannot start")?;
        let mut stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut line = String::new();
        timeout(START_LIMIT, stdout.read_line(&mut line)).await.context("not ready in time")??;
        let ready: Ready = serde_json::from_str(&line).context("the provider is not ready")?;
        let pid = child.id().context("the provider has ended")?;
        Ok(Self { address: ready.address, pid, _child: child })
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint { address: self.address, token: None }
    }

    /// A home whose server knows this provider.
    pub(super) fn home(&self, arguments: &RunArguments) -> anyhow::Result<Home> {
        let settings = format!(
            "[providers.{AGENT}]\nbase_url = \"http://{}/v1\"\nmodel = \"test-model\"\n",
            self.address
        );
        Home::on(arguments, &settings)
    }
}
