//! Texts of sessions belong to a log: they are read where it is read, and go with it.

use std::sync::Arc;

use bytes::Bytes;
use skein_core::{
    model::{Document, DocumentId, LogId, Scope, Sha256Hash},
    ports::{ChangeSet, Clock, Ids, NewPayload, PayloadBody, Storage, Write},
};

use crate::{World, writing};

pub async fn a_document_is_read_back_as_it_was(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let document = document(&world, world.session.log, "schema 🧶.sql");

    world.commit(creating(&document, "CREATE TABLE a (b)")).await;

    let scope = world.as_owner();
    assert_eq!(find(&world, &scope, document.id).await, Some(document.clone()));
    assert_eq!(
        list(&world, &scope, &[document.log], None, 10).await,
        std::slice::from_ref(&document)
    );
    let body = world.store.payload_body(&scope, document.text).await.expect("a body");
    assert_eq!(body, "CREATE TABLE a (b)");
    let unknown = DocumentId::from_uuid(world.ids.next());
    assert_eq!(find(&world, &scope, unknown).await, None);
}

pub async fn documents_are_paged_over_the_logs_that_are_asked_for(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let other = world.open(world.draft_session()).await;
    let mut documents = Vec::new();
    for number in 0..7 {
        let log = if number % 2 == 0 { world.session.log } else { other.log };
        let document = document(&world, log, &format!("{number}.txt"));
        world.commit(creating(&document, "text")).await;
        documents.push(document);
    }
    let (scope, logs) = (world.as_owner(), [world.session.log, other.log]);

    let first = list(&world, &scope, &logs, None, 5).await;
    let rest = list(&world, &scope, &logs, first.last().map(|last| last.id), 5).await;
    let of_other = list(&world, &scope, &[other.log], None, 10).await;

    assert_eq!([first, rest].concat(), documents);
    assert_eq!(of_other.len(), 3);
    assert_eq!(list(&world, &scope, &[], None, 10).await, []);
}

pub async fn a_document_of_another_org_is_not_there(store: Arc<dyn Storage>) {
    let acme = World::named(Arc::clone(&store), "Acme", 1).await;
    let globex = World::named(store, "Globex", 2).await;
    let document = document(&acme, acme.session.log, "secret.txt");
    acme.commit(creating(&document, "a secret")).await;

    let scope = globex.as_owner();
    assert_eq!(find(&globex, &scope, document.id).await, None);
    assert_eq!(list(&globex, &scope, &[document.log], None, 10).await, []);
    assert!(globex.store.payload_body(&scope, document.text).await.is_err());
}

pub async fn documents_go_with_their_log(store: Arc<dyn Storage>) {
    let world = World::new(store).await;
    let doomed = world.open(world.draft_session()).await;
    let document = document(&world, doomed.log, "a.txt");
    world.commit(creating(&document, "text")).await;
    let scope = world.as_owner();
    let logs = world.store.logs_of(&scope, doomed.id).await.expect("the logs");

    world.commit(writing(vec![Write::PurgeSession { session: doomed.id }])).await;

    assert_eq!(logs, [doomed.log]);
    assert_eq!(find(&world, &scope, document.id).await, None);
    assert_eq!(list(&world, &scope, &logs, None, 10).await, []);
    assert_eq!(world.store.logs_of(&scope, doomed.id).await.expect("the logs"), []);
}

/// A document that is not stored yet.
pub fn document(world: &World, log: LogId, name: &str) -> Document {
    Document {
        id: DocumentId::from_uuid(world.ids.next()),
        log,
        name: name.to_owned(),
        media_type: "text/plain".to_owned(),
        text: world.payload_id(),
        size_bytes: 4,
        created_by: world.owner.id,
        created_at: world.clock.now(),
    }
}

/// A document with its text.
pub fn creating(document: &Document, text: &str) -> ChangeSet {
    let body = Bytes::from(text.to_owned());
    let payload = NewPayload {
        id: document.text,
        log: document.log,
        media_type: "text/plain".to_owned(),
        sha256: Sha256Hash::of(&body),
        size_bytes: body.len() as u64,
        body: PayloadBody::Inline(body),
    };
    writing(vec![Write::PutPayload(payload), Write::CreateDocument(Box::new(document.clone()))])
}

async fn find(world: &World, scope: &Scope, id: DocumentId) -> Option<Document> {
    world.store.find_document(scope, id).await.expect("a read")
}

async fn list(
    world: &World,
    scope: &Scope,
    logs: &[LogId],
    after: Option<DocumentId>,
    limit: u32,
) -> Vec<Document> {
    world.store.list_documents(scope, logs, after, limit).await.expect("a read")
}
