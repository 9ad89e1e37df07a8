//! The commands about providers of models.

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum ProviderCommand {
    /// List the providers in the settings
    List,
    /// Add a provider to config.toml of the home
    #[command(
        long_about = "Add a provider to config.toml of the home.\n\nWhat is left out comes from what is known \
                      about the name: openai, ollama, lmstudio, vllm and openrouter need nothing more. The \
                      rest of the file stays as it is."
    )]
    Add(ProviderAdd),
    /// See whether a provider answers, and list its models; exits with 6 when it does not
    Test {
        /// Its name in the settings, or one that is known
        name: String,
    },
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ProviderAdd {
    /// What it is called; an agent of that name comes with it
    pub(crate) name: String,
    /// What stands before /responses, e.g. http://127.0.0.1:11434/v1
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// The variable that holds the key
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) key_env: Option<String>,
    /// Who remembers the turns before
    #[arg(long, value_name = "WHO")]
    pub(crate) chain: Option<ChainChoice>,
    /// Let answers outlive their connections
    #[arg(long)]
    pub(crate) background: bool,
    /// Answers when nothing else names a model
    #[arg(long)]
    pub(crate) model: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChainChoice {
    /// The provider does
    Server,
    /// Nobody does: the conversation is sent each time
    None,
}
