//! What can be asked of sessions.

use serde::Deserialize;
use skein_core::{
    Error,
    agents::AgentChoice,
    model::{AgentContextId, ConversationContextId, Interface, Profile, RepoId},
    sessions::{Busy, NewSession, SessionEdit},
};
use utoipa::ToSchema;

use crate::{Id, Members, Object, RetrievalScope, common::present};

/// A new session. Everything is optional.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSession {
    /// The agent by its name.
    pub agent: Option<String>,
    /// The agent by its context id, instead of `agent`.
    #[schema(value_type = Option<Uuid>)]
    pub agent_context_id: Option<Id<AgentContextId>>,
    #[schema(value_type = Option<Uuid>)]
    pub conversation_context_id: Option<Id<ConversationContextId>>,
    #[schema(value_type = Option<Uuid>)]
    pub repo_id: Option<Id<RepoId>>,
    /// A repository's name.
    pub repo: Option<String>,
    #[schema(value_type = Option<RetrievalScope>)]
    pub scope: Option<Members<RetrievalScope>>,
    pub workspace_id: Option<String>,
    pub name: Option<String>,
    pub key: Option<String>,
    pub description: Option<String>,
    pub category: Option<String>,
    pub is_public: Option<bool>,
    pub is_draft: Option<bool>,
    pub default_language: Option<String>,
    pub metadata: Option<Object>,
    #[schema(value_type = Option<String>, pattern = "^(cli|api|graphql|webhook|web|pipeline)$")]
    pub interface: Option<Interface>,
}

/// Fields to replace; those left out stay, and null clears one.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EditSession {
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub name: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub key: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub description: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub category: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub is_public: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub is_draft: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub default_language: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Option<Object>>,
}

/// Ends the session as its owner wanted.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompleteSession {
    /// End a running turn first instead of refusing.
    pub interrupt: Option<bool>,
}

/// Puts the session aside.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SuspendSession {
    pub reason: Option<String>,
    /// End a running turn first instead of refusing.
    pub interrupt: Option<bool>,
}

/// Takes a suspended session up again.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeSession {
    /// The interface that goes on with it.
    #[schema(value_type = Option<String>, pattern = "^(cli|api|graphql|webhook|web|pipeline)$")]
    pub interface: Option<Interface>,
}

/// An agent is named once, by name or by context.
pub(crate) fn agent_choice(
    name: Option<String>,
    context: Option<Id<AgentContextId>>,
) -> Result<AgentChoice, Error> {
    match (name, context) {
        (None, None) => Ok(AgentChoice::Default),
        (Some(name), None) => Ok(AgentChoice::Named(name)),
        (None, Some(Id(context))) => Ok(AgentChoice::Context(context)),
        (Some(_), Some(_)) => {
            let reason = "name the agent by agent or by agentContextId, not by both".to_owned();
            Err(Error::Invalid { field: "agent", reason })
        }
    }
}

pub(crate) fn busy(interrupt: Option<bool>) -> Busy {
    if interrupt.unwrap_or(false) { Busy::Interrupt } else { Busy::Refuse }
}

impl TryFrom<CreateSession> for NewSession {
    type Error = Error;

    fn try_from(request: CreateSession) -> Result<Self, Error> {
        Ok(Self {
            agent: agent_choice(request.agent, request.agent_context_id)?,
            conversation_context: request.conversation_context_id.map(|id| id.0),
            profile: Profile {
                name: request.name,
                key: request.key,
                description: request.description,
                category: request.category,
                is_public: request.is_public.unwrap_or(false),
                is_draft: request.is_draft.unwrap_or(false),
                default_language: None,
                metadata: request.metadata.unwrap_or_default().0,
            },
            interface: request.interface.unwrap_or(Interface::Api),
            workspace_id: request.workspace_id,
            repo: request.repo,
            repo_id: request.repo_id.map(|id| id.0),
            scope_paths: request.scope.unwrap_or_default().0.paths,
            default_language: request.default_language,
        })
    }
}

impl From<EditSession> for SessionEdit {
    fn from(request: EditSession) -> Self {
        Self {
            name: request.name,
            key: request.key,
            description: request.description,
            category: request.category,
            is_public: request.is_public,
            is_draft: request.is_draft,
            default_language: request.default_language,
            metadata: request.metadata.map(|metadata| metadata.unwrap_or_default().0),
        }
    }
}

impl CompleteSession {
    pub fn busy(&self) -> Busy {
        busy(self.interrupt)
    }
}

impl SuspendSession {
    pub fn busy(&self) -> Busy {
        busy(self.interrupt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_tells_null_from_absent() {
        let edit: EditSession =
            serde_json::from_str(r#"{"name":null,"key":"k","metadata":null}"#).unwrap();

        let edit = SessionEdit::from(edit);

        let expected = SessionEdit {
            name: Some(None),
            key: Some(Some("k".to_owned())),
            metadata: Some(serde_json::Map::new()),
            ..SessionEdit::default()
        };
        assert_eq!(edit, expected);
    }

    #[test]
    fn flags_cannot_be_cleared() {
        assert!(serde_json::from_str::<EditSession>(r#"{"isPublic":null}"#).is_err());
    }

    #[test]
    fn an_agent_named_twice_is_refused() {
        let text = r#"{"agent":"echo","agentContextId":"01890a5d-ac96-774b-bcce-b302099a8057"}"#;
        let request: CreateSession = serde_json::from_str(text).unwrap();

        assert!(matches!(
            NewSession::try_from(request),
            Err(Error::Invalid { field: "agent", .. })
        ));
    }
}
