// SPDX-License-Identifier: BSD-3-Clause
//! The dashboard page: one file without external resources.

/// The page.
pub const PAGE: &str = include_str!("page.html");

/// Content security policy of the page: it may run and show only its own content, and connect
/// only to this server.
pub const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                          connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
