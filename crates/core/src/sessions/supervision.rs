//! What the end of an agent process means for its session.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tracing::{info, warn};

use super::{Busy, Ending, Sessions};
use crate::{
    Error,
    hosting::{Notice, NoticeKind},
    model::Scope,
    ports::StoreError,
};

/// Why an idle session was completed.
const IDLE_TIMEOUT: &str = "idle_timeout";
/// Before a store that did not take a session's end is asked again.
const RETRY: Duration = Duration::from_millis(500);

impl Sessions {
    /// Follows the agent processes in the background, until they are closed.
    pub fn supervise(self, mut notices: mpsc::Receiver<Notice>) {
        let hosting = Arc::clone(&self.hosting);
        hosting.spawn(async move {
            while let Some(Some(notice)) = self.hosting.unless_closed(notices.recv()).await {
                let sessions = self.clone();
                // One session that takes long must not hold up the others.
                self.hosting.spawn(async move { sessions.act_on(notice).await });
            }
        });
    }

    async fn act_on(&self, notice: Notice) {
        let scope = Scope::on_behalf_of(notice.org, notice.owner);
        let ending = match notice.what {
            NoticeKind::Died(failure) => Ending::Fail { failure },
            NoticeKind::Idle => {
                Ending::Complete { busy: Busy::Refuse, reason: Some(IDLE_TIMEOUT.to_owned()) }
            }
        };
        loop {
            match self.end(&scope, notice.session, &ending).await {
                Ok(record) => {
                    let state = record.session.state.name();
                    return info!(session.id = %notice.session, %state, "a session ended with its agent");
                }
                Err(Error::Store(StoreError::Full | StoreError::Unavailable(_))) => {
                    tokio::time::sleep(RETRY).await;
                }
                // Somebody has just asked for something: it is not idle after all.
                Err(Error::TurnInProgress { .. }) if matches!(ending, Ending::Complete { .. }) => {
                    return;
                }
                Err(Error::NotFound { .. } | Error::SessionNotActive { .. }) => return,
                Err(error) => {
                    return warn!(session.id = %notice.session, %error, "a session could not be ended");
                }
            }
        }
    }
}
