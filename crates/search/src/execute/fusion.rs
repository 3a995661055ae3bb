// SPDX-License-Identifier: BSD-3-Clause
//! Fusion of two ranked lists into one (FT.HYBRID): of a text search and of a vector search.
//!
//! The formulas are those of Redis 8.4's documentation, and of the replies that its clients' tests
//! expect.

use std::collections::HashMap;

use super::top::Hit;

/// How two lists become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fusion {
    /// Reciprocal rank fusion: the sum of 1 / (constant + rank), ranks counted from 1.
    Ranks { constant: f64 },
    /// A weighted sum of the text's score and of the vectors' similarity.
    Weights { text: f64, vectors: f64 },
}

/// A document of at least one of the lists.
#[derive(Clone, Debug)]
pub struct Fused {
    pub hit: Hit,
    pub text_score: Option<f64>,
    pub similarity: Option<f64>,
    pub score: f64,
}

/// Fuses two lists, each best first; the second with the similarity of each document. Best first;
/// equal ones in the order in which they were put into the index.
pub fn fuse(text: Vec<Hit>, vectors: Vec<(Hit, f64)>, fusion: Fusion) -> Vec<Fused> {
    let part = |rank: usize, score: f64, weight: f64| match fusion {
        Fusion::Ranks { constant } => 1.0 / (constant + (rank + 1) as f64),
        Fusion::Weights { .. } => weight * score,
    };
    let (of_text, of_vectors) = match fusion {
        Fusion::Ranks { .. } => (1.0, 1.0),
        Fusion::Weights { text, vectors } => (text, vectors),
    };
    let mut all: Vec<Fused> = Vec::with_capacity(text.len() + vectors.len());
    let mut places: HashMap<Box<[u8]>, usize> = HashMap::new();
    for (rank, hit) in text.into_iter().enumerate() {
        places.insert(hit.key.clone(), all.len());
        let (score, text_score) = (part(rank, hit.score, of_text), Some(hit.score));
        all.push(Fused { hit, text_score, similarity: None, score });
    }
    for (rank, (hit, similarity)) in vectors.into_iter().enumerate() {
        let score = part(rank, similarity, of_vectors);
        match places.get(&hit.key) {
            Some(&at) => {
                all[at].score += score;
                all[at].similarity = Some(similarity);
            }
            None => all.push(Fused { hit, text_score: None, similarity: Some(similarity), score }),
        }
    }
    all.sort_by(|one, other| {
        other.score.total_cmp(&one.score).then(one.hit.sequence.cmp(&other.hit.sequence))
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{DocRef, SortValue};

    fn hit(sequence: u64, score: f64) -> Hit {
        Hit {
            key: sequence.to_string().into_bytes().into(),
            doc: DocRef { part: 0, doc: 0, generation: 0 },
            sequence,
            score,
            sort: SortValue::None,
            distances: Vec::new(),
            explanation: None,
        }
    }

    fn shown(fused: &[Fused]) -> Vec<(u64, String)> {
        fused.iter().map(|one| (one.hit.sequence, format!("{:.12}", one.score))).collect()
    }

    /// The figures that redis-py's tests expect of Redis 8.4.
    #[test]
    fn the_figures_are_those_of_redis() {
        let text = || vec![hit(0, 0.0), hit(2, 0.0), hit(5, 0.0)];
        let vectors = || vec![(hit(2, 0.0), 1.0 / 3.0), (hit(7, 0.0), 1.0 / 3.0), (hit(12, 0.0), 1.0 / 3.0)];
        let ranks = |constant| shown(&fuse(text(), vectors(), Fusion::Ranks { constant })[..3]);
        let expected = |scores: [&str; 3]| {
            [2, 0, 7].into_iter().zip(scores.map(str::to_owned)).collect::<Vec<(u64, String)>>()
        };
        assert_eq!(ranks(0.5), expected(["1.066666666667", "0.666666666667", "0.400000000000"]));
        assert_eq!(ranks(60.0), expected(["0.032522474881", "0.016393442623", "0.016129032258"]));
        let weights = fuse(text(), vectors(), Fusion::Weights { text: 0.5, vectors: 0.5 });
        let best: Vec<u64> = weights[..3].iter().map(|one| one.hit.sequence).collect();
        assert_eq!((best, format!("{:.12}", weights[0].score)), (vec![2, 7, 12], "0.166666666667".into()));
        assert_eq!(weights.len(), 5);
        assert_eq!((weights[0].text_score, weights[1].text_score), (Some(0.0), None));
        assert_eq!((weights[3].similarity, weights[3].hit.sequence), (None, 0));
    }

    #[test]
    fn nothing_fuses_to_nothing() {
        assert!(fuse(Vec::new(), Vec::new(), Fusion::Ranks { constant: 60.0 }).is_empty());
    }
}
