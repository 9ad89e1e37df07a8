//! Whether a turn goes on from what the provider holds, or starts over.

use crate::{
    model::{
        ChainDecision, ChainItem, ChainItemKind, ChainPlan, ChainReason, ChunkFate, FileFate,
        LiveChain, Timestamp, Turn,
    },
    ports::ChainKeeping,
};

/// Who is to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answerer<'a> {
    pub provider: &'a str,
    pub model: Option<&'a str>,
    pub keeping: ChainKeeping,
}

/// What the provider said of the chain that the turn wanted to go on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderSays {
    /// It has not been asked yet.
    Nothing,
    /// It does not know the chain.
    Unknown,
}

/// Decides from the live chain, before anything is sent.
pub fn decide(
    live: Option<&LiveChain>,
    answerer: Answerer<'_>,
    said: ProviderSays,
    now: Timestamp,
) -> ChainPlan {
    let Some(live) = live else {
        return ChainPlan {
            decision: ChainDecision::Start,
            reason: ChainReason::FirstTurn,
            number: 1,
            previous_response_id: None,
            expires_at: None,
            history_bytes: 0,
        };
    };
    let (reason, number) = match (answerer.keeping, said) {
        // One ledger for all turns: nothing in it can be lost.
        (ChainKeeping::Nobody, _) if live.response_id.is_none() => {
            (ChainReason::ProviderKeepsNothing, live.number)
        }
        (ChainKeeping::Nobody, _) => (ChainReason::ModelChanged, live.number + 1),
        (ChainKeeping::Server, ProviderSays::Unknown) => (ChainReason::Lost, live.number + 1),
        (ChainKeeping::Server, ProviderSays::Nothing) if !is_same(live, answerer) => {
            (ChainReason::ModelChanged, live.number + 1)
        }
        (ChainKeeping::Server, ProviderSays::Nothing) => match live.expires_at {
            Some(at) if at <= now => (ChainReason::Expired, live.number + 1),
            _ => return going_on(live),
        },
    };
    ChainPlan {
        decision: ChainDecision::Rehydrate,
        reason,
        number,
        previous_response_id: None,
        expires_at: live.expires_at,
        history_bytes: 0,
    }
}

/// What a completed turn has added to its chain, or given to it again.
pub fn items_of(turn: &Turn) -> Vec<ChainItem> {
    let Some(plan) = &turn.plan else { return Vec::new() };
    let manifest = plan.rehydrated.iter();
    let again = manifest.flat_map(|manifest| {
        let files = manifest.files.iter().map(|item| (ChainItemKind::File, item));
        files.chain(manifest.chunks.iter().map(|item| (ChainItemKind::Chunk, item)))
    });
    let mut items: Vec<ChainItem> = again
        .map(|(kind, item)| ChainItem {
            kind,
            item: item.item.clone(),
            sha256: item.content_hash,
            size_bytes: item.size_bytes,
            texts: item.texts,
        })
        .collect();
    let files = turn.request.files.iter().filter(|file| file.fate == FileFate::Sent);
    let sent = files.map(|file| (ChainItemKind::File, &file.path, file.sha256, file.size_bytes));
    let chunks = plan.chunks.iter().filter(|chunk| chunk.fate == ChunkFate::New);
    let new =
        chunks.map(|chunk| (ChainItemKind::Chunk, &chunk.chunk_id, chunk.sha256, chunk.size_bytes));
    let Some(texts) = plan.texts else { return items };
    for (kind, item, sha256, size_bytes) in sent.chain(new) {
        // What was sent again is kept with the texts of the turn that sent it first.
        if !items.iter().any(|known| known.kind == kind && known.item == *item) {
            items.push(ChainItem { kind, item: item.clone(), sha256, size_bytes, texts });
        }
    }
    items
}

fn is_same(live: &LiveChain, answerer: Answerer<'_>) -> bool {
    live.provider == answerer.provider
        && live.model.as_deref() == answerer.model
        && live.response_id.is_some()
}

fn going_on(live: &LiveChain) -> ChainPlan {
    ChainPlan {
        decision: ChainDecision::Continue,
        reason: ChainReason::HeldByProvider,
        number: live.number,
        previous_response_id: live.response_id.clone(),
        expires_at: live.expires_at,
        history_bytes: live.history_bytes,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::TurnId;

    const NOW: i64 = 1_000_000;

    fn live(response_id: Option<&str>, expires_at: Option<i64>) -> LiveChain {
        LiveChain {
            number: 4,
            provider: "openai".to_owned(),
            model: Some("gpt-5".to_owned()),
            response_id: response_id.map(str::to_owned),
            expires_at: expires_at.map(Timestamp::from_millis),
            tip: TurnId::from_uuid(Uuid::nil()),
            history_bytes: 10,
            open_calls: Vec::new(),
        }
    }

    fn answerer(
        provider: &'static str,
        model: &'static str,
        keeping: ChainKeeping,
    ) -> Answerer<'static> {
        Answerer { provider, model: Some(model), keeping }
    }

    #[test]
    fn a_turn_goes_on_only_from_a_chain_that_the_same_provider_and_model_still_hold() {
        use ChainDecision::{Continue, Rehydrate, Start};
        use ChainKeeping::{Nobody, Server};
        use ChainReason::{
            Expired, FirstTurn, HeldByProvider, Lost, ModelChanged, ProviderKeepsNothing,
        };
        let held = || Some(live(Some("resp_1"), Some(NOW + 1)));
        let same = answerer("openai", "gpt-5", Server);
        let nothing = ProviderSays::Nothing;
        let rows = [
            (None, same, nothing, (Start, FirstTurn, 1)),
            (held(), same, nothing, (Continue, HeldByProvider, 4)),
            (Some(live(Some("resp_1"), None)), same, nothing, (Continue, HeldByProvider, 4)),
            (Some(live(Some("resp_1"), Some(NOW))), same, nothing, (Rehydrate, Expired, 5)),
            (held(), same, ProviderSays::Unknown, (Rehydrate, Lost, 5)),
            (held(), answerer("openai", "gpt-6", Server), nothing, (Rehydrate, ModelChanged, 5)),
            (held(), answerer("other", "gpt-5", Server), nothing, (Rehydrate, ModelChanged, 5)),
            (held(), answerer("ollama", "x", Nobody), nothing, (Rehydrate, ModelChanged, 5)),
            (
                Some(live(None, None)),
                answerer("ollama", "x", Nobody),
                nothing,
                (Rehydrate, ProviderKeepsNothing, 4),
            ),
            (Some(live(None, None)), same, nothing, (Rehydrate, ModelChanged, 5)),
        ];
        for (live, answerer, said, expected) in rows {
            let plan = decide(live.as_ref(), answerer, said, Timestamp::from_millis(NOW));

            assert_eq!((plan.decision, plan.reason, plan.number), expected, "{live:?}");
            let goes_on = plan.decision == Continue;
            assert_eq!(plan.previous_response_id.is_some(), goes_on, "{live:?}");
        }
    }
}
