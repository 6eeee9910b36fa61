// Package within turns a process in fresh namespaces into process 1 of a native sandbox: it builds the sandbox's view of files, drops what
// the process may do, and executes the sandbox's supervisor.
//
// Package native starts the process, which is flynn-sandboxd under the name Word, and sends it a Config. Start with Enter (enter_linux.go);
// view_linux.go mounts the files. Nothing of a session runs before all of it is done, and
// any failure ends the process.
package within

// Word as the first argument of flynn-sandboxd makes it the first process of a native sandbox.
const Word = "native"

// ConfigFD is the descriptor from which Enter reads its Config, and ReportFD that to which it writes why it failed, or nothing.
const (
	ConfigFD = 3
	ReportFD = 4
)

// Config describes a sandbox to Enter.
type Config struct {
	// Root is an empty folder of the host on which the view of files is mounted.
	Root string
	// Argv is the program to execute, a path in the view, with its arguments.
	Argv []string
	// Host are files and folders of the host that the view shows for reading, at the same paths. A missing one is left out, and a link
	// becomes the same link.
	Host []string
	// Files are small files that the view has besides.
	Files []File
	// Mounts are mounted in this order.
	Mounts []Mount
	// Counters are the sandbox's control groups, shown for reading below /sys/fs/cgroup: a name, or "" for all, and its folder.
	Counters map[string]string
	// Loopback is whether the network is the sandbox's own, whose loopback interface has to be started.
	Loopback bool
	// Processes limits the processes and threads; 0 for no limit.
	Processes uint64
	// Single is whether the sandbox has one user, who is the supervisor's and the workload's alike.
	Single bool
	// Probe ends the process instead of executing Argv, once everything is set up.
	Probe bool
}

// File is a file with a text.
type File struct{ Path, Text string }

// Mount is a folder or file at Target.
type Mount struct {
	Source, Target string // Source is empty for memory
	ReadOnly       bool
	Alone          bool // without other file systems that are mounted below Source
	Bytes          int64
}
