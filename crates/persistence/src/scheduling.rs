// SPDX-License-Identifier: BSD-3-Clause
//! Short scheduler turns for the thread that writes a snapshot.
//!
//! A thread that waits for a busy processor waits until the running thread's turn is over, some
//! milliseconds by default. A thread may ask for shorter turns; its share of the processor stays
//! the same. Linux supports this since 6.12; earlier versions ignore the request.
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

/// Requests scheduler turns of this many nanoseconds for the calling thread. Correctness does not
/// depend on whether the kernel grants it.
pub(crate) fn ask_for_turns_of(nanoseconds: u64) {
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
        attributes.runtime_ns = nanoseconds;
        // SAFETY: as above; it is only read.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_turns_changes() {
        std::thread::spawn(|| {
            let read = || {
                let mut attributes = Attributes::default();
                let size = size_of::<Attributes>() as u32;
                // SAFETY: as in the function.
                let known =
                    unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
                (known == 0).then_some((attributes.policy, attributes.nice, attributes.priority))
            };
            let before = read();
            ask_for_turns_of(200_000);
            assert_eq!(read(), before);
        })
        .join()
        .unwrap();
    }
}
