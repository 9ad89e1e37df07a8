//! One conversation with a model: through Skein, or straight with the provider.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use memchr::memmem;

use super::provider::{AGENT, Provider};
use crate::{
    client::Connection,
    report::milliseconds,
    subject::{INSTRUCTION_BYTES, Server, create_session},
    text::Noise,
};

/// A connection with the conversation that it carries.
pub(super) struct Talk {
    connection: Connection,
    noise: Noise,
    way: Way,
}

enum Way {
    Skein { session: String },
    Direct { previous: Option<String> },
}

impl Talk {
    pub(super) async fn through(server: &Server, seed: u64) -> anyhow::Result<Self> {
        let mut connection = server.connect().await?;
        let session = create_session(&mut connection, AGENT).await?;
        Ok(Self { connection, noise: Noise::new(seed), way: Way::Skein { session } })
    }

    pub(super) async fn with(provider: &Provider, seed: u64) -> anyhow::Result<Self> {
        let connection = Connection::open(&provider.endpoint()).await?;
        let way = Way::Direct { previous: None };
        Ok(Self { connection, noise: Noise::new(seed), way })
    }

    /// Runs a turn to its end; gives the milliseconds from the request to the first text.
    pub(super) async fn turn(&mut self) -> anyhow::Result<f64> {
        let instruction = self.noise.text(INSTRUCTION_BYTES);
        match &mut self.way {
            Way::Skein { session } => {
                let body = format!(
                    r#"{{"client":"cli","agent":"{AGENT}","sessionId":"{session}","instruction":"{instruction}"}}"#
                );
                let began = Instant::now();
                let path = "/api/ai/agent/execute";
                // A delta; or the whole message, if the provider said it all before the first write.
                let wanted = br#""role":"agent""#;
                let (first, told) =
                    self.connection.post_until(path, body.as_bytes(), wanted).await?;
                let is_done = memmem::rfind(told, br#""kind":"answer""#).is_some();
                ensure!(is_done, "not an answer: {}", String::from_utf8_lossy(told));
                Ok(milliseconds(first - began))
            }
            Way::Direct { previous } => {
                let chain = previous
                    .as_ref()
                    .map(|id| format!(r#""previous_response_id":"{id}","#))
                    .unwrap_or_default();
                let body = format!(
                    r#"{{"model":"test-model",{chain}"input":[{{"role":"user","content":[{{"type":"input_text","text":"{instruction}"}}]}}],"stream":true,"store":true}}"#
                );
                let began = Instant::now();
                let wanted = b"event: response.output_text.delta\n";
                let (first, told) =
                    self.connection.post_until("/v1/responses", body.as_bytes(), wanted).await?;
                *previous = Some(response_id(told)?);
                Ok(milliseconds(first - began))
            }
        }
    }
}

fn response_id(told: &[u8]) -> anyhow::Result<String> {
    let start = memmem::find(told, b"\"resp_").context("no id in the response")? + 1;
    let length = memchr::memchr(b'"', &told[start..]).context("no end of the id")?;
    Ok(String::from_utf8_lossy(&told[start..start + length]).into_owned())
}
