// SPDX-License-Identifier: BSD-3-Clause
//! A query as FT.EXPLAIN shows it: the tree, and what stands for each word.
//!
//! It shows what is run: what can match nothing is `<empty>`, a tag is one text.

use crate::query::{Knn, Node, Query, Range, Shape, TagMatch, VectorOptions, Wanted};
use crate::schema::{FieldId, Schema};
use crate::text::{Language, Stems};
use crate::words::Synonyms;

/// The tree of a query, a line each.
pub fn explain(query: &Query, schema: &Schema, language: Language, synonyms: &Synonyms) -> String {
    let mut writer = Writer { schema, stems: Stems::of(language), synonyms, out: String::new(), depth: 0 };
    match &query.knn {
        None => writer.node(&query.root),
        Some(knn) => writer.nearest(&query.root, knn),
    }
    writer.out
}

struct Writer<'a> {
    schema: &'a Schema,
    stems: Stems,
    synonyms: &'a Synonyms,
    out: String,
    depth: usize,
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        self.out.extend(std::iter::repeat_n("  ", self.depth));
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn group(&mut self, open: &str, close: &str, content: impl FnOnce(&mut Self)) {
        self.line(open);
        self.depth += 1;
        content(self);
        self.depth -= 1;
        self.line(close);
    }

    fn name(&self, field: FieldId) -> &str {
        &self.schema.field(field).name
    }

    /// The text fields of a mask, in front of what is looked for in them.
    fn scope(&self, fields: u128) -> String {
        if fields == u128::MAX {
            return String::new();
        }
        let ids = 0..self.schema.fields().len() as FieldId;
        let named = ids.filter(|id| self.schema.text_mask(*id) & fields != 0);
        let names: Vec<&str> = named.map(|id| self.name(id)).collect();
        format!("@{}:", names.join("|"))
    }

    fn node(&mut self, node: &Node) {
        let weight = if node.weight == 1.0 { String::new() } else { format!("$weight: {};", node.weight) };
        match &node.wanted {
            Wanted::Nothing => self.line("<empty>"),
            Wanted::Everything => self.line("<WILDCARD>"),
            Wanted::Word { word, fields, expand } => self.word(word, *fields, *expand, &weight),
            Wanted::Words { shape, fields } => {
                let line = format!("{}{}{}", self.scope(*fields), shaped(shape), short(&weight));
                self.line(&line);
            }
            Wanted::All { children, slop, in_order } => {
                let is_word = |child: &Node| matches!(&child.wanted, Wanted::Word { expand, .. } if !expand);
                if *slop == Some(0) && *in_order && children.iter().all(is_word) {
                    let fields = children.iter().find_map(fields_of).unwrap_or(u128::MAX);
                    let open = format!("{}EXACT {{", self.scope(fields));
                    self.group(&open, &format!("}}{}", long(&weight)), |writer| writer.nodes(children));
                    return;
                }
                let mut attributes = weight;
                if slop.is_some() || *in_order {
                    let slop = slop.map_or(-1, i64::from);
                    let space = if attributes.is_empty() { "" } else { " " };
                    attributes = format!("{attributes}{space}$slop: {slop}; $inorder: {in_order};");
                }
                self.group("INTERSECT {", &format!("}}{}", long(&attributes)), |writer| {
                    writer.nodes(children)
                });
            }
            Wanted::Any(children) => {
                self.group("UNION {", &format!("}}{}", long(&weight)), |writer| writer.nodes(children));
            }
            Wanted::Not(child) => self.group("NOT{", "}", |writer| writer.node(child)),
            Wanted::Optional(child) => self.group("OPTIONAL{", "}", |writer| writer.node(child)),
            Wanted::Tags { field, tags } => {
                let open = format!("TAG:@{} {{", self.name(*field));
                self.group(&open, &format!("}}{}", long(&weight)), |writer| {
                    for tag in tags {
                        match tag {
                            TagMatch::Exactly(tag) => writer.line(tag),
                            TagMatch::Like(shape) => writer.line(&shaped(shape)),
                        }
                    }
                });
            }
            Wanted::Numbers { field, range } => {
                let line = format!("NUMERIC {{{}}}", shown_range(self.name(*field), range));
                self.line(&line);
            }
            Wanted::Near { field, area } => {
                let metres = crate::query::geo_unit(area.unit.as_bytes()).map_or(1.0, |(_, metres)| metres);
                let (x, y, radius) = (area.longitude, area.latitude, area.radius / metres);
                let name = self.name(*field);
                let line = format!("GEO {name}:{{{x:.6},{y:.6} --> {radius:.6} {}}}", area.unit);
                self.line(&line);
            }
            Wanted::Missing(field) => {
                let line = format!("ISMISSING{{{}}}", self.name(*field));
                self.line(&line);
            }
            Wanted::VectorsWithin { field, radius, options, .. } => {
                let line = format!(
                    "VECTOR {{Vectors that are within {radius} distance radius from `${}` in vector index \
                     associated with field @{}{}}}",
                    options.parameter,
                    self.name(*field),
                    shown_options(options)
                );
                self.line(&line);
            }
        }
    }

    fn nodes(&mut self, nodes: &[Node]) {
        nodes.iter().for_each(|node| self.node(node));
    }

    /// A word with what is searched too: its groups of synonyms, its stem.
    fn word(&mut self, word: &str, fields: u128, expand: bool, weight: &str) {
        let scope = self.scope(fields);
        let own = format!("{scope}{word}{}", short(weight));
        let mut others: Vec<String> = Vec::new();
        if expand {
            let groups = self.synonyms.groups(word).map(|group| format!("~{group}"));
            let stem = self.stems.stem_any(word);
            let stems = stem.iter().map(|stem| format!("+{stem}"));
            let plain = stem.iter().filter(|stem| **stem != word).map(|stem| stem.to_string());
            others = groups.chain(stems).chain(plain).collect();
        }
        if others.is_empty() {
            return self.line(&own);
        }
        self.group(&format!("{scope}UNION {{"), "}", |writer| {
            writer.line(&own);
            others.iter().for_each(|other| writer.line(&format!("{scope}{other}(expanded)")));
        });
    }

    fn nearest(&mut self, root: &Node, knn: &Knn) {
        let options = &knn.options;
        let what = format!(
            "{{K={} nearest vectors to `${}` in vector index associated with field @{}{}}}",
            knn.count,
            options.parameter,
            self.name(knn.field),
            shown_options(options)
        );
        if root.wanted == Wanted::Everything {
            return self.line(&format!("VECTOR {what}"));
        }
        self.group("VECTOR {", &format!("}} => {what}"), |writer| writer.node(root));
    }
}

fn fields_of(node: &Node) -> Option<u128> {
    match &node.wanted {
        Wanted::Word { fields, .. } => Some(*fields),
        _ => None,
    }
}

/// Attributes of a word.
fn short(attributes: &str) -> String {
    if attributes.is_empty() { String::new() } else { format!(" => {{{attributes}}}") }
}

/// Attributes of a group.
fn long(attributes: &str) -> String {
    if attributes.is_empty() { String::new() } else { format!(" => {{ {attributes} }}") }
}

fn shaped(shape: &Shape) -> String {
    match shape {
        Shape::Prefix(text) => format!("PREFIX{{{text}*}}"),
        Shape::Suffix(text) => format!("SUFFIX{{*{text}}}"),
        Shape::Infix(text) => format!("INFIX{{*{text}*}}"),
        Shape::Wildcard(pattern) => format!("WILDCARD{{{pattern}}}"),
        Shape::Fuzzy(text, _) => format!("FUZZY{{{text}}}"),
    }
}

fn shown_range(name: &str, range: &Range) -> String {
    let sign = |is_without: bool| if is_without { "<" } else { "<=" };
    let (low, high) = (sign(range.without_min), sign(range.without_max));
    format!("{:.6} {low} @{name} {high} {:.6}", range.min, range.max)
}

fn shown_options(options: &VectorOptions) -> String {
    let ef = options.ef_runtime.map(|ef| format!(", EF_RUNTIME = {ef}"));
    let epsilon = options.epsilon.map(|epsilon| format!(", EPSILON = {epsilon}"));
    let distance = options.distance_as.as_ref().map(|name| format!(", yields distance as `{name}`"));
    ef.into_iter().chain(epsilon).chain(distance).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Options, parse};
    use crate::schema::{Field, Kind};

    /// As Redis Stack 7.4 shows them.
    #[test]
    fn queries_are_shown_as_trees() {
        let fields = vec![
            Field::text("t"),
            Field::text("u"),
            Field::tag("g"),
            Field::numeric("n"),
            Field::new("l", Kind::Geo),
            Field::new("v", Kind::Vector),
        ];
        let schema = Schema::new(fields).unwrap();
        let mut synonyms = Synonyms::default();
        synonyms.add("grp1", ["hello", "hi"]);
        for (text, expected) in [
            ("hello", "UNION {\n  hello\n  ~grp1(expanded)\n  +hello(expanded)\n}\n"),
            ("worlds", "UNION {\n  worlds\n  +world(expanded)\n  world(expanded)\n}\n"),
            ("@t|u:foo", "@t|u:UNION {\n  @t|u:foo\n  @t|u:+foo(expanded)\n}\n"),
            ("\"foo bar\"", "EXACT {\n  foo\n  bar\n}\n"),
            ("@t:\"foo bar\"", "@t:EXACT {\n  @t:foo\n  @t:bar\n}\n"),
            ("he*", "PREFIX{he*}\n"),
            ("*lo", "SUFFIX{*lo}\n"),
            ("%%hello%%", "FUZZY{hello}\n"),
            ("@n:[1 (2]", "NUMERIC {1.000000 <= @n < 2.000000}\n"),
            ("@n:[-inf +inf]", "NUMERIC {-inf <= @n <= inf}\n"),
            ("@l:[1.5 2 3 mi]", "GEO l:{1.500000,2.000000 --> 3.000000 mi}\n"),
            ("@g:{he*|x}", "TAG:@g {\n  PREFIX{he*}\n  x\n}\n"),
            ("-foo ~bar", "INTERSECT {\n  NOT{\n    foo\n  }\n  OPTIONAL{\n    bar\n  }\n}\n"),
            ("-foo|he*", "UNION {\n  NOT{\n    foo\n  }\n  PREFIX{he*}\n}\n"),
            ("(foo)=>{$weight:2}", "UNION {\n  foo => {$weight: 2;}\n  +foo(expanded)\n}\n"),
            (
                "(-a1 -b1)=>{$slop:1;$inorder:true;$weight:2}",
                "INTERSECT {\n  NOT{\n    a1\n  }\n  NOT{\n    b1\n  }\n} => { $weight: 2; $slop: 1; $inorder: true; }\n",
            ),
            ("", "<empty>\n"),
            ("*", "<WILDCARD>\n"),
            (
                "*=>[KNN 3 @v $b]",
                "VECTOR {K=3 nearest vectors to `$b` in vector index associated with field @v, yields distance as `__v_score`}\n",
            ),
            (
                "-foo=>[KNN 3 @v $b EF_RUNTIME 5 AS d]",
                "VECTOR {\n  NOT{\n    foo\n  }\n} => {K=3 nearest vectors to `$b` in vector index associated with field @v, EF_RUNTIME = 5, yields distance as `d`}\n",
            ),
            (
                "@v:[VECTOR_RANGE 0.5 $b]=>{$yield_distance_as:d}",
                "VECTOR {Vectors that are within 0.5 distance radius from `$b` in vector index associated with field @v, yields distance as `d`}\n",
            ),
        ] {
            let mut options = Options::new(&schema);
            options.parameters = &[(b"b", b"12345678")];
            let query = parse(text, &options).unwrap();
            assert_eq!(explain(&query, &schema, Language::English, &synonyms), expected, "{text}");
        }
    }
}
