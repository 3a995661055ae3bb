// SPDX-License-Identifier: BSD-3-Clause
//! Directives about users, passwords and privileged commands.

use crate::directive::Unit;
use crate::enums::{AclPubsubDefault, ConfigEnum, ProtectedAction, SanitizeDumpPayload};
use crate::rows::LONG_MAX;

super::directives! {
    "Security", after threads;

    /// Password of the default user.
    requirepass: text => optional_text("requirepass").secret();

    /// File with users and their permissions; without it, `user` lines of the configuration file
    /// define them.
    aclfile: text => text("aclfile", "").immutable();

    /// Channel permissions of new users: all channels or none.
    acl_pubsub_default: AclPubsubDefault =>
        choice("acl-pubsub-default", AclPubsubDefault::ResetChannels.raw(), AclPubsubDefault::WORDS);

    /// Maximum number of entries in the ACL log.
    acllog_max_len: usize => integer("acllog-max-len", || 128, 0, LONG_MAX, Unit::Plain);

    /// Allow changes of protected directives at run time: no, yes, or local (only from this
    /// machine).
    enable_protected_configs: ProtectedAction =>
        choice("enable-protected-configs", ProtectedAction::No.raw(), ProtectedAction::WORDS).immutable();

    /// Allow DEBUG: no, yes, or local (only from this machine).
    enable_debug_command: ProtectedAction =>
        choice("enable-debug-command", ProtectedAction::No.raw(), ProtectedAction::WORDS).immutable();

    /// Allow MODULE: no, yes, or local (only from this machine).
    enable_module_command: ProtectedAction =>
        choice("enable-module-command", ProtectedAction::No.raw(), ProtectedAction::WORDS).immutable();

    /// Count validations of DUMP payloads in INFO: no, yes, clients. Payloads are always
    /// validated.
    sanitize_dump_payload: SanitizeDumpPayload =>
        choice("sanitize-dump-payload", SanitizeDumpPayload::No.raw(), SanitizeDumpPayload::WORDS);

    /// Seed of the hash of keys, as text; empty means a random seed at each start. A seed known to
    /// clients lets them choose keys that are slow to find.
    hash_seed: text => optional_text("hash-seed").immutable().beyond_redis().secret();
}
