// SPDX-License-Identifier: BSD-3-Clause
//! Configuration: every directive with its name, type, default and meaning; reading, changing,
//! rewriting.
//!
//! One row in `rows/` states everything about a directive (see [`Directive`]). From it follow the
//! typed accessors of [`Config`], CONFIG GET and SET with stock servers' error texts, the reader
//! of redis.conf syntax, CONFIG REWRITE, the example file `braid.conf` and
//! `docs/configuration.md`.
//!
//! This crate must not know sockets, keys or commands: the server registers hooks that apply new
//! values ([`Config::on_change`]). It never prints a secret and never ends the process.
#![forbid(unsafe_code)]

mod arguments;
mod change;
mod config;
mod directive;
pub mod docs;
mod enums;
mod error;
mod keydb;
mod number;
mod reader;
mod rewrite;
mod rows;
mod special;
pub mod subnets;
mod text;
mod value;
mod values;

pub use arguments::{Arguments, Request};
pub use change::{Change, Origin};
pub use config::{Config, REDACTED, find_directive, is_secret};
pub use directive::{Directive, DirectiveKind, Mutability, Section, Special, Unit};
pub use enums::*;
pub use error::{ConfigError, Source, SourceLine};
pub use number::parse_memory;
pub use reader::{Loaded, Renamed, UserLine};
pub use rewrite::{ExtraLines, REWRITE_SIGNATURE, replace_file};
pub use rows::SECTIONS;
pub use special::{ClientClass, MasterAddress, NotifyFlags, OutputLimit, SavePoint};
pub use text::{fill_template, quote, quote_if_needed, split_arguments};
pub use value::parse_version;
