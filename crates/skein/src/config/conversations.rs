//! `[conversation_contexts.NAME]`: what every organisation can bind its sessions to.

use serde::{Deserialize, Serialize};
use skein_core::model::ConversationSpec;

/// A conversation context that every organisation has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConversationSettings {
    pub(crate) system_prompt: String,
    /// Answers when a request names no other one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) temperature: Option<f64>,
}

impl ConversationSettings {
    pub(crate) fn spec(&self) -> ConversationSpec {
        ConversationSpec {
            system_prompt: self.system_prompt.clone(),
            model: self.model.clone(),
            temperature: self.temperature,
        }
    }
}
