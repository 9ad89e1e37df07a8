//! What providers send. Fields that are missing or of another type than expected count as absent.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use skein_core::model::Usage;

/// The code of a chain that the provider does not know.
const CHAIN_LOST: &str = "previous_response_not_found";

/// What every event has.
#[derive(Debug, Deserialize)]
pub(super) struct Head {
    /// Empty if it has none.
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) sequence_number: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta {
    pub(super) delta: Piece,
}

/// A piece of a text. Providers that count in UTF-16 cut characters beyond the first 65,536 in two: the first half is the
/// end of one piece, and the second the beginning of the next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// UTF-8, and halves of characters in the three bytes that their code units would have.
    bytes: Vec<u8>,
}

impl Piece {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn split_off(&mut self, at: usize) -> Self {
        Self { bytes: self.bytes.split_off(at) }
    }

    pub(super) fn append(&mut self, next: Self) {
        self.bytes.extend(next.bytes);
    }

    pub(super) fn ends_in_half_a_character(&self) -> bool {
        self.bytes.last_chunk().and_then(half).is_some_and(|unit| unit < FIRST_SECOND_HALF)
    }

    /// Halves that belong together become their character, others the replacement character.
    pub(super) fn into_text(self) -> String {
        let bytes = match String::from_utf8(self.bytes) {
            Ok(text) => return text,
            Err(error) => error.into_bytes(),
        };
        let mut units: Vec<u16> = Vec::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            if let Some(unit) = rest.first_chunk().and_then(half) {
                units.push(unit);
                rest = &rest[3..];
            } else {
                let whole =
                    (1..rest.len()).find(|&at| rest[at..].first_chunk().and_then(half).is_some());
                let (text, later) = rest.split_at(whole.unwrap_or(rest.len()));
                units.extend(String::from_utf8_lossy(text).encode_utf16());
                rest = later;
            }
        }
        String::from_utf16_lossy(&units)
    }
}

const FIRST_HALF: u16 = 0xD800;
const FIRST_SECOND_HALF: u16 = 0xDC00;

/// The code unit in these bytes, if it is half of a character.
fn half(bytes: &[u8; 3]) -> Option<u16> {
    let [0xED, middle @ 0xA0..=0xBF, last] = *bytes else { return None };
    Some(FIRST_HALF + (u16::from(middle - 0xA0) << 6) + u16::from(last & 0x3F))
}

impl<'de> Deserialize<'de> for Piece {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Piece;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a text")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Piece, E> {
                Ok(Piece { bytes: bytes.to_vec() })
            }
        }
        // As bytes, because only then are halves of characters let through.
        deserializer.deserialize_bytes(Visitor)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct OfItem<'a> {
    #[serde(borrow)]
    pub(super) item: &'a RawValue,
}

#[derive(Debug, Deserialize)]
pub(super) struct OfResponse<'a> {
    #[serde(borrow)]
    pub(super) response: ResponseObject<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponseObject<'a> {
    #[serde(deserialize_with = "lenient")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) status: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) error: Option<ErrorObject>,
    #[serde(deserialize_with = "lenient")]
    pub(super) incomplete_details: Option<IncompleteDetails>,
    #[serde(deserialize_with = "lenient")]
    pub(super) usage: Option<UsageObject>,
    /// Read one by one and only if needed: together they are as long as the answer.
    #[serde(borrow, deserialize_with = "lenient")]
    pub(super) output: Vec<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct IncompleteDetails {
    #[serde(deserialize_with = "lenient")]
    pub(super) reason: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct UsageObject {
    input_tokens: u64,
    output_tokens: u64,
}

impl From<UsageObject> for Usage {
    fn from(usage: UsageObject) -> Self {
        Self { input_tokens: usage.input_tokens, output_tokens: usage.output_tokens }
    }
}

/// What every part of a response has.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ItemHead {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: String,
}

impl ItemHead {
    pub(super) fn of(item: &RawValue) -> Self {
        serde_json::from_str(item.get()).unwrap_or_default()
    }
}

/// A message, a call, or something else that a response consists of.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Item {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) call_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) name: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) arguments: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) content: Vec<ContentPart>,
}

impl Item {
    pub(super) fn read(item: &RawValue) -> Self {
        serde_json::from_str(item.get()).unwrap_or_default()
    }

    /// How a call is known.
    pub(super) fn call_key(&self) -> String {
        self.call_id.clone().or_else(|| self.id.clone()).unwrap_or_default()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContentPart {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) text: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) refusal: Option<String>,
}

/// Why something did not work.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ErrorObject {
    #[serde(deserialize_with = "lenient")]
    pub(super) code: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) message: Option<String>,
}

impl ErrorObject {
    /// Reads the error of a body or an event, in any of the shapes that are about: an object or a text
    /// under `error`, or its fields at the top.
    pub(super) fn read(json: &[u8]) -> Option<Self> {
        let Holder { error, detail } = serde_json::from_slice(json).ok()?;
        let found = match error.map(RawValue::get) {
            Some(text) if text.starts_with('"') => {
                Self { message: serde_json::from_str(text).ok(), ..Self::default() }
            }
            Some(object) if object.starts_with('{') => serde_json::from_str(object).ok()?,
            _ => serde_json::from_slice(json).ok()?,
        };
        let detail = detail.map(RawValue::get);
        let detail =
            detail.map(|text| serde_json::from_str(text).unwrap_or_else(|_| text.to_owned()));
        Some(Self { message: found.message.or(detail), ..found })
    }

    /// Whether the chain cannot be gone on from: the response is not known any more, or waits for the result
    /// of a call.
    pub(super) fn is_lost_chain(&self) -> bool {
        let message = self.message.as_deref().unwrap_or_default();
        self.code.as_deref() == Some(CHAIN_LOST) || tells_lost_chain(message)
    }
}

/// Where errors are found.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Holder<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
}

/// Whether a text says what [`ErrorObject::is_lost_chain`] asks.
pub(super) fn tells_lost_chain(text: &str) -> bool {
    let text = text.to_lowercase();
    let names_previous = ["previous response", "previous_response"];
    text.contains(CHAIN_LOST)
        || (names_previous.iter().any(|name| text.contains(name)) && text.contains("not found"))
        || text.contains("no tool output found for function call")
}

/// The value, or the default if it has another type.
fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    let value = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(value.get()).unwrap_or_default())
}
