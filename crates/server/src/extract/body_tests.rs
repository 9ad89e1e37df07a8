use http::HeaderValue;

use super::*;

fn with_type(content_type: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers
}

fn refused<T: JsonRequest>(body: impl AsRef<[u8]>) -> (Code, Option<String>) {
    let problem = parse::<T>(&with_type("application/json"), body.as_ref()).err().unwrap();
    (problem.code, problem.to_wire("").field)
}

#[test]
fn what_is_not_json_is_refused_as_such() {
    let deep = format!("{{\"metadata\":{{\"a\":{}1{}}}}}", "[".repeat(200), "]".repeat(200));
    let bodies: [&[u8]; 12] = [
        b"",
        b"{",
        b"{}x",
        b"{\"name\":\"\xff\"}",
        b"{\"name\":\"\\ud800\"}",
        b"{\"metadata\":{\"a\":\"\\udc00\"}}",
        b"{\"name\":\"a\",\"name\":\"b\"}",
        b"{\"metadata\":{\"a\":{\"b\":1,\"b\":2}}}",
        b"{\"scope\":{\"paths\":[],\"paths\":[]}}",
        b"{\"name\":\"\n\"}",
        b"{'name':1}",
        deep.as_bytes(),
    ];

    for body in bodies {
        let (code, _) = refused::<CreateSession>(body);
        assert_eq!(code, Code::InvalidJson, "{}", String::from_utf8_lossy(body));
    }
}

#[test]
fn unknown_fields_are_named() {
    let cases = [
        (refused::<CreateSession>(r#"{"nme":"x"}"#), "nme"),
        (refused::<CreateSession>(r#"{"scope":{"path":[]}}"#), "scope.path"),
        (
            refused::<Execute>(r#"{"instruction":"x","activeFiles":[{"path":"a","x":1}]}"#),
            "activeFiles[0].x",
        ),
    ];

    for ((code, field), expected) in cases {
        assert_eq!((code, field.as_deref()), (Code::UnknownField, Some(expected)));
    }
}

#[test]
fn wrong_and_missing_values_are_named() {
    let cases = [
        (refused::<Prompt>("{}"), Some("text")),
        (refused::<Prompt>(r#"{"text":1}"#), Some("text")),
        (refused::<Prompt>(r#"{"text":"x","onBusy":"wait"}"#), Some("onBusy")),
        (refused::<CreateSession>(r#"{"metadata":[]}"#), Some("metadata")),
        (refused::<CreateSession>(r#"{"interface":"fax"}"#), Some("interface")),
        (
            refused::<Execute>(r#"{"instruction":"x","activeFiles":[{}]}"#),
            Some("activeFiles[0].path"),
        ),
        (
            refused::<CreateToken>(r#"{"name":"n","role":"viewer","expiresAt":"soon"}"#),
            Some("expiresAt"),
        ),
        (refused::<CreateSession>("null"), None),
        (refused::<CreateSession>("[1]"), None),
        (refused::<CompleteSession>("[true]"), None),
        (refused::<CreateSession>(r#"{"scope":[["src"]]}"#), Some("scope")),
        (
            refused::<Execute>(
                r#"{"instruction":"x","activeFiles":[["a","x",null,1,true,true,true]]}"#,
            ),
            Some("activeFiles[0]"),
        ),
    ];

    for ((code, field), expected) in cases {
        assert_eq!((code, field.as_deref()), (Code::InvalidRequest, expected));
    }
}

#[test]
fn ids_are_accepted_in_their_canonical_form_only() {
    let upper = "01890A5D-AC96-774B-BCCE-B302099A8057";

    let refused = refused::<CreateSession>(format!(r#"{{"repoId":"{upper}"}}"#));

    assert_eq!(refused, (Code::InvalidId, Some("repoId".to_owned())));
    let lower = format!(r#"{{"repoId":"{}"}}"#, upper.to_lowercase());
    assert!(parse::<CreateSession>(&with_type("application/json"), lower.as_bytes()).is_ok());
}

#[test]
fn the_media_type_is_json_in_utf_8() {
    for good in [
        "application/json",
        "Application/JSON; charset=UTF-8",
        "application/json;charset=\"utf-8\"",
    ] {
        assert!(is_json(&with_type(good)), "{good}");
    }
    for bad in ["text/plain", "application/jsonp", "application/json; charset=latin1", ""] {
        assert!(!is_json(&with_type(bad)), "{bad}");
    }
    assert!(!is_json(&HeaderMap::new()));
}

#[test]
fn an_empty_body_stands_for_no_wishes_where_all_is_optional() {
    let none = HeaderMap::new();

    assert!(parse::<CompleteSession>(&none, b"").is_ok());
    assert_eq!(parse::<Prompt>(&none, b"").unwrap_err().code, Code::UnsupportedMediaType);
    assert_eq!(
        parse::<CompleteSession>(&none, b"{}").unwrap_err().code,
        Code::UnsupportedMediaType
    );
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_however_it_comes() {
    let stream = || {
        let pieces = ["0123", "4567", "89"].into_iter();
        Body::from_stream(futures::stream::iter(pieces.map(Ok::<_, std::convert::Infallible>)))
    };

    let whole = collect(stream(), 10).await.unwrap();
    let refused = collect(stream(), 9).await.unwrap_err();

    assert_eq!(whole, "0123456789");
    assert_eq!((refused.code, refused.to_wire("").limit), (Code::PayloadTooLarge, Some(9)));
    assert_eq!(collect(Body::from("x"), 0).await.unwrap_err().code, Code::PayloadTooLarge);
}

#[test]
fn a_fingerprint_tells_requests_apart() {
    let of =
        |method, path, body: &str| fingerprint(&method, &Uri::from_static(path), body.as_bytes());

    let base = of(Method::POST, "/a", "{}");
    assert_eq!(base, of(Method::POST, "/a", "{}"));
    assert_ne!(base, of(Method::POST, "/b", "{}"));
    assert_ne!(base, of(Method::POST, "/a", "{} "));
}
