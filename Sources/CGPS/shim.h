#pragma once
// libgps, opened at run time: types come from its header, functions from this table, and nothing is linked. `cgps_load` fills the
// table by dlsym from an open handle. The record that the library fills differs from one of its releases to the next, and the
// library tells no version: who opens it must check that it is the one of this header.
#include <dlfcn.h>
#include <gps.h>

#define CGPS_FUNCTIONS(X) X(gps_open) X(gps_close) X(gps_read) X(gps_waiting) X(gps_stream) X(gps_send) X(gps_unpack)

struct cgps {
#define X(name) __typeof__(&name) name;
  CGPS_FUNCTIONS(X)
#undef X
};

/// Fills `table`; the name of the first function that the library lacks, or NULL when all are there.
static inline const char *cgps_load(struct cgps *table, void *handle) {
#define X(name) if (!(table->name = (__typeof__(&name))dlsym(handle, #name))) return #name;
  CGPS_FUNCTIONS(X)
#undef X
  return 0;
}

// gps_send is variadic, which Swift does not import.
/// Asks gpsd which receivers it knows.
static inline int cgps_ask_devices(const struct cgps *table, struct gps_data_t *data) {
  return table->gps_send(data, "?DEVICES;\n");
}

// The version stands in an anonymous union, and texts in arrays, which Swift imports as tuples.
/// gpsd's release as it greeted; only valid while VERSION_SET.
static inline const char *cgps_release(const struct gps_data_t *data) { return data->version.release; }
static inline const char *cgps_device(const struct gps_data_t *data) { return data->dev.path; }
static inline const char *cgps_listed_device(const struct gps_data_t *data) { return data->devices.list[0].path; }
