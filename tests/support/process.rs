// SPDX-License-Identifier: BSD-3-Clause
//! Facts about a running process from the operating system: processor time, threads, open files.
//! Linux only (`/proc`).

use std::ffi::OsString;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Processor time used so far by all threads of the process.
pub fn processor_time(process_id: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process_id}/stat")).expect("the process runs");
    // The name in parentheses may contain blanks, so count fields after it. utime and stime are
    // fields 14 and 15.
    let fields: Vec<&str> =
        stat.rsplit_once(')').expect("name in parentheses").1.split_whitespace().collect();
    let ticks = |field: usize| -> u64 { fields[field - 3].parse().expect("ticks") };
    Duration::from_secs_f64((ticks(14) + ticks(15)) as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Voluntary context switches of all threads of the process: one for each wake-up.
pub fn voluntary_switches(process_id: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{process_id}/task")).expect("the process runs");
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok())
        .filter_map(|status| {
            let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .sum()
}

/// Environment variables that shift a process's wall clock, for example by `+1d`; its other
/// clocks are unaffected. `None` without libfaketime, with a note printed.
pub fn shifted_clock(by: &str) -> Option<Vec<(&'static str, OsString)>> {
    let library = ["x86_64-linux-gnu", "aarch64-linux-gnu"]
        .iter()
        .map(|machine| PathBuf::from(format!("/usr/lib/{machine}/faketime/libfaketime.so.1")))
        .find(|path| path.is_file());
    let Some(library) = library else {
        println!("without libfaketime (package libfaketime) all clocks show the same");
        return None;
    };
    let only_wall_clock = ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into());
    Some(vec![("LD_PRELOAD", library.into()), ("FAKETIME", by.into()), only_wall_clock])
}

/// Sets the clock offset, in seconds from the machine's time, of processes whose
/// `FAKETIME_TIMESTAMP_FILE` is this file. The file is replaced atomically: libfaketime kills a
/// process that reads a partial line.
pub fn set_clock(file: &Path, seconds: i64) {
    let new = file.with_extension("new");
    std::fs::write(&new, format!("{seconds:+}\n")).expect("the clock file is written");
    std::fs::rename(&new, file).expect("the clock file is replaced");
}

/// Number of threads.
pub fn threads(process_id: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process_id}/task")).map_or(0, Iterator::count)
}

/// Number of open file descriptors.
pub fn open_files(process_id: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process_id}/fd")).map_or(0, Iterator::count)
}

/// Resident memory in bytes.
pub fn resident_bytes(process_id: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{process_id}/statm")).expect("the process runs");
    let pages: u64 =
        statm.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("resident pages");
    pages * rustix::param::page_size() as u64
}

/// Sends a signal to a child process. If the child has already ended, the signal is dropped
/// silently. After SIGSTOP, returns only once all threads have stopped; the system call alone
/// returns earlier.
pub fn signal(child: &Child, signal: Signal) {
    let _ = kill_process(Pid::from_child(child), signal);
    if signal != Signal::STOP {
        return;
    }
    let is_stopped = |thread: DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // "id (name) state ...": the name may contain blanks and parentheses.
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 'Z']))
    };
    crate::wait_for("all threads are stopped", || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", child.id()));
        threads.into_iter().flatten().flatten().all(is_stopped)
    });
}
