// Package within makes the first process of a native sandbox: it builds the sandbox's view of files, drops what the process may do, and
// executes the sandbox's supervisor.
//
// Start with Config.Start (start_linux.go), which package native calls. The process is a fork of the host's. Everything that it does is a
// list of system calls that is made in advance (plan_linux.go): its files (view_linux.go), what it may do with them (landlock_linux.go), and
// its privileges (privileges_linux.go). So a sandbox costs no start of another program, and nothing is decided in a half-made one. Nothing of
// a session runs before all of it is done, and any failure ends the process.
package within

// Config describes a sandbox.
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
	// OpenFiles and Processes are resource limits; 0 for none.
	OpenFiles, Processes uint64
	// CPUs limits how many processors the supervisor uses; 0 for all.
	CPUs float64
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
