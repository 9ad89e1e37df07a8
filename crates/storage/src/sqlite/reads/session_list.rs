//! Pages of sessions: one index scan per state, merged, so that a page costs its length and not the table's.

use rusqlite::{Connection, ToSql, params, params_from_iter};
use skein_core::{
    model::{AccessVia, Scope, SessionId, SessionStateName, Timestamp, UserId},
    ports::{SessionFilter, SessionPage, SessionQuery, SessionSort, Visibility},
};
use uuid::Uuid;

use super::{
    super::{
        EVERYONE,
        error::Fault,
        rows::{int, key},
    },
    session::find,
};

pub(super) fn list(
    connection: &Connection,
    scope: &Scope,
    query: &SessionQuery,
) -> Result<SessionPage, Fault> {
    // One snapshot for the page, its records and its total.
    let snapshot = connection.unchecked_transaction()?;
    let mut positions = page(connection, scope, query)?;
    let has_more = positions.len() > query.limit as usize;
    positions.truncate(query.limit as usize);
    let mut sessions = Vec::with_capacity(positions.len());
    for position in &positions {
        sessions.extend(find(connection, scope, position.id)?);
    }
    let (total, total_is_lower_bound) = query.counting.told(total(connection, scope, query)?);
    snapshot.finish()?;
    let next = positions.last().copied().filter(|_| has_more);
    Ok(SessionPage { sessions, total, total_is_lower_bound, next })
}

/// Positions of the page, and of one more session if there is one.
fn page(
    connection: &Connection,
    scope: &Scope,
    query: &SessionQuery,
) -> Result<Vec<SessionSort>, Fault> {
    let (text, sql) = page_statement(scope, query);
    let mut statement = connection.prepare_cached(&text)?;
    let rows = statement.query_map(params_from_iter(&sql.parameters), |row| {
        Ok(SessionSort {
            created_at: Timestamp::from_millis(row.get(0)?),
            id: SessionId::from_uuid(Uuid::from_bytes(row.get(1)?)),
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn page_statement(scope: &Scope, query: &SessionQuery) -> (String, Sql) {
    let limit = u64::from(query.limit) + 1;
    sorted(scope, query, Span { from: query.from, offset: query.offset, limit })
}

/// What to take of the sessions that match, newest first.
struct Span {
    from: Option<SessionSort>,
    offset: u64,
    limit: u64,
}

/// UNION merges the sorted scans row by row and drops what two of them found.
fn sorted(scope: &Scope, query: &SessionQuery, span: Span) -> (String, Sql) {
    let mut sql = Sql::default();
    let scans = Scans::new(scope, query, &mut sql);
    let from =
        span.from.map(|from| (sql.bind(from.created_at.as_millis()), sql.bind(*key(&from.id))));
    let arms = scans.arms.iter().map(|arm| {
        let position = from.as_ref().map_or_else(String::new, |(at, id)| {
            format!(" AND ({0}.created_at, {0}.{1}) < ({at}, {id})", arm.alias, arm.id_column)
        });
        format!(
            "SELECT {0}.created_at AS created_at, {0}.{1} AS id FROM {2}{position}",
            arm.alias, arm.id_column, arm.source
        )
    });
    let arms = arms.collect::<Vec<_>>().join(" UNION ");
    let limit = sql.bind(int(span.limit));
    let offset = sql.bind(int(span.offset));
    let order = format!("ORDER BY created_at DESC, id DESC LIMIT {limit} OFFSET {offset}");
    (format!("{arms} {order}"), sql)
}

/// Where only states are asked for, kept counters answer; else the matching rows are counted, as far as is wanted.
fn total(connection: &Connection, scope: &Scope, query: &SessionQuery) -> Result<u64, Fault> {
    let only_states =
        SessionFilter { states: query.filter.states.clone(), ..SessionFilter::default() };
    match query.visibility {
        Visibility::WholeOrg if query.filter == only_states => {
            counted(connection, scope, &[], &query.filter.states, "%")
        }
        Visibility::ReadableBy(user) if query.filter == only_states => {
            let states = &query.filter.states;
            let own = counted(connection, scope, key(&user), states, "%")?;
            let public = counted(connection, scope, &EVERYONE, states, "%")?;
            let both = counted(connection, scope, key(&user), states, "public")?;
            Ok((own + public).saturating_sub(both))
        }
        Visibility::WholeOrg | Visibility::ReadableBy(_) | Visibility::Only(_) => {
            let (matches, sql) = match query.counting.limit() {
                // In order, so that the scans stop where the counting does.
                Some(limit) => sorted(scope, query, Span { from: None, offset: 0, limit }),
                None => unsorted(scope, query),
            };
            let count: i64 = connection
                .prepare_cached(&format!("SELECT count(*) FROM ({matches})"))?
                .query_row(params_from_iter(&sql.parameters), |row| row.get(0))?;
            Ok(count.unsigned_abs())
        }
    }
}

fn unsorted(scope: &Scope, query: &SessionQuery) -> (String, Sql) {
    let mut sql = Sql::default();
    let scans = Scans::new(scope, query, &mut sql);
    let arms = scans
        .arms
        .iter()
        .map(|arm| format!("SELECT {}.{} FROM {}", arm.alias, arm.id_column, arm.source));
    (arms.collect::<Vec<_>>().join(" UNION "), sql)
}

fn counted(
    connection: &Connection,
    scope: &Scope,
    principal: &[u8],
    states: &[SessionStateName],
    audience: &str,
) -> Result<u64, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT state, n FROM session_counts
         WHERE org_id = ?1 AND principal = ?2 AND audience LIKE ?3",
    )?;
    let mut rows = statement.query(params![key(&scope.org), principal, audience])?;
    let mut total = 0;
    while let Some(row) = rows.next()? {
        let state = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        if states.is_empty() || states.iter().any(|wanted| wanted.as_str() == state) {
            total += row.get::<_, i64>(1)?.max(0).unsigned_abs();
        }
    }
    Ok(total)
}

/// A statement's parameters, numbered as they are needed.
#[derive(Default)]
struct Sql {
    parameters: Vec<Box<dyn ToSql>>,
}

impl Sql {
    fn bind(&mut self, value: impl ToSql + 'static) -> String {
        self.parameters.push(Box::new(value));
        format!("?{}", self.parameters.len())
    }
}

/// One index scan that gives sessions newest first.
struct Arm {
    alias: &'static str,
    id_column: &'static str,
    /// Tables and conditions.
    source: String,
}

/// Every scan that is needed to see all that is asked for.
struct Scans {
    arms: Vec<Arm>,
}

impl Scans {
    fn new(scope: &Scope, query: &SessionQuery, sql: &mut Sql) -> Self {
        let org = sql.bind(*key(&scope.org));
        let conditions = conditions(query, &org, sql);
        let mut states = query.filter.states.clone();
        states.sort_unstable();
        states.dedup();
        if states.is_empty() {
            states = SessionStateName::ALL.to_vec();
        }
        let drivers = drivers(query, sql);
        let arms = states
            .iter()
            .flat_map(|state| drivers.iter().map(|driver| driver.arm(&org, *state)))
            .map(|arm| Arm { source: arm.source + &conditions, ..arm })
            .collect();
        Self { arms }
    }
}

/// The table whose index gives the order.
enum Driver {
    Sessions,
    /// The access rows of the principal in this parameter.
    Access {
        principal: String,
        only_taking_part: bool,
    },
}

/// Who is asked about decides which index is walked: the rarest rows first.
fn drivers(query: &SessionQuery, sql: &mut Sql) -> Vec<Driver> {
    if let Some(user) = query.filter.user {
        let principal = sql.bind(*key(&user));
        return vec![Driver::Access { principal, only_taking_part: true }];
    }
    match query.visibility {
        Visibility::WholeOrg | Visibility::Only(_) => vec![Driver::Sessions],
        Visibility::ReadableBy(user) => [*key(&user), EVERYONE]
            .into_iter()
            .map(|principal| Driver::Access {
                principal: sql.bind(principal),
                only_taking_part: false,
            })
            .collect(),
    }
}

impl Driver {
    fn arm(&self, org: &str, state: SessionStateName) -> Arm {
        match self {
            Self::Sessions => Arm {
                alias: "s",
                id_column: "id",
                source: format!("sessions s WHERE s.org_id = {org} AND s.state = '{state}'"),
            },
            Self::Access { principal, only_taking_part } => {
                let via = if *only_taking_part {
                    format!(" AND a.via IN ('{}', '{}')", AccessVia::Owner, AccessVia::TookPart)
                } else {
                    String::new()
                };
                Arm {
                    alias: "a",
                    id_column: "session_id",
                    source: format!(
                        "session_access a CROSS JOIN sessions s
                             ON s.org_id = a.org_id AND s.id = a.session_id
                         WHERE a.org_id = {org} AND a.principal = {principal}
                             AND a.state = '{state}'{via}"
                    ),
                }
            }
        }
    }
}

/// What the scanned rows must also satisfy.
fn conditions(query: &SessionQuery, org: &str, sql: &mut Sql) -> String {
    let filter = &query.filter;
    let mut conditions = String::new();
    let mut and = |condition: String| conditions.push_str(&format!(" AND {condition}"));
    if let Some(repo) = filter.repo {
        and(format!("s.repo_id = {}", sql.bind(*key(&repo))));
    }
    if let Some(agent) = &filter.agent {
        let name = sql.bind(agent.clone());
        and(format!(
            "s.agent_context_id IN (SELECT id FROM agent_contexts
                 WHERE name = {name} AND (org_id IS NULL OR org_id = {org}))"
        ));
    }
    if let Some(interface) = filter.interface {
        and(format!("s.interface = {}", sql.bind(interface.as_str())));
    }
    if let Some(text) = &filter.text {
        let text = sql.bind(text.to_lowercase());
        and(format!(
            "(contains_folded(s.name, {text}) OR contains_folded(s.key, {text})
              OR contains_folded(s.description, {text}))"
        ));
    }
    match query.visibility {
        Visibility::Only(session) => and(format!("s.id = {}", sql.bind(*key(&session)))),
        Visibility::ReadableBy(user) if filter.user.is_some_and(|asked| asked != user) => {
            and(readable_by(user, org, sql));
        }
        Visibility::ReadableBy(_) | Visibility::WholeOrg => {}
    }
    conditions
}

fn readable_by(user: UserId, org: &str, sql: &mut Sql) -> String {
    let (user, everyone) = (sql.bind(*key(&user)), sql.bind(EVERYONE));
    format!(
        "EXISTS (SELECT 1 FROM session_access v
             WHERE v.org_id = {org} AND v.principal IN ({user}, {everyone}) AND v.session_id = s.id)"
    )
}

#[cfg(test)]
mod tests {
    use skein_core::{
        model::{Interface, OrgId, RepoId},
        ports::Counting,
    };

    use super::*;
    use crate::sqlite::{connection, migrate};

    #[test]
    fn a_page_is_read_from_indexes_in_their_order_and_never_sorted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("skein.db");
        migrate::up(&path, &skein_testkit::StoppedClock::default()).unwrap();
        let connection = connection::open_reader(&path).unwrap();
        let user = UserId::from_uuid(Uuid::from_u128(2));
        let scope = Scope::on_behalf_of(OrgId::from_uuid(Uuid::from_u128(1)), user);
        let from = SessionSort {
            created_at: Timestamp::from_millis(9),
            id: SessionId::from_uuid(Uuid::from_u128(3)),
        };
        let filters = [
            SessionFilter::default(),
            SessionFilter { states: vec![SessionStateName::Active], ..SessionFilter::default() },
            SessionFilter { interface: Some(Interface::Cli), ..SessionFilter::default() },
            SessionFilter {
                repo: Some(RepoId::from_uuid(Uuid::from_u128(4))),
                ..SessionFilter::default()
            },
            SessionFilter { user: Some(user), ..SessionFilter::default() },
        ];

        for filter in filters {
            for visibility in [Visibility::WholeOrg, Visibility::ReadableBy(user)] {
                for from in [None, Some(from)] {
                    let filter = filter.clone();
                    let counting = Counting::UpTo(10_000);
                    let query =
                        SessionQuery { visibility, filter, from, offset: 0, limit: 20, counting };
                    let (text, sql) = page_statement(&scope, &query);
                    let mut plan =
                        connection.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
                    let steps: Vec<String> = plan
                        .query_map(params_from_iter(&sql.parameters), |row| row.get(3))
                        .unwrap()
                        .collect::<Result<_, _>>()
                        .unwrap();

                    let is_sorted = steps.iter().any(|step| step.contains("TEMP B-TREE"));
                    assert!(!is_sorted, "{query:?}: {steps:#?}");
                }
            }
        }
    }
}
