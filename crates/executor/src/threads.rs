// SPDX-License-Identifier: BSD-3-Clause
//! Threads of services.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use crate::engine::Engine;

/// Starts a thread that does not keep the engine before it runs, and does nothing if the engine is
/// gone by then.
///
/// # Errors
/// The system has no thread left.
pub fn spawn(
    engine: &Engine,
    name: &str,
    run: impl FnOnce(&Arc<Engine>) + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let weak = engine.weak();
    Builder::new().name(name.into()).spawn(move || {
        if let Some(engine) = weak.upgrade() {
            run(&engine);
        }
    })
}
