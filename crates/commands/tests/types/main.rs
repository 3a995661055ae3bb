// SPDX-License-Identifier: BSD-3-Clause
//! Tests of the commands of all types, through the dispatcher of an engine with all commands,
//! since a type's commands are used together with those on every type (TTL, OBJECT, COPY ...).

mod array;
mod bitmap;
mod bloom;
mod count_min;
mod cuckoo;
mod geo;
mod hash;
mod hyperloglog;
mod json;
mod list;
mod member_expiry;
mod replies;
mod scanning;
mod search;
mod search_explained;
mod set;
mod sharing;
mod sketches;
mod sorted_set;
mod stream;
mod stream_newer;
mod string;
mod suggestions;
mod t_digest;
mod time_series;
mod top_k;
mod vector_set;
