// SPDX-License-Identifier: BSD-3-Clause
//! Process statistics from `/proc`: processor time in total and by thread. Linux only; empty
//! elsewhere and for processes that have ended.

use std::path::PathBuf;
use std::time::Duration;

use crate::info::Info;

/// One thread of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub id: u32,
    /// Name of the thread, at most 15 bytes.
    pub name: String,
    /// Processor time so far.
    pub time: Duration,
}

/// The threads of a process, ordered by ID.
pub fn tasks(process_id: u32) -> Vec<Task> {
    let Ok(folder) = std::fs::read_dir(format!("/proc/{process_id}/task")) else { return Vec::new() };
    let mut tasks: Vec<Task> = folder.filter_map(|entry| task(entry.ok()?.path())).collect();
    tasks.sort_by_key(|task| task.id);
    tasks
}

/// How long a process has been running.
pub fn age(process_id: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process_id}/stat")).ok()?;
    // Field 22: the start time in clock ticks since boot.
    let start: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let age = uptime - start as f64 / rustix::param::clock_ticks_per_second() as f64;
    Duration::try_from_secs_f64(age.max(0.0)).ok()
}

/// The process on this machine that produced this INFO; `None` if the server runs on another
/// machine or in another container. The ID alone is not enough: the process must also be as old
/// as the server reports.
pub fn of_server(info: &Info) -> Option<u32> {
    let process_id = info.number("process_id")? as u32;
    let uptime = info.number("uptime_in_seconds")?;
    let difference = age(process_id)?.as_secs_f64() - uptime;
    (difference.abs() <= AGE_TOLERANCE).then_some(process_id)
}

/// A server counts its uptime from the end of its startup, in whole seconds.
const AGE_TOLERANCE: f64 = 3.0;

fn task(folder: PathBuf) -> Option<Task> {
    let id = folder.file_name()?.to_str()?.parse().ok()?;
    let name = std::fs::read_to_string(folder.join("comm")).ok()?.trim_end().to_owned();
    Some(Task { id, name, time: exact(&folder).or_else(|| in_ticks(&folder))? })
}

/// From the scheduler's own statistics, in nanoseconds: `time on processor, time waiting,
/// slices`.
fn exact(folder: &std::path::Path) -> Option<Duration> {
    let text = std::fs::read_to_string(folder.join("schedstat")).ok()?;
    let nanos: u64 = text.split_whitespace().next()?.parse().ok()?;
    // A kernel without these statistics reports 0.
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

/// From `stat`, in clock ticks, usually of 10 ms.
fn in_ticks(folder: &std::path::Path) -> Option<Duration> {
    let text = std::fs::read_to_string(folder.join("stat")).ok()?;
    // The name in parentheses may contain blanks, so fields are counted after it. utime and stime
    // are fields 14 and 15.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_age() {
        let id = std::process::id();
        let info = |age: f64| Info::parse(&format!("process_id:{id}\nuptime_in_seconds:{age:.0}\n"));
        let own = age(id).unwrap().as_secs_f64();
        assert_eq!(of_server(&info(own)), Some(id));
        assert_eq!(of_server(&info(own + 10.0)), None);
        assert_eq!(of_server(&Info::parse("process_id:4294967295\nuptime_in_seconds:0\n")), None);
    }

    #[test]
    fn our_own_thread_is_found_and_its_time_grows() {
        let worker = std::thread::Builder::new().name("some worker".into());
        let worker = worker.spawn(|| {
            // While other threads end, the kernel's list may omit some.
            let find = || {
                let mut lists = std::iter::repeat_with(|| tasks(std::process::id()));
                lists
                    .find_map(|all| all.into_iter().find(|task| task.name == "some worker"))
                    .expect("endless")
            };
            let before = find();
            while find().time < before.time + Duration::from_millis(5) {
                std::hint::black_box((0..10_000).sum::<u64>());
            }
        });
        worker.unwrap().join().unwrap();
        assert_eq!(tasks(u32::MAX), []);
    }
}
