//! Where tests find Qdrant, and what is in it.
#![allow(dead_code, reason = "every test program uses another part of this module")]

use std::{path::Path, time::Duration};

use reqwest::Method;
use serde_json::{Value, json};
use skein_retrieval::qdrant::QdrantOptions;
use uuid::Uuid;

/// A collection of its own, or why there is none.
pub(crate) fn qdrant(home: &Path) -> Result<QdrantOptions, String> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = std::env::vars().find(|(name, _)| name == "SKEIN_TEST_QDRANT");
    let Some((_, url)) = url else {
        return Err(
            "SKEIN_TEST_QDRANT names no endpoint; scripts/with-qdrant starts one".to_owned()
        );
    };
    Ok(QdrantOptions {
        url,
        collection: format!("test-{}", Uuid::from_u128(rand::random()).simple()),
        api_key: None,
        clock_file: home.join("clock"),
        // One engine that is made for one thread serves all tests.
        read_timeout: Duration::from_secs(60),
    })
}

/// Everything that a collection holds, with vectors.
pub(crate) fn every_point(url: &str, collection: &str) -> Vec<Value> {
    let (mut points, mut offset) = (Vec::<Value>::new(), Value::Null);
    loop {
        let body =
            json!({"limit": 1_000, "offset": offset, "with_payload": true, "with_vector": true});
        let url = format!("{url}/collections/{collection}/points/scroll");
        let mut page = call(Method::POST, url, Some(&body))["result"].take();
        points.append(page["points"].as_array_mut().unwrap());
        offset = page["next_page_offset"].take();
        if offset.is_null() {
            return points;
        }
    }
}

pub(crate) fn put_point(url: &str, collection: &str, point: &Value) {
    let url = format!("{url}/collections/{collection}/points?wait=true");
    let put = call(Method::PUT, url, Some(&json!({"points": [point]})));
    assert_eq!(put["status"], "ok", "{put}");
}

pub(crate) fn remove_collection(url: &str, collection: &str) {
    let gone = call(Method::DELETE, format!("{url}/collections/{collection}"), None);
    assert_eq!(gone["result"], true, "{gone}");
}

/// One request in a runtime of its own, so that tests without one can make it too.
fn call(method: Method, url: String, body: Option<&Value>) -> Value {
    let request = async {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut request = client.request(method, url);
        if let Some(body) = body {
            request = request.json(body);
        }
        request.send().await.unwrap().json::<Value>().await.unwrap()
    };
    std::thread::scope(|scope| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        scope.spawn(move || runtime.block_on(request)).join().unwrap()
    })
}
