//! Chains the audit rows that were committed. Done in the writers' transactions, it would put all of them in one line.

use skein_core::{
    model::{OrgId, UserId},
    ports::StoreError,
};
use uuid::Uuid;

use super::{
    PostgresStore,
    connection::Transaction,
    error::Fault,
    rows::{Columns, first_or, int},
};
use crate::audit_chain::{ChainedRow, Head, PAGE_ROWS, StoredContent};

/// Orgs that are asked for at once.
const ORGS_AT_ONCE: usize = 100;

impl PostgresStore {
    /// Chains what every org has committed; returns how many rows that were.
    pub(super) async fn seal(&self) -> Result<u64, Fault> {
        let mut sealed = 0;
        let mut after = first_or(None);
        loop {
            let sql = "SELECT org_id FROM system_list_unsealed($1, $2)";
            let orgs = self.system(sql, &[&after, &(ORGS_AT_ONCE as i64)]).await?;
            for row in &orgs {
                after = Columns::new("audit row", row).get("org_id")?;
                sealed += match self.seal_org(OrgId::from_uuid(after)).await {
                    // One org's broken log must not leave those of all others open.
                    Err(Fault::Store(error @ StoreError::Corrupt { .. })) => {
                        tracing::error!(%error, org = %after, "an audit log cannot be sealed");
                        0
                    }
                    sealed => sealed?,
                };
            }
            if orgs.len() < ORGS_AT_ONCE {
                return Ok(sealed);
            }
        }
    }

    async fn seal_org(&self, org: OrgId) -> Result<u64, Fault> {
        let mut sealed = 0;
        loop {
            let page = self.seal_page(org).await?;
            sealed += page;
            if page < u64::from(PAGE_ROWS) {
                return Ok(sealed);
            }
        }
    }

    /// One short transaction. Two sealers take turns by the lock, and each statement after it sees what the other did.
    ///
    /// `n` is given before a row is committed, so a smaller one can become visible later: it is then chained later.
    /// What was chained once is never numbered again.
    async fn seal_page(&self, org: OrgId) -> Result<u64, Fault> {
        let mut client = self.client().await?;
        let transaction = Transaction::writing(&mut client, org);
        transaction
            .query(
                "SELECT pg_advisory_xact_lock(hashtextextended('skein audit ' || $1::uuid, 0))",
                &[org.as_uuid()],
            )
            .await?;
        let mut links = Links::default();
        let mut head = head(&transaction, org).await?;
        for (n, content) in unsealed(&transaction, org).await? {
            head = head.followed_by(&chained(org, &content));
            links.push(n, &head);
        }
        let sealed = links.save(&transaction, org).await?;
        transaction.commit(Vec::new()).await?;
        Ok(sealed)
    }
}

fn chained(org: OrgId, content: &StoredContent) -> ChainedRow<'_> {
    ChainedRow {
        org,
        // Given by the head that it is chained to.
        chain_no: 0,
        at: content.at,
        actor: content.actor,
        action: &content.action,
        target: &content.target,
        detail: &content.detail,
    }
}

async fn head(transaction: &Transaction<'_>, org: OrgId) -> Result<Head, Fault> {
    let newest = transaction
        .query_opt(
            "SELECT chain_no, chain_hash FROM audit WHERE org_id = $1 AND chain_no IS NOT NULL
             ORDER BY chain_no DESC LIMIT 1",
            &[org.as_uuid()],
        )
        .await?;
    let Some(newest) = newest else { return Ok(Head::NONE) };
    let row = Columns::new("audit row", &newest);
    Ok(Head { chain_no: row.counter("chain_no")?, hash: *row.hash("chain_hash")?.as_bytes() })
}

async fn unsealed(
    transaction: &Transaction<'_>,
    org: OrgId,
) -> Result<Vec<(i64, StoredContent)>, Fault> {
    let rows = transaction
        .query(
            "SELECT n, at, actor, action, target, detail FROM audit
             WHERE org_id = $1 AND chain_no IS NULL ORDER BY n LIMIT $2",
            &[org.as_uuid(), &i64::from(PAGE_ROWS)],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let row = Columns::new("audit row", row);
            Ok((row.get("n")?, content(&row)?))
        })
        .collect()
}

/// What an audit row says beside its place.
pub(super) fn content(row: &Columns<'_>) -> Result<StoredContent, Fault> {
    Ok(StoredContent {
        at: row.time("at")?,
        actor: row.id("actor", UserId::from_uuid)?,
        action: row.get::<String>("action")?.into_bytes(),
        target: row.get::<String>("target")?.into_bytes(),
        detail: row.get("detail")?,
    })
}

/// The columns of the rows to be sealed.
#[derive(Default)]
struct Links {
    rows: Vec<i64>,
    numbers: Vec<i64>,
    hashes: Vec<Vec<u8>>,
}

impl Links {
    fn push(&mut self, n: i64, head: &Head) {
        self.rows.push(n);
        self.numbers.push(int(head.chain_no));
        self.hashes.push(head.hash.to_vec());
    }

    async fn save(&self, transaction: &Transaction<'_>, org: OrgId) -> Result<u64, Fault> {
        let org: &Uuid = org.as_uuid();
        transaction
            .execute(
                "UPDATE audit SET chain_no = link.chain_no, chain_hash = link.chain_hash
                 FROM unnest($2::bigint[], $3::bigint[], $4::bytea[]) AS link (n, chain_no, chain_hash)
                 WHERE audit.org_id = $1 AND audit.n = link.n",
                &[org, &self.rows, &self.numbers, &self.hashes],
            )
            .await
    }
}
