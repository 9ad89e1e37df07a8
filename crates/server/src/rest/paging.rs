//! Lists in the order of ids: each page begins after the last id of the one before.

use std::{fmt::Display, str::FromStr};

use skein_core::model::InvalidId;
use utoipa::IntoParams;

use crate::{
    ServerSettings,
    error::{Code, Problem},
    extract::{Known, Parameters},
};

/// The parameters of such a list. Read from [`Parameters`]; this type names and documents them.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields document the parameters")]
pub(crate) struct Paging {
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
}

impl Known for Paging {
    const NAMES: &'static [&'static str] = &["limit", "cursor"];
}

/// A page as it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page<T> {
    pub(crate) after: Option<T>,
    limit: u32,
}

impl<T: FromStr<Err = InvalidId> + Display> Page<T> {
    pub(crate) fn new(
        parameters: &Parameters<Paging>,
        settings: &ServerSettings,
    ) -> Result<Self, Problem> {
        let limit = parameters.number("limit", 1..=settings.page_max)?;
        let after = parameters.text("cursor").map(|text| {
            text.parse().map_err(|_| {
                let detail = "cursor: not one that this server gave out; use nextCursor as it is";
                Problem::new(Code::InvalidCursor, detail).in_field("cursor")
            })
        });
        Ok(Self { after: after.transpose()?, limit: limit.unwrap_or(settings.page_default) })
    }

    /// How many to read: one more than are shown tells whether there is a next page.
    pub(crate) fn to_read(&self) -> u32 {
        self.limit.saturating_add(1)
    }

    /// What is shown of what was read, and the cursor of the next page.
    pub(crate) fn cut<Item, Wire: From<Item>>(
        &self,
        mut items: Vec<Item>,
        id: impl Fn(&Item) -> T,
    ) -> (Vec<Wire>, Option<String>) {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let is_last = items.len() <= limit;
        items.truncate(limit);
        let next = items.last().filter(|_| !is_last).map(|last| id(last).to_string());
        (items.into_iter().map(Wire::from).collect(), next)
    }
}

#[cfg(test)]
mod tests {
    use skein_core::model::UserId;
    use uuid::Uuid;

    use super::*;
    use crate::extract::parse_parameters;

    fn page(query: &str) -> Result<Page<UserId>, Code> {
        let parameters = parse_parameters(query).map_err(|problem| problem.code)?;
        Page::new(&parameters, &ServerSettings::default()).map_err(|problem| problem.code)
    }

    #[test]
    fn a_full_page_names_the_next_one() {
        let id = |number| UserId::from_uuid(Uuid::from_u128(number));
        let page = page("limit=2").unwrap();
        let shown = |ids: Vec<UserId>| page.cut::<_, UserId>(ids, |id| *id);

        assert_eq!(page.to_read(), 3);
        assert_eq!(shown(vec![]), (vec![], None));
        assert_eq!(shown(vec![id(1), id(2)]), (vec![id(1), id(2)], None));
        assert_eq!(shown(vec![id(1), id(2), id(3)]), (vec![id(1), id(2)], Some(id(2).to_string())));
    }

    #[test]
    fn cursors_and_limits_that_are_none_are_refused() {
        let id = UserId::from_uuid(Uuid::from_u128(7));

        assert_eq!(page(&format!("cursor={id}")).unwrap().after, Some(id));
        assert_eq!(page("cursor=x").err(), Some(Code::InvalidCursor));
        assert_eq!(page("limit=0").err(), Some(Code::InvalidFilter));
        assert_eq!(page("offset=1").err(), Some(Code::UnknownField));
    }
}
