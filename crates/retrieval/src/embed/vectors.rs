//! Vectors as they are kept: one byte a dimension. At 100,000 vectors of 384 dimensions that is 38 MB instead of
//! 154 MB, and a scan of all of them is faster than reading an index from disk.

use std::thread;

/// A scan is worth a second thread from here on.
const ROWS_PER_THREAD: usize = 25_000;

/// The scale as a little-endian f32, then one byte a dimension.
pub fn packed(vector: &[f32]) -> Vec<u8> {
    let (scale, bytes) = quantised(vector);
    let mut packed = Vec::with_capacity(4 + bytes.len());
    packed.extend_from_slice(&scale.to_le_bytes());
    packed.extend(bytes.into_iter().map(i8::cast_unsigned));
    packed
}

fn quantised(vector: &[f32]) -> (f32, Vec<i8>) {
    let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
    (scale, vector.iter().map(|x| (x / scale).round() as i8).collect())
}

/// All vectors of a corpus, one after the other.
#[derive(Debug, Default)]
pub struct Matrix {
    dimensions: usize,
    rows: Vec<i64>,
    scales: Vec<f32>,
    values: Vec<i8>,
}

impl Matrix {
    /// Leaves out what is of another dimension than the first.
    pub fn push(&mut self, row: i64, packed: &[u8]) {
        let Some((scale, values)) = packed.split_first_chunk::<4>() else { return };
        if self.rows.is_empty() {
            self.dimensions = values.len();
        }
        if values.len() == self.dimensions {
            self.rows.push(row);
            self.scales.push(f32::from_le_bytes(*scale));
            self.values.extend(values.iter().map(|value| value.cast_signed()));
        }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.values.len() + self.rows.len() * 12
    }

    /// The rows that are most like the vector, the best first.
    pub fn nearest(&self, vector: &[f32], count: usize) -> Vec<(i64, f32)> {
        if vector.len() != self.dimensions || self.rows.is_empty() {
            return Vec::new();
        }
        let (scale, query) = quantised(vector);
        let threads = self.threads();
        let per_thread = self.rows.len().div_ceil(threads);
        let mut best = thread::scope(|scope| {
            let parts: Vec<_> = (0..threads)
                .map(|part| {
                    let query = &query;
                    let range = part * per_thread..((part + 1) * per_thread).min(self.rows.len());
                    scope.spawn(move || self.nearest_in(range, query, count))
                })
                .collect();
            parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect::<Vec<_>>()
        });
        keep_best(&mut best, count);
        best.into_iter().map(|(at, score)| (self.rows[at], score * scale)).collect()
    }

    fn threads(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        (self.rows.len() / ROWS_PER_THREAD).clamp(1, cores.min(4))
    }

    fn nearest_in(
        &self,
        range: std::ops::Range<usize>,
        query: &[i8],
        count: usize,
    ) -> Vec<(usize, f32)> {
        let mut best: Vec<(usize, f32)> = Vec::with_capacity(count * 4);
        let mut least = f32::NEG_INFINITY;
        for at in range {
            let values = &self.values[at * self.dimensions..][..self.dimensions];
            let score = dot(values, query) as f32 * self.scales[at];
            if score > least {
                best.push((at, score));
            }
            if best.len() >= count.max(1) * 4 {
                keep_best(&mut best, count);
                least = best.last().map_or(least, |(_, score)| *score);
            }
        }
        keep_best(&mut best, count);
        best
    }
}

fn keep_best(best: &mut Vec<(usize, f32)>, count: usize) {
    best.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    best.truncate(count);
}

/// Written so that the compiler makes vector instructions of it.
fn dot(a: &[i8], b: &[i8]) -> i32 {
    const LANES: usize = 16;
    let (a_parts, a_rest) = a.as_chunks::<LANES>();
    let (b_parts, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0_i32; LANES];
    for (a, b) in a_parts.iter().zip(b_parts) {
        for lane in 0..LANES {
            sums[lane] += i32::from(i16::from(a[lane]) * i16::from(b[lane]));
        }
    }
    let rest: i32 = a_rest.iter().zip(b_rest).map(|(x, y)| i32::from(*x) * i32::from(*y)).sum();
    sums.iter().sum::<i32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(seed: u64, dimensions: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut vector: Vec<f32> = (0..dimensions)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ((state >> 40) as f32 / 8_388_608.0) - 1.0
            })
            .collect();
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.iter_mut().for_each(|x| *x /= length);
        vector
    }

    #[test]
    fn the_nearest_are_those_of_an_exact_scan() {
        let vectors: Vec<Vec<f32>> = (0..2_000).map(|seed| unit(seed, 100)).collect();
        let mut matrix = Matrix::default();
        for (row, vector) in vectors.iter().enumerate() {
            matrix.push(row as i64, &packed(vector));
        }
        let question = unit(1_000_000, 100);
        let exact = |row: i64| -> f32 {
            vectors[row as usize].iter().zip(&question).map(|(x, y)| x * y).sum()
        };

        let found = matrix.nearest(&question, 10);

        let mut rows: Vec<i64> = (0..2_000).collect();
        rows.sort_by(|a, b| exact(*b).total_cmp(&exact(*a)));
        let same = found.iter().filter(|(row, _)| rows[..12].contains(row)).count();
        assert_eq!(found.len(), 10);
        assert!(same >= 9, "{same}");
        assert!(found.iter().all(|(row, score)| (score - exact(*row)).abs() < 0.02));
    }

    #[test]
    fn a_vector_of_another_dimension_is_like_nothing() {
        let mut matrix = Matrix::default();
        matrix.push(1, &packed(&unit(1, 8)));
        matrix.push(2, &packed(&unit(2, 9)));

        assert_eq!(matrix.len(), 1);
        assert_eq!(matrix.nearest(&unit(1, 9), 3), []);
        assert_eq!(matrix.nearest(&unit(1, 8), 3)[0].0, 1);
    }
}
