#!/bin/sh
# Boots systemd on a copy of this machine, in namespaces and control groups of its own, and ends with the exit code of the service proof:
#
#   sh boot.sh DIR
#
# DIR has flynn.deb, which is installed first, the folder etc, which is then copied over that of the machine, an empty folder memory
# and what proof needs; it is /proof inside. Changes of the copy are in memory, and gone afterwards.
set -eu
dir=$1

if [ -z "${2:-}" ]; then
	group=flynn-boot-$$
	parents=
	for hierarchy in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup/memory /sys/fs/cgroup/pids /sys/fs/cgroup; do
		[ -e "$hierarchy/cgroup.procs" ] && parents="$parents $hierarchy"
	done
	for parent in $parents; do
		mkdir "$parent/$group"
	done
	(
		own=$(exec sh -c 'echo $PPID')
		for parent in $parents; do
			echo "$own" >"$parent/$group/cgroup.procs"
		done
		exec unshare --mount --pid --fork --cgroup --uts --ipc --net --kill-child sh "$0" "$dir" inside
	) && code=0 || code=$?
	for parent in $parents; do
		find "$parent/$group" -depth -type d -exec rmdir {} +
	done
	exit $code
fi

mount --make-rprivate /
mount -t tmpfs tmpfs "$dir/memory"
mkdir "$dir/memory/upper" "$dir/memory/work" "$dir/memory/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/memory/upper,workdir=$dir/memory/work" "$dir/memory/root"
cd "$dir/memory/root"

mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
	touch "dev/$name"
	mount --bind "/dev/$name" "dev/$name"
done
mkdir dev/shm dev/pts dev/mqueue dev/hugepages
mkdir -p run/systemd
mount -t devpts devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
	mount -t cgroup2 cgroup2 sys/fs/cgroup
else
	mount -t tmpfs tmpfs sys/fs/cgroup
	mkdir sys/fs/cgroup/systemd sys/fs/cgroup/unified
	mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
	mount -t cgroup2 cgroup2 sys/fs/cgroup/unified
	for name in memory pids; do
		mkdir "sys/fs/cgroup/$name"
		mount -t cgroup -o "$name" cgroup "sys/fs/cgroup/$name"
	done
fi
mkdir proof
mount --bind "$dir" proof
ip link set lo up

rm -rf etc/systemd/system/* etc/fstab
chroot . dpkg --install /proof/flynn.deb >"$dir/dpkg.log" 2>&1 || {
	cat "$dir/dpkg.log"
	exit 1
}
cp -R proof/etc/. etc/
pivot_root . mnt # not chroot, in which nobody may create a user namespace
umount -l /mnt
exec env -i container=flynn-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=proof.service --show-status=no
