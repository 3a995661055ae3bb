// SPDX-License-Identifier: BSD-3-Clause
//! The dashboard page: one file without external resources.

/// The page.
pub const PAGE: &str = include_str!("page.html");

/// What a browser may do for the page: run and show what stands in it and ask this server, nothing
/// else.
pub const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                          connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
