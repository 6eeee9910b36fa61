#!/bin/sh
# What Flynn has stored stays in /var/lib/flynn.
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
