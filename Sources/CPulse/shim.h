#pragma once
// libpulse, opened at run time: types come from its headers, functions from this table, and nothing is linked, so that a
// machine without PulseAudio runs the same program. `cpulse_load` fills the table by dlsym from an open handle.
#include <dlfcn.h>
#include <pulse/pulseaudio.h>

#define CPULSE_FUNCTIONS(X)                                                                                           \
  X(pa_get_library_version) X(pa_strerror) X(pa_proplist_new) X(pa_proplist_sets) X(pa_proplist_gets)                 \
  X(pa_proplist_free) X(pa_mainloop_new) X(pa_mainloop_free) X(pa_mainloop_get_api) X(pa_mainloop_iterate)            \
  X(pa_mainloop_wakeup) X(pa_context_new_with_proplist) X(pa_context_connect) X(pa_context_disconnect)                \
  X(pa_context_unref) X(pa_context_get_state) X(pa_context_set_state_callback) X(pa_context_errno)                    \
  X(pa_context_get_server) X(pa_context_get_server_info) X(pa_context_get_source_info_by_name)                        \
  X(pa_context_get_source_info_list) X(pa_context_get_sink_info_by_name) X(pa_context_get_sink_info_list)             \
  X(pa_operation_unref) X(pa_stream_new) X(pa_stream_unref) X(pa_stream_get_state) X(pa_stream_set_state_callback)    \
  X(pa_stream_connect_record) X(pa_stream_connect_playback) X(pa_stream_disconnect) X(pa_stream_set_read_callback)    \
  X(pa_stream_set_write_callback) X(pa_stream_set_started_callback) X(pa_stream_set_underflow_callback)               \
  X(pa_stream_peek) X(pa_stream_drop) X(pa_stream_readable_size) X(pa_stream_writable_size) X(pa_stream_write)        \
  X(pa_stream_cork) X(pa_stream_flush) X(pa_stream_drain) X(pa_stream_get_time) X(pa_stream_get_device_name)

struct cpulse {
#define X(name) __typeof__(&name) name;
  CPULSE_FUNCTIONS(X)
#undef X
};

/// Fills `table`; the name of the first function that the library lacks, or NULL when all are there.
static inline const char *cpulse_load(struct cpulse *table, void *handle) {
#define X(name) if (!(table->name = (__typeof__(&name))dlsym(handle, #name))) return #name;
  CPULSE_FUNCTIONS(X)
#undef X
  return 0;
}
