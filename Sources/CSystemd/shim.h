#pragma once
// libsystemd: sd-bus and sd_notify. sd_bus_call_method and sd_bus_message_append/read are variadic, so each signature in use
// has one function here.
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>
