// SPDX-License-Identifier: BSD-3-Clause
//! Directives about users, passwords and dangerous commands.

use crate::directive::Unit;
use crate::enums::{AclPubsubDefault, ConfigEnum, ProtectedAction, SanitizeDumpPayload};
use crate::rows::LONG_MAX;

super::directives! {
    "Security", after threads;

    /// Password of the default user.
    requirepass: text => optional_text("requirepass").secret();

    /// File with the users and their rights; without it, `user` lines of the configuration file
    /// define them.
    aclfile: text => text("aclfile", "").immutable();

    /// Channels that a new user may use: all of them or none.
    acl_pubsub_default: AclPubsubDefault =>
        choice("acl-pubsub-default", AclPubsubDefault::ResetChannels.raw(), AclPubsubDefault::WORDS);

    /// Entries kept in the log of refused commands.
    acllog_max_len: usize => integer("acllog-max-len", || 128, 0, LONG_MAX, Unit::Plain);

    /// Who may change protected directives at run time: no, yes, or local connections only.
    enable_protected_configs: ProtectedAction =>
        choice("enable-protected-configs", ProtectedAction::No.raw(), ProtectedAction::WORDS).immutable();

    /// Who may use DEBUG: no, yes, or local connections only.
    enable_debug_command: ProtectedAction =>
        choice("enable-debug-command", ProtectedAction::No.raw(), ProtectedAction::WORDS).immutable();

    /// Who may use MODULE: no, yes, or local connections only.
    enable_module_command: ProtectedAction =>
        choice("enable-module-command", ProtectedAction::No.raw(), ProtectedAction::WORDS).immutable();

    /// Whether dumped values are checked deeply before they are taken: no, yes, clients. They
    /// always are; this only says whether INFO counts it.
    sanitize_dump_payload: SanitizeDumpPayload =>
        choice("sanitize-dump-payload", SanitizeDumpPayload::No.raw(), SanitizeDumpPayload::WORDS);

    /// Seed of the key hash as text; without it, a random one at each start.
    hash_seed: text => optional_text("hash-seed").immutable().beyond_redis().secret().no_effect_yet();
}
