//! What the provider's side of a log holds.

use skein_core::model::{ChainItem, LiveChain, LogId};
use uuid::Uuid;

use super::{
    super::{
        connection::values,
        error::Fault,
        rows::{int, moment, pack_list},
    },
    Applying,
};

const PUT_CHAIN: &str = "INSERT INTO chains AS c
    (org_id, log_id, chain_no, provider, model, response_id, expires_at, tip_turn, history_bytes, last_ord,
     open_calls)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (org_id, log_id) DO UPDATE SET
    chain_no = excluded.chain_no, provider = excluded.provider, model = excluded.model,
    response_id = excluded.response_id, expires_at = excluded.expires_at, tip_turn = excluded.tip_turn,
    history_bytes = excluded.history_bytes, last_ord = c.last_ord + excluded.last_ord,
    open_calls = excluded.open_calls";

/// What is named twice is kept as it was sent last.
const PUT_ITEMS: &str = "INSERT INTO chain_items
    (org_id, log_id, chain_no, kind, ref, sha256, size, texts_payload, ord)
SELECT DISTINCT ON (new.kind, new.ref)
       $1, $2, $3, new.kind, new.ref, new.sha256, new.size, new.texts_payload, chain.last_ord - $4 + new.ord
FROM (SELECT last_ord FROM chains WHERE org_id = $1 AND log_id = $2) AS chain, unnest($5::text[], $6::text[], $7::bytea[], $8::bigint[], $9::uuid[]) WITH ORDINALITY
    AS new (kind, ref, sha256, size, texts_payload, ord)
ORDER BY new.kind, new.ref, new.ord DESC
ON CONFLICT (org_id, log_id, chain_no, kind, ref) DO UPDATE SET
    sha256 = excluded.sha256, size = excluded.size, texts_payload = excluded.texts_payload,
    ord = excluded.ord";

const FORGET_ITEMS: &str =
    "DELETE FROM chain_items WHERE org_id = $1 AND log_id = $2 AND chain_no < $3";

impl<'a> Applying<'a> {
    /// The last of the items counts as the one that was sent last.
    pub(super) fn advance_chain(
        &mut self,
        log: LogId,
        chain: &'a LiveChain,
        items: &'a [ChainItem],
    ) -> Result<(), Fault> {
        self.log(log)?;
        let log = *log.as_uuid();
        let (number, count) = (i64::from(chain.number), int(items.len() as u64));
        let values = values![
            self.org(),
            log,
            number,
            &chain.provider,
            &chain.model,
            &chain.response_id,
            chain.expires_at.map(moment),
            chain.tip.as_uuid(),
            int(chain.history_bytes),
            count,
            pack_list("chain", &chain.open_calls)?,
        ];
        self.later(PUT_CHAIN, values);
        let values = values![self.org(), log, number];
        self.later(FORGET_ITEMS, values);
        if items.is_empty() {
            return Ok(());
        }
        let kinds: Vec<&str> = items.iter().map(|item| item.kind.as_str()).collect();
        let refs: Vec<&str> = items.iter().map(|item| item.item.as_str()).collect();
        let hashes: Vec<&[u8]> = items.iter().map(|item| &item.sha256.as_bytes()[..]).collect();
        let sizes: Vec<i64> = items.iter().map(|item| int(item.size_bytes)).collect();
        let texts: Vec<Uuid> = items.iter().map(|item| *item.texts.as_uuid()).collect();
        let values = values![self.org(), log, number, count, kinds, refs, hashes, sizes, texts];
        self.later(PUT_ITEMS, values);
        Ok(())
    }
}
