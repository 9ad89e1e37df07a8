//! What the wire promises, as whole values in which only ids and times are replaced.

use serde_json::{Value, json};

/// A session of the agent `plain` right after its creation, named by nothing but defaults.
pub(crate) fn new_session() -> Value {
    json!({
        "id": "SESSION",
        "status": "active",
        "state": "created",
        "revision": 1,
        "repoId": null,
        "name": null,
        "key": null,
        "description": null,
        "category": null,
        "isPublic": false,
        "isDraft": false,
        "isDeleted": false,
        "ratings": null,
        "ownerOrganization": {"id": "ID", "text": "default"},
        "ownerUser": {"id": "ID", "text": "owner"},
        "createdByUser": {"id": "ID", "text": "owner"},
        "creationDate": "TIME",
        "lastUpdatedDate": "TIME",
        "createdAt": "TIME",
        "updatedAt": "TIME",
        "lastActiveAt": "TIME",
        "agentContextId": "ID",
        "agentContextName": "plain",
        "conversationContextId": null,
        "conversationContextName": null,
        "workspaceId": null,
        "repo": null,
        "scope": null,
        "defaultLanguage": null,
        "interface": "api",
        "taskId": "ID",
        "parentSessionId": null,
        "checkpointId": null,
        "chainExpiresDate": null,
        "providerSessionId": null,
        "basketId": null,
        "agentType": null,
        "agentState": null,
        "metadata": {},
        "lastTurnStatus": null,
        "lastTurnDate": null,
        "turnCount": 0,
    })
}

/// A completed turn of the agent `plain`, the first of its session.
pub(crate) fn completed_turn(instruction: &str) -> Value {
    json!({
        "id": "TURN",
        "sequenceNumber": 1,
        "createdByUser": {"id": "ID", "text": "owner"},
        "creationDate": "TIME",
        "openAIResponseReceivedDate": "TIME",
        "openAIChainExpiresDate": null,
        "firstTokenDate": "TIME",
        "statusTimeStamp": "TIME",
        "status": {"id": "completed", "key": "completed", "text": "Completed"},
        "mode": "ask",
        "conversationId": "SESSION",
        "openAIResponseId": null,
        "previousOpenAIResponseId": null,
        "openAIModel": null,
        "instructionSummary": instruction,
        "fullInstructionUrl": "/api/payloads/ID",
        "agentAnswerSummary": instruction,
        "fullAgentAnswerUrl": "/api/payloads/ID",
        "fileBundleUrl": null,
        "openAIRequestPayloadUrl": null,
        "openAIResponsePayloadUrl": null,
        "chunkRefs": [],
        "activeFileRefs": [],
        "skippedFiles": [],
        "warnings": [],
        "errors": [],
        "errorCode": null,
        "usage": null,
        "rerunOf": null,
        "taskId": "ID",
        "workspaceId": null,
        "repo": null,
        "language": null,
        "ragScope": null,
    })
}

/// The short form of [`completed_turn`].
pub(crate) fn turn_summary(number: u64, instruction: &str) -> Value {
    json!({
        "id": "ID",
        "sequenceNumber": number,
        "createdByUser": {"id": "ID", "text": "owner"},
        "creationDate": "TIME",
        "openAIResponseReceivedDate": "TIME",
        "statusTimeStamp": "TIME",
        "status": {"id": "completed", "key": "completed", "text": "Completed"},
        "mode": "ask",
        "instructionSummary": instruction,
        "agentAnswerSummary": instruction,
        "warnings": [],
        "errors": [],
        "errorCode": null,
    })
}

/// The same value with some members replaced or added.
pub(crate) fn with(mut value: Value, members: Value) -> Value {
    let (Some(target), Value::Object(members)) = (value.as_object_mut(), members) else {
        panic!("both must be objects");
    };
    target.extend(members);
    value
}
