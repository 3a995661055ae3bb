// SPDX-License-Identifier: BSD-3-Clause
//! Helpers shared by tests of this crate.

use std::sync::Arc;

use braid_config::Config;

use crate::cluster_map::ClusterMap;
use crate::engine::Engine;
use crate::engine::call::Call;
use crate::engine::row::{Row, Rows};
use crate::services::{ClusterMode, ClusterService, Services};
use crate::transaction::SlotBatch;
use braid_process::{Process, Start};

/// A cluster node without a service.
struct MapOnly;

impl ClusterService for MapOnly {
    fn answer_slot_batch(&self, _: &mut Call<'_, '_>, _: SlotBatch) {}
}

/// The engine of a node of a cluster of several, with only these commands.
pub(crate) fn cluster_engine(folder: &tempfile::TempDir, rows: &'static [Row]) -> Arc<Engine> {
    let config = Config::new();
    let settings = format!("dir {}\nio-threads 1\nshards 16\ncluster-enabled yes\n", folder.path().display());
    config.load_text(&settings).expect("valid settings");
    let process = Process::new(Start::default(), &config);
    let map = Some(ClusterMap::new("a".repeat(40).as_str().into()));
    let cluster = Some(ClusterMode { map, service: Arc::new(MapOnly) });
    let services = Services { cluster, ..Services::default() };
    Engine::new(Arc::new(config), Rows::new(&[rows]), process, services, |_| ()).expect("an engine")
}
