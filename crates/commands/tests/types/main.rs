// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the commands of all types, through the dispatcher of an engine with all commands,
//! since a type's commands are used together with those on every type (TTL, OBJECT, COPY ...).

mod bitmap;
mod bloom;
mod geo;
mod hash;
mod hyperloglog;
mod json;
mod list;
mod member_expiry;
mod scanning;
mod search;
mod set;
mod sorted_set;
mod stream;
mod string;
mod suggestions;
mod vector_set;
