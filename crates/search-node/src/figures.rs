// SPDX-License-Identifier: BSD-3-Clause
//! Figures of search that INFO and the metrics show, one row each. INFO's names are RediSearch's
//! where it has such a figure.

use braid_telemetry::Figure;
use braid_telemetry::Reading::{self, Count, Duration, Percent};

use crate::report::SearchReport;

#[rustfmt::skip]
mod rows {
    use super::*;

    pub static INDEXES: Figure<SearchReport> = Figure::gauge("search_number_of_indexes", "braid_search_indexes", "Search indexes.", |report| Reading::count(report.indexes));
    pub static BUILDING: Figure<SearchReport> = Figure::gauge("search_number_of_indexes_indexing", "braid_search_indexes_building", "Search indexes for which the keys that were there already are being looked at.", |report| Reading::count(report.building));
    pub static BUILT: Figure<SearchReport> = Figure::gauge("search_percent_indexed", "braid_search_building_progress", "The part of these keys that the least advanced of such indexes has looked at; 1 if there is none.", |report| Percent(report.built_percent));
    pub static DOCUMENTS: Figure<SearchReport> = Figure::gauge("search_documents", "braid_search_documents", "Documents in all search indexes.", |report| Count(report.documents));
    pub static MEMORY: Figure<SearchReport> = Figure::gauge("search_used_memory_indexes", "braid_search_memory_bytes", "Memory of all search indexes.", |report| Reading::count(report.memory_bytes));
    pub static CURSORS: Figure<SearchReport> = Figure::gauge("search_global_total", "braid_search_cursors", "Open cursors of FT.AGGREGATE.", |report| Reading::count(report.cursors));
    pub static FAILURES: Figure<SearchReport> = Figure::gauge("search_errors_indexing_failures", "braid_search_failures", "Documents that could not be put into the search indexes that there are.", |report| Count(report.failures));
    pub static QUERIES: Figure<SearchReport> = Figure::counter("search_total_queries_processed", "braid_search_queries_total", "Queries of search indexes.", |report| Count(report.queries));
    pub static QUERY_TIME: Figure<SearchReport> = Figure::counter("search_total_query_execution_time_ms", "braid_search_query_seconds_total", "Time from the beginning to the end of such queries.", |report| Duration(report.query_seconds));
    pub static QUERIES_LATE: Figure<SearchReport> = Figure::counter("search_total_queries_late", "braid_search_queries_late_total", "Queries that ended because of search-timeout or TIMEOUT.", |report| Count(report.late_queries));
}

pub use rows::*;
