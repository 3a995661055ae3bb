// SPDX-License-Identifier: BSD-3-Clause
//! Directives that have an effect only together with another one.

use braid_config::Config;

#[test]
fn directives_missing_a_prerequisite_are_named() {
    let warnings = |text: &str| Config::new().load_text(text).unwrap().warnings;
    assert_eq!(
        warnings("min-sync-replicas 1\nlease-time 5000\nmetrics-bind ::1\nmulti-master no"),
        [
            "WARNING: Directives that are set but have no effect without group-name or cluster-name: \
             min-sync-replicas, lease-time",
            "WARNING: Directives that are set but have no effect without metrics-port: metrics-bind",
        ]
    );
    assert_eq!(
        warnings("cluster-announce-ip 10.0.0.1\ncluster-databases 2\nactive-backlog-size 1mb").len(),
        3,
        "one warning per missing directive"
    );
    for text in [
        "metrics-bind ::1\nmetrics-port 1",
        "lease-time 5000\ngroup-name g",
        "cluster-announce-ip 10.0.0.1\ngroup-name g",
        "cluster-databases 2\ncluster-enabled yes",
        "cluster-databases 1\nlease-time 2000",
    ] {
        assert!(warnings(text).is_empty(), "{text}: {:?}", warnings(text));
    }
}
