// SPDX-License-Identifier: BSD-3-Clause
//! braid-top: what a server does right now, in the terminal.
//!
//! Flow: [`sample`] asks the server (INFO, and what the open panel needs) once per interval;
//! [`view`] turns two samples into rates and shares; [`screen`] draws them as [`app`]'s state says,
//! which keys change; [`once`] prints one view for scripts.
//!
//! Works with every server that answers INFO: what a server does not tell is left out, never
//! guessed. What it must never do: change the server, or load it (one INFO per interval; anything
//! dearer only while its panel is open).
#![forbid(unsafe_code)]

pub mod app;
pub mod links;
pub mod once;
pub mod options;
pub mod panels;
pub mod sample;
pub mod screen;
pub mod view;

#[cfg(test)]
mod recorded;
