// SPDX-License-Identifier: BSD-3-Clause
//! ACL: the commands that show and change users and roles. Rules, checks and the log are in the
//! crate `acl`.

use braid_acl::file::file_of;
use braid_acl::log::Entry;
use braid_acl::role::Role;
use braid_acl::selector::Selector;
use braid_base::digest::hex;
use braid_base::number;
use braid_cluster_node::commands::cluster::shared::{for_cluster, share, text_of};
use braid_executor::engine::access;
use braid_executor::{Call, Handler, Row};
use braid_group::cluster::shared::SharedKind;
use braid_spec::{Category, Command, CommandError, CommandResult, Flags, Group};

const ANY_TIME: Flags = Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE).and(Flags::SENTINEL);
const EVERY_NODE: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];
const USERS: &str = "O(N). Where N is the number of configured users.";

/// Rows of the ACL commands.
pub const COMMANDS: &[Row] = &[Row::container("acl", Group::Server, SUBCOMMANDS)
    .flags(Flags::SENTINEL)
    .docs("6.0.0", "Groups the commands of users and their rights.", "Depends on subcommand.")];

const SUBCOMMANDS: &[Row] = &[
    open("cat", cat)
        .at_least(2)
        .docs(
            "6.0.0",
            "Lists the categories, or the commands of one.",
            "O(1) since the categories and commands are a fixed set.",
        )
        .syntax("[category:string]"),
    admin("delrole", delete_roles)
        .at_least(3)
        .secrets(|_, index| index > 1)
        .docs("9.2.0", "Deletes roles that no user holds.", "O(N). Where N is the number of roles to delete.")
        .syntax("rolename:string...")
        .tips(EVERY_NODE),
    admin("deluser", delete_users)
        .at_least(3)
        .secrets(|_, index| index > 1)
        .docs(
            "6.0.0",
            "Deletes users and closes their connections.",
            "O(1) amortized time considering the typical user.",
        )
        .syntax("username:string...")
        .tips(EVERY_NODE),
    admin("digest", digest).exactly(2).docs(
        "9.2.0",
        "Returns a fingerprint of all users' and roles' rules.",
        "O(N). Where N is the number of configured users and roles.",
    ),
    admin("dryrun", dry_run)
        .at_least(4)
        // The request may contain a password.
        .secrets(|_, index| index > 3)
        .docs("7.0.0", "Tells whether a user may run a command, without running it.", "O(1).")
        .syntax("username:string command:string [arg:string...]"),
    open("genpass", generate_password)
        .at_least(2)
        .docs("6.0.0", "Returns a random password.", "O(1)")
        .syntax("[bits:integer]"),
    admin("getrole", get_role)
        .exactly(3)
        .secrets(|_, index| index > 1)
        .docs(
            "9.2.0",
            "Returns a role's rules and users.",
            "O(N). Where N is the number of rules defined for the role.",
        )
        .syntax("rolename:string"),
    admin("getuser", get_user)
        .exactly(3)
        .secrets(|_, index| index > 1)
        .docs(
            "6.0.0",
            "Returns a user's rules.",
            "O(N). Where N is the number of password, command and pattern rules that the user has.",
        )
        .syntax("username:string")
        .history(&[
            ("6.2.0", "Channels."),
            ("7.0.0", "Selectors; keys and channels in the form of rules instead of lists."),
            ("9.1.0", "Databases."),
            ("9.2.0", "Roles."),
        ]),
    Row::new("help", Group::Server, help)
        .exactly(2)
        .flags(Flags::LOADING.and(Flags::STALE).and(Flags::SENTINEL))
        .docs("6.0.0", "Lists the subcommands.", "O(1)"),
    admin("list", list).exactly(2).docs(
        "6.0.0",
        "Returns all users' rules in the format of an ACL file.",
        USERS,
    ),
    admin("load", load).exactly(2).docs("6.0.0", "Replaces all users with those in the ACL file.", USERS),
    admin("log", log)
        .at_least(2)
        .docs("6.0.0", "Lists recent refusals.", "O(N) with N being the number of entries shown.")
        .syntax("[operation:(count:integer|RESET)]")
        .history(&[("7.2.0", "New fields: the entry's ID, creation time and last update time.")]),
    admin("roles", roles).exactly(2).docs(
        "9.2.0",
        "Lists the roles' names.",
        "O(N). Where N is the number of configured roles.",
    ),
    admin("save", save).exactly(2).docs("6.0.0", "Writes all users to the ACL file.", USERS).tips(EVERY_NODE),
    admin("setrole", set_role)
        .at_least(3)
        .secrets(|_, index| index > 1)
        .docs(
            "9.2.0",
            "Creates a role, or changes its rules.",
            "O(N+M*C). Where N is the number of rules provided, M the number of users in the role and C the number of \
             connected clients.",
        )
        .syntax("rolename:string [rule:string...]")
        .tips(EVERY_NODE),
    admin("setuser", set_user)
        .at_least(3)
        .secrets(|_, index| index > 1)
        .docs(
            "6.0.0",
            "Creates a user, or changes its rules.",
            "O(N). Where N is the number of rules provided.",
        )
        .syntax("username:string [rule:string...]")
        .history(&[
            ("6.2.0", "Channels."),
            ("7.0.0", "Selectors, and separate permissions to read and write keys."),
            ("9.2.0", "Roles."),
        ])
        .tips(EVERY_NODE),
    admin("users", users).exactly(2).docs("6.0.0", "Lists the users' names.", USERS),
    open("whoami", who_am_i).exactly(2).docs("6.0.0", "Returns the connection's user.", "O(1)"),
];

const fn open(name: &'static str, handler: Handler) -> Row {
    Row::new(name, Group::Server, handler).flags(ANY_TIME)
}

const fn admin(name: &'static str, handler: Handler) -> Row {
    Row::new(name, Group::Server, handler).flags(ANY_TIME.and(Flags::ADMIN))
}

fn set_user(call: &mut Call) -> CommandResult {
    if let Some(rules) = for_cluster(call, &call.args[3..]) {
        let name = text_of(call.args[2], "the user's name")?;
        let rules = call.engine.acl.rules_after(access::acl_server(call.engine), name.as_bytes(), rules)?;
        let rules = text_of(&rules, "the rules")?;
        return share(call, vec![(SharedKind::User, name, Some(rules))], |reply| reply.ok());
    }
    call.engine.acl.set_user(access::acl_server(call.engine), call.args[2], &call.args[3..])?;
    call.reply.ok();
    Ok(())
}

fn set_role(call: &mut Call) -> CommandResult {
    let server = access::acl_server(call.engine);
    if let Some(rules) = for_cluster(call, &call.args[3..]) {
        let name = text_of(call.args[2], "the role's name")?;
        let rules = call.engine.acl.role_rules_after(server, name.as_bytes(), rules)?;
        let rules = text_of(&rules, "the rules")?;
        return share(call, vec![(SharedKind::Role, name, Some(rules))], |reply| reply.ok());
    }
    call.engine.acl.set_role(server, call.args[2], &call.args[3..])?;
    call.reply.ok();
    Ok(())
}

fn delete_roles(call: &mut Call) -> CommandResult {
    let names = &call.args[2..];
    if let Some(names) = for_cluster(call, names).filter(|names| !names.is_empty()) {
        let known = names.iter().filter(|name| call.engine.acl.role(name).is_some()).count();
        let deleted = |name: &&[u8]| Ok((SharedKind::Role, text_of(name, "the role's name")?, None));
        let values = names.iter().map(deleted).collect::<Result<_, CommandError>>()?;
        return share(call, values, move |reply| reply.integer(known as i64));
    }
    let deleted = call.engine.acl.delete_roles(names)?;
    call.reply.integer(deleted as i64);
    Ok(())
}

fn get_role(call: &mut Call) -> CommandResult {
    let Some(role) = call.engine.acl.role(call.args[2]) else {
        call.reply.null();
        return Ok(());
    };
    call.reply.map(6);
    reply_selectors(call, role.selectors(), true);
    let holders = call.engine.acl.holders(role.name());
    call.reply.bulk(b"users");
    reply_names(call, holders.iter().map(|user| user.name()));
    Ok(())
}

fn roles(call: &mut Call) -> CommandResult {
    let roles = call.engine.acl.roles();
    reply_names(call, roles.iter().map(|role| role.name()));
    Ok(())
}

fn digest(call: &mut Call) -> CommandResult {
    call.reply.bulk(&hex::<64>(&call.engine.acl.digest()));
    Ok(())
}

fn delete_users(call: &mut Call) -> CommandResult {
    let names = &call.args[2..];
    if names.contains(&braid_acl::DEFAULT_USER) {
        return Err(CommandError::text("ERR The 'default' user cannot be removed"));
    }
    if let Some(names) = for_cluster(call, names).filter(|names| !names.is_empty()) {
        let known = names.iter().filter(|name| call.engine.acl.user(name).is_some()).count();
        let deleted = |name: &&[u8]| Ok((SharedKind::User, text_of(name, "the user's name")?, None));
        let values = names.iter().map(deleted).collect::<Result<_, CommandError>>()?;
        return share(call, values, move |reply| reply.integer(known as i64));
    }
    let deleted = call.engine.acl.delete_users(access::acl_server(call.engine), names, call.session.id());
    call.reply.integer(deleted as i64);
    close_without_user(call);
    Ok(())
}

/// Closes the connection after its reply if the connection's own user was deleted.
fn close_without_user(call: &mut Call) {
    if call.engine.acl.current(&call.session.login.user.identity).is_none() {
        call.session.close();
    }
}

fn get_user(call: &mut Call) -> CommandResult {
    let Some(user) = call.engine.acl.user(call.args[2]) else {
        call.reply.null();
        return Ok(());
    };
    // Only where it says something: Redis has no such field.
    let has_databases = user.selectors().iter().any(Selector::is_confined);
    let limits: Vec<String> = user.limits().rules().collect();
    let more = [has_databases, user.roles().len() > 0, !limits.is_empty()];
    call.reply.map(6 + more.into_iter().map(usize::from).sum::<usize>());
    call.reply.bulk(b"flags");
    call.reply.set(user.flags().count());
    user.flags().for_each(|flag| call.reply.bulk(flag.as_bytes()));
    call.reply.bulk(b"passwords");
    call.reply.array(user.passwords().len());
    user.passwords().for_each(|password| call.reply.bulk(password));
    reply_selectors(call, user.selectors(), has_databases);
    if user.roles().len() > 0 {
        call.reply.bulk(b"roles");
        reply_names(call, user.roles().map(Role::name));
    }
    if !limits.is_empty() {
        call.reply.bulk(b"limits");
        call.reply.bulk(limits.join(" ").as_bytes());
    }
    Ok(())
}

fn reply_selectors(call: &mut Call, selectors: &[Selector], has_databases: bool) {
    reply_selector(call, &selectors[0], has_databases);
    call.reply.bulk(b"selectors");
    call.reply.array(selectors.len() - 1);
    for selector in &selectors[1..] {
        call.reply.map(3 + usize::from(has_databases));
        reply_selector(call, selector, has_databases);
    }
}

fn reply_selector(call: &mut Call, selector: &Selector, has_databases: bool) {
    let fields = [
        (&b"commands"[..], selector.command_rules()),
        (b"keys", selector.key_rules()),
        (b"channels", selector.channel_rules()),
        (b"databases", selector.database_rule()),
    ];
    for (name, rules) in &fields[..3 + usize::from(has_databases)] {
        call.reply.bulk(name);
        call.reply.bulk(rules);
    }
}

fn reply_names<'a>(call: &mut Call, names: impl ExactSizeIterator<Item = &'a [u8]>) {
    call.reply.array(names.len());
    names.for_each(|name| call.reply.bulk(name));
}

fn list(call: &mut Call) -> CommandResult {
    let lines = call.engine.acl.list();
    reply_names(call, lines.iter().map(|line| &line[..]));
    Ok(())
}

fn users(call: &mut Call) -> CommandResult {
    let users = call.engine.acl.users();
    reply_names(call, users.iter().map(|user| user.name()));
    Ok(())
}

fn who_am_i(call: &mut Call) -> CommandResult {
    call.reply.bulk(call.session.login.user.name());
    Ok(())
}

fn need_file(call: &Call) -> CommandResult {
    if file_of(&call.engine.config).is_some() {
        return Ok(());
    }
    Err(CommandError::text(
        "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
         command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store \
         users in the Redis configuration.",
    ))
}

fn load(call: &mut Call) -> CommandResult {
    need_file(call)?;
    let asking = call.session.id();
    call.engine
        .acl
        .load_file(access::acl_server(call.engine), asking)
        .map_err(|error| CommandError::text(format!("ERR {error}")))?;
    call.reply.ok();
    close_without_user(call);
    Ok(())
}

fn save(call: &mut Call) -> CommandResult {
    need_file(call)?;
    if let Err(error) = call.engine.acl.save_file(&call.engine.config) {
        log::warn!("ACL SAVE failed: {error}");
        return Err(CommandError::text(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        ));
    }
    call.reply.ok();
    Ok(())
}

fn cat(call: &mut Call) -> CommandResult {
    let name = match call.args {
        [_, _] => {
            call.reply.array(Category::ALL.len());
            Category::ALL.iter().for_each(|(_, name)| call.reply.bulk(name.as_bytes()));
            return Ok(());
        }
        [_, _, name] => *name,
        _ => return Err(call.unknown_subcommand()),
    };
    let lower = name.to_ascii_lowercase();
    let Some((category, _)) = Category::ALL.iter().find(|(_, known)| known.as_bytes() == lower) else {
        let shown = &name[..name.len().min(128)];
        return Err(CommandError::quoting("ERR Unknown category '", shown, "'"));
    };
    let belongs = |command: &&Command| command.spec.categories_all().has(*category);
    let commands = call.engine.commands.all();
    call.reply.array(commands.iter().filter(belongs).count());
    commands.iter().filter(belongs).for_each(|command| call.reply.bulk(command.full_name.as_bytes()));
    Ok(())
}

fn generate_password(call: &mut Call) -> CommandResult {
    const BITS_MAX: usize = 4096;
    let bits = match call.args.len() {
        2 => 256,
        3 => call.integer_arg(2)?,
        _ => return Err(call.unknown_subcommand()),
    };
    let bits = usize::try_from(bits).ok().filter(|bits| (1..=BITS_MAX).contains(bits)).ok_or_else(|| {
        CommandError::text(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
             {BITS_MAX}"
        ))
    })?;
    let mut bytes = [0; BITS_MAX / 4];
    let digits = &mut bytes[..bits.div_ceil(4)];
    getrandom::fill(digits).map_err(|error| CommandError::text(format!("ERR No random numbers: {error}")))?;
    for digit in &mut *digits {
        *digit = b"0123456789abcdef"[usize::from(*digit & 15)];
    }
    call.reply.bulk(digits);
    Ok(())
}

fn log(call: &mut Call) -> CommandResult {
    let count = match call.args {
        [_, _] => 10,
        [_, _, word] if word.eq_ignore_ascii_case(b"reset") => {
            call.engine.acl.log.clear();
            call.reply.ok();
            return Ok(());
        }
        [_, _, count] => number::parse_i64(count).ok_or(CommandError::NotAnInteger)?,
        _ => return Err(call.unknown_subcommand()),
    };
    let entries = call.engine.acl.log.latest(usize::try_from(count).unwrap_or(0));
    call.reply.array(entries.len());
    for entry in &entries {
        reply_entry(call, entry);
    }
    Ok(())
}

fn reply_entry(call: &mut Call, entry: &Entry) {
    let now = call.clock_ms();
    let reply = &mut *call.reply;
    let integer = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    reply.map(10);
    reply.bulk(b"count");
    reply.integer(integer(entry.count));
    let texts = [
        (&b"reason"[..], entry.event.reason.name().as_bytes()),
        (b"context", entry.event.origin.name().as_bytes()),
        (b"object", &entry.event.object),
        (b"username", &entry.event.user),
    ];
    for (name, text) in texts {
        reply.bulk(name);
        reply.bulk(text);
    }
    reply.bulk(b"age-seconds");
    reply.double((now - entry.updated_ms).max(0) as f64 / 1000.0);
    reply.bulk(b"client-info");
    reply.bulk(&entry.event.client);
    reply.bulk(b"entry-id");
    reply.integer(integer(entry.id));
    reply.bulk(b"timestamp-created");
    reply.integer(entry.created_ms);
    reply.bulk(b"timestamp-last-updated");
    reply.integer(entry.updated_ms);
}

fn dry_run(call: &mut Call) -> CommandResult {
    let (name, request) = (call.args[2], &call.args[3..]);
    let Some(user) = call.engine.acl.user(name) else {
        return Err(CommandError::quoting("ERR User '", name, "' not found"));
    };
    let commands = &call.engine.commands;
    let found = commands.find(request[0]).and_then(|command| match request.get(1) {
        Some(sub) if !command.subcommands.is_empty() => commands.find_subcommand(command, sub),
        _ => Some(command),
    });
    let Some(command) = found else {
        return Err(CommandError::quoting("ERR Command '", request[0], "' not found"));
    };
    if !command.spec.arity.allows(request.len()) {
        return Err(CommandError::WrongArity(command.full_name.clone().into()));
    }
    match user.check(command, request, call.session.db) {
        Ok(()) => call.reply.ok(),
        Err(denied) => call.reply.bulk(&denied.detailed_text(user.name(), command, request)),
    }
    Ok(())
}

fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "CAT [<category>]",
        "    List the categories, or the commands of <category>.",
        "DELROLE <rolename> [<rolename> ...]",
        "    Delete roles that no user holds.",
        "DELUSER <username> [<username> ...]",
        "    Delete users and close their connections.",
        "DIGEST",
        "    Return a fingerprint of all users' and roles' rules.",
        "DRYRUN <username> <command> [<arg> ...]",
        "    Check whether a user may run a command, without running it.",
        "GETROLE <rolename>",
        "    A role's rules and users.",
        "GETUSER <username>",
        "    A user's rules.",
        "GENPASS [<bits>]",
        "    Return a password of 256 random bits, or of <bits>.",
        "LIST",
        "    Return all roles' and users' rules in the format of an ACL file.",
        "LOAD",
        "    Replace all roles and users with those in the ACL file.",
        "LOG [<count> | RESET]",
        "    List recent refusals, or clear the list.",
        "ROLES",
        "    List the roles' names.",
        "SAVE",
        "    Write all roles and users to the ACL file.",
        "SETROLE <rolename> [<rule> ...]",
        "    Create a role, or change its rules.",
        "SETUSER <username> <rule> [<rule> ...]",
        "    Create a user, or change its rules.",
        "USERS",
        "    List the users' names.",
        "WHOAMI",
        "    Return this connection's user.",
    ])
}

#[cfg(test)]
mod bypass_tests;
#[cfg(test)]
mod database_tests;
#[cfg(test)]
mod direction_tests;
#[cfg(test)]
mod limits_tests;
#[cfg(test)]
mod role_tests;
#[cfg(test)]
mod tests;
