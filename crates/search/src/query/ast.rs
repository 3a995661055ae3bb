// SPDX-License-Identifier: BSD-3-Clause
//! The tree of a query.

use crate::schema::FieldId;

#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub root: Node,
    pub knn: Option<Knn>,
}

/// A part of a query, with the weight of its score.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub wanted: Wanted,
    pub weight: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    Nothing,
    Everything,
    /// A word in any of the text fields of a mask. Its stem and synonyms are searched too if it is
    /// to be expanded.
    Word {
        word: String,
        fields: u128,
        expand: bool,
    },
    /// Words of a form, as many as the expansion's limit allows.
    Words {
        shape: Shape,
        fields: u128,
    },
    All {
        children: Vec<Node>,
        /// Words that may stand between.
        slop: Option<u32>,
        in_order: bool,
    },
    Any(Vec<Node>),
    Not(Box<Node>),
    /// Adds to scores only.
    Optional(Box<Node>),
    Tags {
        field: FieldId,
        tags: Vec<TagMatch>,
    },
    Numbers {
        field: FieldId,
        range: Range,
    },
    Near {
        field: FieldId,
        area: GeoArea,
    },
    Missing(FieldId),
    VectorsWithin {
        field: FieldId,
        radius: f64,
        vector: Vec<u8>,
        options: VectorOptions,
    },
}

/// The form of a word or tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    Prefix(String),
    Suffix(String),
    Infix(String),
    /// With `*` and `?`.
    Wildcard(String),
    /// At most so many changes away.
    Fuzzy(String, u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagMatch {
    Exactly(String),
    Like(Shape),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub min: f64,
    pub max: f64,
    pub without_min: bool,
    pub without_max: bool,
}

impl Range {
    pub fn contains(&self, value: f64) -> bool {
        let above = if self.without_min { value > self.min } else { value >= self.min };
        above && if self.without_max { value < self.max } else { value <= self.max }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeoArea {
    pub longitude: f64,
    pub latitude: f64,
    /// In metres.
    pub radius: f64,
    /// The unit that the client used.
    pub unit: &'static str,
}

/// What the vector index is told beyond the query vector.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VectorOptions {
    /// The name of the parameter that holds the vector.
    pub parameter: String,
    pub distance_as: Option<String>,
    pub ef_runtime: Option<u32>,
    pub epsilon: Option<f64>,
    /// How a search among filtered documents is to be run: a hint that changes no result.
    pub policy: Option<FilterPolicy>,
    pub batch_size: Option<u32>,
}

/// How RediSearch looks for the nearest among filtered documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterPolicy {
    Each,
    Batches,
}

/// The nearest documents among those of the rest of the query.
#[derive(Clone, Debug, PartialEq)]
pub struct Knn {
    pub field: FieldId,
    pub count: usize,
    pub vector: Vec<u8>,
    pub options: VectorOptions,
}

impl Node {
    pub fn new(wanted: Wanted) -> Node {
        Node { wanted, weight: 1.0 }
    }

    pub fn nothing() -> Node {
        Node::new(Wanted::Nothing)
    }

    pub fn is_nothing(&self) -> bool {
        self.wanted == Wanted::Nothing
    }

    /// Visits the nodes of a tree, this one first.
    pub fn visit<'a>(&'a self, see: &mut impl FnMut(&'a Node)) {
        see(self);
        match &self.wanted {
            Wanted::All { children, .. } | Wanted::Any(children) => {
                children.iter().for_each(|child| child.visit(see));
            }
            Wanted::Not(child) | Wanted::Optional(child) => child.visit(see),
            _ => {}
        }
    }
}
