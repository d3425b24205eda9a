#pragma once
// libsystemd's sd-bus. Nothing is wrapped: only the functions that are not variadic are used (messages are written and read value by
// value), and those Swift imports as they are.
#include <systemd/sd-bus.h>
