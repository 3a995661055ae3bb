// SPDX-License-Identifier: BSD-3-Clause
//! braid-top: a live view of a server in the terminal.
//!
//! Flow: [`sample`] queries the server (INFO, and the data of the open panel) once per interval;
//! [`view`] turns two samples into rates and shares; [`screen`] draws them according to the state
//! in [`app`], which key input changes; [`once`] prints one view for scripts.
//!
//! Works with every server that supports INFO: values that a server does not report are left out,
//! never guessed. It must never change the server or put load on it (one INFO per interval;
//! anything more expensive only while its panel is open).
#![forbid(unsafe_code)]

pub mod active;
pub mod app;
pub mod group;
pub mod links;
pub mod once;
pub mod options;
pub mod panels;
pub mod sample;
pub mod screen;
pub mod slots;
pub mod view;

#[cfg(test)]
mod recorded;
