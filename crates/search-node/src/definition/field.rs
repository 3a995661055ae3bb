// SPDX-License-Identifier: BSD-3-Clause
//! One field of a schema, read from the arguments of FT.CREATE and FT.ALTER.

use braid_search::schema::{Field, Kind};
use braid_spec::CommandError;
use braid_vectors::{LINKS, Metric};

use super::FieldExtra;
use crate::arguments::{Arguments, error, lossy};

/// The longest vectors that RediSearch takes.
const DIMENSIONS_MAX: usize = 32_768 * 2;

/// How the numbers of a vector are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    Float32,
    Float64,
    Float16,
    BFloat16,
    Int8,
    UInt8,
}

impl ElementType {
    pub fn name(self) -> &'static str {
        match self {
            ElementType::Float32 => "FLOAT32",
            ElementType::Float64 => "FLOAT64",
            ElementType::Float16 => "FLOAT16",
            ElementType::BFloat16 => "BFLOAT16",
            ElementType::Int8 => "INT8",
            ElementType::UInt8 => "UINT8",
        }
    }

    pub fn bytes(self) -> usize {
        match self {
            ElementType::Float32 => 4,
            ElementType::Float64 => 8,
            ElementType::Float16 | ElementType::BFloat16 => 2,
            ElementType::Int8 | ElementType::UInt8 => 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Flat,
    Hnsw { links: u32, ef_construction: usize, ef_runtime: usize },
}

#[derive(Clone, Debug)]
pub struct VectorField {
    pub algorithm: Algorithm,
    pub element: ElementType,
    pub dimensions: u32,
    pub metric: Metric,
}

impl VectorField {
    /// The size of a vector in a hash or a query.
    pub fn bytes(&self) -> usize {
        self.dimensions as usize * self.element.bytes()
    }
}

/// Reads a field with its options.
///
/// # Errors
/// What is wrong with it.
pub fn parse_field(args: &mut Arguments<'_>, is_json: bool) -> Result<(Field, FieldExtra), CommandError> {
    let path = lossy(args.next().unwrap_or_default());
    let mut name = path.clone();
    if args.take("AS") {
        name = lossy(args.next().ok_or_else(|| error(format!("Field `{path}` does not have a type")))?);
    }
    let Some(kind) = args.next() else {
        return Err(error(format!("Field `{name}` does not have a type")));
    };
    let mut extra = FieldExtra::default();
    let kind = match kind.to_ascii_uppercase().as_slice() {
        b"TEXT" => parse_text(args, &mut extra)?,
        b"TAG" => parse_tag(args, is_json, &mut extra)?,
        b"NUMERIC" => Kind::Numeric,
        b"GEO" => Kind::Geo,
        b"GEOSHAPE" => return Err(error("GEOSHAPE fields are not supported")),
        b"VECTOR" => {
            extra.vector = Some(parse_vector(args)?);
            Kind::Vector
        }
        _ => return Err(error(format!("Invalid field type for field `{name}`"))),
    };
    let mut field = Field::new(&name, kind);
    field.path = path.into();
    parse_common(args, &mut field, &mut extra);
    Ok((field, extra))
}

fn parse_common(args: &mut Arguments<'_>, field: &mut Field, extra: &mut FieldExtra) {
    let is_vector = matches!(field.kind, Kind::Vector);
    field.index_empty |= extra.index_empty;
    field.index_missing |= extra.index_missing;
    loop {
        if !is_vector && args.take("SORTABLE") {
            field.sortable = true;
            extra.unf = args.take("UNF") || matches!(field.kind, Kind::Numeric | Kind::Geo);
            field.keep_case = extra.unf;
        } else if !is_vector && args.take("NOINDEX") {
            field.no_index = true;
        } else if args.take("INDEXMISSING") {
            field.index_missing = true;
        } else if matches!(field.kind, Kind::Text { .. } | Kind::Tag { .. }) && args.take("INDEXEMPTY") {
            field.index_empty = true;
        } else {
            return;
        }
    }
}

fn parse_text(args: &mut Arguments<'_>, extra: &mut FieldExtra) -> Result<Kind, CommandError> {
    let (mut weight, mut stem) = (1.0, true);
    loop {
        if args.take("WEIGHT") {
            weight = args.number("weight")?;
        } else if args.take("NOSTEM") {
            stem = false;
        } else if args.take("PHONETIC") {
            let matcher = lossy(args.value("PHONETIC")?);
            if !["dm:en", "dm:fr", "dm:pt", "dm:es"].contains(&matcher.as_str()) {
                return Err(error(
                    "Matcher Format: <2 chars algorithm>:<2 chars language>. Support algorithms: double \
                     metaphone (dm). Supported languages: English (en), French (fr), Portuguese (pt) and \
                     Spanish (es)",
                ));
            }
            extra.phonetic = Some(matcher);
        } else if !take_flag(args, extra) {
            return Ok(Kind::Text { weight, stem });
        }
    }
}

/// Takes a flag that fields of text and tags have in common, if it comes next.
fn take_flag(args: &mut Arguments<'_>, extra: &mut FieldExtra) -> bool {
    let flag = if args.take("WITHSUFFIXTRIE") {
        &mut extra.has_suffixes
    } else if args.take("INDEXEMPTY") {
        &mut extra.index_empty
    } else if args.take("INDEXMISSING") {
        &mut extra.index_missing
    } else {
        return false;
    };
    *flag = true;
    true
}

fn parse_tag(args: &mut Arguments<'_>, is_json: bool, extra: &mut FieldExtra) -> Result<Kind, CommandError> {
    let mut separator = (!is_json).then_some(b',');
    let mut case_sensitive = false;
    loop {
        if args.take("SEPARATOR") {
            let text = args.value("SEPARATOR")?;
            let &[byte] = text else {
                return Err(error(format!(
                    "Tag separator must be a single character. Got `{}`",
                    lossy(text)
                )));
            };
            separator = Some(byte);
        } else if args.take("CASESENSITIVE") {
            case_sensitive = true;
        } else if !take_flag(args, extra) {
            return Ok(Kind::Tag { separator, case_sensitive });
        }
    }
}

/// The parameters of a vector field as they are read.
#[derive(Default)]
struct Parameters {
    element: Option<ElementType>,
    dimensions: Option<u32>,
    metric: Option<Metric>,
    links: Option<u32>,
    ef_construction: Option<usize>,
    ef_runtime: Option<usize>,
}

fn parse_vector(args: &mut Arguments<'_>) -> Result<VectorField, CommandError> {
    const OF: &str = "vector similarity";
    let algorithm = args.value("vector similarity algorithm")?;
    let is_hnsw = match algorithm.to_ascii_uppercase().as_slice() {
        b"FLAT" => false,
        b"HNSW" => true,
        _ => return Err(error("Bad arguments for vector similarity algorithm: Unknown argument")),
    };
    let algorithm = if is_hnsw { "HNSW" } else { "FLAT" };
    let count: usize = args.number("vector similarity number of parameters")?;
    if !count.is_multiple_of(2) {
        return Err(error(format!(
            "Bad number of arguments for vector similarity index: got {count} but expected even number as \
             algorithm parameters (should be submitted as named arguments)"
        )));
    }
    let mut found = Parameters::default();
    for _ in 0..count / 2 {
        let name = args.value(&format!("{OF} {algorithm} index"))?;
        parse_parameter(args, name, algorithm, &mut found)?;
    }
    let missing = |what: &str| {
        error(format!(
            "Missing mandatory parameter: cannot create {algorithm} index without specifying {what} argument"
        ))
    };
    Ok(VectorField {
        element: found.element.ok_or_else(|| missing("TYPE"))?,
        dimensions: found.dimensions.ok_or_else(|| missing("DIM"))?,
        metric: found.metric.ok_or_else(|| missing("DISTANCE_METRIC"))?,
        algorithm: if is_hnsw {
            Algorithm::Hnsw {
                links: found.links.unwrap_or(16),
                ef_construction: found.ef_construction.unwrap_or(200),
                ef_runtime: found.ef_runtime.unwrap_or(10),
            }
        } else {
            Algorithm::Flat
        },
    })
}

fn parse_parameter(
    args: &mut Arguments<'_>,
    name: &[u8],
    algorithm: &str,
    found: &mut Parameters,
) -> Result<(), CommandError> {
    let of = |what: &str| format!("vector similarity {algorithm} index {what}");
    let unknown = |what: &str| error(format!("Bad arguments for {}: Unknown argument", of(what)));
    let outside =
        |what: &str| error(format!("Bad arguments for {}: Value is outside acceptable bounds", of(what)));
    match name.to_ascii_uppercase().as_slice() {
        b"TYPE" => {
            let element = args.value(&of("type"))?;
            found.element = Some(match element.to_ascii_uppercase().as_slice() {
                b"FLOAT32" => ElementType::Float32,
                b"FLOAT64" => ElementType::Float64,
                b"FLOAT16" => ElementType::Float16,
                b"BFLOAT16" => ElementType::BFloat16,
                b"INT8" => ElementType::Int8,
                b"UINT8" => ElementType::UInt8,
                _ => return Err(unknown("type")),
            });
        }
        b"DIM" => {
            let dimensions: usize = args.number(&of("dim"))?;
            if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
                return Err(outside("dim"));
            }
            found.dimensions = Some(dimensions as u32);
        }
        b"DISTANCE_METRIC" => {
            let metric = args.value(&of("metric"))?;
            found.metric = Some(match metric.to_ascii_uppercase().as_slice() {
                b"L2" => Metric::L2,
                b"IP" => Metric::InnerProduct,
                b"COSINE" => Metric::Cosine,
                _ => return Err(unknown("metric")),
            });
        }
        // How memory is allocated is decided here.
        b"INITIAL_CAP" => drop(args.number::<usize>(&of("initial cap"))?),
        b"BLOCK_SIZE" if algorithm == "FLAT" => drop(args.number::<usize>(&of("blocksize"))?),
        b"M" if algorithm == "HNSW" => {
            let links: u32 = args.number(&of("m"))?;
            if !LINKS.contains(&links) {
                return Err(outside("m"));
            }
            found.links = Some(links);
        }
        b"EF_CONSTRUCTION" if algorithm == "HNSW" => {
            let ef: usize = args.number(&of("efc"))?;
            found.ef_construction = Some(ef.clamp(1, 4096));
        }
        b"EF_RUNTIME" if algorithm == "HNSW" => {
            let ef: usize = args.number(&of("efr"))?;
            found.ef_runtime = Some(ef.clamp(1, 4096));
        }
        b"EPSILON" if algorithm == "HNSW" => drop(args.number::<f64>(&of("epsilon"))?),
        _ => return Err(error(format!("Bad arguments for algorithm {algorithm}: {}", lossy(name)))),
    }
    Ok(())
}
