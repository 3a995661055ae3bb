// SPDX-License-Identifier: BSD-3-Clause
//! `--check-system`: system settings that matter to the server, their values, and advice.
//!
//! Read-only; `deploy/install` changes settings. Files are read below a root folder that tests
//! replace.

use std::fmt::Write;
use std::path::Path;

/// Length of the kernel's queue for `accept`: the default of `tcp-backlog`.
const BACKLOG: u64 = 511;
/// Descriptors for the default of `maxclients` plus the server's own.
const DESCRIPTORS: u64 = 10_032;

/// One setting.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    pub is_good: bool,
    /// The value, with advice if it is wrong.
    pub text: String,
    /// The command that fixes it until the next reboot.
    pub remedy: Option<String>,
}

impl Finding {
    fn good(text: String) -> Finding {
        Finding { is_good: true, text, remedy: None }
    }

    fn bad(text: String, remedy: &str) -> Finding {
        Finding { is_good: false, text, remedy: Some(remedy.to_owned()) }
    }
}

/// Checks the system with root folder `root`. `descriptors` is the limit up to which the process
/// can raise its limit of open files, `processors` the number that it may use.
pub fn check(root: &Path, descriptors: u64, processors: usize) -> Vec<Finding> {
    let number = |path: &str| read(root, path).and_then(|text| text.parse::<u64>().ok());
    let mut findings = Vec::new();
    if let Some(queue) = number("proc/sys/net/core/somaxconn") {
        findings.push(if queue >= BACKLOG {
            Finding::good(format!("net.core.somaxconn is {queue}: bursts of connections are queued"))
        } else {
            Finding::bad(
                format!(
                    "net.core.somaxconn is {queue}: the kernel drops connections beyond it in a burst; \
                     tcp-backlog asks for {BACKLOG}"
                ),
                "sysctl -w net.core.somaxconn=1024",
            )
        });
    }
    if let Some(mode) = number("proc/sys/vm/overcommit_memory") {
        findings.push(if mode == 2 {
            Finding::bad(
                "vm.overcommit_memory is 2: the kernel can refuse memory that is free, and the server \
                 exits when an allocation fails"
                    .into(),
                "sysctl -w vm.overcommit_memory=1",
            )
        } else {
            Finding::good(format!("vm.overcommit_memory is {mode}: irrelevant, the server never forks"))
        });
    }
    if let Some(pages) = read(root, "sys/kernel/mm/transparent_hugepage/enabled") {
        let text = match pages.contains("[always]") {
            true => {
                "transparent huge pages are forced on programs: the server does without them, unless \
                 disable-thp is no"
            }
            false => "transparent huge pages are not forced on programs",
        };
        findings.push(Finding::good(text.into()));
    }
    findings.push(if descriptors >= DESCRIPTORS {
        Finding::good(format!("the limit of open files is {descriptors}: enough for 10,000 clients"))
    } else {
        Finding::bad(
            format!(
                "the limit of open files is {descriptors}: maxclients will be lowered to fit; 10,000 \
                 clients need {DESCRIPTORS}"
            ),
            "ulimit -n 65536   (systemd: LimitNOFILE=65536)",
        )
    });
    findings.push(Finding::good(match processors {
        1 => "one processor: io-threads defaults to 1, which is right".into(),
        many => format!(
            "{many} processors: io-threads defaults to {many}; leave one or two to other busy programs"
        ),
    }));
    findings
}

fn read(root: &Path, path: &str) -> Option<String> {
    Some(std::fs::read_to_string(root.join(path)).ok()?.trim().to_owned())
}

/// The findings as printed.
pub fn report(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        // Writing to memory cannot fail.
        let _ = writeln!(text, "{} {}", if finding.is_good { "ok     " } else { "CHANGE " }, finding.text);
        if let Some(remedy) = &finding.remedy {
            let _ = writeln!(text, "        {remedy}");
        }
    }
    text
}

/// Checks the settings of this system.
pub fn check_this() -> Vec<Finding> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    check(Path::new("/"), limit.maximum.unwrap_or(u64::MAX), processors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(somaxconn: &str, overcommit: &str, pages: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/sys/net/core/somaxconn", somaxconn),
            ("proc/sys/vm/overcommit_memory", overcommit),
            ("sys/kernel/mm/transparent_hugepage/enabled", pages),
        ] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        root
    }

    #[test]
    fn a_good_system_needs_no_change() {
        let root = system("4096", "0", "always [madvise] never");
        let findings = check(root.path(), 65_536, 8);
        assert_eq!(findings.len(), 5);
        assert!(findings.iter().all(|finding| finding.is_good), "{}", report(&findings));
    }

    #[test]
    fn each_setting_that_harms_is_named_with_its_remedy() {
        let root = system("128", "2", "[always] madvise never");
        let findings = check(root.path(), 1024, 1);
        let text = report(&findings);
        assert_eq!(findings.iter().filter(|finding| !finding.is_good).count(), 3, "{text}");
        for remedy in ["somaxconn=1024", "overcommit_memory=1", "LimitNOFILE"] {
            assert!(text.contains(remedy), "{remedy} in {text}");
        }
    }

    #[test]
    fn checks_of_missing_system_files_are_skipped() {
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(check(empty.path(), 65_536, 2).len(), 2);
    }
}
