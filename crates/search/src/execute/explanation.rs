// SPDX-License-Identifier: BSD-3-Clause
//! How a document's score came about (EXPLAINSCORE), in the words of RediSearch.

use super::score::{B, Document, K1, Scorer};

/// A line, and the lines of what it was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub line: String,
    pub parts: Vec<Explanation>,
}

impl Explanation {
    fn line(line: String) -> Explanation {
        Explanation { line, parts: Vec::new() }
    }
}

/// What a match without words adds.
pub fn wordless(scorer: Scorer, weight: f64) -> Explanation {
    let score = weight * scorer.wordless();
    Explanation::line(match scorer {
        Scorer::TfIdf | Scorer::TfIdfDocNorm => {
            format!("(TFIDF {score:.2} = Weight {weight:.2} * Frequency 1)")
        }
        Scorer::DisMax => format!("DISMAX {score:.2} = Weight {weight:.2} * Frequency 1"),
        Scorer::Bm25Std | Scorer::Bm25StdTanh | Scorer::Bm25 | Scorer::DocScore | Scorer::Hamming => {
            "Irrelevant token -> score is 0".to_owned()
        }
    })
}

/// A term in a document.
pub struct Occurrence<'a> {
    pub text: &'a str,
    pub frequency: f64,
    pub rarity: f64,
    pub weight: f64,
    pub len: f64,
    pub len_average: f64,
}

/// What a term adds.
pub fn term(scorer: Scorer, of: &Occurrence<'_>) -> Explanation {
    let &Occurrence { text, frequency, rarity, weight, len, len_average } = of;
    let score = weight * scorer.term(frequency, rarity, len, len_average);
    Explanation::line(match scorer {
        Scorer::Bm25Std | Scorer::Bm25StdTanh => format!(
            "{text}: ({score:.2} = IDF {rarity:.2} * (F {frequency:.2} * (k1 {K1:.1} + 1)) / (F {frequency:.2} + \
             k1 {K1:.1} * (1 - b {B:.1} + b {B:.1} * Doc Len {len} / Average Doc Len {len_average:.2})))"
        ),
        Scorer::Bm25 => format!(
            "({score:.2} = IDF {rarity:.2} * F {frequency} / (F {frequency} + k1 {K1:.1} * (1 - b {B:.1} + \
             b {B:.1} * Average Len {len_average:.2})))"
        ),
        Scorer::TfIdf | Scorer::TfIdfDocNorm => {
            format!("(TFIDF {score:.2} = Weight {weight:.2} * TF {frequency} * IDF {rarity:.2})")
        }
        Scorer::DisMax => format!("DISMAX {score:.2} = Weight {weight:.2} * Frequency {frequency}"),
        Scorer::DocScore | Scorer::Hamming => "Irrelevant token -> score is 0".to_owned(),
    })
}

/// What several matches add together; `sum` is without the weight.
pub fn several(scorer: Scorer, sum: f64, weight: f64, parts: Vec<Explanation>) -> Explanation {
    let line = match scorer {
        Scorer::Bm25Std | Scorer::Bm25StdTanh | Scorer::Bm25 => {
            format!("(Weight {weight:.2} * children BM25 {sum:.2})")
        }
        Scorer::TfIdf | Scorer::TfIdfDocNorm => {
            format!("(Weight {weight:.2} * total children TFIDF {sum:.2})")
        }
        Scorer::DisMax => format!("{:.2} = Weight {weight:.2} * children DISMAX {sum:.2}", weight * sum),
        Scorer::DocScore | Scorer::Hamming => String::new(),
    };
    Explanation { line, parts }
}

/// A document's score, from the sum of what its matches add.
pub fn whole(scorer: Scorer, sum: f64, document: Document, matches: Explanation) -> Explanation {
    let Document { score, len, frequency_max, distance } = document;
    let line = match scorer {
        Scorer::DocScore => return Explanation::line(format!("Document's score is {score:.2}")),
        Scorer::DisMax => return matches,
        Scorer::Hamming => return Explanation::line("Payloads provided to scorer vary in length".to_owned()),
        Scorer::Bm25StdTanh => {
            format!(
                "Final normalized BM25 : tanh of words BM25 {sum:.2} * document score {score:.2}, divided by 4"
            )
        }
        Scorer::Bm25Std => format!("Final BM25 : words BM25 {sum:.2} * document score {score:.2}"),
        Scorer::Bm25 => {
            format!("Final BM25 : words BM25 {sum:.2} * document score {score:.2} / slop {distance}")
        }
        Scorer::TfIdf | Scorer::TfIdfDocNorm => {
            let norm = if scorer == Scorer::TfIdf { frequency_max.max(1.0) } else { len.max(1.0) };
            format!(
                "Final TFIDF : words TFIDF {sum:.2} * document score {score:.2} / norm {norm} / slop {distance}"
            )
        }
    };
    Explanation { line, parts: vec![matches] }
}
