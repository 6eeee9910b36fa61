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
# AppArmor before version 4 does not know the profile, and would report an error at each start of the system: only one that does gets it. An
# operator's changes stay.
profile=/etc/apparmor.d/flynn-sandboxd
shipped=/usr/share/flynn/apparmor/flynn-sandboxd
if command -v apparmor_parser >/dev/null 2>&1 && apparmor_parser --skip-kernel-load --skip-cache --quiet "$shipped" >/dev/null 2>&1; then
	[ -e "$profile" ] || install -D -m 0644 "$shipped" "$profile"
	apparmor_parser --replace "$profile" || echo "flynn: the kernel did not take $profile; sandboxes without an engine may not work" >&2
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart flynn.service
fi
