//! When streamed text becomes durable: at once, then ever less often, so that no token costs a commit.

use std::time::Duration;

/// A write this large is due whatever the clock says.
pub const FLUSH_BYTES: usize = 4 * 1024;

const EARLY: Duration = Duration::from_secs(1);
const EARLY_INTERVAL: Duration = Duration::from_millis(25);
const LATE_INTERVAL: Duration = Duration::from_millis(100);

/// How long text may wait, given the time since the first text and since the last write began.
///
/// The first text is written at once. `None` for `since_last_write` means that nothing was written yet.
pub fn wait_before_write(
    since_first_text: Duration,
    since_last_write: Option<Duration>,
    unwritten_bytes: usize,
) -> Duration {
    let Some(since_last_write) = since_last_write else { return Duration::ZERO };
    if unwritten_bytes >= FLUSH_BYTES {
        return Duration::ZERO;
    }
    let interval = if since_first_text < EARLY { EARLY_INTERVAL } else { LATE_INTERVAL };
    interval.saturating_sub(since_last_write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_text_is_written_at_once_and_later_text_at_its_interval() {
        let ms = Duration::from_millis;
        let table = [
            ((ms(0), None, 1), ms(0)),
            ((ms(10), Some(ms(10)), 1), ms(15)),
            ((ms(999), Some(ms(30)), 1), ms(0)),
            ((ms(1000), Some(ms(30)), 1), ms(70)),
            ((ms(5000), Some(ms(0)), FLUSH_BYTES), ms(0)),
        ];

        for ((first, last, bytes), wait) in table {
            assert_eq!(wait_before_write(first, last, bytes), wait, "{first:?} {last:?} {bytes}");
        }
    }
}
