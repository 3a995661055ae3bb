// SPDX-License-Identifier: BSD-3-Clause
//! How well a document matches.
//!
//! The formulas are those that RediSearch's EXPLAINSCORE prints: BM25STD with k1 1.2 and b 0.5;
//! TFIDF with a whole-numbered inverse frequency, divided by the document's largest frequency (or
//! its length) and by how far apart the words are.

use crate::index::Totals;

pub const K1: f64 = 1.2f32 as f64;
pub const B: f64 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scorer {
    #[default]
    Bm25Std,
    /// The same, between 0 and 1.
    Bm25StdTanh,
    Bm25,
    TfIdf,
    TfIdfDocNorm,
    DisMax,
    DocScore,
    /// By payloads, which no document has.
    Hamming,
}

/// What a score of BM25STD.TANH is divided by.
const TANH_FACTOR: f64 = 4.0;

impl Scorer {
    pub fn parse(name: &[u8]) -> Option<Scorer> {
        Some(match name {
            b"BM25STD" => Scorer::Bm25Std,
            b"BM25STD.TANH" => Scorer::Bm25StdTanh,
            b"BM25" => Scorer::Bm25,
            b"TFIDF" => Scorer::TfIdf,
            b"TFIDF.DOCNORM" => Scorer::TfIdfDocNorm,
            b"DISMAX" => Scorer::DisMax,
            b"DOCSCORE" => Scorer::DocScore,
            b"HAMMING" => Scorer::Hamming,
            _ => return None,
        })
    }

    /// Whether the distance between words matters.
    pub fn needs_distance(self) -> bool {
        matches!(self, Scorer::Bm25 | Scorer::TfIdf | Scorer::TfIdfDocNorm)
    }

    /// The weight of a term that so many documents have.
    pub fn rarity(self, docs: u32, totals: Totals) -> f64 {
        let (all, docs) = (totals.docs as f64, f64::from(docs.max(1)));
        match self {
            Scorer::Bm25Std | Scorer::Bm25StdTanh => (1.0 + (all - docs + 0.5).max(0.0) / (docs + 0.5)).ln(),
            Scorer::TfIdf | Scorer::TfIdfDocNorm | Scorer::Bm25 => {
                // The whole part of the binary logarithm is the exponent.
                f64::from(((1.0 + (all + 1.0) / docs).to_bits() >> 52) as u32) - 1023.0
            }
            Scorer::DisMax | Scorer::DocScore | Scorer::Hamming => 1.0,
        }
    }

    /// What a term adds that occurs so often in a document of this length.
    pub fn term(self, frequency: f64, rarity: f64, len: f64, len_average: f64) -> f64 {
        match self {
            Scorer::Bm25Std | Scorer::Bm25StdTanh => {
                let relative = if len_average > 0.0 { len / len_average } else { 0.0 };
                rarity * frequency * (K1 + 1.0) / (frequency + K1 * (1.0 - B + B * relative))
            }
            Scorer::Bm25 => rarity * frequency / (frequency + K1 * (1.0 - B + B * len_average)),
            Scorer::TfIdf | Scorer::TfIdfDocNorm => frequency * rarity,
            Scorer::DisMax => frequency,
            Scorer::DocScore | Scorer::Hamming => 0.0,
        }
    }

    /// What a match adds that has no words: a number, an area.
    pub fn wordless(self) -> f64 {
        match self {
            Scorer::TfIdf | Scorer::TfIdfDocNorm | Scorer::DisMax => 1.0,
            Scorer::Bm25Std | Scorer::Bm25StdTanh | Scorer::Bm25 | Scorer::DocScore | Scorer::Hamming => 0.0,
        }
    }

    /// A document's score, from the sum of what its matches add.
    pub fn finish(self, sum: f64, document: Document) -> f64 {
        let Document { score, len, frequency_max, distance } = document;
        match self {
            Scorer::DocScore => score,
            Scorer::DisMax => sum,
            Scorer::Bm25Std => sum * score,
            Scorer::Bm25StdTanh => (sum * score / TANH_FACTOR).tanh(),
            Scorer::Hamming => 0.0,
            Scorer::Bm25 => sum * score / distance,
            Scorer::TfIdf => sum * score / frequency_max.max(1.0) / distance,
            Scorer::TfIdfDocNorm => sum * score / len.max(1.0) / distance,
        }
    }
}

/// What [`Scorer::finish`] needs of a document.
#[derive(Clone, Copy, Debug)]
pub struct Document {
    pub score: f64,
    pub len: f64,
    pub frequency_max: f64,
    /// Between the words of a match, 1 if they are neighbours.
    pub distance: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTALS: Totals = Totals { docs: 6, len: 33 };

    fn close(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-6, "{one} {other}");
    }

    #[test]
    fn the_figures_are_those_measured() {
        let standard = Scorer::Bm25Std;
        close(standard.term(4.0, standard.rarity(3, TOTALS), 9.0, 5.5), 1.092779279754407);
        close(standard.term(1.0, standard.rarity(2, TOTALS), 7.0, 5.5), 0.9583380558655137);
        close(standard.term(1.0, 1.0, 0.0, 5.5), 1.3750000093132255);
        let old = Scorer::Bm25;
        close(old.term(4.0, old.rarity(3, TOTALS), 9.0, 5.5), 0.5063291039915351);
        let rarities: Vec<f64> =
            [5, 3, 2, 1].iter().map(|docs| Scorer::TfIdf.rarity(*docs, TOTALS)).collect();
        assert_eq!(rarities, [1.0, 1.0, 2.0, 3.0]);
        let document = Document { score: 1.0, len: 9.0, frequency_max: 4.0, distance: 2.0 };
        close(Scorer::TfIdf.finish(6.0, document), 0.75);
        close(Scorer::TfIdfDocNorm.finish(6.0, Document { distance: 1.0, ..document }), 6.0 / 9.0);
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        let document = Document { score: 1.0, len: 0.0, frequency_max: 0.0, distance: 1.0 };
        for scorer in
            [Scorer::Bm25Std, Scorer::Bm25StdTanh, Scorer::Bm25, Scorer::TfIdf, Scorer::TfIdfDocNorm]
        {
            let rarity = scorer.rarity(0, Totals::default());
            assert!(scorer.finish(scorer.term(1.0, rarity, 0.0, 0.0), document).is_finite());
        }
    }
}
