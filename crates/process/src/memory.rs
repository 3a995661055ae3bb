// SPDX-License-Identifier: BSD-3-Clause
//! The memory that the process and the machine have, and the most that the process's container or
//! service may have: the limit of a control group, beyond which the kernel ends the process.
//!
//! Read-only; files about the limit are read below a root folder that tests replace. Source: the
//! kernel's documentation of `/proc/<pid>/statm` and of control groups, versions 1 and 2.

use std::path::Path;

/// Physical memory of the process in bytes; 0 if the system does not report it.
pub fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages.saturating_mul(rustix::param::page_size())
}

/// Physical memory of the machine, in bytes.
pub fn machine_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit).max(1))
}

/// The least limit, in bytes, of the process's control group and those around it; `None` if there
/// is none, or it cannot be read.
pub fn container_limit_bytes(root: &Path) -> Option<u64> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    groups.lines().filter_map(|line| limit_of(root, line)).min()
}

/// What is wrong with a `maxmemory` under a container's limit, both in bytes; 0 is no `maxmemory`.
pub fn warning(maxmemory: u64, container: u64) -> Option<String> {
    let what = match maxmemory {
        0 => "maxmemory is not set".to_owned(),
        // The rest is for what is no data: fragmentation, the process itself, connections' buffers.
        _ if maxmemory > container / 10 * 9 => format!("maxmemory is {maxmemory}"),
        _ => return None,
    };
    Some(format!(
        "WARNING: the container may use {container} bytes of memory, and {what}. Beyond that the kernel \
         ends the server. To prevent that, set maxmemory to about {}, and a maxmemory-policy.",
        container / 4 * 3
    ))
}

/// The limit by one line, `NUMBER:CONTROLLERS:PATH`; version 2 names no controllers.
fn limit_of(root: &Path, line: &str) -> Option<u64> {
    let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
    let (folder, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    // Within a container the path can be that of the host, and only the top is visible.
    let around = Path::new(path.trim_start_matches('/')).ancestors();
    let limits = around.filter_map(|group| {
        let text = std::fs::read_to_string(root.join(folder).join(group).join(file)).ok()?;
        text.trim().parse::<u64>().ok()
    });
    // Version 1 has a number near the largest for none, version 2 a word.
    limits.filter(|&limit| limit < i64::MAX as u64 / 2).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        root
    }

    #[test]
    fn the_least_limit_around_counts() {
        let root = system(&[
            ("proc/self/cgroup", "0::/system.slice/braid.service\n"),
            ("sys/fs/cgroup/system.slice/braid.service/memory.max", "max\n"),
            ("sys/fs/cgroup/system.slice/memory.max", "536870912\n"),
        ]);
        assert_eq!(container_limit_bytes(root.path()), Some(512 << 20));
        let root = system(&[
            ("proc/self/cgroup", "12:cpu,cpuacct:/a\n5:memory:/docker/4711\n"),
            ("sys/fs/cgroup/memory/docker/4711/memory.limit_in_bytes", "1073741824\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        assert_eq!(container_limit_bytes(root.path()), Some(1 << 30));
    }

    #[test]
    fn a_path_of_the_host_leads_to_what_is_visible() {
        let root = system(&[
            ("proc/self/cgroup", "0::/../../docker/4711\n"),
            ("sys/fs/cgroup/memory.max", "268435456\n"),
        ]);
        assert_eq!(container_limit_bytes(root.path()), Some(256 << 20));
    }

    #[test]
    fn a_limit_near_that_of_the_container_is_warned_of() {
        let text = |maxmemory| warning(maxmemory, 1000).unwrap_or_default();
        assert!(
            text(0).contains("1000 bytes") && text(0).contains("not set") && text(0).contains("about 750")
        );
        assert!(text(901).contains("maxmemory is 901"));
        assert_eq!(text(900), "");
    }

    #[test]
    fn no_limit_is_none() {
        for groups in ["", "0::/\n", "nonsense\n", "1:cpu:/\n", "3:memory:/\n"] {
            let root = system(&[("proc/self/cgroup", groups), ("sys/fs/cgroup/memory.max", "max\n")]);
            assert_eq!(container_limit_bytes(root.path()), None, "{groups}");
        }
        assert_eq!(container_limit_bytes(Path::new("/nowhere")), None);
    }
}
