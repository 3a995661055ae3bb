// SPDX-License-Identifier: BSD-3-Clause
//! Short scheduler turns for background threads that compete with client-serving threads: the one
//! that writes a snapshot, and those that load a full sync.
//!
//! A thread that waits for a busy processor waits until the running thread's turn is over, some
//! milliseconds by default. A thread may ask for shorter turns; its share of the processor stays
//! the same. Linux supports this since 6.12; earlier versions ignore the request.
//!
//! Loader threads also take a smaller share of a contended processor, so that clients are served
//! when primary and replica run on one machine, or when the replica serves old data during the
//! load.
//!
//! Invariants behind the `unsafe` here: the structure is that of sched_setattr(2) in its first
//! version, and its size is passed along.

/// `struct sched_attr` in its first version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// The length of a short turn, in nanoseconds.
const SHORT_TURN: u64 = 200_000;
/// Niceness added to a thread that yields to others: it gets about a quarter of a processor that
/// another thread keeps busy, and all of an idle one. With a smaller share, a busy machine would
/// starve it.
const NICER: i32 = 5;
const NICEST: i32 = 19;

/// Makes the calling thread take short turns from now on.
pub fn take_short_turns() {
    ask_for_turns_of(SHORT_TURN);
}

/// Like [`take_short_turns`]; the calling thread also yields busy processors to others for the
/// rest of its life.
pub(crate) fn stand_back() {
    ask_for(SHORT_TURN, NICER);
}

/// Requests scheduler turns of this many nanoseconds for the calling thread. Correctness does not
/// depend on the kernel granting it.
pub(crate) fn ask_for_turns_of(nanoseconds: u64) {
    ask_for(nanoseconds, 0);
}

fn ask_for(nanoseconds: u64, nicer: i32) {
    #[cfg(target_os = "linux")]
    {
        const SIZE: u32 = size_of::<Attributes>() as u32;
        let mut attributes = Attributes { size: SIZE, ..Attributes::default() };
        // SAFETY: the structure has the size passed along and is owned by this thread.
        let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
        if known != 0 || attributes.policy != libc::SCHED_OTHER as u32 {
            return;
        }
        attributes.size = SIZE;
        attributes.nice = (attributes.nice + nicer).min(NICEST);
        attributes.runtime_ns = nanoseconds;
        // SAFETY: as above; it is only read.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Policy, niceness and priority of this thread; `None` if the system does not report them.
    fn read() -> Option<(u32, i32, u32)> {
        let mut attributes = Attributes::default();
        let size = size_of::<Attributes>() as u32;
        // SAFETY: as in the function.
        let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
        (known == 0).then_some((attributes.policy, attributes.nice, attributes.priority))
    }

    #[test]
    fn nothing_but_the_turns_changes() {
        std::thread::spawn(|| {
            let before = read();
            ask_for_turns_of(200_000);
            assert_eq!(read(), before);
            take_short_turns();
            assert_eq!(read(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn lowered_priority_affects_only_the_calling_thread() {
        let before = read();
        std::thread::spawn(move || {
            stand_back();
            let expected = before.map(|(policy, nice, priority)| match policy == libc::SCHED_OTHER as u32 {
                true => (policy, (nice + NICER).min(NICEST), priority),
                false => (policy, nice, priority),
            });
            assert_eq!(read(), expected);
        })
        .join()
        .unwrap();
        assert_eq!(read(), before);
    }
}
