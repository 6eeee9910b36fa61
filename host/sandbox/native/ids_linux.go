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

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/native/within"
)

// ids are the users and groups of a sandbox. A sandbox has three kinds: root, which is its supervisor's; the workload's, which is the user that
// owns the workspace; and a range that the supervisor gives to its helper and, as groups, to commands, to find their processes.
type ids struct {
	within.IDs
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
		same := []within.Range{{Size: 1 << 16}}
		return ids{IDs: within.IDs{Users: same, Groups: same}}
	}
	several, err := rangesOf(uid, gid)
	if err != nil {
		own := func(id int) []within.Range { return []within.Range{{Inside: id, Outside: id, Size: 1}} }
		return ids{IDs: within.IDs{Users: own(uid), Groups: own(gid)}, single: err.Error()}
	}
	return several
}

// rangesOf returns the ids that the system's programs map for a user.
func rangesOf(uid, gid int) (ids, error) {
	if gains, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || gains == 1 {
		return ids{}, errors.New("this process may not gain privileges, as newuidmap has to (NoNewPrivileges=yes of a unit)")
	}
	var programs [2]string
	for i, program := range []string{"newuidmap", "newgidmap"} {
		var err error
		if programs[i], err = exec.LookPath(program); err != nil {
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
	return ids{IDs: within.IDs{Users: userMap, Groups: groupMap, Programs: programs}}, err
}

// arrange maps root and the spare ids to a user's range, and own to itself.
func arrange(own, from int) ([]within.Range, error) {
	if own >= firstSpare && own < firstSpare+spareCount {
		return nil, fmt.Errorf("the host's user or group %d is one of those that sandboxes use, %d to %d: run Flynn as another one", own, firstSpare, firstSpare+spareCount-1)
	}
	return []within.Range{
		{Outside: from, Size: 1}, {Inside: own, Outside: own, Size: 1}, {Inside: firstSpare, Outside: from + 1, Size: spareCount},
	}, nil
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
