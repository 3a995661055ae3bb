// SPDX-License-Identifier: BSD-3-Clause
//! Joins the engine and its services as the configuration asks.

use std::sync::Arc;

use braid_active_node::{peers, state};
use braid_cluster_node::{group, identity};
use braid_config::Config;
use braid_executor::services::Services;
use braid_executor::{Engine, Rows, durability, feeds, settings};
use braid_process::{Process, Start};
use braid_replica::{role, sync_writes};

use crate::follow_settings::follow_settings;

/// Creates the engine with its services. The services' threads are started later, when there is
/// something to serve.
///
/// # Errors
/// The configuration asks for something that is impossible, or the process is out of file
/// descriptors.
pub fn start(config: Arc<Config>, commands: Rows, start: Start) -> std::io::Result<Arc<Engine>> {
    let process = Process::new(start, &config);
    let services = services_of(&config, &process).map_err(std::io::Error::other)?;
    let engine = Engine::new(config, commands, process, services, durability::tell_durable)?;
    braid_search_node::attach(&engine);
    settings::apply_settings(&engine);
    sync_writes::apply_sync_writes(&engine);
    follow_settings(&engine);
    sync_writes::check_sync_writes(&engine, &engine.config).map_err(std::io::Error::other)?;
    role::begin_in_configured_role(&engine);
    let defined = braid_feed::parse(&engine.config.change_feeds());
    defined.and_then(|list| feeds::begin_feeds(&engine, list)).map_err(std::io::Error::other)?;
    // A failure is in the log.
    let _ = settings::apply_oom_score(&engine);
    peers::begin_active(&engine);
    Ok(engine)
}

fn services_of(config: &Config, process: &Process) -> Result<Services, String> {
    let cluster = identity::of_config(config)?;
    let group = group::of_config(config, &process.run_id)?;
    let active = state::of_config(config)?;
    Ok(Services { group, cluster, active })
}
