//! Everything that the server knows.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Chain, Settings,
    error::ApiError,
    gate::Gate,
    input,
    ledger::{Dispatch, Ledger},
    plan::{Draft, Plan, Status, Step, plan, tokens},
    record::{Context, Keeping, Progress, Record},
    request::CreateRequest,
    script::{Answer, Queue},
};

/// The first response is made then, and each later one a second after the one before it.
const FIRST_CREATED_AT: u64 = 1_760_000_000;

#[derive(Debug)]
pub(super) struct State {
    pub(super) settings: Settings,
    pub(super) ledger: Ledger,
    pub(super) tasks: TaskTracker,
    pub(super) closing: CancellationToken,
    /// What tells the ids of this server from those of any other.
    name: u64,
    count: AtomicU64,
    queue: Mutex<Queue>,
    gates: Mutex<BTreeMap<String, Gate>>,
    records: Mutex<HashMap<String, Arc<Record>>>,
}

impl State {
    pub(super) fn new(settings: Settings, name: u64) -> Self {
        Self {
            settings,
            ledger: Ledger::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            name,
            count: AtomicU64::new(0),
            queue: Mutex::default(),
            gates: Mutex::default(),
            records: Mutex::default(),
        }
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn gate(&self, name: &str) -> Gate {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        gates.entry(name.to_owned()).or_default().clone()
    }

    /// Also those that the API would no longer show.
    pub(super) fn record(&self, id: &str) -> Option<Arc<Record>> {
        self.records().get(id).cloned()
    }

    pub(super) fn known(&self, id: &str) -> Result<Arc<Record>, ApiError> {
        self.record(id)
            .filter(|record| record.is_known())
            .ok_or_else(|| ApiError::unknown_response(id))
    }

    pub(super) fn keep_all(&self, keeping: Keeping) {
        for record in self.records().values() {
            record.keep(keeping);
        }
    }

    /// The conversation that a request continues, with the request's own items at its end.
    pub(super) fn context(&self, request: &CreateRequest) -> Result<Arc<Context>, ApiError> {
        let parent = match (&request.previous, self.settings.chain) {
            (None, _) | (Some(_), Chain::NoneIgnoring) => None,
            (Some(_), Chain::NoneRejecting) => {
                return Err(ApiError::invalid("previous_response_id is not supported")
                    .with_param("previous_response_id"));
            }
            (Some(id), Chain::Server) => Some(self.previous(id)?),
        };
        if request.background && self.settings.chain != Chain::Server {
            return Err(ApiError::invalid("background is not supported").with_param("background"));
        }
        let context = Context { parent, items: request.items.clone() };
        check_calls(&context)?;
        Ok(Arc::new(context))
    }

    /// Starts the model on a conversation.
    pub(super) fn dispatch(
        self: &Arc<Self>,
        request: &CreateRequest,
        context: Arc<Context>,
        answer: Answer,
    ) -> Arc<Record> {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        let id = format!("resp_{:016x}{number:032x}", self.name);
        let made = self.plan(request, &context, &id, &answer);
        let output = Context { parent: Some(Arc::clone(&context)), items: made.output };
        let status = if request.background { Status::Queued } else { Status::InProgress };
        let progress = Progress { status, response: made.response, steps: Vec::new() };
        let stop = self.closing.child_token();
        let mut record = Record::new(context, Arc::new(output), progress, stop);
        record.background = request.background;
        record.streamed = request.stream;
        if !request.store || self.settings.chain != Chain::Server {
            record.keep(Keeping::Gone);
        }
        let record = Arc::new(record);
        self.records().insert(id.clone(), Arc::clone(&record));
        self.ledger.dispatched(Dispatch { response_id: id, body: request.body.clone() });
        let (state, played) = (Arc::clone(self), Arc::clone(&record));
        self.tasks.spawn(async move {
            tokio::select! {
                () = played.stop.cancelled() => played.cancel(),
                () = state.play(&played, made.steps, &answer) => {}
            }
        });
        record
    }

    fn plan(&self, request: &CreateRequest, context: &Context, id: &str, answer: &Answer) -> Plan {
        let number = self.count.load(Ordering::SeqCst);
        let before = context.parent.as_ref().map_or(0, |parent| parent.text_bytes());
        let instructions = request.body["instructions"].as_str().map_or(0, str::len);
        let draft = Draft {
            id,
            request,
            created_at: FIRST_CREATED_AT + number,
            default_text: self.default_text(context),
            input_tokens: tokens(context.text_bytes() + instructions),
            cached_tokens: tokens(before),
        };
        plan(&draft, answer)
    }

    async fn play(&self, record: &Record, steps: Vec<Step>, answer: &Answer) {
        for step in steps {
            for hold in &answer.holds {
                if step.sequence_number == Some(hold.before) {
                    self.gate(&hold.gate).pass().await;
                }
            }
            let is_quick = step.sequence_number.is_some_and(|number| number < answer.quick_events);
            if answer.pause_ms > 0 && !is_quick {
                tokio::time::sleep(Duration::from_millis(answer.pause_ms)).await;
            }
            record.push(step);
        }
    }

    /// Made of what reached the server, so that a test sees in the answer whether its context did.
    fn default_text(&self, context: &Context) -> String {
        let visible = context.visible();
        let instruction = input::last_user_text(visible.iter().copied()).unwrap_or_default();
        let turn = 1 + times_spoken(&visible);
        match self.settings.chain {
            Chain::Server => format!("turn {turn}: {instruction}"),
            Chain::NoneIgnoring | Chain::NoneRejecting => {
                let before = visible.len().saturating_sub(1);
                format!("turn {turn} ({before} items before): {instruction}")
            }
        }
    }

    fn previous(&self, id: &str) -> Result<Arc<Context>, ApiError> {
        let record = self
            .record(id)
            .filter(|record| record.is_live_chain())
            .ok_or_else(|| ApiError::unknown_previous(id))?;
        match record.status() {
            Status::Completed | Status::Incomplete => Ok(Arc::clone(&record.output)),
            // Not "not found", so that a client that continues from a failure does not get away with it.
            status => Err(ApiError::invalid(format!(
                "Previous response with id '{id}' cannot be continued: its status is '{}'.",
                status.name()
            ))
            .with_param("previous_response_id")
            .with_code("previous_response_not_completed")),
        }
    }

    fn records(&self) -> MutexGuard<'_, HashMap<String, Arc<Record>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Items of the model that follow each other count once.
fn times_spoken(items: &[&Value]) -> usize {
    let of_the_model = |index: usize| input::is_of_the_model(items[index]);
    (0..items.len())
        .filter(|index| of_the_model(*index) && (*index == 0 || !of_the_model(*index - 1)))
        .count()
}

/// Every tool call has its output and every output its call, as the API wants it.
fn check_calls(context: &Context) -> Result<(), ApiError> {
    let visible = context.visible();
    let ids = |kind: &str| -> Vec<&str> {
        let items = visible.iter().filter(|item| item["type"] == kind);
        items.filter_map(|item| item["call_id"].as_str()).collect()
    };
    let (calls, outputs) = (ids("function_call"), ids("function_call_output"));
    let called: HashSet<_> = calls.iter().collect();
    let answered: HashSet<_> = outputs.iter().collect();
    if let Some(id) = outputs.iter().find(|id| !called.contains(id)) {
        return Err(ApiError::invalid(format!(
            "No tool call found for function call output with call_id {id}."
        ))
        .with_param("input"));
    }
    if let Some(id) = calls.iter().find(|id| !answered.contains(id)) {
        return Err(ApiError::invalid(format!("No tool output found for function call {id}."))
            .with_param("input"));
    }
    Ok(())
}
