//! How much of what was said and shown before goes into a new chain.

use crate::{model::HistoryForm, policy::tokens::estimate};

/// Tokens that may still be spent on history, the newest turn first.
#[derive(Debug, Clone)]
pub struct HistoryBudget {
    left: u64,
    /// Kept back for summaries of older turns.
    reserve: u64,
    form: HistoryForm,
}

impl HistoryBudget {
    pub fn new(tokens: u64) -> Self {
        Self { left: tokens, reserve: tokens / 4, form: HistoryForm::Whole }
    }

    /// How the next older turn is sent; `None` ends the history. Once one had to be shortened, all older ones are.
    pub fn take(&mut self, whole_bytes: usize, summary_bytes: usize) -> Option<HistoryForm> {
        let (whole, summary) = (estimate(whole_bytes as u64), estimate(summary_bytes as u64));
        if self.form == HistoryForm::Whole && whole + self.reserve <= self.left {
            self.left -= whole;
            return Some(HistoryForm::Whole);
        }
        self.form = HistoryForm::Summary;
        // A short turn's summary is the whole of it.
        let needed = summary.min(whole);
        if needed > self.left {
            return None;
        }
        self.left -= needed;
        Some(HistoryForm::Summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_turns_are_whole_older_ones_are_summaries_and_the_rest_is_left_out() {
        let mut budget = HistoryBudget::new(100);

        let taken: Vec<_> = (0..7).map(|_| budget.take(160, 48)).collect();

        use HistoryForm::{Summary, Whole};
        let expected = [
            Some(Whole),
            Some(Summary),
            Some(Summary),
            Some(Summary),
            Some(Summary),
            Some(Summary),
            None,
        ];
        assert_eq!(taken, expected);
    }

    #[test]
    fn a_turn_larger_than_everything_ends_the_history() {
        assert_eq!(HistoryBudget::new(10).take(1_000, 1_000), None);
    }
}
