// SPDX-License-Identifier: BSD-3-Clause
//! Orders of slot moves, as stored in etcd ([`MoveOrder`]): operators order and cancel, and the
//! primary of the shard that has the slots carries the orders out.
//!
//! An order outlives attempts at it. An attempt that ends because either side has ended, or is no
//! longer primary, leaves the order, and the source's primary begins again from the map of that
//! time. An order is removed by the transaction that hands the slots over, by an operator who
//! cancels it, or by the source if another attempt is pointless.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::{boot_nanos, unix_ms};
use braid_executor::cluster_map::ClusterView;
use braid_executor::engine::Engine;
use braid_executor::state::slot_moves::Move;
use braid_group::cluster::changes::{LocalIdentity, Operator};
use braid_group::cluster::{MoveOrder, SlotSet};
use braid_replication::random_id;

use crate::group::changes::{self, ChangeError};
use crate::slot_moves::export;

/// Orders moves: each has slots of this server's shard, and the id of the node that gets
/// them. Returns the moves' names. Blocks.
///
/// # Errors
/// A refusal of the orders, or a failure of etcd.
pub fn order_moves(
    engine: &Engine,
    me: &LocalIdentity,
    wanted: Vec<(SlotSet, Arc<str>)>,
) -> Result<Vec<Arc<str>>, ChangeError> {
    let one = |(slots, target)| (Arc::from(random_id()), slots, target);
    let moves: Vec<(Arc<str>, SlotSet, Arc<str>)> = wanted.into_iter().map(one).collect();
    changes::change_cluster(engine, me, |operator| operator.order_moves(&moves, unix_ms()))?;
    Ok(moves.into_iter().map(|(name, ..)| name).collect())
}

/// Cancels moves that concern this server's shard: all moves from it, also those to it, or
/// only the move with the given name. Returns their number. Blocks.
///
/// # Errors
/// A failure of etcd.
pub fn cancel_moves(
    engine: &Engine,
    me: &LocalIdentity,
    also_to: bool,
    wanted: Option<&str>,
) -> Result<usize, ChangeError> {
    let is_meant = |operator: &Operator<'_>, from: &str, name: &str, order: &MoveOrder| {
        let own = operator.map.node(&me.node.id).map(|own| &*own.known.shard);
        let is_own = own == Some(from) || also_to && own == Some(&*order.to);
        is_own && wanted.is_none_or(|wanted| wanted == name)
    };
    let names = std::cell::RefCell::new(Vec::new());
    changes::change_cluster(engine, me, |operator| {
        let meant = operator.map.orders().filter(|(from, name, order)| is_meant(operator, from, name, order));
        *names.borrow_mut() = meant.map(|(_, name, _)| Arc::clone(name)).collect();
        Ok(operator.cancel_moves(|from, name, order| is_meant(operator, from, name, order)))
    })?;
    let names = names.into_inner();
    engine.slot_moves.cancel(&names);
    Ok(names.len())
}

/// Begins ordered moves that are not under way, if this server leads the shard that has the
/// slots. Called often, by the group's thread.
pub(crate) fn check_orders(engine: &Engine) {
    let Some(view) = engine.cluster_view().filter(|view| view.leads) else { return };
    let Some(own) = view.own_slots().filter(|own| !own.ordered.is_empty()) else { return };
    let leads = !engine.replication.link.is_replica()
        && engine.replication.in_sync.may_serve(boot_nanos())
        && !engine.slot_moves.holds_all()
        && !engine.shutdown.is_requested();
    if !leads {
        return;
    }
    for (name, order) in &own.ordered {
        // A shard whose primary is dead will get another one.
        let is_down = view.map.primary(&order.to).is_some_and(|node| node.server.is_none());
        if !is_down && engine.slot_moves.may_begin(name) {
            let from = view.shard.as_deref().unwrap_or_default();
            export::begin_export(engine, as_move(&view, true, from, name, order));
        }
    }
}

/// Moves that concern this server: ordered, under way, or recently ended; newest first. An
/// interrupted attempt does not count as ended.
pub fn all_moves(engine: &Engine) -> Vec<Arc<Move>> {
    let mut moves = engine.slot_moves.all();
    let Some(view) = engine.cluster_view() else { return moves };
    for (from, name, order) in view.map.orders() {
        let is_export = view.shard.as_ref() == Some(from);
        if !is_export && view.shard.as_ref() != Some(&order.to) {
            continue;
        }
        let known = moves.iter().position(|one| *one.name == **name);
        if known.is_some_and(|at| !moves[at].is_over()) {
            continue;
        }
        let before = known.map(|at| moves.remove(at));
        // Other servers carry it out.
        if view.leads {
            let waiting = as_move(&view, is_export, from, name, order).waiting(before.as_deref());
            moves.insert(0, Arc::new(waiting));
        }
    }
    let is_known = |one: &Move| !one.is_over() || !one.is_interrupted.load(Relaxed);
    // Its outcome is shown elsewhere.
    moves.retain(|one| is_known(one) || view.map.orders().any(|(_, name, _)| **name == *one.name));
    moves
}

/// An ordered move, between the current leaders of both shards.
fn as_move(view: &ClusterView, is_export: bool, from: &str, name: &str, order: &MoveOrder) -> Move {
    let primary = |shard: &str| {
        let node = view.map.primary(shard).map(|node| Arc::clone(&node.known.id));
        node.unwrap_or_else(|| shard.into())
    };
    let (source, target) = (primary(from), primary(&order.to));
    Move::new(name, is_export, order.slots.clone(), source, target, order.created_ms)
}
