// SPDX-License-Identifier: BSD-3-Clause
//! Helpers shared by tests of this crate.

use std::sync::Arc;

use braid_config::Config;
use braid_executor::services::Services;
use braid_executor::{Engine, Row, Rows};
use braid_process::{Process, Start};

use crate::{group, identity};

/// The engine of a node of a cluster of several, with only these commands. There is no etcd.
pub(crate) fn cluster_engine(folder: &tempfile::TempDir, rows: &'static [Row]) -> Arc<Engine> {
    let config = Config::new();
    let settings = format!(
        "dir {}\nio-threads 1\nshards 16\ncluster-enabled yes\ncluster-name test\nnode-name a\n\
         etcd-endpoints 127.0.0.1:1\n",
        folder.path().display()
    );
    config.load_text(&settings).expect("valid settings");
    let process = Process::new(Start::default(), &config);
    let cluster = identity::of_config(&config).expect("a node");
    let group = group::of_config(&config, &process.run_id).expect("a group");
    let services = Services { group, cluster, active: None };
    Engine::new(Arc::new(config), Rows::new(&[rows]), process, services, |_| ()).expect("an engine")
}
