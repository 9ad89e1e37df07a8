//! Whether there are tokens left to spend.

use jiff::tz::TimeZone;

use crate::{model::Timestamp, platform::BudgetPeriod};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The first day whose tokens count, in days since 1970 (UTC).
pub fn first_day(period: BudgetPeriod, now: Timestamp) -> i64 {
    let today = now.as_millis().div_euclid(DAY_MS);
    match period {
        BudgetPeriod::Always => i64::MIN,
        BudgetPeriod::Day => today,
        BudgetPeriod::Month => {
            let moment = jiff::Timestamp::from_millisecond(now.as_millis());
            let day = moment.map_or(1, |moment| moment.to_zoned(TimeZone::UTC).day());
            today - i64::from(day) + 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_begins_with_its_first_day() {
        let now: Timestamp = "2026-11-15T23:59:59Z".parse().unwrap();
        let day = |text: &str| text.parse::<Timestamp>().unwrap().as_millis() / DAY_MS;

        assert_eq!(first_day(BudgetPeriod::Day, now), day("2026-11-15T00:00:00Z"));
        assert_eq!(first_day(BudgetPeriod::Month, now), day("2026-11-01T00:00:00Z"));
        assert_eq!(first_day(BudgetPeriod::Always, now), i64::MIN);
    }
}
