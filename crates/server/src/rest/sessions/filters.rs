//! How lists of sessions are filtered and paged.

use skein_api::{Session, SessionList, SessionStatus};
use skein_core::{
    model::{Interface, RepoId, SessionId, SessionStateName, Timestamp},
    ports::{SessionFilter, SessionPage, SessionSort},
    sessions::ListSessions,
};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::{
    ServerSettings,
    error::{Code, Problem},
    extract::{Known, Parameters, invalid},
};

/// The parameters of a list of sessions. Read from [`Parameters`]; this type names and documents them.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields document the parameters")]
pub(crate) struct Filters {
    /// The id of a repository. As with every filter here, an empty value does not filter.
    #[param(rename = "repoId")]
    repo_id: Option<String>,
    /// Words of `status`, comma-separated: active, completed, cancelled, error.
    #[param(example = "active,completed")]
    status: Option<String>,
    /// Words of `state`, comma-separated: created, active, suspended, completed, cancelled, failed.
    state: Option<String>,
    /// An agent's name.
    agent: Option<String>,
    interface: Option<String>,
    /// Text in name, key or description.
    q: Option<String>,
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
    #[param(minimum = 0)]
    offset: Option<u64>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
}

impl Known for Filters {
    const NAMES: &'static [&'static str] =
        &["repoId", "status", "state", "agent", "interface", "q", "limit", "offset", "cursor"];
}

/// A list as it was asked for.
#[derive(Debug)]
pub(crate) struct ListRequest {
    /// None when `status` and `state` have nothing in common: then nothing matches.
    pub(crate) list: Option<ListSessions>,
    limit: u32,
    offset: u64,
}

impl ListRequest {
    pub(crate) fn new(
        parameters: &Parameters<Filters>,
        settings: &ServerSettings,
    ) -> Result<Self, Problem> {
        let limit = parameters.number("limit", 1..=settings.page_max)?;
        let limit = limit.unwrap_or(settings.page_default);
        let offset = parameters.number("offset", 0..=i64::MAX as u64)?.unwrap_or(0);
        let from = parameters.text("cursor").map(decode_cursor).transpose()?;
        let filter = SessionFilter {
            states: Vec::new(),
            repo: parameters.filter::<RepoId>("repoId")?,
            agent: parameters.filter("agent")?,
            interface: parameters.filter::<Interface>("interface")?,
            text: parameters.filter("q")?,
            user: None,
        };
        let list = states(parameters)?.map(|states| ListSessions {
            filter: SessionFilter { states, ..filter },
            from,
            offset,
            limit,
        });
        Ok(Self { list, limit, offset })
    }

    pub(crate) fn answer(self, page: Option<SessionPage>) -> SessionList {
        let nothing =
            SessionPage { sessions: Vec::new(), total: 0, total_is_lower_bound: false, next: None };
        let page = page.unwrap_or(nothing);
        SessionList {
            sessions: page.sessions.into_iter().map(Session::from).collect(),
            total: page.total,
            total_is_lower_bound: page.total_is_lower_bound,
            limit: self.limit,
            offset: self.offset,
            next_cursor: page.next.map(encode_cursor),
        }
    }
}

/// The states that are wanted; an empty list does not filter, and `None` can match nothing.
fn states(parameters: &Parameters<Filters>) -> Result<Option<Vec<SessionStateName>>, Problem> {
    let mut wanted: Option<Vec<SessionStateName>> = None;
    if let Some(words) = parameters.words("status") {
        let statuses = words.map(|word| {
            let known = SessionStatus::STATES.iter().find(|(name, _)| *name == word);
            known.map(|(_, states)| *states).ok_or_else(|| {
                invalid("status", "use active, completed, cancelled or error, comma-separated")
            })
        });
        wanted = Some(statuses.collect::<Result<Vec<_>, _>>()?.concat());
    }
    if let Some(words) = parameters.words("state") {
        let states = words.map(|word| word.parse().map_err(|error| invalid("state", error)));
        let states = states.collect::<Result<Vec<SessionStateName>, _>>()?;
        wanted = Some(match wanted {
            Some(wanted) => wanted.into_iter().filter(|state| states.contains(state)).collect(),
            None => states,
        });
    }
    Ok(match wanted {
        None => Some(Vec::new()),
        Some(mut states) => {
            states.sort_unstable();
            states.dedup();
            Some(states).filter(|states| !states.is_empty())
        }
    })
}

const CURSOR_BYTES: usize = 24;

/// A cursor is the sort key of the next session, so that pages neither repeat nor skip.
fn encode_cursor(sort: SessionSort) -> String {
    let mut bytes = [0; CURSOR_BYTES];
    bytes[..8].copy_from_slice(&sort.created_at.as_millis().to_be_bytes());
    bytes[8..].copy_from_slice(sort.id.as_uuid().as_bytes());
    hex::encode(bytes)
}

fn decode_cursor(text: &str) -> Result<SessionSort, Problem> {
    let decode = || {
        let mut bytes = [0; CURSOR_BYTES];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        let (millis, id) = bytes.split_at(8);
        let millis = i64::from_be_bytes(millis.try_into().ok()?);
        let created_at = Timestamp::from_millis(millis);
        let id = SessionId::from_uuid(Uuid::from_slice(id).ok()?);
        // What does not come back the same was never handed out.
        let sort = SessionSort { created_at, id };
        (encode_cursor(sort) == text).then_some(sort)
    };
    decode().ok_or_else(|| {
        let detail = "cursor: not one that this server gave out; use nextCursor as it is";
        Problem::new(Code::InvalidCursor, detail).in_field("cursor")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::parse_parameters;

    fn list(query: &str) -> Result<ListRequest, Code> {
        let parameters = parse_parameters(query).map_err(|problem| problem.code)?;
        ListRequest::new(&parameters, &ServerSettings::default()).map_err(|problem| problem.code)
    }

    fn wanted(query: &str) -> Option<Vec<&'static str>> {
        let list = list(query).unwrap().list?;
        Some(list.filter.states.into_iter().map(SessionStateName::as_str).collect())
    }

    #[test]
    fn a_cursor_comes_back_as_it_was() {
        let sort = SessionSort {
            created_at: Timestamp::from_millis(1_794_766_234_499),
            id: SessionId::from_uuid(Uuid::from_u128(77)),
        };

        let cursor = encode_cursor(sort);

        assert_eq!(decode_cursor(&cursor).unwrap(), sort);
        for bad in ["", "x", &cursor[1..], &cursor.to_uppercase(), &"f".repeat(48), "é"] {
            if bad != cursor {
                let refused = decode_cursor(bad).map_err(|problem| problem.code);
                assert!(
                    refused == Err(Code::InvalidCursor)
                        || refused.is_ok_and(|sort| encode_cursor(sort) == bad),
                    "{bad}"
                );
            }
        }
    }

    #[test]
    fn status_and_state_are_combined() {
        assert_eq!(wanted(""), Some(vec![]));
        assert_eq!(wanted("status=active"), Some(vec!["created", "active", "suspended"]));
        assert_eq!(wanted("status=error,completed"), Some(vec!["completed", "failed"]));
        assert_eq!(wanted("state=created,failed"), Some(vec!["created", "failed"]));
        assert_eq!(wanted("status=active&state=suspended,failed"), Some(vec!["suspended"]));
        assert_eq!(wanted("status=active&state=failed"), None);
        assert_eq!(wanted("status="), Some(vec![]));
    }

    #[test]
    fn bad_filters_are_refused() {
        for bad in [
            "status=open",
            "status=active,,completed",
            "state=error",
            "interface=fax",
            "repoId=1",
            "limit=0",
            "limit=201",
            "limit=x",
            "offset=-1",
            "offset=9223372036854775808",
        ] {
            assert_eq!(list(bad).err(), Some(Code::InvalidFilter), "{bad}");
        }
        assert_eq!(list("cursor=zz").err(), Some(Code::InvalidCursor));
        assert_eq!(list("page=2").err(), Some(Code::UnknownField));
    }
}
