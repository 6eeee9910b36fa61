// Package within makes the first process of a native sandbox: it builds the sandbox's view of files, drops what the process may do, and
// executes the sandbox's supervisor.
//
// Start with Enter and Serve (enter_linux.go, serve_linux.go), which flynn-sandboxd runs under the name Word for one host: Enter makes a user
// namespace, in which Serve starts a process for each Request. That the host does not do it by itself has three reasons. The process is a fork,
// which would be a copy of all the host's memory, with its secrets; to copy that takes as long as all else; and where a system lets only some
// programs make user namespaces, this is one of them.
//
// All that the sandboxes of a host have in common is made once: a view of files (views_linux.go, view_linux.go, image_linux.go), of which each
// gets a copy. Beside the process, threads make what it is given: mounts of the host's folders (sources_linux.go) and a network
// (network_linux.go). A sandbox whose sources are not known yet can be kept (spare_linux.go). All that the process itself does is a list of system calls that is made in advance (plan_linux.go, start_linux.go): its
// ids (ids_linux.go), /dev and /proc (special_linux.go), what it may reach outside (landlock_linux.go), and its privileges
// (privileges_linux.go). So a sandbox costs no start of a program but its supervisor's. Nothing of a session runs before all of it is done,
// and any failure ends the process.
package within

// Word as the first argument of flynn-sandboxd makes it start sandboxes for a host. It executes itself with ServeWord.
const (
	Word      = "native"
	ServeWord = "native-serve"
)

// SocketFD is the descriptor of the socket, of type SOCK_SEQPACKET. The first message on it is a Config with the ids of all sandboxes, each further
// one a Request, in JSON.
const SocketFD = 3

// MaxMessage bounds a message in bytes.
const MaxMessage = 128 << 10

// MaxReply bounds a Reply in bytes.
const MaxReply = 16 << 10

// Prepare is a message that says that a Request is about to come.
const Prepare = "prepare"

// Request asks Serve for a process. With it come descriptors: a socket for the Reply, the process's standard input, output and error, the pipe
// to which it reports a failure (Outcome), then Members files that move it into control groups when it writes 0 to them, and, with Folder, that of a group of version 2 in which it starts if
// the kernel can do that.
type Request struct {
	Config  Config
	Members int
	Folder  bool
	// Nonce is the supervisor's argument.
	Nonce string
	// Spare keeps the process, without a Nonce and without the mounts that are Later, for a Request that takes it. It is the only one: the one
	// before ends.
	Spare bool
	// Take is the process that was kept, or 0. The sources of the Config's Mounts are those that were Later, in the same order, and nothing
	// else of the Config counts. No descriptor but that for the Reply comes with it.
	Take int
}

// Reply is the answer to a Request, once the process has begun to set itself up. A descriptor of the process (pidfd_open(2)) comes
// with it unless there is an Error.
type Reply struct {
	PID   int
	Error string
	Errno int // the reason of an Error, if the kernel gave it
}

// Config describes a sandbox.
type Config struct {
	// Root is a folder of the host on which a view of files is made. Nothing in it is shown.
	Root string
	// Program is the supervisor, a path in the view.
	Program string
	// Host are files and folders of the host that the view shows for reading, at the same paths. A missing one is left out, and a link
	// becomes the same link.
	Host []string
	// Image is a folder of the host, without links in its path, whose files the view shows for reading; "" for none. A path that the
	// sandbox has of its own is in place of the image's.
	Image string
	// Env are variables of the supervisor besides its own, "NAME=value".
	Env []string
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
	// CPUs limits how many processors the supervisor uses; 0 for all.
	CPUs float64
	IDs  IDs
	// Single is whether the sandbox has one user, who is the supervisor's and the workload's alike.
	Single bool
	// Probe ends the process instead of executing Program, once everything is set up.
	Probe bool

	all []Mount // set by resolve
}

// IDs are the users and groups of a sandbox.
type IDs struct {
	Users, Groups []Range
	// Programs map the users and the groups; "" where the kernel lets Serve do it.
	Programs [2]string
}

// Range maps Size ids from Inside on to those of the host from Outside on.
type Range struct{ Inside, Outside, Size int }

// File is a file with a text.
type File struct{ Path, Text string }

// Mount is a folder or file at Target.
type Mount struct {
	Source, Target string // Source is empty for memory
	ReadOnly       bool
	Alone          bool // without other file systems that are mounted below Source
	Bytes          int64
	Later          bool // its Source comes with the Request that takes the sandbox
	File           bool // of one that is Later: it is no folder

	what kind // set by resolve
}

// kind is what is known of a path of the view, before the view exists.
type kind uint8

const (
	unknown   kind = iota
	directory      // one of the view's own, in memory
	file
	link
	foreign // a mounted folder, whose content is not known
	given   // what a mount of the sandbox's own will be on
)
