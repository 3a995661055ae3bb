// SPDX-License-Identifier: BSD-3-Clause
//! Health checks: whether the process serves (`/health`), and whether clients should be sent to it (`/ready`).
//!
//! Both need no password and tell nothing but one word, so that any load balancer or Kubernetes probe can ask.

use std::sync::atomic::Ordering::Relaxed;

use braid_clients::attention::STOPPING;
use braid_engine::Engine;

/// Whether clients should be sent to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readiness {
    Ready,
    /// The dataset is being loaded: most commands are refused.
    Loading,
    /// The server is shutting down.
    Stopping,
}

impl Readiness {
    /// As it is now.
    pub fn of(engine: &Engine) -> Readiness {
        if engine.shutdown.load(Relaxed) || engine.attention.get() & STOPPING != 0 {
            Readiness::Stopping
        } else if engine.config.is_loading() {
            Readiness::Loading
        } else {
            Readiness::Ready
        }
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Readiness::Ready => "ready",
            Readiness::Loading => "loading",
            Readiness::Stopping => "stopping",
        }
    }
}
