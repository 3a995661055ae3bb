// SPDX-License-Identifier: BSD-3-Clause
//! Makes a server the primary on an operator's decision, after all members in sync have been lost.

use std::time::{Duration, Instant};

use braid_client::TargetOptions;

use crate::gather;

/// Polling interval for the outcome.
const INTERVAL: Duration = Duration::from_millis(50);

/// Makes the server named in the options the primary, and waits until it is. Returns the text to
/// print.
///
/// # Errors
/// If the server cannot be reached, refuses, or is not the primary in time.
pub fn run(options: &TargetOptions, timeout: Duration) -> Result<String, String> {
    let target = options.target()?;
    let mut server = gather::connect(&target)?;
    let begin = Instant::now();
    let asked = server.expect(&["FAILOVER", "TAKEOVER"]);
    asked.map_err(|error| format!("{} refuses: {error}", target.address))?;
    while begin.elapsed() < timeout {
        std::thread::sleep(INTERVAL);
        // The server closes its connections when its role changes.
        let Ok(info) = gather::connect(&target)
            .and_then(|mut server| gather::info(&mut server).map_err(|error| error.to_string()))
        else {
            continue;
        };
        if info.get("role") == Some("master") && info.get("group_role") == Some("primary") {
            return Ok(format!(
                "{} is the primary of epoch {} after {:.1} s\n",
                info.get("node_name").unwrap_or("the server"),
                info.get("group_epoch").unwrap_or("?"),
                begin.elapsed().as_secs_f64()
            ));
        }
    }
    Err(format!(
        "{} is not the primary after {:.0} s: see braid-cluster status and its log",
        target.address,
        timeout.as_secs_f64()
    ))
}
