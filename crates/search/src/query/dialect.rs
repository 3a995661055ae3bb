// SPDX-License-Identifier: BSD-3-Clause
//! Whether dialect 1 understands a query as dialect 2 does. Queries are parsed by the grammar of
//! dialect 2 only; one that dialect 1 takes for something else is refused rather than answered.
//!
//! Where they differ: in dialect 1 a sign holds for all that follows, and so does a field's name
//! for words that follow its word; `|` binds tighter next to anything but plain words; and there
//! are no parameters, patterns, comparisons, `ismissing` or nearest vectors.
//!
//! A query of which this is not certain counts as different.

use super::lexer::{Lexeme, Placed};

/// What has been seen between two parentheses.
#[derive(Default)]
struct Level {
    has_bar: bool,
    /// What `|` binds differently with.
    has_other: bool,
    sign: Sign,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Sign {
    #[default]
    None,
    /// The next part is what it holds for.
    Open,
    /// In dialect 1 it holds for the next part too.
    Used,
}

impl Level {
    /// Begins a part; false if a sign before the former one holds for it too.
    fn part(&mut self) -> bool {
        let is_free = self.sign != Sign::Used;
        if self.sign == Sign::Open {
            self.sign = Sign::Used;
        }
        is_free
    }

    fn is_alike(&self) -> bool {
        !(self.has_bar && self.has_other)
    }
}

/// True if dialect 1 has this form of a range or of tags.
fn is_old_value(inner: &[Placed], is_range: bool) -> bool {
    let is_new =
        |one: &Placed| matches!(one.lexeme, Lexeme::Parameter(_) | Lexeme::Pattern(_) | Lexeme::Quoted(_));
    let is_bound = |one: &&Placed| matches!(one.lexeme, Lexeme::Number(_) | Lexeme::Word(_));
    let is_single = is_range && inner.iter().filter(is_bound).count() < 2;
    !is_single && !inner.iter().any(is_new)
}

/// True if both dialects understand a query alike.
pub fn is_alike(lexemes: &[Placed], is_stop_word: impl Fn(&str) -> bool) -> bool {
    let at = |index: usize| lexemes.get(index).map_or(&Lexeme::End, |placed| &placed.lexeme);
    let is = |index: usize, symbol: &str| matches!(at(index), Lexeme::Symbol(found) if *found == symbol);
    let end_of = |start: usize, symbol: &str| (start..lexemes.len()).find(|&index| is(index, symbol));
    let (mut levels, mut index) = (vec![Level::default()], 0);
    while let Some(level) = levels.last_mut() {
        match at(index) {
            Lexeme::End => return levels.iter().all(Level::is_alike),
            Lexeme::Parameter(_) | Lexeme::Pattern(_) => return false,
            Lexeme::Symbol("-" | "~") => {
                level.has_other = true;
                level.sign = Sign::Open;
            }
            Lexeme::Symbol("|") => {
                level.has_bar = true;
                if level.sign != Sign::None {
                    return false;
                }
            }
            Lexeme::Symbol("(") => {
                if !level.part() {
                    return false;
                }
                levels.push(Level::default());
            }
            Lexeme::Symbol(")") => {
                if levels.pop().is_some_and(|level| !level.is_alike()) {
                    return false;
                }
            }
            // Attributes of a part: their names are written as parameters are.
            Lexeme::Symbol("=>") => match end_of(index, "}").filter(|_| is(index + 1, "{")) {
                Some(end) => index = end,
                None => return false,
            },
            Lexeme::Symbol("%") => {
                if !level.part() {
                    return false;
                }
                let Some(word) = (index..lexemes.len()).find(|&index| !is(index, "%")) else { return false };
                index = (word + 1..lexemes.len()).find(|&index| !is(index, "%")).unwrap_or(word + 1) - 1;
            }
            Lexeme::Word(word) if word.eq_ignore_ascii_case("ismissing") && is(index + 1, "(") => {
                return false;
            }
            Lexeme::Word(_) | Lexeme::Number(_) | Lexeme::Quoted(_) => {
                level.has_other |= matches!(at(index), Lexeme::Word(word) if is_stop_word(word));
                if !level.part() {
                    return false;
                }
            }
            Lexeme::Field(_) => {
                level.has_other = true;
                if !level.part() {
                    return false;
                }
                while is(index + 1, "|") {
                    index += 2;
                }
                index += 1;
                if !is(index, ":") {
                    return false;
                }
                let value = index + 1;
                let closing = if is(value, "[") { "]" } else { "}" };
                match at(value) {
                    Lexeme::Symbol("[" | "{") => {
                        let Some(end) = end_of(value, closing) else { return false };
                        if !is_old_value(&lexemes[value + 1..end], closing == "]") {
                            return false;
                        }
                        index = end;
                    }
                    Lexeme::Word(_) | Lexeme::Number(_) => {
                        if matches!(at(value + 1), Lexeme::Word(_) | Lexeme::Number(_)) || is(value + 1, "|")
                        {
                            return false;
                        }
                        index = value;
                    }
                    // What is in parentheses, a phrase or a shape has an end.
                    _ => {}
                }
            }
            Lexeme::Symbol(_) => {}
        }
        index += 1;
    }
    // More parentheses are closed than were opened: that is an error in both.
    true
}
