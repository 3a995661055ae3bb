// SPDX-License-Identifier: BSD-3-Clause
//! A directive: the row type of the table, and its builder.
//!
//! A row states everything about a directive; reading, CONFIG GET and SET, rewriting and the
//! documentation are derived from it. It holds no value.

/// Unit of an integer, which determines its text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number.
    Plain,
    /// A plain number of seconds.
    Seconds,
    /// A plain number of milliseconds.
    Milliseconds,
    /// A plain number of microseconds.
    Microseconds,
    /// A plain number of percent.
    Percent,
    /// Bytes: `100`, `10k` (thousands), `10kb` (1024), `m`, `mb`, `g`, `gb`.
    Bytes,
    /// Bytes, or `n%` of maxmemory, stored as a negative number.
    BytesOrPercent,
    /// An octal number (permissions).
    Octal,
}

impl Unit {
    /// Whether the value is written as memory.
    pub const fn is_memory(self) -> bool {
        matches!(self, Unit::Bytes | Unit::BytesOrPercent)
    }
}

/// Directives whose value is a list or depends on the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `dir`: an existing directory.
    Directory,
    /// `save`: pairs of seconds and changes.
    Save,
    /// `client-output-buffer-limit`: class, hard, soft, seconds.
    ClientOutputBufferLimit,
    /// `oom-score-adj-values`: three numbers.
    OomScoreAdjValues,
    /// `notify-keyspace-events`: letters.
    NotifyKeyspaceEvents,
    /// `bind`: addresses.
    Bind,
    /// `replicaof`: host and port.
    ReplicaOf,
    /// `change-feed`: a name, a pattern of keys, and `keys` or `values`; several lines add up.
    ChangeFeed,
    /// `latency-tracking-info-percentiles`: numbers from 0 to 100.
    LatencyPercentiles,
}

/// Checks a switch; the error is the reason as a client reads it.
pub type SwitchCheck = fn(bool) -> Result<(), &'static str>;
/// Checks a text; the error is the reason as a client reads it.
pub type TextCheck = fn(&str) -> Result<(), &'static str>;
/// Checks an integer in range and may adjust it (`hz` is clamped, not refused).
pub type IntegerCheck = fn(i64) -> Result<i64, &'static str>;

/// The type of a directive with its default.
#[derive(Clone, Copy, Debug)]
pub enum DirectiveKind {
    /// `yes` or `no`.
    Bool { default: bool, check: Option<SwitchCheck>, also_true_false: bool },
    /// A number within bounds (both inclusive). Bounds above `i64::MAX` mean an unsigned 64-bit
    /// value.
    Integer { default: fn() -> i64, min: i128, max: i128, unit: Unit, check: Option<IntegerCheck> },
    /// A text. `empty_is_unset`: the empty text means "not set" and is not written to files.
    Text { default: &'static str, empty_is_unset: bool, check: Option<TextCheck> },
    /// One of several words.
    Enum { default: i64, words: &'static [(&'static str, i64)] },
    /// Several words, each a bit.
    Flags { default: i64, words: &'static [(&'static str, i64)] },
    /// A list, or a value with its own code.
    Special(Special),
}

/// When a directive may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutability {
    /// At any time, by CONFIG SET.
    Live,
    /// Only at start.
    Immutable,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Directive {
    /// Name written to files.
    pub name: &'static str,
    /// Other accepted names; CONFIG GET lists them as well.
    pub aliases: &'static [&'static str],
    /// Type and default.
    pub kind: DirectiveKind,
    /// Description, in a sentence or two.
    pub doc: &'static str,
    /// Accepted names that patterns of CONFIG GET do not list: tools that write back all values
    /// only know the main name.
    pub unlisted_aliases: &'static [&'static str],
    /// When it may change.
    pub mutability: Mutability,
    /// Not listed by patterns, only by its exact name.
    pub hidden: bool,
    /// Cannot change during a load.
    pub deny_loading: bool,
    /// Needs `enable-protected-configs`.
    pub protected: bool,
    /// Never printed.
    pub secret: bool,
    /// Hooks run even if the text is unchanged (the file of that name may have changed).
    pub always_applied: bool,
    /// Braid implements it; otherwise it is accepted and stored.
    pub takes_effect: bool,
    /// Without effect because Braid always does what `yes` requests.
    pub is_always_on: bool,
    /// It has an effect only if one of these start-time directives is set as well. Empty: no such
    /// condition.
    pub only_with: &'static [&'static str],
    /// Not in Redis 7.2. Setting its current value is not an error even if it is immutable,
    /// because tools that write back all values do not know about it.
    pub beyond_redis: bool,
    /// Inherently different on each node of a cluster: it cannot be set for all nodes.
    pub of_one_node: bool,
    /// Example and default text for the documentation if the real default depends on the machine.
    pub documented_default: Option<(&'static str, &'static str)>,
}

impl Directive {
    const fn new(name: &'static str, kind: DirectiveKind) -> Directive {
        Directive {
            name,
            aliases: &[],
            unlisted_aliases: &[],
            kind,
            doc: "",
            mutability: Mutability::Live,
            hidden: false,
            deny_loading: false,
            protected: false,
            secret: false,
            always_applied: false,
            takes_effect: true,
            is_always_on: false,
            only_with: &[],
            beyond_redis: false,
            of_one_node: false,
            documented_default: None,
        }
    }

    /// A yes/no directive.
    pub const fn switch(name: &'static str, default: bool) -> Directive {
        Directive::new(name, DirectiveKind::Bool { default, check: None, also_true_false: false })
    }

    /// A number; `default` is a function because one default depends on the machine.
    pub const fn integer(
        name: &'static str,
        default: fn() -> i64,
        min: i128,
        max: i128,
        unit: Unit,
    ) -> Directive {
        Directive::new(name, DirectiveKind::Integer { default, min, max, unit, check: None })
    }

    /// A text that may be empty.
    pub const fn text(name: &'static str, default: &'static str) -> Directive {
        Directive::new(name, DirectiveKind::Text { default, empty_is_unset: false, check: None })
    }

    /// A text that is unset by default; the empty text unsets it.
    pub const fn optional_text(name: &'static str) -> Directive {
        Directive::new(name, DirectiveKind::Text { default: "", empty_is_unset: true, check: None })
    }

    /// One of several words.
    pub const fn choice(
        name: &'static str,
        default: i64,
        words: &'static [(&'static str, i64)],
    ) -> Directive {
        Directive::new(name, DirectiveKind::Enum { default, words })
    }

    /// Several words, each a bit.
    pub const fn flags(name: &'static str, default: i64, words: &'static [(&'static str, i64)]) -> Directive {
        Directive::new(name, DirectiveKind::Flags { default, words })
    }

    /// A list.
    pub const fn special(name: &'static str, special: Special) -> Directive {
        Directive::new(name, DirectiveKind::Special(special))
    }

    /// Sets other names.
    pub const fn aliases(mut self, aliases: &'static [&'static str]) -> Directive {
        self.aliases = aliases;
        self
    }

    /// Sets other names that patterns do not list.
    pub const fn unlisted_aliases(mut self, aliases: &'static [&'static str]) -> Directive {
        self.unlisted_aliases = aliases;
        self
    }

    /// Marks it as absent from Redis 7.2.
    pub const fn beyond_redis(mut self) -> Directive {
        self.beyond_redis = true;
        self
    }

    /// Marks it as one that nodes of a cluster cannot share.
    pub const fn of_one_node(mut self) -> Directive {
        self.of_one_node = true;
        self
    }

    /// Sets the documentation.
    pub const fn doc(mut self, doc: &'static str) -> Directive {
        self.doc = doc;
        self
    }

    /// Makes it settable only at start.
    pub const fn immutable(mut self) -> Directive {
        self.mutability = Mutability::Immutable;
        self
    }

    /// Hides it from patterns.
    pub const fn hidden(mut self) -> Directive {
        self.hidden = true;
        self
    }

    /// Forbids changes during a load.
    pub const fn deny_loading(mut self) -> Directive {
        self.deny_loading = true;
        self
    }

    /// Requires `enable-protected-configs`.
    pub const fn protected(mut self) -> Directive {
        self.protected = true;
        self
    }

    /// Hides its value.
    pub const fn secret(mut self) -> Directive {
        self.secret = true;
        self
    }

    /// Runs its hooks even when the text is unchanged.
    pub const fn always_applied(mut self) -> Directive {
        self.always_applied = true;
        self
    }

    /// Marks it as accepted but not yet implemented.
    pub const fn no_effect_yet(mut self) -> Directive {
        self.takes_effect = false;
        self
    }

    /// Marks it as accepted without effect: Braid always does what `yes` requests.
    pub const fn always_on(mut self) -> Directive {
        self.takes_effect = false;
        self.is_always_on = true;
        self
    }

    /// Sets the directives one of which must be set for this one to have an effect.
    pub const fn only_with(mut self, names: &'static [&'static str]) -> Directive {
        self.only_with = names;
        self
    }

    /// Sets the example and the description of the default in the documentation.
    pub const fn documented_default(mut self, example: &'static str, sentence: &'static str) -> Directive {
        self.documented_default = Some((example, sentence));
        self
    }

    /// Adds a check to a text.
    pub const fn text_check(mut self, added: TextCheck) -> Directive {
        if let DirectiveKind::Text { default, empty_is_unset, .. } = self.kind {
            self.kind = DirectiveKind::Text { default, empty_is_unset, check: Some(added) };
        }
        self
    }

    /// Adds a check to an integer.
    pub const fn integer_check(mut self, added: IntegerCheck) -> Directive {
        if let DirectiveKind::Integer { default, min, max, unit, .. } = self.kind {
            self.kind = DirectiveKind::Integer { default, min, max, unit, check: Some(added) };
        }
        self
    }

    /// Adds a check to a yes/no directive.
    pub const fn switch_check(mut self, added: SwitchCheck) -> Directive {
        if let DirectiveKind::Bool { default, also_true_false, .. } = self.kind {
            self.kind = DirectiveKind::Bool { default, check: Some(added), also_true_false };
        }
        self
    }

    /// Also accepts `true` and `false` for a yes/no directive.
    pub const fn also_true_false(mut self) -> Directive {
        if let DirectiveKind::Bool { default, check, .. } = self.kind {
            self.kind = DirectiveKind::Bool { default, check, also_true_false: true };
        }
        self
    }

    /// True if its value is a single number, readable with one atomic load.
    pub const fn is_scalar(&self) -> bool {
        match self.kind {
            DirectiveKind::Bool { .. }
            | DirectiveKind::Integer { .. }
            | DirectiveKind::Enum { .. }
            | DirectiveKind::Flags { .. } => true,
            DirectiveKind::Special(special) => matches!(special, Special::NotifyKeyspaceEvents),
            DirectiveKind::Text { .. } => false,
        }
    }

    /// True if its value has this code of its own.
    pub fn kind_is(&self, expected: Special) -> bool {
        matches!(self.kind, DirectiveKind::Special(special) if special == expected)
    }

    /// True if it takes several arguments.
    pub const fn takes_several(&self) -> bool {
        match self.kind {
            DirectiveKind::Flags { .. } => true,
            DirectiveKind::Special(special) => {
                !matches!(special, Special::Directory | Special::NotifyKeyspaceEvents)
            }
            _ => false,
        }
    }
}

/// A group of directives, as shown in the example file and the documentation.
pub struct Section {
    /// Heading.
    pub title: &'static str,
    /// Its rows.
    pub directives: &'static [Directive],
}
