#pragma once
// libsystemd's sd-bus, opened at run time: types come from its headers, functions from this table, and nothing is linked, so that a
// node that has nothing to ask of D-Bus does not carry it (it brings five libraries and a megabyte). `csystemd_load` fills the table by
// dlsym from an open handle. Only functions that are not variadic are used: messages are written and read value by value.
#include <dlfcn.h>
#include <systemd/sd-bus.h>

#define CSYSTEMD_FUNCTIONS(X)                                                                                         \
  X(sd_bus_add_fallback) X(sd_bus_add_match_async) X(sd_bus_add_object) X(sd_bus_call_async) X(sd_bus_close_unref)    \
  X(sd_bus_error_free) X(sd_bus_error_set) X(sd_bus_error_set_errno) X(sd_bus_get_events) X(sd_bus_get_fd)            \
  X(sd_bus_get_timeout) X(sd_bus_get_unique_name) X(sd_bus_is_open) X(sd_bus_message_append_array)                    \
  X(sd_bus_message_append_basic) X(sd_bus_message_close_container) X(sd_bus_message_enter_container)                  \
  X(sd_bus_message_exit_container) X(sd_bus_message_get_error) X(sd_bus_message_get_expect_reply)                     \
  X(sd_bus_message_get_interface) X(sd_bus_message_get_member) X(sd_bus_message_get_path)                             \
  X(sd_bus_message_get_sender) X(sd_bus_message_is_method_error) X(sd_bus_message_new_method_call)                    \
  X(sd_bus_message_new_method_return) X(sd_bus_message_new_signal) X(sd_bus_message_open_container)                   \
  X(sd_bus_message_peek_type) X(sd_bus_message_read_array) X(sd_bus_message_read_basic) X(sd_bus_message_ref)         \
  X(sd_bus_message_set_auto_start) X(sd_bus_message_set_destination) X(sd_bus_message_unref) X(sd_bus_new)            \
  X(sd_bus_open_system) X(sd_bus_open_user) X(sd_bus_process) X(sd_bus_reply_method_error) X(sd_bus_send)             \
  X(sd_bus_set_address) X(sd_bus_set_bus_client) X(sd_bus_slot_unref) X(sd_bus_start) X(sd_bus_unref)

struct csystemd {
#define X(name) __typeof__(&name) name;
  CSYSTEMD_FUNCTIONS(X)
#undef X
};

/// Fills `table`; the name of the first function that the library lacks, or NULL when all are there.
static inline const char *csystemd_load(struct csystemd *table, void *handle) {
#define X(name) if (!(table->name = (__typeof__(&name))dlsym(handle, #name))) return #name;
  CSYSTEMD_FUNCTIONS(X)
#undef X
  return 0;
}
