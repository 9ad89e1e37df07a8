//! Ids by their beginning.

use serde_json::Value;
use skein_core::model::{SessionId, TokenId};

use super::text;
use crate::{
    failure::{Exit, Failure},
    transport::{Call, Client, Target},
};

const PAGE: u32 = 200;
/// Whoever wants an older one by less than its whole id has to look it up.
const MAX_PAGES: usize = 50;
const SHOWN_CANDIDATES: usize = 5;

/// The session whose id begins like this. A whole id is taken at its word.
pub(super) async fn session(client: &Client, prefix: &str) -> Result<String, Failure> {
    if prefix.parse::<SessionId>().is_ok() {
        return Ok(prefix.to_owned());
    }
    newest(client, "session", prefix).await
}

/// The token whose id begins like this. A whole id is taken at its word.
pub(super) async fn token(client: &Client, prefix: &str) -> Result<String, Failure> {
    if let Ok(id) = prefix.parse::<TokenId>() {
        return Ok(id.to_string());
    }
    newest(client, "token", prefix).await
}

/// Looks through a list that begins with the newest.
async fn newest(client: &Client, what: &'static str, prefix: &str) -> Result<String, Failure> {
    let list = format!("{what}s");
    let mut matches = Matches::new(what, checked(prefix)?);
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let target = Target::new(&["api", &list]).query("limit", Some(PAGE));
        let answer = client.call(Call::get(target.query("cursor", cursor.as_ref()))).await?;
        let found = answer.value[&list].as_array().map(Vec::as_slice).unwrap_or_default();
        matches.add(found);
        // Newest first, and ids grow with time: from here on none can match.
        let passed = found.last().is_none_or(|last| text(last, "id") < matches.prefix.as_str());
        cursor = answer.value["nextCursor"].as_str().map(str::to_owned);
        if passed || cursor.is_none() {
            break;
        }
    }
    matches.only()
}

/// The one of these whose id begins like this.
pub(super) fn among(what: &'static str, values: &Value, prefix: &str) -> Result<String, Failure> {
    let mut matches = Matches::new(what, checked(prefix)?);
    matches.add(values.as_array().map(Vec::as_slice).unwrap_or_default());
    matches.only()
}

fn checked(prefix: &str) -> Result<String, Failure> {
    let lower = prefix.to_ascii_lowercase();
    let is_beginning =
        !lower.is_empty() && lower.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if is_beginning {
        return Ok(lower);
    }
    Err(Failure::new(Exit::Usage, format!("{prefix:?} is not an id or the beginning of one"))
        .hint("ids look like 01890a5d-ac96-774b-bcce-b302099a8057"))
}

struct Matches {
    what: &'static str,
    prefix: String,
    ids: Vec<String>,
}

impl Matches {
    fn new(what: &'static str, prefix: String) -> Self {
        Self { what, prefix, ids: Vec::new() }
    }

    fn add(&mut self, values: &[Value]) {
        let ids = values.iter().map(|value| text(value, "id"));
        self.ids.extend(ids.filter(|id| id.starts_with(&self.prefix)).map(str::to_owned));
    }

    fn only(self) -> Result<String, Failure> {
        let Self { what, prefix, mut ids } = self;
        match ids.len() {
            0 => {
                let message = format!("no {what} has an id that begins with {prefix}");
                Err(Failure::new(Exit::NotFound, message))
            }
            1 => Ok(ids.remove(0)),
            count => {
                let more = if count > SHOWN_CANDIDATES { ", …" } else { "" };
                ids.truncate(SHOWN_CANDIDATES);
                let message = format!("{count} {what}s have ids that begin with {prefix}");
                Err(Failure::new(Exit::Usage, message)
                    .hint(format!("use more of the id: {}{more}", ids.join(", "))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_beginning_finds_one_or_says_why_not() {
        let tokens = json!([{"id": "0189-aa"}, {"id": "0189-ab"}, {"id": "018a-00"}]);

        let found = ["018A", "0189-ab", "0189", "ff", "x/y", ""].map(|prefix| {
            among("token", &tokens, prefix).map_err(|failure| (failure.exit as u8, failure.hint))
        });

        let candidates = "use more of the id: 0189-aa, 0189-ab".to_owned();
        let shape = "ids look like 01890a5d-ac96-774b-bcce-b302099a8057".to_owned();
        assert_eq!(
            found,
            [
                Ok("018a-00".to_owned()),
                Ok("0189-ab".to_owned()),
                Err((2, Some(candidates))),
                Err((3, None)),
                Err((2, Some(shape.clone()))),
                Err((2, Some(shape))),
            ]
        );
    }
}
