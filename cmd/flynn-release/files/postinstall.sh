#!/bin/sh
# The user of the service, and the configuration that only root changes and only the service reads.
set -e
if command -v systemd-sysusers >/dev/null 2>&1; then
	systemd-sysusers flynn.conf
elif ! getent passwd flynn >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/flynn --no-create-home --shell /usr/sbin/nologin flynn
fi
chown root:flynn /etc/flynn
chmod 0750 /etc/flynn
if [ -e /etc/flynn/flynn.toml ]; then
	chown root:flynn /etc/flynn/flynn.toml
	chmod 0640 /etc/flynn/flynn.toml
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart flynn.service
fi
