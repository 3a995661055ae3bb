//! The slow log: the latest commands that took longer than `slowlog-log-slower-than`.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// One logged command.
#[derive(Clone, Debug)]
pub struct SlowEntry {
    pub id: u64,
    /// Seconds since the Unix epoch.
    pub time: i64,
    pub micros: u64,
    /// The arguments, shortened.
    pub args: Vec<Vec<u8>>,
    pub address: String,
    pub client_name: Vec<u8>,
}

/// Most arguments kept of a command.
const ARGS_MAX: usize = 32;
/// Most bytes kept of an argument.
const ARG_LEN_MAX: usize = 128;

/// The log; newest first.
#[derive(Default)]
pub struct SlowLog {
    inner: Mutex<(u64, VecDeque<SlowEntry>)>,
}

impl SlowLog {
    /// Adds a command and drops the oldest beyond `len_max`.
    pub fn push(
        &self,
        time: i64,
        micros: u64,
        args: &[&[u8]],
        address: String,
        client_name: Vec<u8>,
        len_max: usize,
    ) {
        let mut inner = self.inner.lock();
        let id = inner.0;
        inner.0 += 1;
        let entry = SlowEntry { id, time, micros, args: shorten(args), address, client_name };
        inner.1.push_front(entry);
        inner.1.truncate(len_max);
    }

    /// The newest `count` entries.
    pub fn latest(&self, count: usize) -> Vec<SlowEntry> {
        self.inner.lock().1.iter().take(count).cloned().collect()
    }

    /// Entries held.
    pub fn len(&self) -> usize {
        self.inner.lock().1.len()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all entries; ids go on.
    pub fn clear(&self) {
        self.inner.lock().1.clear();
    }
}

/// Keeps the log small: long arguments and long commands are cut, with a remark on how much is missing.
fn shorten(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
    let mut short: Vec<Vec<u8>> = args[..kept].iter().map(|arg| shorten_one(arg)).collect();
    if args.len() > ARGS_MAX {
        short.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    short
}

fn shorten_one(arg: &[u8]) -> Vec<u8> {
    if arg.len() <= ARG_LEN_MAX {
        return arg.to_vec();
    }
    let mut short = arg[..ARG_LEN_MAX].to_vec();
    short.extend_from_slice(format!("... ({} more bytes)", arg.len() - ARG_LEN_MAX).as_bytes());
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_cut_and_old_entries_go() {
        let log = SlowLog::default();
        let (long, many) = (vec![b'x'; 200], vec![&b"a"[..]; 40]);
        log.push(1, 2, &[&long], "a".into(), Vec::new(), 2);
        let first = &log.latest(1)[0];
        assert!(first.args[0].ends_with(b"x... (72 more bytes)"));
        log.push(1, 2, &many, "a".into(), Vec::new(), 2);
        assert_eq!(log.latest(1)[0].args.len(), 32);
        assert_eq!(log.latest(1)[0].args[31], b"... (9 more arguments)");
        log.push(1, 2, &[b"x"], "a".into(), Vec::new(), 2);
        assert_eq!(log.latest(9).iter().map(|entry| entry.id).collect::<Vec<_>>(), [2, 1]);
    }
}
