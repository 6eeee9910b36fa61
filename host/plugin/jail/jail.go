// Package jail holds the process of a plugin in: what it may read, write, connect to and use is cut down before it becomes the plugin.
//
// The host makes a Config and starts its own program as the launcher, which finds the Config in its environment. Start with
// Enter, which is the whole of the launcher; it looks at each Measure from inside, reports, and becomes the plugin. Groups bound memory
// by control groups, and Names keep what a process sees of the files for names up to date. The caller decides which plugin may have what. On other systems than Linux there is nothing of all this, and each part says so.
package jail

import (
	"errors"
	"slices"
)

// Config says how the launcher holds the process in, and which program it becomes.
type Config struct {
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
	Most     int64    `json:"most"`   // bytes at which it is ended
	Secret   []string `json:"secret"` // files and folders that it must not be able to read: they are tried
	Required bool     `json:"required"`

	// Links are files of the view that are links to copies of them, which lie in a folder that Read names.
	Links map[string]string `json:"links,omitempty"`
}

// Env is the variable with the Config, in JSON. The launcher takes it out of the environment.
const Env = "FLYNN_PLUGIN_JAIL"

// Report is what the launcher says before it becomes the plugin.
type Report struct {
	Measures []Measure `json:"measures,omitempty"`
	Error    string    `json:"error,omitempty"`
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

// Open returns the measures of a process that was started without a launcher, which are all missing.
func Open(why string) []Measure {
	var out []Measure
	for _, name := range []string{
		MeasureFiles, MeasureNetwork, MeasureSockets, MeasureProcesses, MeasurePrivileges, MeasureDescriptors, MeasureCore, MeasureMemory,
	} {
		out = append(out, Measure{Name: name, Detail: why})
	}
	return out
}

// Bounds on one process.
const (
	maxDescriptors = 1024      // open files
	memorySlack    = 256 << 20 // bytes beyond what its manifest says, before the kernel refuses more: GOMEMLIMIT is a wish
)

// ErrNoGroups means that nothing limits the memory of a group of processes here.
var ErrNoGroups = errors.New("this system has no control groups of memory for Flynn")

// systemFiles are what programs of a system read: libraries, certificates, how names are looked up, local time.
var systemFiles = []string{
	"/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/crypto-policies",
	"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols",
	"/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
	"/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/version", "/proc/sys/net/core/somaxconn", "/proc/sys/vm/overcommit_memory",
	"/sys/kernel/mm/transparent_hugepage", "/dev/urandom", "/dev/random", "/dev/zero",
}

// New returns the jail in which a program can run, and do nothing with the computer: it reads what programs of the system read, and writes
// to /dev/null.
func New(path string, args []string) Config {
	return Config{Path: path, Args: args, Read: slices.Clone(systemFiles), Write: []string{"/dev/null"}}
}
