//! The `parallel` model: every thread reads, parses, executes and replies for its own clients, under the locks of just the
//! shards that a command's keys live in.

use std::io;
use std::thread::JoinHandle;

use super::{Model, Starting};

/// All three steps on the thread that polls the client: what [`Model`] says by itself.
struct Parallel;

impl Model for Parallel {}

/// Starts one loop per thread; the first one accepts connections too.
pub(super) fn start(starting: &Starting<'_>) -> io::Result<Vec<JoinHandle<()>>> {
    let loads = starting.loads(0..starting.count());
    (0..starting.count()).map(|slot| starting.event_loop(slot, &loads, || Parallel)).collect()
}
