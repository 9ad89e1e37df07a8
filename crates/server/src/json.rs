//! JSON answers that are written as they are read, so that their size does not matter.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt, TryStreamExt, future::ready, stream, stream::BoxStream};
use http::{HeaderValue, header};
use serde::Serialize;
use skein_core::Error;
use tracing::error;

/// Up to this size an answer is sent whole, with its length.
const WHOLE_BYTES: usize = 256 * 1024;

/// Pieces that make one JSON text.
pub(crate) type Pieces = BoxStream<'static, Result<Bytes, Error>>;

/// The items of all pages, between `open` and a closing bracket.
pub(crate) fn array<T: Serialize + 'static>(
    open: &'static str,
    pages: impl Stream<Item = Result<Vec<T>, Error>> + Send + 'static,
) -> Pieces {
    let mut first = true;
    let items = pages.map_ok(move |page| {
        let mut text = Vec::new();
        for item in page {
            if !std::mem::take(&mut first) {
                text.push(b',');
            }
            write(&mut text, &item);
        }
        Bytes::from(text)
    });
    piece(open).chain(items).chain(piece("]")).boxed()
}

/// A piece that is at hand.
pub(crate) fn piece(text: impl Into<Bytes>) -> Pieces {
    stream::once(ready(Ok(text.into()))).boxed()
}

/// Appends a value. Wire types always serialize; if one did not, the text would be cut short, and logged.
pub(crate) fn write(text: &mut Vec<u8>, value: &impl Serialize) {
    if let Err(error) = serde_json::to_writer(text, value) {
        error!(%error, "an answer could not be written as JSON");
    }
}

/// The answer: whole if it is small, else streamed. What fails before the first byte is still a refusal.
pub(crate) async fn respond(mut pieces: Pieces) -> Result<Response, Error> {
    let mut begun = BytesMut::new();
    let body = loop {
        match pieces.next().await {
            Some(piece) => begun.extend_from_slice(&piece?),
            None => break Body::from(begun.freeze()),
        }
        if begun.len() > WHOLE_BYTES {
            let rest = pieces.inspect_err(|error| error!(%error, "an answer was cut off"));
            break Body::from_stream(piece(begun.freeze()).chain(rest));
        }
    };
    let mut response = body.into_response();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn text(pieces: Pieces) -> (Option<u64>, String) {
        let body = respond(pieces).await.unwrap().into_body();
        let size = http_body::Body::size_hint(&body).exact();
        let bytes = body.collect().await.unwrap().to_bytes();
        (size, String::from_utf8(bytes.to_vec()).unwrap())
    }

    fn pages(pages: Vec<Vec<&'static str>>) -> Pieces {
        array("[", stream::iter(pages.into_iter().map(Ok)))
    }

    #[tokio::test]
    async fn pages_become_one_array() {
        assert_eq!(text(pages(vec![])).await, (Some(2), "[]".to_owned()));
        assert_eq!(text(pages(vec![vec![]])).await, (Some(2), "[]".to_owned()));
        let several = pages(vec![vec!["a", "b"], vec![], vec!["c"]]);
        assert_eq!(text(several).await, (Some(13), r#"["a","b","c"]"#.to_owned()));
    }

    #[tokio::test]
    async fn a_large_answer_is_streamed() {
        let large: &'static str = "x".repeat(WHOLE_BYTES).leak();

        let (size, text) = text(pages(vec![vec![large], vec!["end"]])).await;

        assert_eq!(size, None);
        assert_eq!(text, format!(r#"["{large}","end"]"#));
    }

    #[tokio::test]
    async fn what_fails_at_once_is_a_refusal() {
        let failing = array::<String>("[", stream::iter([Err(Error::Draining)]));

        assert!(matches!(respond(failing).await, Err(Error::Draining)));
    }
}
