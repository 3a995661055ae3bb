// SPDX-License-Identifier: BSD-3-Clause
//! The process: its identity, when and how it was started, the Redis version it reports; the
//! service manager that started it, its rank for the out-of-memory killer, the memory that its
//! container may use; its TLS settings, and how it connects to other servers.
//!
//! What is here is the same for every thread, and knows no keys and no clients.
#![forbid(unsafe_code)]

pub mod connector;
pub mod memory;
pub mod oom_score;
pub mod supervisor;
pub mod tls;

use std::path::{Path, PathBuf};

use braid_base::clock::unix_ms;
use braid_config::Config;

use crate::oom_score::OomScore;
use crate::supervisor::Supervisor;

/// Process arguments and environment.
#[derive(Default)]
pub struct Start {
    pub config_file: Option<PathBuf>,
    pub executable: String,
    pub supervisor: Supervisor,
}

/// Properties that are fixed for the life of the process.
pub struct Process {
    /// Random hex digits that identify this process.
    pub run_id: String,
    /// Unix time of the start, in seconds.
    pub started_at: i64,
    /// The reported version of Redis (`redis-version`).
    pub redis_version: [u8; 3],
    /// The configuration file, if the server was started with one.
    pub config_file: Option<PathBuf>,
    /// The program's path and arguments.
    pub executable: String,
    /// The service manager that started the server.
    pub supervisor: Supervisor,
    /// The processors that the process had at its start.
    pub processors: Vec<usize>,
    pub oom_score: OomScore,
    /// Memory that the container may use, in bytes, if that is limited.
    pub container_memory_bytes: Option<u64>,
}

impl Process {
    /// A process that starts now.
    pub fn new(start: Start, config: &Config) -> Process {
        Process {
            run_id: braid_replication::random_id(),
            started_at: unix_ms() / 1000,
            // Validated by the directive's check.
            redis_version: braid_config::parse_version(&config.redis_version()).unwrap_or_default(),
            config_file: start.config_file,
            executable: start.executable,
            supervisor: start.supervisor,
            processors: braid_net::affinity::allowed(),
            oom_score: OomScore::default(),
            container_memory_bytes: memory::container_limit_bytes(Path::new("/")),
        }
    }

    /// True if the reported version is Redis 8 or later, which changes some replies.
    pub fn follows_redis_8(&self) -> bool {
        self.redis_version >= [8, 0, 0]
    }

    /// Seconds since the start.
    pub fn uptime_seconds(&self) -> i64 {
        unix_ms() / 1000 - self.started_at
    }
}
