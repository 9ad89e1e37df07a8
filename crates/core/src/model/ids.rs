//! Typed identifiers: a session id cannot stand where a turn id is meant.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The text is not a UUID in canonical lower-case form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an id in canonical lower-case UUID form")]
pub struct InvalidId(pub String);

/// Accepts exactly the form that ids are written in, so one record has one address.
fn parse_canonical(text: &str) -> Result<Uuid, InvalidId> {
    let invalid = || InvalidId(text.chars().take(64).collect());
    let uuid = Uuid::try_parse(text).map_err(|_| invalid())?;
    let mut buffer = Uuid::encode_buffer();
    let canonical: &str = uuid.hyphenated().encode_lower(&mut buffer);
    if canonical == text { Ok(uuid) } else { Err(invalid()) }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            pub const fn as_uuid(&self) -> &Uuid {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                parse_canonical(text).map(Self)
            }
        }
    )*};
}

ids! {
    /// A tenant.
    OrgId;
    /// A person or machine account inside an org.
    UserId;
    /// An access token's record, not its secret.
    TokenId;
    /// The durable thread.
    SessionId;
    /// The append-only log a session writes to.
    LogId;
    /// One instruction and its outcome.
    TurnId;
    /// What a person reads; appears in the log as one or more events.
    MessageId;
    /// A full text or raw body kept out of the turn row.
    PayloadId;
    /// A position in the log plus agent state.
    CheckpointId;
    /// A tracked unit of work.
    TicketId;
    /// A registered Git work tree.
    RepoId;
    /// Which runtime, provider and model environment answers.
    AgentContextId;
    /// System prompt, model and temperature.
    ConversationContextId;
    /// A group of work inside an org.
    BasketId;
    /// A text that was uploaded to a session.
    DocumentId;
}

/// Position in a session's log: 1, 2, 3 … without gaps. 0 means "before the first event".
pub type Seq = u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_lower_case_form_is_an_id() {
        let canonical = "01890a5d-ac96-774b-bcce-b302099a8057";

        let accepted: Vec<bool> = [
            canonical,
            &canonical.to_uppercase(),
            &canonical.replace('-', ""),
            &format!("{{{canonical}}}"),
            &format!("urn:uuid:{canonical}"),
            "",
            "../etc",
        ]
        .iter()
        .map(|text| text.parse::<SessionId>().is_ok())
        .collect();

        assert_eq!(accepted, [true, false, false, false, false, false, false]);
    }
}
