//! Query strings: every parameter is known, stands once, and has a value that makes sense.

use std::{borrow::Cow, fmt::Display, marker::PhantomData, ops::RangeInclusive, str::FromStr};

use axum::extract::FromRequestParts;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::{
    app::Context,
    error::{Code, Problem},
};

/// Positions are stored as signed numbers.
const MAX_POSITION: u64 = i64::MAX as u64;

/// The parameters that an endpoint knows.
pub(crate) trait Known {
    const NAMES: &'static [&'static str];
}

/// The parameters of a request to an endpoint that knows those of `K`.
#[derive(Debug)]
pub(crate) struct Parameters<K> {
    given: Vec<(&'static str, String)>,
    known: PhantomData<K>,
}

impl Known for () {
    const NAMES: &'static [&'static str] = &[];
}

impl<K: Known + Send> FromRequestParts<Context> for Parameters<K> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Context) -> Result<Self, Problem> {
        Self::parse(parts.uri.query().unwrap_or_default())
    }
}

impl<K: Known> Parameters<K> {
    fn parse(query: &str) -> Result<Self, Problem> {
        let mut given: Vec<(&'static str, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name)?;
            let Some(known) = K::NAMES.iter().find(|known| **known == name) else {
                let detail = match K::NAMES {
                    [] => "this endpoint takes no parameters".to_owned(),
                    names => format!("unknown parameter; known are: {}", names.join(", ")),
                };
                let shown: String = name.chars().take(64).collect();
                return Err(Problem::new(Code::UnknownField, detail).in_field(shown));
            };
            if given.iter().any(|(seen, _)| seen == known) {
                return Err(invalid(known, "is given twice"));
            }
            let value = decode(value)?;
            if value.contains('\0') {
                return Err(invalid(known, "must not contain NUL characters"));
            }
            given.push((known, value.into_owned()));
        }
        Ok(Self { given, known: PhantomData })
    }

    /// The text of a parameter, if it is given.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }

    /// A filter's value. An empty one does not filter.
    pub(crate) fn filter<T>(&self, name: &'static str) -> Result<Option<T>, Problem>
    where
        T: FromStr<Err: Display>,
    {
        let text = self.text(name).filter(|text| !text.is_empty());
        text.map(|text| text.parse().map_err(|error| invalid(name, error))).transpose()
    }

    /// The words of a comma-separated filter.
    pub(crate) fn words(&self, name: &str) -> Option<impl Iterator<Item = &str>> {
        let text = self.text(name).filter(|text| !text.is_empty());
        text.map(|text| text.split(',').map(str::trim))
    }

    /// A number within bounds.
    pub(crate) fn number<T>(
        &self,
        name: &'static str,
        bounds: RangeInclusive<T>,
    ) -> Result<Option<T>, Problem>
    where
        T: FromStr + PartialOrd + Display,
    {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = digits(text).and_then(|text| text.parse().ok());
        match number.filter(|number| bounds.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (low, high) = (bounds.start(), bounds.end());
                Err(invalid(name, format!("must be a number from {low} to {high}")))
            }
        }
    }

    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, Problem> {
        match self.text(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(invalid(name, "must be true or false")),
        }
    }

    /// A position in a log, or a turn's number.
    pub(crate) fn position<T>(&self, name: &'static str) -> Result<Option<T>, Problem>
    where
        T: TryFrom<u64>,
    {
        self.text(name).map(|text| position(name, text)).transpose()
    }
}

/// A value that makes no sense as a filter.
pub(crate) fn invalid(name: &str, reason: impl Display) -> Problem {
    Problem::new(Code::InvalidFilter, format!("{name}: {reason}")).in_field(name)
}

#[cfg(test)]
pub(crate) fn parse_parameters<K: Known>(query: &str) -> Result<Parameters<K>, Problem> {
    Parameters::parse(query)
}

/// A position is a plain decimal number.
pub(crate) fn position<T: TryFrom<u64>>(name: &str, text: &str) -> Result<T, Problem> {
    let number = digits(text).and_then(|text| text.parse::<u64>().ok());
    let number = number.filter(|number| *number <= MAX_POSITION);
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        let detail = format!("{name}: {shown:?} is not a position; use a number such as 17");
        Problem::new(Code::InvalidCursor, detail).in_field(name)
    })
}

fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

fn decode(text: &str) -> Result<Cow<'_, str>, Problem> {
    let not_text = |_| Problem::new(Code::InvalidRequest, "the query string is not valid UTF-8");
    if text.contains('+') {
        let spaced = text.replace('+', " ");
        let decoded = percent_decode_str(&spaced).decode_utf8().map_err(not_text)?;
        return Ok(Cow::Owned(decoded.into_owned()));
    }
    percent_decode_str(text).decode_utf8().map_err(not_text)
}

#[cfg(test)]
mod tests {
    use skein_core::model::Interface;

    use super::*;

    struct Page;

    impl Known for Page {
        const NAMES: &'static [&'static str] = &["q", "limit", "after", "interface", "purge"];
    }

    fn parse(query: &str) -> Result<Parameters<Page>, Problem> {
        Parameters::parse(query)
    }

    #[test]
    fn values_are_decoded() {
        let parameters = parse("q=a+b%20%C3%A9%2B&&limit=20&interface=cli&purge=true").unwrap();

        assert_eq!(parameters.text("q"), Some("a b é+"));
        assert_eq!(parameters.number("limit", 1..=200_u32).unwrap(), Some(20));
        assert_eq!(parameters.filter::<Interface>("interface").unwrap(), Some(Interface::Cli));
        assert!(parameters.flag("purge").unwrap());
        assert_eq!(parameters.position::<u64>("after").unwrap(), None);
    }

    #[test]
    fn unknown_repeated_and_unreadable_parameters_are_refused() {
        let code = |query| parse(query).err().map(|problem| problem.code);

        assert_eq!(code("x=1"), Some(Code::UnknownField));
        assert_eq!(code("Q=1"), Some(Code::UnknownField));
        assert_eq!(code("q=1&q=2"), Some(Code::InvalidFilter));
        assert_eq!(code("q=%00"), Some(Code::InvalidFilter));
        assert_eq!(code("q=%ff"), Some(Code::InvalidRequest));
        assert_eq!(code("%ff=1"), Some(Code::InvalidRequest));
        assert_eq!(code("q=%zz&limit"), None);
    }

    #[test]
    fn numbers_out_of_bounds_and_positions_that_are_none_are_refused() {
        for bad in ["0", "201", "-1", "+1", "1.5", "", "x", "99999999999999999999"] {
            let parameters = parse(&format!("limit={}&after={bad}", bad.replace('+', "%2B")));
            let parameters = parameters.unwrap();
            let refused = parameters.number("limit", 1..=200_u32).unwrap_err();
            assert_eq!(refused.code, Code::InvalidFilter, "{bad}");
        }
        for bad in ["-1", "1.5", "", "x", "0x1", "9223372036854775808", "99999999999999999999"] {
            let refused = parse(&format!("after={bad}")).unwrap().position::<u64>("after");
            assert_eq!(refused.unwrap_err().code, Code::InvalidCursor, "{bad}");
        }
        let too_large = parse("after=4294967296").unwrap().position::<u32>("after");
        assert_eq!(too_large.unwrap_err().code, Code::InvalidCursor);
        assert_eq!(parse("after=0").unwrap().position::<u64>("after").unwrap(), Some(0));
    }
}
