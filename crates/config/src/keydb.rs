// SPDX-License-Identifier: BSD-3-Clause
//! KeyDB's own directives, so that a server started with its configuration says what becomes of
//! each: some are accepted without effect, since nothing that a client sees depends on them; the
//! others are refused with the way to go on. Directives that mean the same here are rows, some
//! under an alias (`server-threads`).

/// Accepted, and listed in the log as without effect: they divide work among KeyDB's threads, or
/// tune what has no counterpart.
const WITHOUT_EFFECT: [&str; 15] = [
    "active-client-balancing",
    "allow-rdb-resize-op",
    "enable-async-commands",
    "enable-async-rehash",
    "force-eviction-percent",
    "min-clients-per-thread",
    "multi-master-no-forward",
    "multithread-load-enabled",
    "overload-protect-percent",
    "overload-protect-tenacity",
    "prefetch-enabled",
    "replica-weighting-factor",
    "semi-ordered-set-bucket-size",
    "soft-shutdown",
    "thread-priority",
];

/// Refused: the server would not do what the operator relies on.
const REFUSED: [(&str, &str); 9] = [
    (
        "storage-provider",
        "Braid keeps all data in memory: remove the directive, and load a dump file of the data",
    ),
    ("storage-provider-options", "Braid keeps all data in memory: remove the directive"),
    ("maxstorage", "Braid keeps all data in memory: remove the directive, and set maxmemory"),
    ("scratch-file-path", "Braid keeps all data in memory: remove the directive"),
    ("db-s3-object", "Braid keeps no dump files in object storage: remove the directive, and use dir"),
    (
        "tls-allowlist",
        "Braid has no list of certificate names: remove the directive, and use tls-auth-clients-user",
    ),
    (
        "tls-denylist",
        "Braid has no list of certificate names: remove the directive, and use tls-auth-clients-user",
    ),
    ("delete-on-evict", "Braid keeps all data in memory: remove the directive"),
    (
        "force-backlog-disk-reserve",
        "Braid's backlog is in memory: remove the directive, and set repl-backlog-size",
    ),
];

/// What becomes of a directive of KeyDB's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    WithoutEffect,
    /// Why, and what to do.
    Refused(&'static str),
}

/// The answer to a directive; `None` if it is not one of KeyDB's own.
pub(crate) fn answer(name: &str) -> Option<Answer> {
    if WITHOUT_EFFECT.contains(&name) {
        return Some(Answer::WithoutEffect);
    }
    REFUSED.iter().find(|(refused, _)| *refused == name).map(|(_, why)| Answer::Refused(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::rows::table;

    #[test]
    fn no_directive_is_listed_that_braid_has() {
        let refused = REFUSED.iter().map(|(name, _)| *name);
        for name in WITHOUT_EFFECT.into_iter().chain(refused) {
            assert!(table().find(name).is_none(), "{name} is a row");
        }
        assert_eq!(answer("min-clients-per-thread"), Some(Answer::WithoutEffect));
        assert!(matches!(answer("tls-allowlist"), Some(Answer::Refused(why)) if why.contains("remove")));
        assert_eq!(answer("maxmemory"), None);
    }

    #[test]
    fn a_configuration_of_keydb_is_read_or_refused_with_the_way() {
        let error = |text: &str| Config::new().load_text(text).unwrap_err().to_string();
        assert!(
            error("tls-allowlist a").contains("tls-allowlist is a directive of KeyDB. Braid has no list")
        );
        assert!(error("storage-provider flash /a").contains("Braid keeps all data in memory"));
        let of_keydb = Config::new().load_text("min-clients-per-thread 50\nprefetch-enabled yes").unwrap();
        assert_eq!(of_keydb.without_effect, ["min-clients-per-thread", "prefetch-enabled"]);
    }
}
