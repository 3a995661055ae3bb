// SPDX-License-Identifier: BSD-3-Clause
//! Health checks: whether the process is alive (`/health`), and whether it should get clients
//! (`/ready`).
//!
//! Both need no password and reveal only one word, so that any load balancer or Kubernetes probe
//! can use them.

use std::sync::atomic::Ordering::Relaxed;

use braid_clients::attention::STOPPING;
use braid_engine::Engine;

/// Whether the server should get clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readiness {
    Ready,
    /// The dataset is being loaded: most commands are refused.
    Loading,
    /// The server is shutting down.
    Stopping,
}

impl Readiness {
    /// The present readiness.
    pub fn of(engine: &Engine) -> Readiness {
        if engine.shutdown.load(Relaxed) || engine.attention.get() & STOPPING != 0 {
            Readiness::Stopping
        } else if engine.config.is_loading() {
            Readiness::Loading
        } else {
            Readiness::Ready
        }
    }

    /// The word in the reply.
    pub fn name(self) -> &'static str {
        match self {
            Readiness::Ready => "ready",
            Readiness::Loading => "loading",
            Readiness::Stopping => "stopping",
        }
    }
}
