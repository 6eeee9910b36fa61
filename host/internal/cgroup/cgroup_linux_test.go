package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// mountinfo is what a kernel tells of the hierarchies of both versions, and of one of which a container sees a part.
const mountinfo = `25 30 0:23 / /sys rw,nosuid - sysfs sysfs rw
31 25 0:27 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory
32 25 0:28 / /sys/fs/cgroup/cpu rw,nosuid shared:9 - cgroup cgroup rw,cpu
33 25 0:29 /docker/abc /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
`

func TestOwnGroup(t *testing.T) {
	for name, c := range map[string]struct {
		groups, dir string
		version     int
	}{
		"version 1":               {"4:memory:/user/a\n2:cpu:/\n", "/sys/fs/cgroup/memory/user/a", 1},
		"version 1 with another":  {"4:hugetlb,memory:/a\n0::/docker/abc/x\n", "/sys/fs/cgroup/memory/a", 1},
		"both":                    {"4:memory:/\n0::/docker/abc/x\n", "/sys/fs/cgroup/memory", 1},
		"version 2":               {"0::/docker/abc/flynn.service\n", "/sys/fs/cgroup/unified/flynn.service", 2},
		"version 2 at its root":   {"0::/docker/abc\n", "/sys/fs/cgroup/unified", 2},
		"not below what is shown": {"0::/docker/other\n", "", 0},
		"none":                    {"2:cpu:/\n", "", 0},
		"nothing":                 {"", "", 0},
		"garbage":                 {"memory\n::\n\x00:memory\n", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			groups, mounts := filepath.Join(dir, "cgroup"), filepath.Join(dir, "mountinfo")
			if err := errors.Join(os.WriteFile(groups, []byte(c.groups), 0o600), os.WriteFile(mounts, []byte(mountinfo), 0o600)); err != nil {
				t.Fatal(err)
			}
			got, version, err := own(groups, mounts, "memory")
			if c.dir == "" {
				if err == nil {
					t.Errorf("got %s", got)
				}
				return
			}
			if err != nil || got != c.dir || version != c.version {
				t.Errorf("got %s, %d, %v, want %s, %d", got, version, err, c.dir, c.version)
			}
		})
	}
}
