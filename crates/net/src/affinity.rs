// SPDX-License-Identifier: BSD-3-Clause
//! Binding threads to processors.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Parses a list of processors such as `0-3,8:12:2`, as in the configuration: ranges, with an
/// optional step after a colon (`0-6:2`).
pub fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut processors = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let [first, last, step]: [usize; 3] = [first.parse().ok()?, last.parse().ok()?, step.parse().ok()?];
        if step == 0 || last < first || last >= CpuSet::MAX_CPU {
            return None;
        }
        processors.extend((first..=last).step_by(step));
    }
    Some(processors)
}

/// The processors that a directive lists; `None`, and a warning, if they are not a list.
pub fn listed(directive: &str, list: &str) -> Option<Vec<usize>> {
    let processors = parse_list(list).filter(|processors| !processors.is_empty());
    if processors.is_none() && !list.is_empty() {
        log::warn!("{directive} '{list}' is not a list of processors, and has no effect");
    }
    processors
}

/// Binds the calling thread to these processors. False if the system refuses.
pub fn bind_thread(processors: &[usize]) -> bool {
    let mut set = CpuSet::new();
    processors.iter().for_each(|&processor| set.set(processor));
    sched_setaffinity(None, &set).is_ok()
}

/// The processors that the calling thread may use; empty if the system does not tell.
pub fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect()
}

#[cfg(test)]
mod tests {
    use super::{allowed, bind_thread, parse_list};

    #[test]
    fn a_bound_thread_may_use_only_its_processors() {
        let all = allowed();
        let bound = std::thread::spawn(move || (bind_thread(&all[..1]), allowed(), all));
        let (is_bound, now, all) = bound.join().expect("no panic");
        assert!(is_bound);
        assert_eq!(now, all[..1]);
    }

    #[test]
    fn lists_have_ranges_and_steps() {
        assert_eq!(parse_list("0-3"), Some(vec![0, 1, 2, 3]));
        assert_eq!(parse_list("1,3,5-9:2"), Some(vec![1, 3, 5, 7, 9]));
        assert_eq!(parse_list(""), Some(vec![]));
        for wrong in ["x", "3-1", "0-4:0", "1-", "99999999"] {
            assert_eq!(parse_list(wrong), None, "{wrong}");
        }
    }
}
