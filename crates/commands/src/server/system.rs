// SPDX-License-Identifier: BSD-3-Clause
//! Operating system information about the process and the machine.
//!
//! The `unsafe` here is one C function that fills a plain structure.

use std::time::Duration;

/// Processor time used.
#[derive(Clone, Copy, Default, Debug)]
pub struct CpuTime {
    pub system: Duration,
    pub user: Duration,
}

/// The owner of the measured processor time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    Process,
    Children,
    /// The calling thread.
    Thread,
}

/// Processor time used so far.
pub fn cpu_time(whose: Whose) -> CpuTime {
    let whose = match whose {
        Whose::Process => libc::RUSAGE_SELF,
        Whose::Children => libc::RUSAGE_CHILDREN,
        Whose::Thread => libc::RUSAGE_THREAD,
    };
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is plain numbers, for which zeros are valid, and the function fills it
    // or leaves it unchanged.
    let usage = unsafe {
        libc::getrusage(whose, usage.as_mut_ptr());
        usage.assume_init()
    };
    let duration = |time: libc::timeval| {
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
            + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    CpuTime { system: duration(usage.ru_stime), user: duration(usage.ru_utime) }
}

/// Processor time used so far by a thread of this process, by thread id; `None` if there is no
/// such thread or the system does not report it.
pub fn thread_time(task: u32) -> Option<CpuTime> {
    let folder = format!("/proc/self/task/{task}");
    let stat = std::fs::read_to_string(format!("{folder}/stat")).ok()?;
    // The name in parentheses may contain spaces: count fields after it. utime and stime are
    // fields 14 and 15.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let (user, system) = (ticks()?, ticks()?);
    let tick = 1.0 / rustix::param::clock_ticks_per_second() as f64;
    let counted = (user + system) as f64 * tick;
    // The scheduler reports the sum in nanoseconds; ticks, usually 10 ms each, give its split.
    let exact = std::fs::read_to_string(format!("{folder}/schedstat")).ok();
    let exact =
        exact.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok()).filter(|nanos| *nanos > 0);
    let total = exact.map_or(counted, |nanos| nanos as f64 / 1e9);
    let part = if user + system == 0 { 1.0 } else { user as f64 / (user + system) as f64 };
    let user = Duration::from_secs_f64(total * part);
    Some(CpuTime { user, system: Duration::from_secs_f64(total).saturating_sub(user) })
}

/// Number of file descriptors that the process has open; 0 if the system does not report it.
pub fn open_descriptors() -> usize {
    // One of them belongs to the folder being read.
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count().saturating_sub(1))
}

/// The process's limit on open file descriptors; `u64::MAX` without a limit.
pub fn descriptors_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Kernel name, release and machine.
pub fn kernel() -> String {
    let uname = rustix::system::uname();
    [uname.sysname(), uname.release(), uname.machine()]
        .map(|part| part.to_string_lossy().into_owned())
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_answers() {
        // The thread's own time, which may take long while other threads use the processor.
        let used = || cpu_time(Whose::Thread).user + cpu_time(Whose::Thread).system;
        while used() < Duration::from_millis(40) {
            std::hint::spin_loop();
        }
        let (process, thread) = (cpu_time(Whose::Process), cpu_time(Whose::Thread));
        assert!(process.user + process.system >= thread.user + thread.system);
        assert!(thread.user + thread.system > Duration::ZERO);
        let own = thread_time(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
        assert!(own.user + own.system > Duration::from_millis(5));
        assert!(thread_time(u32::MAX).is_none());
        assert!(braid_process::memory::resident_bytes() > 1 << 16);
        assert!(braid_process::memory::machine_bytes() > braid_process::memory::resident_bytes() as u64);
        assert!(kernel().starts_with("Linux "));
        assert!(open_descriptors() >= 3 && open_descriptors() as u64 <= descriptors_max());
    }
}
