#!/bin/sh
# Stops the service, unless the package is only replaced by another version: dpkg then says "upgrade", rpm 1.
set -e
case "$1" in
upgrade | 1) ;;
*) if [ -d /run/systemd/system ]; then systemctl disable --now flynn.service; fi ;;
esac
