// SPDX-License-Identifier: BSD-3-Clause
//! Content that the Helm chart shares with other files. `tests/deploy/charts` checks the chart
//! itself.

use crate::deploy;

fn read(name: &str) -> String {
    std::fs::read_to_string(deploy(name)).unwrap_or_else(|error| panic!("deploy/{name}: {error}"))
}

#[test]
fn the_chart_has_the_alert_rules() {
    // A chart can only include files of its own folder.
    let copy = read("helm/braid/files/braid.rules.yml");
    assert!(copy.contains("alert: BraidDown"));
    if deploy("prometheus").exists() {
        assert!(
            copy == read("prometheus/braid.rules.yml"),
            "cp deploy/prometheus/braid.rules.yml deploy/helm/braid/files/"
        );
    }
}

#[test]
fn the_chart_is_of_this_version() {
    let chart = read("helm/braid/Chart.yaml");
    let version = env!("CARGO_PKG_VERSION");
    for line in [format!("version: {version}"), format!("appVersion: \"{version}\"")] {
        assert!(chart.lines().any(|found| found == line), "deploy/helm/braid/Chart.yaml has no line {line}");
    }
}

#[test]
fn the_manifest_and_the_chart_ask_the_same_questions_of_a_pod() {
    let (manifest, chart) = (read("kubernetes.yaml"), read("helm/braid/templates/statefulset.yaml"));
    let probes = |text: &str| {
        let begin = text.find("startupProbe:").expect("a probe");
        let end = text.find("volumeMounts:").expect("volumes");
        text[begin..end].trim_end().to_owned()
    };
    assert_eq!(probes(&manifest), probes(&chart));
    assert_eq!(probes(&manifest).matches("path: /").count(), 3);
}
