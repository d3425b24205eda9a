#pragma once
// SQLite, opened at run time: types come from its header, functions from this table, and nothing is linked.
// `csqlite_load` fills the table by dlsym from an open handle.
#include <dlfcn.h>
#include <sqlite3.h>

#define CSQLITE_FUNCTIONS(X)                                                                                          \
  X(sqlite3_open_v2) X(sqlite3_close_v2) X(sqlite3_errmsg) X(sqlite3_extended_errcode) X(sqlite3_prepare_v2)          \
  X(sqlite3_step) X(sqlite3_finalize) X(sqlite3_bind_int64) X(sqlite3_column_int64) X(sqlite3_column_double)          \
  X(sqlite3_column_text) X(sqlite3_column_bytes) X(sqlite3_column_type) X(sqlite3_busy_timeout)                       \
  X(sqlite3_progress_handler) X(sqlite3_limit) X(sqlite3_db_config)

struct csqlite {
#define X(name) __typeof__(&name) name;
  CSQLITE_FUNCTIONS(X)
#undef X
};

/// Fills `table`; the name of the first function that the library lacks, or NULL when all are there.
static inline const char *csqlite_load(struct csqlite *table, void *handle) {
#define X(name) if (!(table->name = (__typeof__(&name))dlsym(handle, #name))) return #name;
  CSQLITE_FUNCTIONS(X)
#undef X
  return 0;
}

/// sqlite3_db_config is variadic. Makes a data base of foreign origin harmless: its own SQL runs nothing.
static inline void csqlite_distrust(const struct csqlite *table, sqlite3 *db) {
  table->sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)0);
  table->sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)0);
  table->sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, (int *)0);
  table->sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, (int *)0);
}
