#!/bin/sh
# What Flynn has stored stays in /var/lib/flynn.
set -e
case "$1" in
remove | purge | 0)
	profile=/etc/apparmor.d/flynn-sandboxd
	if [ -e "$profile" ]; then
		if command -v apparmor_parser >/dev/null 2>&1; then apparmor_parser --remove "$profile" >/dev/null 2>&1 || true; fi
		rm -f "$profile"
	fi
	;;
esac
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
