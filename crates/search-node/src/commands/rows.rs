// SPDX-License-Identifier: BSD-3-Clause
//! Rows of the FT.* commands.
//!
//! Bodies check their arities themselves: RediSearch's messages name the commands in upper case.

use braid_executor::Row;
use braid_executor::engine::row::Handler;
use braid_spec::spec::Scope;
use braid_spec::{Category, Flags, Group, KeyFlags, KeySpec};

use super::{define, documents, explain, info, profile, words};
use crate::{aggregate, hybrid, search};

const WRITES: Flags = Flags::WRITE;
const GROWS: Flags = Flags::WRITE.and(Flags::DENYOOM);
const READS: Flags = Flags::READONLY;
const READ: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);

const CREATE: &str = "index:string [ON data-type:(HASH|JSON)] [PREFIX prefix:{count:integer prefix:string...}] [FILTER filter:string] [LANGUAGE default-lang:string] [LANGUAGE_FIELD lang-attribute:string] [SCORE default-score:double] [SCORE_FIELD score-attribute:string] [MAXTEXTFIELDS] [NOOFFSETS] [NOHL] [NOFIELDS] [NOFREQS] [STOPWORDS stopwords:{count:integer [stopword:string...]}] [SKIPINITIALSCAN] SCHEMA field:string...";

/// Rows of the search commands.
#[rustfmt::skip]
pub const COMMANDS: &[Row] = &[
    row("ft.create", define::create, GROWS, Scope::World)
        .docs("8.0.0", "Makes a search index over hashes or JSON documents.", "O(K) where K is the number of fields; O(N) in the background, where N is the number of keys")
        .syntax(CREATE),
    row("ft._createifnx", define::create_if_new, GROWS, Scope::World)
        .docs("8.0.0", "Makes a search index unless there is one of this name.", "O(K) where K is the number of fields; O(N) in the background, where N is the number of keys")
        .syntax(CREATE),
    row("ft.alter", define::alter, WRITES, Scope::World)
        .docs("8.0.0", "Adds fields to a search index.", "O(N) in the background, where N is the number of keys")
        .syntax("index:string [SKIPINITIALSCAN] SCHEMA ADD field:string..."),
    row("ft.dropindex", define::drop_index, WRITES, Scope::World)
        .docs("8.0.0", "Drops a search index, and the documents if asked to.", "O(1), or O(N) where N is the number of documents that are deleted")
        .syntax("index:string [DD]"),
    row("ft._dropindexifx", define::drop_index_if_there, WRITES, Scope::World)
        .docs("8.0.0", "Drops a search index if there is one of this name.", "O(1), or O(N) where N is the number of documents that are deleted")
        .syntax("index:string [DD]"),
    row("ft.drop", define::drop_with_documents, WRITES, Scope::World)
        .docs("8.0.0", "Drops a search index and its documents.", "O(N) where N is the number of documents")
        .deprecated("8.0.0", "`FT.DROPINDEX`")
        .syntax("index:string [KEEPDOCS]"),
    row("ft._list", define::list, READS, Scope::Walk)
        .docs("8.0.0", "Returns the names of all search indexes.", "O(N) where N is the number of indexes"),
    row("ft.info", info::info, READS, Scope::Walk)
        .docs("8.0.0", "Returns the definition and figures of a search index.", "O(N) where N is the number of documents")
        .syntax("index:string"),
    row("ft.search", search::search, READS, Scope::Walk)
        .docs("8.0.0", "Returns the documents that match a query.", "O(N) where N is the number of matches")
        .syntax("index:string query:string [NOCONTENT] [VERBATIM] [NOSTOPWORDS] [WITHSCORES] [WITHPAYLOADS] [WITHSORTKEYS] [FILTER filter:{numeric-field:string min:double max:double}...] [GEOFILTER geo-filter:{geo-field:string lon:double lat:double radius:double radius-type:(M|KM|MI|FT)}...] [INKEYS in-keys:{count:string key:string...}] [INFIELDS in-fields:{count:string field:string...}] [RETURN return:{count:string identifiers:{identifier:string [AS property:string]}...}] [SUMMARIZE summarize:{[FIELDS fields:{count:string field:string...}] [FRAGS num:integer] [LEN fragsize:integer] [SEPARATOR separator:string]}] [HIGHLIGHT highlight:{[FIELDS fields:{count:string field:string...}] [TAGS tags:{open:string close:string}]}] [SLOP slop:integer] [TIMEOUT timeout:integer] [INORDER] [LANGUAGE language:string] [EXPANDER expander:string] [SCORER scorer:string] [SORTBY sortby:{field:string [order:(ASC|DESC)]}] [LIMIT limit:{offset:integer num:integer}] [PARAMS params:{nargs:integer values:{name:string value:string}...}] [DIALECT dialect:integer]"),
    row("ft.aggregate", aggregate::aggregate, READS, Scope::Walk)
        .docs("8.0.0", "Groups, sorts and computes values of the documents that match a query.", "O(N) where N is the number of matches")
        .syntax("index:string query:string [VERBATIM] [ADDSCORES] [step:string...] [WITHCURSOR cursor:{[COUNT read-size:integer] [MAXIDLE idle-time:integer]}] [TIMEOUT timeout:integer] [PARAMS params:{nargs:integer values:{name:string value:string}...}] [DIALECT dialect:integer]"),
    row("ft.hybrid", hybrid::hybrid, READS, Scope::Walk)
        .docs("8.4.0", "Returns the best documents of a text search and a vector search together.", "O(N+M) where N is the number of matches of the text and M the complexity of the vector search")
        .syntax("index:string search-clause:{SEARCH query:string [SCORER scorer:string] [YIELD_SCORE_AS name:string]} vsim-clause:{VSIM field:string vector:string [method:({KNN count:integer K k:integer [EF_RUNTIME ef-runtime:integer] [YIELD_SCORE_AS name:string]}|{RANGE count:integer RADIUS radius:double [EPSILON epsilon:double] [YIELD_SCORE_AS name:string]})] [FILTER filter:string] [YIELD_SCORE_AS name:string]} [COMBINE combine:({RRF count:integer [CONSTANT constant:double] [WINDOW window:integer] [YIELD_SCORE_AS name:string]}|{LINEAR count:integer [ALPHA alpha:double] [BETA beta:double] [WINDOW window:integer] [YIELD_SCORE_AS name:string]})] [step:string...] [NOSORT] [WITHCURSOR cursor:{[COUNT read-size:integer] [MAXIDLE idle-time:integer]}] [PARAMS params:{nargs:integer values:{name:string value:string}...}] [TIMEOUT timeout:integer] [FORMAT format:string]"),
    row("ft.cursor", aggregate::cursor, READS, Scope::Walk)
        .docs("8.0.0", "Reads from a cursor of FT.AGGREGATE or FT.HYBRID, or deletes it.", "O(N) where N is the number of rows returned")
        .syntax("action:(READ|DEL) index:string cursor-id:integer [COUNT read-size:integer]"),
    row("ft.get", documents::get, READS, Scope::Keys)
        .keys(&[KeySpec::at(2, READ)])
        .docs("8.0.0", "Returns the fields of a document.", "O(N) where N is the number of fields")
        .deprecated("8.0.0", "`HGETALL`")
        .syntax("index:string key:key#0"),
    row("ft.mget", documents::get_several, READS, Scope::Keys)
        .keys(&[KeySpec::range(2, -1, 1, READ)])
        .docs("8.0.0", "Returns the fields of several documents.", "O(N) where N is the number of fields")
        .deprecated("8.0.0", "`HGETALL`")
        .syntax("index:string key:key#0..."),
    row("ft.del", documents::delete, WRITES, Scope::Keys)
        .keys(&[KeySpec::at(2, KeyFlags::RW.and(KeyFlags::DELETE))])
        .docs("8.0.0", "Deletes a document.", "O(N) where N is the number of its elements")
        .deprecated("8.0.0", "`DEL`")
        .syntax("index:string key:key#0 [DD]"),
    row("ft.explain", explain::explained, READS, Scope::Walk)
        .docs("8.0.0", "Returns what a query is understood as.", "O(1)")
        .syntax("index:string query:string [DIALECT dialect:integer]"),
    row("ft.explaincli", explain::explained_lines, READS, Scope::Walk)
        .docs("8.0.0", "Returns what a query is understood as, line by line.", "O(1)")
        .syntax("index:string query:string [DIALECT dialect:integer]"),
    row("ft.profile", profile::profile, READS, Scope::Walk)
        .docs("8.0.0", "Runs a query, and returns what it did and how long that took.", "O(N) where N is the number of documents that the query looks at")
        .syntax("index:string querytype:(SEARCH|AGGREGATE) [LIMITED] QUERY query:string"),
    row("ft.tagvals", words::tag_values, READS, Scope::Walk)
        .docs("8.0.0", "Returns the tags that documents have in a field.", "O(N) where N is the number of tags")
        .syntax("index:string field-name:string"),
    row("ft.aliasadd", define::add_alias, WRITES, Scope::World)
        .docs("8.0.0", "Gives a search index another name.", "O(1)")
        .syntax("alias:string index:string"),
    row("ft._aliasaddifnx", define::add_alias_if_new, WRITES, Scope::World)
        .docs("8.0.0", "Gives a search index another name unless the name is taken.", "O(1)")
        .syntax("alias:string index:string"),
    row("ft.aliaslist", define::list_aliases, READS, Scope::Walk)
        .docs("8.10.0", "Returns the other names of a search index.", "O(N) where N is the number of aliases")
        .syntax("index:string"),
    row("ft.aliasupdate", define::update_alias, WRITES, Scope::World)
        .docs("8.0.0", "Gives a search index another name, which may be another index's.", "O(1)")
        .syntax("alias:string index:string"),
    row("ft.aliasdel", define::delete_alias, WRITES, Scope::World)
        .docs("8.0.0", "Removes another name of a search index.", "O(1)")
        .syntax("alias:string"),
    row("ft._aliasdelifx", define::delete_alias_if_there, WRITES, Scope::World)
        .docs("8.0.0", "Removes another name of a search index if there is one.", "O(1)")
        .syntax("alias:string"),
    row("ft.synupdate", words::update_synonyms, WRITES, Scope::World)
        .docs("8.0.0", "Adds words to a group of synonyms.", "O(1)")
        .syntax("index:string synonym-group-id:string [SKIPINITIALSCAN] term:string..."),
    row("ft.syndump", words::dump_synonyms, READS, Scope::Walk)
        .docs("8.0.0", "Returns the synonyms of a search index.", "O(N) where N is the number of words")
        .syntax("index:string"),
    row("ft.dictadd", words::add_words, WRITES, Scope::World)
        .docs("8.0.0", "Adds words to a dictionary.", "O(N) where N is the number of words")
        .syntax("dict:string term:string..."),
    row("ft.dictdel", words::delete_words, WRITES, Scope::World)
        .docs("8.0.0", "Removes words from a dictionary.", "O(N) where N is the number of words")
        .syntax("dict:string term:string..."),
    row("ft.dictdump", words::dump_words, READS, Scope::Walk)
        .docs("8.0.0", "Returns the words of a dictionary.", "O(N) where N is the number of words")
        .syntax("dict:string"),
    row("ft.spellcheck", words::spell_check, READS, Scope::Walk)
        .docs("8.0.0", "Returns the words of a query that no document has, and similar ones.", "O(N) where N is the number of words of the index")
        .syntax("index:string query:string [DISTANCE distance:integer] [TERMS terms:{inclusion:(INCLUDE|EXCLUDE) dictionary:string}...] [DIALECT dialect:integer]"),
    row("ft.config", words::config, READS.and(Flags::ADMIN), Scope::Walk)
        .docs("8.0.0", "Reads or changes settings of search.", "O(1)")
        .syntax("action:(GET|SET|HELP) option:string [value:string]"),
];

const fn row(name: &'static str, handler: Handler, flags: Flags, scope: Scope) -> Row {
    Row::new(name, Group::Module, handler).at_least(1).flags(flags).categories(Category::SEARCH).scope(scope)
}
