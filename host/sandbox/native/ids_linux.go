package native

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// mapping is a range of ids: size ids from inside on are those of the host from outside on.
type mapping struct{ inside, outside, size int }

// ids are the users and groups of a sandbox. A sandbox has three kinds: root, which is its supervisor's; the workload's, which is the user that
// owns the workspace; and a range that the supervisor gives to its helper and, as groups, to commands, to find their processes.
type ids struct {
	users, groups []mapping
	// direct is whether the host may map them by itself. Otherwise the system's programs do, which check them against the user's ranges.
	direct bool
	// single is why there is one user for the supervisor and the workload; "" if there are more.
	single string
}

// The range, as package supervise uses it.
const (
	firstSpare = 40000
	spareCount = 20002
)

// findIDs returns the ids that this process can map. Every user may map himself.
func findIDs() ids {
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 { // as an engine does: the same ids, without root's rights
		same := []mapping{{0, 0, 1 << 16}}
		return ids{users: same, groups: same, direct: true}
	}
	several, err := rangesOf(uid, gid)
	if err != nil {
		return ids{users: []mapping{{uid, uid, 1}}, groups: []mapping{{gid, gid, 1}}, direct: true, single: err.Error()}
	}
	return several
}

// rangesOf returns the ids that the system's programs map for a user.
func rangesOf(uid, gid int) (ids, error) {
	if gains, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || gains == 1 {
		return ids{}, errors.New("this process may not gain privileges, as newuidmap has to (NoNewPrivileges=yes of a unit)")
	}
	for _, program := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(program); err != nil {
			return ids{}, errors.New(`there is no newuidmap, with which a user other than root makes sandboxes: install the package "uidmap" (Debian, Ubuntu) or "shadow"`)
		}
	}
	users, err := subordinate("/etc/subuid", uid)
	if err != nil {
		return ids{}, err
	}
	groups, err := subordinate("/etc/subgid", uid)
	if err != nil {
		return ids{}, err
	}
	userMap, err := arrange(uid, users)
	if err != nil {
		return ids{}, err
	}
	groupMap, err := arrange(gid, groups)
	return ids{users: userMap, groups: groupMap}, err
}

// arrange maps root and the spare ids to a user's range, and own to itself.
func arrange(own, from int) ([]mapping, error) {
	if own >= firstSpare && own < firstSpare+spareCount {
		return nil, fmt.Errorf("the host's user or group %d is one of those that sandboxes use, %d to %d: run Flynn as another one", own, firstSpare, firstSpare+spareCount-1)
	}
	return []mapping{{0, from, 1}, {own, own, 1}, {firstSpare, from + 1, spareCount}}, nil
}

// subordinate returns the first id of a large enough range that a file gives to a user, by name or number; see subuid(5).
func subordinate(file string, uid int) (int, error) {
	names := []string{strconv.Itoa(uid)}
	if u, err := user.LookupId(names[0]); err == nil {
		names = append(names, u.Username)
	}
	hint := fmt.Sprintf(`give it one as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s`, names[len(names)-1])
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%s has no range of ids for user %s: %s", file, names[len(names)-1], hint)
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		parts := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(parts) != 3 || !slices.Contains(names, parts[0]) {
			continue
		}
		first, err1 := strconv.Atoi(parts[1])
		size, err2 := strconv.Atoi(parts[2])
		if err1 == nil && err2 == nil && first > 0 && size > spareCount {
			return first, nil
		}
	}
	return 0, fmt.Errorf("%s has no range of %d ids for user %s: %s", file, spareCount+1, names[len(names)-1], hint)
}

// apply maps the ids of a started process.
func (m ids) apply(pid int) error {
	if m.direct {
		return m.write(pid)
	}
	var calls errgroup.Group
	for _, call := range []struct {
		program string
		maps    []mapping
	}{{"newuidmap", m.users}, {"newgidmap", m.groups}} {
		args := append([]string{strconv.Itoa(pid)}, strings.Fields(lines(call.maps))...)
		calls.Go(func() error {
			if said, err := exec.Command(call.program, args...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", call.program, err, strings.TrimSpace(string(said)))
			}
			return nil
		})
	}
	return calls.Wait()
}

// write maps the ids without the system's programs. The kernel wants a single group's process to give up the right to set groups first.
func (m ids) write(pid int) error {
	groups := "allow"
	if m.single != "" {
		groups = "deny"
	}
	for _, file := range []struct{ name, text string }{{"uid_map", lines(m.users)}, {"setgroups", groups}, {"gid_map", lines(m.groups)}} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, file.name), []byte(file.text), 0); err != nil {
			return fmt.Errorf("map the ids of a sandbox: %w", err)
		}
	}
	return nil
}

// lines are the lines of a file such as uid_map; see user_namespaces(7).
func lines(maps []mapping) (text string) {
	for _, one := range maps {
		text += fmt.Sprintf("%d %d %d\n", one.inside, one.outside, one.size)
	}
	return text
}
