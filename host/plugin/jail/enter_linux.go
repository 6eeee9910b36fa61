package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
	landlocksys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Weak returns nothing: what is missing depends on the kernel, and the launcher reports it for each process.
func Weak() []string { return nil }

// Enter is the whole launcher: it restricts the process as its environment says, tests the restrictions, reports them, and executes the
// plugin. It returns only with an error.
func Enter() error {
	runtime.LockOSThread() // privileges belong to a thread, and this one executes the plugin
	debug.SetGCPercent(-1) // the collector could not start a thread once memory is limited
	var c Config
	if err := json.Unmarshal([]byte(os.Getenv(Env)), &c); err != nil {
		return fmt.Errorf("start a plugin in its jail: only the host may set %s: %w", Env, err)
	}
	if err := os.Unsetenv(Env); err != nil {
		return err
	}
	// The parent-death signal belongs to a thread as well, and the host has set it for another one of this process.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	way := 3
	if c.Opened {
		unix.CloseOnExec(3) // not an os.File: the garbage collector might close it before the exec
		way = 4
	}
	unix.CloseOnExec(way)
	to := os.NewFile(uintptr(way), "report")
	grouped := c.group()
	said := Report{Measures: c.enforce()}
	if c.Required {
		said.Error = lacking(said.Measures, c.AnyPort)
	}
	if said.Error != "" {
		return errors.Join(json.NewEncoder(to).Encode(said), errors.New(said.Error))
	}
	err := c.become(way, said, grouped)
	_ = json.NewEncoder(to).Encode(Report{Error: fmt.Sprintf("start %s: %v", c.Args[0], err)})
	return err
}

// lacking is the error text for a required measure that is off; "" if none is.
func lacking(measures []Measure, anyPort bool) string {
	for _, m := range measures {
		if !m.On && (m.Name == MeasureFiles || m.Name == MeasureSockets || m.Name == MeasureNetwork && !anyPort) {
			return fmt.Sprintf(`the plugin's %s cannot be restricted, and [plugins] containment = "required": %s`, m.Name, m.Detail)
		}
	}
	return ""
}

// enforce takes every measure and tests it from inside. A later measure must not need what an earlier one takes away.
func (c Config) enforce() []Measure {
	out := []Measure{c.descriptors(), c.core()}
	there := slices.DeleteFunc(slices.Clone(c.Secret), func(name string) bool {
		_, err := os.Stat(name)
		return err != nil
	})
	view := c.enterView()
	out = append(out, c.privileges())
	abi, err := landlocksys.LandlockGetABIVersion()
	if err != nil {
		abi = 0
	}
	out = append(out, c.processes(abi))
	filter := filterSockets(c.reach())
	return append(out, c.network(abi, filter), c.sockets(filter, view), c.files(abi, there, view)) // files last: the others read /proc
}

// limit sets a resource limit and reads it back.
func limit(name string, resource int, most uint64, detail string) Measure {
	most = allowed(resource, most)
	var now syscall.Rlimit
	err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most})
	if err == nil {
		err = syscall.Getrlimit(resource, &now)
	}
	if err != nil || now.Max != most {
		return Measure{Name: name, Detail: fmt.Sprintf("the limit could not be set: %v", err)}
	}
	return Measure{Name: name, On: true, Detail: detail}
}

func (c Config) descriptors() Measure {
	return limit(MeasureDescriptors, unix.RLIMIT_NOFILE, maxDescriptors, fmt.Sprintf("at most %d open files", maxDescriptors))
}

func (c Config) core() Measure { return limit(MeasureCore, unix.RLIMIT_CORE, 0, "none") }

// group puts the process into its control group, or returns why there is none.
func (c Config) group() error {
	if c.Group == "" {
		return errors.New(c.NoGroup)
	}
	return joinGroup(c.Group)
}

// memory describes the limits of the process's memory: a resource limit, and either its control group or the host.
func (c Config) memory(limited Measure, grouped error) Measure {
	m := limited
	if grouped == nil {
		m.On, m.Detail = true, fmt.Sprintf("a control group, ended above %d MiB with all its children; %s", c.Most>>20, m.Detail)
		return m
	}
	m.Detail += fmt.Sprintf("; the host ends the process above %d MiB, but does not count its children, because it has no control group: %v", c.Most>>20, grouped)
	return m
}

// privileges keeps the process and its children from gaining privileges, and takes root's away.
func (c Config) privileges() Measure {
	m := Measure{Name: MeasurePrivileges}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		m.Detail = fmt.Sprintf("no_new_privs: %v", err)
		return m
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	left := 0
	for capability := uintptr(0); capability <= unix.CAP_LAST_CAP; capability++ {
		if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, capability, 0, 0, 0); err != nil || has == 0 {
			continue
		}
		if unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0) != nil {
			left++
		}
	}
	_ = dropInheritable()
	uid := os.Getuid()
	has, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	m.On = err == nil && has == 1 && (uid != 0 || left == 0)
	m.Detail = fmt.Sprintf("user %d, no new privileges", uid)
	switch {
	case uid == 0 && left == 0:
		m.Detail += ", no capabilities: it still owns root's files, as far as its view of files shows them"
	case uid == 0:
		m.Detail += fmt.Sprintf(", but %d capabilities of root are left", left)
	}
	return m
}

// dropInheritable clears the inheritable capabilities.
func dropInheritable() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	return unix.Capset(&header, &data[0])
}

// processes keeps the process from signalling others and from their abstract sockets.
func (c Config) processes(abi int) Measure {
	m := Measure{Name: MeasureProcesses}
	if abi < 6 {
		m.Detail = landlockLacks(abi, 6)
		return m
	}
	if err := landlock.V6.RestrictScoped(); err != nil {
		m.Detail = err.Error()
		return m
	}
	// Its parent is the host: asking whether a signal could be sent sends none.
	if err := unix.Kill(os.Getppid(), 0); !errors.Is(err, unix.EPERM) {
		m.Detail = fmt.Sprintf("a signal to the host would not be refused (%v)", err)
		return m
	}
	m.On, m.Detail = true, "no signals to other processes and none of their abstract sockets"
	return m
}

// landlockLacks says why Landlock cannot take a measure.
func landlockLacks(abi, needed int) string {
	if abi == 0 {
		return "this kernel has no Landlock"
	}
	return fmt.Sprintf("Landlock ABI %d does not know it: %d is needed", abi, needed)
}

// closedPort is a port that no plugin uses: the connection is refused in any case, and the error says by whom.
const closedPort = 1

// network restricts connections over the network: the filter decides which sockets can be made, Landlock which TCP ports can be reached.
func (c Config) network(abi int, filter error) Measure {
	m := Measure{Name: MeasureNetwork}
	reach := c.reach()
	switch {
	case c.AnyPort:
		m.Detail = "the manifest asks for any port; no raw sockets"
		if filter != nil {
			m.Detail = "the manifest asks for any port"
		}
		return m
	case filter != nil:
		m.Detail = filter.Error()
		return m
	case !reach.stream:
		m.On, m.Detail = true, "none: it cannot make a TCP, UDP or other network socket"
		return m
	case abi < 4:
		m.Detail = landlockLacks(abi, 4)
		return m
	}
	var rules []landlock.Rule
	for _, port := range c.Ports {
		rules = append(rules, landlock.ConnectTCP(uint16(port)))
	}
	if err := landlock.V4.RestrictNet(rules...); err != nil {
		m.Detail = err.Error()
		return m
	}
	if slices.Contains(c.Ports, closedPort) {
		m.Detail = "not tested, because port 1 is allowed"
		return m
	}
	conn, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", closedPort), time.Second)
	if err == nil {
		_ = conn.Close()
	}
	if !errors.Is(err, unix.EACCES) {
		m.Detail = fmt.Sprintf("a connection to a port that is not allowed was not refused by the kernel (%v)", err)
		return m
	}
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Ports), " ", ", "), "[]")
	m.On, m.Detail = true, fmt.Sprintf("no listening TCP port, and connections only to %s on any host; no raw sockets", list)
	if reach.name {
		m.Detail += "; UDP, which looks names up, is not restricted"
	} else {
		m.Detail += " and no UDP"
	}
	return m
}

// sockets keeps the process from other unix sockets, such as that of a container engine.
func (c Config) sockets(filter, view error) Measure {
	m := Measure{Name: MeasureSockets}
	switch {
	case filter == nil && !c.reach().connect:
		m.On, m.Detail = true, "none: it accepts connections and cannot make any"
	case view == nil && filter == nil:
		m.On, m.Detail = true, fmt.Sprintf("those in its own folders, and %d of the host; others are not in its view of files", len(c.Sockets))
	case view != nil:
		m.Detail = "all that its user may open: " + view.Error()
	default:
		m.Detail = filter.Error()
	}
	return m
}

// files restricts the files. there are files of the host that must not be readable afterwards; view is why there is no view of files, in
// which they could not even be found.
func (c Config) files(abi int, there []string, view error) Measure {
	m := Measure{Name: MeasureFiles}
	how := landlockLacks(abi, 1)
	if abi > 0 {
		how = fmt.Sprintf("Landlock ABI %d", abi)
		if err := c.restrictFiles(); err != nil {
			m.Detail = err.Error()
			return m
		}
	}
	if view == nil {
		how += ", its own root"
	}
	for _, name := range there {
		f, err := os.Open(name)
		switch {
		case err == nil:
			_ = f.Close()
			m.Detail = name + " can be read: " + how
			return m
		case errors.Is(err, unix.EACCES), errors.Is(err, fs.ErrNotExist):
		default:
			m.Detail = err.Error()
			return m
		}
	}
	if len(there) == 0 {
		m.Detail = "there was no file to test it with"
		return m
	}
	m.On = true
	m.Detail = fmt.Sprintf("its own folder, the system's libraries and certificates; %d files and folders of the host were tried and refused (%s)", len(there), how)
	return m
}

// restrictFiles restricts which files may be read and written.
func (c Config) restrictFiles() error {
	var rules []landlock.Rule
	for _, name := range c.Read {
		rules = appendRule(rules, name, landlock.RODirs, landlock.ROFiles)
	}
	for _, name := range c.Write {
		rules = appendRule(rules, name, landlock.RWDirs, landlock.RWFiles)
	}
	return landlock.V5.BestEffort().RestrictPaths(rules...)
}

// appendRule adds a rule for a folder or a file, if it exists.
func appendRule(rules []landlock.Rule, name string, dir, file func(...string) landlock.FSRule) []landlock.Rule {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return rules
	case info.IsDir():
		return append(rules, dir(name))
	}
	return append(rules, file(name))
}
