//! What the provider's side of a log holds.

use async_trait::async_trait;
use skein_core::{
    model::{ChainItem, LiveChain, LogId, PayloadId, Scope, Sha256Hash, TurnId},
    ports::{ChainReads, ChainView, StoreError},
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::{PostgresStore, error::Fault, rows::Columns};

/// One row, whatever it holds. Each file and chunk is looked up, so the size of the chain does not matter.
const VIEW: &str = "SELECT c.*, t.last_chunks, h.kinds, h.refs, h.hashes, h.sizes, h.texts
     FROM chains c
     CROSS JOIN LATERAL (
         SELECT array_agg(chunk_id ORDER BY ord) AS last_chunks FROM turn_chunks
         WHERE org_id = c.org_id AND turn_id = c.tip_turn) t
     CROSS JOIN LATERAL (
         SELECT array_agg(kind) AS kinds, array_agg(ref) AS refs, array_agg(sha256) AS hashes,
                array_agg(size) AS sizes, array_agg(texts_payload) AS texts
         FROM (SELECT * FROM chain_items
               WHERE org_id = c.org_id AND log_id = c.log_id AND chain_no = c.chain_no
                 AND kind = 'file' AND ref = ANY ($3)
               UNION ALL
               SELECT * FROM chain_items
               WHERE org_id = c.org_id AND log_id = c.log_id AND chain_no = c.chain_no
                 AND kind = 'chunk' AND ref = ANY ($4)) i) h
     WHERE c.org_id = $1 AND c.log_id = $2";

const ITEMS: &str = "SELECT kind, ref, sha256, size, texts_payload FROM chain_items
     WHERE org_id = $1 AND log_id = $2 AND chain_no = $3
     ORDER BY ord DESC LIMIT $4";

#[async_trait]
impl ChainReads for PostgresStore {
    async fn chain_view(
        &self,
        scope: &Scope,
        log: LogId,
        files: &[String],
        chunks: &[String],
    ) -> Result<Option<ChainView>, StoreError> {
        let (org, log) = (scope.org.as_uuid(), log.as_uuid());
        self.find(scope, (VIEW, &[org, log, &files, &chunks]), view).await
    }

    async fn chain_items(
        &self,
        scope: &Scope,
        log: LogId,
        chain: u32,
        limit: u32,
    ) -> Result<Vec<ChainItem>, StoreError> {
        let (org, log) = (scope.org.as_uuid(), log.as_uuid());
        let (chain, limit) = (i64::from(chain), i64::from(limit));
        self.list(scope, (ITEMS, &[org, log, &chain, &limit]), item).await
    }
}

fn view(row: &Row) -> Result<ChainView, Fault> {
    let row = Columns::new("chain", row);
    let number = u32::try_from(row.counter("chain_no")?).map_err(|error| row.corrupt(error))?;
    let chain = LiveChain {
        number,
        provider: row.get("provider")?,
        model: row.get("model")?,
        response_id: row.get("response_id")?,
        expires_at: row.opt_time("expires_at")?,
        tip: row.id("tip_turn", TurnId::from_uuid)?,
        history_bytes: row.counter("history_bytes")?,
        open_calls: row.list("open_calls")?,
    };
    let last_chunks: Option<Vec<String>> = row.get("last_chunks")?;
    Ok(ChainView { chain, held: held(&row)?, last_chunks: last_chunks.unwrap_or_default() })
}

/// The columns of the items, which an empty list leaves NULL.
fn held(row: &Columns<'_>) -> Result<Vec<ChainItem>, Fault> {
    let kinds: Vec<String> = row.get::<Option<_>>("kinds")?.unwrap_or_default();
    let refs: Vec<String> = row.get::<Option<_>>("refs")?.unwrap_or_default();
    let hashes: Vec<Vec<u8>> = row.get::<Option<_>>("hashes")?.unwrap_or_default();
    let sizes: Vec<i64> = row.get::<Option<_>>("sizes")?.unwrap_or_default();
    let texts: Vec<Uuid> = row.get::<Option<_>>("texts")?.unwrap_or_default();
    let columns = kinds.iter().zip(refs).zip(hashes).zip(sizes).zip(texts);
    columns
        .map(|((((kind, item), hash), size), texts)| {
            let digest =
                hash.try_into().map_err(|_| row.corrupt("a digest is not 32 bytes long"))?;
            Ok(ChainItem {
                kind: kind.parse().map_err(|error| row.corrupt(error))?,
                item,
                sha256: Sha256Hash::from_bytes(digest),
                size_bytes: u64::try_from(size).map_err(|error| row.corrupt(error))?,
                texts: PayloadId::from_uuid(texts),
            })
        })
        .collect()
}

fn item(row: &Row) -> Result<ChainItem, Fault> {
    let row = Columns::new("chain item", row);
    Ok(ChainItem {
        kind: row.word("kind")?,
        item: row.get("ref")?,
        sha256: row.hash("sha256")?,
        size_bytes: row.counter("size")?,
        texts: row.id("texts_payload", PayloadId::from_uuid)?,
    })
}
