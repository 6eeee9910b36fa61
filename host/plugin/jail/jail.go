// Package jail contains the process of a plugin: it restricts what the process may read, write, connect to and use before it executes the
// plugin.
//
// The host makes a Config and starts its own program as the launcher, which finds the Config in its environment. Start with Enter, which
// is the whole launcher; it tests each Measure from inside, reports, and executes the plugin. Groups limit memory by control groups, and
// Names keep a process's copies of the files for name lookups up to date. The caller decides what a plugin may use. All of it is for Linux;
// on other systems each part reports that it is missing.
package jail

import (
	"errors"
	"slices"
)

// Config has the restrictions of the process, and the program that the launcher executes.
type Config struct {
	Path     string   `json:"path"` // program; descriptor 3 by its name in /proc if the file was verified
	Args     []string `json:"args"`
	Opened   bool     `json:"opened"` // descriptor 3 is the program, not the pipe for the report
	Read     []string `json:"read"`
	Write    []string `json:"write"`
	Ports    []int    `json:"ports"` // TCP ports that may be connected to
	AnyPort  bool     `json:"any_port"`
	Names    bool     `json:"names"`   // it looks host names up
	Sockets  []string `json:"sockets"` // unix sockets that may be connected to
	Root     string   `json:"root"`    // an empty folder for its view of files; "" if there can be none
	NoView   string   `json:"no_view"` // why Root is empty
	Memory   int64    `json:"memory"`  // bytes; 0: no limit
	Group    string   `json:"group"`   // control group that limits its memory to Most; "" if there is none
	NoGroup  string   `json:"no_group"`
	Most     int64    `json:"most"`   // bytes above which it is ended
	Secret   []string `json:"secret"` // files and folders that it must not be able to read; Enter tries them
	Required bool     `json:"required"`

	// Links are files of the view that are links to copies, in a folder that Read names.
	Links map[string]string `json:"links,omitempty"`
}

// Env is the variable with the Config, in JSON. The launcher removes it from the environment.
const Env = "FLYNN_PLUGIN_JAIL"

// Report is the launcher's report before it executes the plugin.
type Report struct {
	Measures []Measure `json:"measures,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// Measure is a restriction of a process, as it tested it just before it executed the plugin.
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

// Open returns the measures of a process without a launcher, which are all off.
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
	memorySlack    = 256 << 20 // bytes above the manifest's limit before the kernel refuses more: GOMEMLIMIT is not a hard limit
)

// ErrNoGroups means that the memory of a group of processes cannot be limited here.
var ErrNoGroups = errors.New("this system has no memory control groups for Flynn")

// systemFiles are the files that every program may need: libraries, certificates, name lookup, local time.
var systemFiles = []string{
	"/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/crypto-policies",
	"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols",
	"/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
	"/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/version", "/proc/sys/net/core/somaxconn", "/proc/sys/vm/overcommit_memory",
	"/sys/kernel/mm/transparent_hugepage", "/dev/urandom", "/dev/random", "/dev/zero",
}

// New returns the strictest jail in which a program can run: it can read the files that every program needs, and write to /dev/null.
func New(path string, args []string) Config {
	return Config{Path: path, Args: args, Read: slices.Clone(systemFiles), Write: []string{"/dev/null"}}
}
