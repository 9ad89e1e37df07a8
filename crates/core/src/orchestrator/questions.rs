//! What an agent asks in the middle of its turn.

use std::sync::Arc;

use tracing::warn;

use super::{Orchestrator, run::Job};
use crate::{
    model::{
        AskedTool, EventBody, Permission, PermissionRequested, PermissionResolved, PermissionState,
        Timestamp, Turn,
    },
    permissions,
    ports::{AgentRuntime, PermissionAsk, Write},
};

/// A question that is to be kept.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    permission: Permission,
    /// The option that a policy has taken already.
    decided: Option<String>,
}

impl Asked {
    pub(super) fn new(turn: &Turn, ask: PermissionAsk, at: Timestamp) -> Self {
        let PermissionAsk { request_id, tool, options, decided } = ask;
        let tool_call =
            AskedTool { tool_call_id: tool.id, tool: tool.tool, kind: tool.kind, args: tool.args };
        let state = match decided {
            Some(_) => PermissionState::Answered,
            None => PermissionState::Pending,
        };
        let permission = Permission {
            session: turn.request.conversation,
            request_id,
            turn: turn.id,
            tool_call,
            options,
            state,
            answered_by: None,
            at,
        };
        Self { permission, decided }
    }

    pub(super) fn write(&self) -> Write {
        Write::PutPermission(Box::new(self.permission.clone()))
    }

    pub(super) fn requested(&self) -> EventBody {
        EventBody::PermissionRequested(PermissionRequested {
            request_id: self.permission.request_id.clone(),
            tool_call: self.permission.tool_call.clone(),
            options: self.permission.options.clone(),
        })
    }

    /// The policy's answer, if it has one.
    pub(super) fn resolved(&self) -> Option<EventBody> {
        self.decided.as_ref()?;
        Some(self.resolution(self.decided.clone(), "policy"))
    }

    /// Ends a question that is still open.
    pub(super) fn call_off(&mut self) -> Option<EventBody> {
        if self.permission.state != PermissionState::Pending {
            return None;
        }
        self.permission.state = PermissionState::Cancelled;
        Some(self.resolution(None, "skein"))
    }

    fn resolution(&self, option_id: Option<String>, by: &str) -> EventBody {
        let request_id = self.permission.request_id.clone();
        EventBody::PermissionResolved(PermissionResolved {
            request_id,
            option_id,
            by: by.to_owned(),
        })
    }
}

impl Orchestrator {
    /// Questions are durable before they get an answer: from a policy at once, from nobody after a while.
    pub(super) fn follow_questions(&self, job: &Job, asked: &[Asked]) {
        for Asked { permission, decided } in asked {
            let request_id = permission.request_id.clone();
            if decided.is_some() {
                self.hosting.answer(job.session, &request_id, decided.clone());
                continue;
            }
            let residence = job.runtime().and_then(AgentRuntime::residence);
            let Some(wait) = residence.and_then(|runtime| runtime.permission_timeout()) else {
                continue;
            };
            let (platform, hosting) = (Arc::clone(&self.platform), Arc::clone(&self.hosting));
            let (scope, session, ended) =
                (job.scope.clone(), job.session, job.control.ended.clone());
            self.hosting.spawn(async move {
                let ended = hosting.unless_closed(ended.cancelled());
                if tokio::time::timeout(wait, ended).await.is_ok() {
                    return;
                }
                let question = (session, request_id.as_str());
                if let Err(error) =
                    permissions::time_out(&platform, &hosting, &scope, question).await
                {
                    warn!(%error, "an unanswered question could not be called off");
                }
            });
        }
    }
}
