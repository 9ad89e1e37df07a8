//! For whom tokens are counted, and on which day. The same on every engine.

use skein_core::{
    model::{OrgId, Timestamp},
    ports::UsageSubject,
};
use uuid::Uuid;

const DAY_MILLIS: i64 = 24 * 60 * 60 * 1_000;

/// Days since 1970, in UTC.
pub(crate) fn day(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(DAY_MILLIS)
}

/// A subject as its two columns hold it.
pub(crate) const fn key(org: OrgId, subject: UsageSubject) -> (&'static str, Uuid) {
    match subject {
        UsageSubject::Org => ("org", *org.as_uuid()),
        UsageSubject::User(user) => ("user", *user.as_uuid()),
        UsageSubject::Log(log) => ("log", *log.as_uuid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_midnight_before_and_after_1970() {
        let days = [-DAY_MILLIS - 1, -DAY_MILLIS, -1, 0, DAY_MILLIS - 1, DAY_MILLIS]
            .map(|millis| day(Timestamp::from_millis(millis)));

        assert_eq!(days, [-2, -1, -1, 0, 0, 1]);
    }
}
