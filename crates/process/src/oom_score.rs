// SPDX-License-Identifier: BSD-3-Clause
//! The process's rank for Linux's out-of-memory killer (`oom-score-adj`), by role.
//!
//! Source: the kernel's documentation of `/proc/<pid>/oom_score_adj`.

use braid_base::system_text::reason;
use braid_config::OomScoreAdj;
use parking_lot::Mutex;

const FILE: &str = "/proc/self/oom_score_adj";
/// The kernel's limits.
const RANGE: (i32, i32) = (-1000, 1000);

/// What has been changed: the score before, to which others are relative. `None` while the score
/// is not this server's.
#[derive(Default)]
pub struct OomScore(Mutex<Option<i32>>);

impl OomScore {
    /// Applies a mode, with the role's score.
    ///
    /// # Errors
    /// The kernel refuses it. The log has the reason.
    pub fn apply(&self, mode: OomScoreAdj, of_role: i32) -> Result<(), String> {
        let mut before = self.0.lock();
        if mode == OomScoreAdj::No && before.is_none() {
            return Ok(());
        }
        let failed = |action: &str, error: std::io::Error| {
            log::warn!("Unable to {action} oom_score_adj: {}", reason(&error));
            "Failed to set current oom_score_adj. Check server logs.".to_owned()
        };
        let base = match *before {
            Some(base) => base,
            None => read().map_err(|error| failed("read", error))?,
        };
        let score = match mode {
            OomScoreAdj::No => base,
            OomScoreAdj::Relative => base.saturating_add(of_role),
            OomScoreAdj::Absolute => of_role,
        };
        let score = score.clamp(RANGE.0, RANGE.1);
        std::fs::write(FILE, score.to_string()).map_err(|error| failed("write", error))?;
        *before = (mode != OomScoreAdj::No).then_some(base);
        Ok(())
    }
}

fn read() -> std::io::Result<i32> {
    let text = std::fs::read_to_string(FILE)?;
    text.trim().parse().map_err(std::io::Error::other)
}
