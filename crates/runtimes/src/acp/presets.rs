//! Agents that are known by name, with what starts them.

/// A known agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    pub command: &'static [&'static str],
    /// How it is installed, for people.
    pub install: &'static str,
    /// The variable that holds its key; it is passed on when it is set for Skein.
    pub key_env: Option<&'static str>,
}

/// The first one that is configured works in repositories when a request names no agent.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "gemini",
        command: &["gemini", "--acp", "-m", "gemini-2.5-flash"],
        install: "npm install --global @google/gemini-cli",
        key_env: Some("GEMINI_API_KEY"),
    },
    Preset {
        name: "codex",
        command: &["codex-acp"],
        install: "npm install --global @zed-industries/codex-acp",
        key_env: Some("OPENAI_API_KEY"),
    },
    Preset {
        name: "claude",
        command: &["claude-agent-acp"],
        install: "npm install --global @agentclientprotocol/claude-agent-acp",
        key_env: Some("ANTHROPIC_API_KEY"),
    },
    Preset {
        name: "opencode",
        command: &["opencode", "acp"],
        install: "npm install --global opencode-ai",
        key_env: None,
    },
    Preset {
        name: "goose",
        command: &["goose", "acp"],
        install: "see the documentation of goose",
        key_env: None,
    },
];

/// The preset of that name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}
