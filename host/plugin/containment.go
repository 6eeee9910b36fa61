package plugin

import (
	"maps"
	"net"
	"net/netip"
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
	MeasureSockets     = "unix sockets"
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
	Names    bool     `json:"names"`   // it looks names up
	Sockets  []string `json:"sockets"` // unix sockets that may be connected to
	Root     string   `json:"root"`    // an empty folder in which a view of files can be built; empty where that is not possible
	NoView   string   `json:"no_view"` // why Root is empty
	Memory   int64    `json:"memory"`  // bytes; 0: no limit
	Group    string   `json:"group"`   // control group that limits its memory to Most; empty where there is none
	NoGroup  string   `json:"no_group"`
	Most     int64    `json:"most"` // bytes at which it is ended
	Secret   []string `json:"secret"`
	Required bool     `json:"required"`

	// Links are files of the view that are links to copies of them, which lie in a folder that Read names.
	Links map[string]string `json:"links,omitempty"`
}

// cellEnv carries a cell to the launcher, which takes it out of the environment.
const cellEnv = "FLYNN_PLUGIN_CELL"

// maxDescriptors is the limit on open files of one process.
const maxDescriptors = 1024

// memorySlack is what a process may use beyond what its manifest says, before the kernel refuses more: GOMEMLIMIT is a wish.
const memorySlack = 256 << 20

// network is what a plugin may connect to over the network.
type network struct {
	ports []int // of TCP
	all   bool  // any port
	names bool  // some host has a name, which has to be looked up
}

// networkOf is what the manifest asks for and the operator grants, and the addresses that he wrote into the settings of the instance.
func networkOf(entries []string, settings map[string]any) network {
	var n network
	found := map[int]bool{}
	for _, entry := range entries {
		host, port, err := net.SplitHostPort(entry)
		number, perr := strconv.Atoi(port)
		if err != nil || port == "*" || perr != nil {
			return network{all: true, names: true} // it asks for more than one port, or in a way that is only shown
		}
		found[number] = true
		n.names = n.names || !literal(host)
	}
	for _, a := range addresses(settings) {
		found[a.port] = true
		n.names = n.names || !literal(a.host)
	}
	if n.names {
		found[53] = true // answers of the name service that are too long for a datagram
	}
	n.ports = slices.Sorted(maps.Keys(found))
	return n
}

// literal tells whether a host is found without a name service.
func literal(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost"
}

// address is a host and a port of it.
type address struct {
	host string
	port int
}

// addresses are those in settings: URLs and host:port, at any depth.
func addresses(v any) []address {
	var out []address
	switch v := v.(type) {
	case map[string]any:
		for _, item := range v {
			out = append(out, addresses(item)...)
		}
	case []any:
		for _, item := range v {
			out = append(out, addresses(item)...)
		}
	case string:
		if a := addressOf(v); a.port > 0 {
			out = append(out, a)
		}
	}
	return out
}

// addressOf reads an address; its port is 0 when text is none.
func addressOf(text string) address {
	var host, port string
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		host, port = u.Hostname(), u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443"}[u.Scheme]
		}
	} else if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return address{}
	}
	return address{host, n}
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
		Path: path, Args: args, Opened: opened, Memory: int64(m.Run.Memory), Most: l.instance.hardLimit(m), Required: l.host.config.Contain.Required,
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
	if l.host.names != nil {
		c.Read, c.Links = append(c.Read, l.host.names.dir), l.host.names.links()
	}
	if l.stateDir != "" {
		c.Write = append(c.Write, l.stateDir)
	}
	granted := l.instance.Grant
	c.Read, c.Write, c.Sockets = append(c.Read, granted.Read...), append(c.Write, granted.Write...), slices.Clone(granted.Sockets)
	to := networkOf(slices.Concat(m.Permissions.Network, granted.Network), l.instance.Settings)
	c.Ports, c.AnyPort, c.Names = to.ports, to.all, to.names
	if l.host.config.Services != nil && len(m.Permissions.Host) > 0 {
		c.Sockets = append(c.Sockets, filepath.Join(l.host.config.RunDir, servicesSocket))
	}
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
		MeasureFiles, MeasureNetwork, MeasureSockets, MeasureProcesses, MeasurePrivileges, MeasureDescriptors, MeasureCore, MeasureMemory,
	} {
		out = append(out, Measure{Name: name, Detail: why})
	}
	return out
}
