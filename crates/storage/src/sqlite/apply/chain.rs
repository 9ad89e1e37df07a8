//! What the provider's side of a log holds.

use rusqlite::{OptionalExtension, params};
use skein_core::{
    model::{ChainItem, LiveChain, LogId},
    ports::Conflict,
};

use super::{
    super::{
        error::Fault,
        rows::{int, key, opt_millis, pack_list},
    },
    Target,
};

/// The last of the items counts as the one that was sent last.
pub(super) fn advance(
    target: &Target<'_>,
    log: LogId,
    chain: &LiveChain,
    items: &[ChainItem],
) -> Result<(), Fault> {
    let count = int(items.len() as u64);
    let last_ord = put(target, log, chain, count)?.ok_or(Conflict::Missing("log"))?;
    target
        .connection
        .prepare_cached(
            "DELETE FROM chain_items WHERE org_id = ?1 AND log_id = ?2 AND chain_no < ?3",
        )?
        .execute(params![key(&target.org), key(&log), chain.number])?;
    for (ord, item) in (last_ord - count + 1..).zip(items) {
        put_item(target, (log, chain.number), ord, item)?;
    }
    Ok(())
}

/// Returns the place of the last item, or nothing if the org has no such log.
fn put(
    target: &Target<'_>,
    log: LogId,
    chain: &LiveChain,
    count: i64,
) -> Result<Option<i64>, Fault> {
    Ok(target
        .connection
        .prepare_cached(
            "INSERT INTO chains (org_id, log_id, chain_no, provider, model, response_id, expires_at,
                 tip_turn, history_bytes, last_ord, open_calls)
             SELECT ?1, id, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
             FROM logs WHERE org_id = ?1 AND id = ?2
             ON CONFLICT (org_id, log_id) DO UPDATE SET
                 chain_no = excluded.chain_no, provider = excluded.provider, model = excluded.model,
                 response_id = excluded.response_id, expires_at = excluded.expires_at,
                 tip_turn = excluded.tip_turn, history_bytes = excluded.history_bytes,
                 last_ord = chains.last_ord + excluded.last_ord, open_calls = excluded.open_calls
             RETURNING last_ord",
        )?
        .query_row(
            params![
                key(&target.org),
                key(&log),
                chain.number,
                chain.provider,
                chain.model,
                chain.response_id,
                opt_millis(chain.expires_at),
                key(&chain.tip),
                int(chain.history_bytes),
                count,
                pack_list("chain", &chain.open_calls)?,
            ],
            |row| row.get(0),
        )
        .optional()?)
}

fn put_item(
    target: &Target<'_>,
    (log, chain): (LogId, u32),
    ord: i64,
    item: &ChainItem,
) -> Result<(), Fault> {
    target
        .connection
        .prepare_cached(
            "INSERT INTO chain_items
                 (org_id, log_id, chain_no, kind, ref, sha256, size, texts_payload, ord)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (org_id, log_id, chain_no, kind, ref) DO UPDATE SET
                 sha256 = excluded.sha256, size = excluded.size,
                 texts_payload = excluded.texts_payload, ord = excluded.ord",
        )?
        .execute(params![
            key(&target.org),
            key(&log),
            chain,
            item.kind.as_str(),
            item.item,
            item.sha256.as_bytes(),
            int(item.size_bytes),
            key(&item.texts),
            ord,
        ])?;
    Ok(())
}
