package plugin

import (
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Containment says how processes are held in.
type Containment struct {
	// Launcher is the command that runs Contain and becomes the plugin: the host's own program, as a rule. Without one nothing is
	// held in.
	Launcher []string
	// Required starts no plugin whose files and connections cannot be cut down.
	Required bool
	// Secret are files and folders of the host that no plugin may read. The launcher tries them.
	Secret []string
}

// Measure is one way in which a process is held in, as the process found itself just before it became the plugin.
type Measure struct {
	Name   string `json:"name"`
	On     bool   `json:"on"`
	Detail string `json:"detail,omitempty"`
}

// The measures.
const (
	MeasureFiles       = "files"
	MeasureNetwork     = "network"
	MeasureProcesses   = "processes"
	MeasurePrivileges  = "privileges"
	MeasureDescriptors = "descriptors"
	MeasureCore        = "core dumps"
	MeasureMemory      = "memory"
)

// cell is what the launcher is told: how to hold the process in, and what to become.
type cell struct {
	Path     string   `json:"path"` // program; descriptor 3 by its name in /proc where the file was verified
	Args     []string `json:"args"`
	Opened   bool     `json:"opened"` // descriptor 3 is the program, not the way to report
	Read     []string `json:"read"`
	Write    []string `json:"write"`
	Ports    []int    `json:"ports"` // TCP ports that may be connected to
	AnyPort  bool     `json:"any_port"`
	Memory   int64    `json:"memory"` // bytes; 0: no limit
	Secret   []string `json:"secret"`
	Required bool     `json:"required"`
}

// cellEnv carries a cell to the launcher, which takes it out of the environment.
const cellEnv = "FLYNN_PLUGIN_CELL"

// maxDescriptors is the limit on open files of one process.
const maxDescriptors = 1024

// memorySlack is what a process may use beyond what its manifest says, before the kernel refuses more: GOMEMLIMIT is a wish.
const memorySlack = 256 << 20

// ports are those that a plugin may connect to: its manifest's, and those that the operator wrote into the settings of the instance.
func ports(m Manifest, settings map[string]any) (list []int, all bool) {
	found := map[int]bool{}
	for _, entry := range m.Permissions.Network {
		_, port, err := net.SplitHostPort(entry)
		n, perr := strconv.Atoi(port)
		if err != nil || port == "*" || perr != nil {
			return nil, true // it asks for more than one port, or in a way that is only shown
		}
		found[n] = true
	}
	for _, n := range settingPorts(settings) {
		found[n] = true
	}
	if len(found) > 0 {
		found[53] = true // answers of the name service that are too long for a datagram
	}
	return slices.Sorted(maps.Keys(found)), false
}

// settingPorts are the ports of the addresses in settings: URLs and host:port, at any depth.
func settingPorts(v any) []int {
	var out []int
	switch v := v.(type) {
	case map[string]any:
		for _, item := range v {
			out = append(out, settingPorts(item)...)
		}
	case []any:
		for _, item := range v {
			out = append(out, settingPorts(item)...)
		}
	case string:
		if n := portOf(v); n > 0 {
			out = append(out, n)
		}
	}
	return out
}

// portOf is the port of an address; 0 when text is none.
func portOf(text string) int {
	port := ""
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		port = u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443"}[u.Scheme]
		}
	} else if _, p, err := net.SplitHostPort(text); err == nil {
		port = p
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return 0
	}
	return n
}

// systemFiles are what programs of a system read: libraries, certificates, how names are looked up, local time.
var systemFiles = []string{
	"/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/crypto-policies",
	"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols",
	"/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
	"/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/version", "/proc/sys/net/core/somaxconn", "/proc/sys/vm/overcommit_memory",
	"/sys/kernel/mm/transparent_hugepage", "/dev/urandom", "/dev/random", "/dev/zero",
}

// writableFiles are devices that lose or take what is written.
var writableFiles = []string{"/dev/null"}

// cell describes the cell of a process.
func (l *launcher) cell(args []string, path string, opened bool) cell {
	m := l.pack.manifest
	c := cell{
		Path: path, Args: args, Opened: opened, Memory: int64(m.Run.Memory), Required: l.host.config.Contain.Required,
		Read:   append(slices.Clone(systemFiles), l.pack.dir),
		Write:  append(slices.Clone(writableFiles), l.socketDir),
		Secret: l.host.secretFiles(l.stateDir),
	}
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if value, ok := l.host.lookupEnv(name); ok {
			c.Read = append(c.Read, strings.Split(value, ":")...)
		}
	}
	c.Read = append(c.Read, m.Permissions.Read...)
	c.Write = append(c.Write, m.Permissions.Write...)
	if !opened {
		c.Read = append(c.Read, filepath.Dir(path))
	}
	if l.stateDir != "" {
		c.Write = append(c.Write, l.stateDir)
	}
	c.Ports, c.AnyPort = ports(m, l.settings)
	return c
}

// secretFiles are what the launcher tries to read, and must not be able to: the store's lock, the folders of all states, and what the
// host named. A folder that holds the plugin's own cannot be among them, but its list of names can.
func (h *Host) secretFiles(own string) []string {
	out := slices.Clone(h.config.Contain.Secret)
	out = append(out, h.store.path(lockName), h.store.path("store"))
	if dir, err := filepath.Abs(h.config.StateDir); err == nil && dir != own {
		out = append(out, dir)
	}
	return out
}

// Containment tells what holds an instance's process in; nothing while there is none.
func (h *Host) Containment(instance string) []Measure {
	h.mu.Lock()
	u, ok := h.units[instance]
	h.mu.Unlock()
	if !ok {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.measures
}

// notContained is what is true of a process that was started without a launcher.
func notContained(why string) []Measure {
	var out []Measure
	for _, name := range []string{
		MeasureFiles, MeasureNetwork, MeasureProcesses, MeasurePrivileges, MeasureDescriptors, MeasureCore, MeasureMemory,
	} {
		out = append(out, Measure{Name: name, Detail: why})
	}
	return out
}
