#pragma once
// libasound, opened at run time: types come from its headers, functions from this table, and nothing is linked.
// `calsa_load` fills the table by dlsym from an open handle.
#include <dlfcn.h>
#include <alsa/asoundlib.h>

#define CALSA_FUNCTIONS(X)                                                                                            \
  X(snd_strerror) X(snd_asoundlib_version) X(snd_device_name_hint) X(snd_device_name_get_hint)                        \
  X(snd_device_name_free_hint) X(snd_card_next) X(snd_pcm_open) X(snd_pcm_close) X(snd_pcm_nonblock)                  \
  X(snd_pcm_hw_params_malloc) X(snd_pcm_hw_params_free) X(snd_pcm_hw_params_any) X(snd_pcm_hw_params)                 \
  X(snd_pcm_hw_params_set_access) X(snd_pcm_hw_params_test_format) X(snd_pcm_hw_params_set_format)                    \
  X(snd_pcm_hw_params_test_channels) X(snd_pcm_hw_params_set_channels) X(snd_pcm_hw_params_set_channels_near)         \
  X(snd_pcm_hw_params_set_rate_resample) X(snd_pcm_hw_params_test_rate) X(snd_pcm_hw_params_set_rate)                 \
  X(snd_pcm_hw_params_set_rate_near) X(snd_pcm_hw_params_set_period_time_near)                                        \
  X(snd_pcm_hw_params_set_buffer_time_near) X(snd_pcm_hw_params_get_period_size) X(snd_pcm_hw_params_get_buffer_size) \
  X(snd_pcm_sw_params_malloc) X(snd_pcm_sw_params_free) X(snd_pcm_sw_params_current) X(snd_pcm_sw_params)             \
  X(snd_pcm_sw_params_set_start_threshold) X(snd_pcm_sw_params_set_avail_min) X(snd_pcm_prepare) X(snd_pcm_start)     \
  X(snd_pcm_drop) X(snd_pcm_drain) X(snd_pcm_recover) X(snd_pcm_readi) X(snd_pcm_writei) X(snd_pcm_avail_update)      \
  X(snd_pcm_delay) X(snd_pcm_state) X(snd_pcm_poll_descriptors_count) X(snd_pcm_poll_descriptors)                     \
  X(snd_pcm_poll_descriptors_revents) X(snd_lib_error_set_handler)

struct calsa {
#define X(name) __typeof__(&name) name;
  CALSA_FUNCTIONS(X)
#undef X
};

/// Fills `table`; the name of the first function that the library lacks, or NULL when all are there.
static inline const char *calsa_load(struct calsa *table, void *handle) {
#define X(name) if (!(table->name = (__typeof__(&name))dlsym(handle, #name))) return #name;
  CALSA_FUNCTIONS(X)
#undef X
  return 0;
}

// libasound prints its errors on standard error unless it is given a handler, which is variadic: so it is one in C.
static inline void calsa_ignore_error(const char *file, int line, const char *function, int code, const char *format, ...) {
  (void)file, (void)line, (void)function, (void)code, (void)format;
}
static inline void calsa_be_quiet(const struct calsa *table) { table->snd_lib_error_set_handler(calsa_ignore_error); }
