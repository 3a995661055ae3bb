// SPDX-License-Identifier: BSD-3-Clause
//! ACTIVE: requests of active-active peers and of operators. The command exists only in active
//! mode (`active-replica yes`). The bodies are in `braid_active_node`.

use braid_executor::{Call, Handler, Row};
use braid_spec::{Category, CommandResult, Flags, Group};

use crate::serve;

const SAID: Flags = Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::NO_MULTI);

const fn row(name: &'static str, handler: Handler, summary: &'static str, complexity: &'static str) -> Row {
    Row::new(name, Group::Server, handler).flags(SAID).docs("7.2.0", summary, complexity)
}

const SUBCOMMANDS: &[Row] = &[
    row("copy", serve::copy, "Returns a part of a full copy for a peer.", "O(N) where N is the number of keys.")
        .at_least(2)
        .syntax("[MORE]"),
    row("digest", serve::digest, "Returns a digest that is equal on servers with the same visible data.", "O(N) where N is the number of keys.")
        .exactly(2),
    row("forget", serve::forget, "Removes a region permanently.", "O(N) where N is the number of keys.")
        .exactly(3)
        .syntax("region:integer"),
    row("hello", serve::hello, "Introduces a peer.", "O(1)")
        .exactly(6)
        .syntax("version:integer identity:string region:integer settled:integer"),
    row("help", help, "Lists the subcommands.", "O(1)").exactly(2),
    row("myself", serve::myself, "Returns the server's identity and region.", "O(1)").exactly(2),
    row("peers", serve::peers, "Describes the peers.", "O(N) where N is the number of peers.").exactly(2),
    row("pull", serve::pull, "Returns the units that a peer lacks.", "O(N) where N is the number of effects.")
        .exactly(9)
        .syntax(
            "identity:string region:integer applied:string position:integer on-disk:string wait:integer bytes:integer",
        ),
    row("tell", serve::tell, "Exchanges removed regions and refusals with a peer.", "O(1)")
        .exactly(7)
        .syntax("identity:string region:integer removed:integer refused:integer reason:string"),
];

/// Rows for servers in active mode.
pub const COMMANDS: &[Row] = &[Row::container("active", Group::Server, SUBCOMMANDS)
    .categories(Category::ADMIN.and(Category::DANGEROUS))
    .docs("7.2.0", "Groups the commands of active-active replication.", "Depends on subcommand.")];

fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "COPY [MORE]",
        "    Return the first or next part of a full copy of all values with their metadata.",
        "DIGEST",
        "    Return a digest that is equal on servers with the same visible data.",
        "FORGET <region>",
        "    Remove a region permanently: nothing waits for it any longer. Linked servers learn of it.",
        "MYSELF",
        "    Return the identity and region of this server, and the regions that it knows.",
        "PEERS",
        "    Describe the peers of this server and the links to them.",
    ])
}
