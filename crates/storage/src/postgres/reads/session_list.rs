//! Pages of sessions: one index scan per state and reader, merged, so that a page costs its length and not the table's.

use skein_core::{
    model::{AccessVia, Scope, SessionId, SessionStateName},
    ports::{SessionFilter, SessionPage, SessionQuery, SessionSort, Visibility},
};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{
    super::{
        EVERYONE, WHOLE_ORG,
        connection::Transaction,
        error::Fault,
        rows::{Columns, int, moment},
    },
    session::find_all,
};

/// The transaction is one snapshot for the page, its records and its total.
pub(super) async fn list(
    transaction: &Transaction<'_>,
    scope: &Scope,
    query: &SessionQuery,
) -> Result<SessionPage, Fault> {
    let mut positions = page(transaction, scope, query).await?;
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let has_more = positions.len() > limit;
    positions.truncate(limit);
    let ids: Vec<Uuid> = positions.iter().map(|position| *position.id.as_uuid()).collect();
    let sessions = find_all(transaction, scope, &ids).await?;
    let found = total(transaction, scope, query).await?;
    let (total, total_is_lower_bound) = query.counting.told(found);
    let next = positions.last().copied().filter(|_| has_more);
    Ok(SessionPage { sessions, total, total_is_lower_bound, next })
}

/// Positions of the page, and of one more session if there is one.
async fn page(
    transaction: &Transaction<'_>,
    scope: &Scope,
    query: &SessionQuery,
) -> Result<Vec<SessionSort>, Fault> {
    let mut sql = Sql::default();
    let scan = Scan::new(scope, query, &mut sql);
    let (table, id) = (scan.alias, scan.id_column);
    let position = query.from.map_or_else(String::new, |from| {
        let (at, last) = (sql.bind(moment(from.created_at)), sql.bind(*from.id.as_uuid()));
        format!(" AND ({table}.created_at, {table}.{id}) < ({at}, {last})")
    });
    let limit = sql.bind(i64::from(query.limit) + 1);
    let needed = sql.bind(int(query.offset).saturating_add(i64::from(query.limit) + 1));
    let offset = sql.bind(int(query.offset));
    let from = scan.each_state_and_reader(&format!(
        "SELECT {table}.created_at, {table}.{id} AS id FROM {} WHERE {}{position}
         ORDER BY {table}.created_at DESC, {table}.{id} DESC LIMIT {needed}",
        scan.source, scan.conditions,
    ));
    // Two readers can find the same session.
    let text = format!(
        "SELECT DISTINCT found.created_at, found.id FROM {from}
         ORDER BY found.created_at DESC, found.id DESC LIMIT {limit} OFFSET {offset}"
    );
    let rows = transaction.query(&text, &sql.parameters()).await?;
    rows.iter()
        .map(|row| {
            let row = Columns::new("session", row);
            Ok(SessionSort {
                created_at: row.time("created_at")?,
                id: row.id("id", SessionId::from_uuid)?,
            })
        })
        .collect()
}

/// Where only states are asked for, kept counters answer; else the matching rows are counted, as far as is wanted.
async fn total(
    transaction: &Transaction<'_>,
    scope: &Scope,
    query: &SessionQuery,
) -> Result<u64, Fault> {
    let only_states =
        SessionFilter { states: query.filter.states.clone(), ..SessionFilter::default() };
    let mut sql = Sql::default();
    let text = match query.visibility {
        Visibility::WholeOrg if query.filter == only_states => {
            let principal = sql.bind(WHOLE_ORG);
            counted(scope, query, &format!("principal = {principal}"), &mut sql)
        }
        Visibility::ReadableBy(user) if query.filter == only_states => {
            // What is public is counted once, for everyone.
            let (own, everyone) = (sql.bind(*user.as_uuid()), sql.bind(EVERYONE));
            let readers =
                format!("(principal = {own} AND audience = 'private' OR principal = {everyone})");
            counted(scope, query, &readers, &mut sql)
        }
        Visibility::WholeOrg | Visibility::ReadableBy(_) | Visibility::Only(_) => {
            let scan = Scan::new(scope, query, &mut sql);
            let limit = query
                .counting
                .limit()
                .map_or_else(String::new, |limit| format!(" LIMIT {}", sql.bind(int(limit))));
            let from = scan.each_state_and_reader(&format!(
                "SELECT {}.{} AS id FROM {} WHERE {}{limit}",
                scan.alias, scan.id_column, scan.source, scan.conditions
            ));
            format!("SELECT count(DISTINCT found.id) AS total FROM {from}")
        }
    };
    let rows = transaction.query(&text, &sql.parameters()).await?;
    rows.first().map_or(Ok(0), |row| Columns::new("session", row).counter("total"))
}

fn counted(scope: &Scope, query: &SessionQuery, readers: &str, sql: &mut Sql) -> String {
    let (org, states) = (sql.bind(*scope.org.as_uuid()), sql.bind(states(query)));
    format!(
        "SELECT coalesce(sum(n), 0)::bigint AS total FROM session_counts
         WHERE org_id = {org} AND {readers} AND state = ANY ({states})"
    )
}

fn states(query: &SessionQuery) -> Vec<&'static str> {
    let mut states = query.filter.states.clone();
    if states.is_empty() {
        states = SessionStateName::ALL.to_vec();
    }
    states.sort_unstable();
    states.dedup();
    states.into_iter().map(SessionStateName::as_str).collect()
}

/// A statement's parameters, numbered as they are needed.
#[derive(Default)]
struct Sql {
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Sql {
    fn bind(&mut self, value: impl ToSql + Sync + Send + 'static) -> String {
        self.values.push(Box::new(value));
        format!("${}", self.values.len())
    }

    fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
    }
}

/// One index scan that gives sessions newest first, to be made for each state and reader.
struct Scan {
    alias: &'static str,
    id_column: &'static str,
    source: &'static str,
    conditions: String,
    /// Parameter with the states.
    states: String,
    /// Parameter with the principals, where the index begins with one.
    readers: Option<String>,
}

impl Scan {
    fn new(scope: &Scope, query: &SessionQuery, sql: &mut Sql) -> Self {
        let org = sql.bind(*scope.org.as_uuid());
        let states = sql.bind(states(query));
        let filters = filters(query, &org, sql);
        match drivers(query) {
            None => Self {
                alias: "s",
                id_column: "id",
                source: "sessions s",
                conditions: format!("s.org_id = {org} AND s.state = wanted.state{filters}"),
                states,
                readers: None,
            },
            Some(Readers { principals, via }) => {
                let readers = Some(sql.bind(principals));
                // The sessions themselves are needed only for what the access rows do not say.
                let source = if filters.is_empty() {
                    "session_access a"
                } else {
                    "session_access a
                     JOIN sessions s ON s.org_id = a.org_id AND s.id = a.session_id"
                };
                let conditions = format!(
                    "a.org_id = {org} AND a.principal = reader.principal
                     AND a.state = wanted.state{via}{filters}"
                );
                Self { alias: "a", id_column: "session_id", source, conditions, states, readers }
            }
        }
    }

    fn each_state_and_reader(&self, scan: &str) -> String {
        let readers = self.readers.as_ref().map_or_else(String::new, |readers| {
            format!(" CROSS JOIN unnest({readers}::uuid[]) AS reader (principal)")
        });
        format!(
            "unnest({}::text[]) AS wanted (state){readers} CROSS JOIN LATERAL ({scan}) found",
            self.states
        )
    }
}

/// Whose access rows are walked, and for which reasons.
struct Readers {
    principals: Vec<Uuid>,
    via: String,
}

/// Who is asked about decides which index is walked: the rarest rows first. None is the whole org.
fn drivers(query: &SessionQuery) -> Option<Readers> {
    if let Some(user) = query.filter.user {
        let via = format!(" AND a.via IN ('{}', '{}')", AccessVia::Owner, AccessVia::TookPart);
        return Some(Readers { principals: vec![*user.as_uuid()], via });
    }
    match query.visibility {
        Visibility::WholeOrg | Visibility::Only(_) => None,
        Visibility::ReadableBy(user) => {
            Some(Readers { principals: vec![*user.as_uuid(), EVERYONE], via: String::new() })
        }
    }
}

/// What the scanned rows must also satisfy. Text is compared, not used as a pattern.
fn filters(query: &SessionQuery, org: &str, sql: &mut Sql) -> String {
    let filter = &query.filter;
    let mut filters = String::new();
    let mut and = |condition: String| filters.push_str(&format!(" AND {condition}"));
    if let Some(repo) = filter.repo {
        and(format!("s.repo_id = {}", sql.bind(*repo.as_uuid())));
    }
    if let Some(agent) = &filter.agent {
        let name = sql.bind(agent.clone());
        and(format!(
            "s.agent_context_id IN (SELECT c.id FROM agent_contexts c
                 WHERE c.name = {name} AND (c.org_id IS NULL OR c.org_id = {org}))"
        ));
    }
    if let Some(interface) = filter.interface {
        and(format!("s.interface = {}", sql.bind(interface.as_str())));
    }
    if let Some(text) = &filter.text {
        let text = sql.bind(text.clone());
        let contains = |column| format!("strpos(lower(s.{column}), lower({text})) > 0");
        let columns = ["name", "key", "description"].map(contains).join(" OR ");
        and(format!("({columns})"));
    }
    match query.visibility {
        Visibility::Only(session) => and(format!("s.id = {}", sql.bind(*session.as_uuid()))),
        Visibility::ReadableBy(user) if filter.user.is_some_and(|asked| asked != user) => {
            let readers = sql.bind(vec![*user.as_uuid(), EVERYONE]);
            and(format!(
                "EXISTS (SELECT 1 FROM session_access v WHERE v.org_id = {org}
                     AND v.principal = ANY ({readers}) AND v.session_id = s.id)"
            ));
        }
        Visibility::ReadableBy(_) | Visibility::WholeOrg => {}
    }
    filters
}
