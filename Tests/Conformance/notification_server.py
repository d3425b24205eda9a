#!/usr/bin/env python3
"""org.freedesktop.Notifications on the session bus, for a machine without a desktop.

  notification_server.py FILE     prints "ready", then appends each notification to FILE, one JSON object a line

Needs only jeepney (PyPI).
"""

import json, sys
from jeepney import HeaderFields, MessageType, new_error, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import open_dbus_connection

NAME, CAPABILITIES = "org.freedesktop.Notifications", ["body", "body-markup", "persistence", "sound"]


def answer(message, file, count):
    """The reply to one call, and how many notifications there have been."""
    member = message.header.fields.get(HeaderFields.member)
    if member == "Notify":
        application, replaces, icon, title, body, actions, hints, timeout = message.body
        count = replaces or count + 1
        seen = {"id": count, "application": application, "icon": icon, "title": title, "body": body, "timeout": timeout}
        seen["hints"] = {name: value for name, (_, value) in hints.items() if isinstance(value, (str, int, bool))}
        file.write(json.dumps(seen, ensure_ascii=False) + "\n")
        return new_method_return(message, "u", (count,)), count
    if member == "GetCapabilities":
        return new_method_return(message, "as", (CAPABILITIES,)), count
    if member == "GetServerInformation":
        return new_method_return(message, "ssss", ("conformance", "talknode", "1", "1.2")), count
    if member == "CloseNotification":
        return new_method_return(message), count
    return new_error(message, "org.freedesktop.DBus.Error.UnknownMethod"), count


def main():
    connection = open_dbus_connection("SESSION")
    connection.send_and_get_reply(message_bus.RequestName(NAME))
    count = 0
    with open(sys.argv[1], "a", buffering=1) as file:
        print("ready", flush=True)
        while True:
            message = connection.receive()
            if message.header.message_type == MessageType.method_call:
                reply, count = answer(message, file, count)
                connection.send(reply)


try:
    main()
except (ConnectionError, KeyboardInterrupt):
    pass
