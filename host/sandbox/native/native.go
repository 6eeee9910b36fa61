// Package native drives sandboxes without an engine: each is a process in Linux namespaces of its own, which sees the host's programs for
// reading, its workspace, and nothing else of the machine. It needs no service and no root. Where a user has a range of ids (subuid(5)),
// the supervisor and the workload have different users, as in a container.
//
// Start with New. A process of flynn-sandboxd (server_linux.go) starts the first process of each sandbox (package within), which executes the
// supervisor that every sandbox has, so commands, files, the proxy, bridges and the kill ladder are the same as in containers. ids_linux.go
// finds the users and groups, launch_linux.go describes the process, groups_linux.go limits it, and spare_linux.go starts one beforehand. A sandbox that the host leaves to a lease is found again by its
// record (record_linux.go), which names its process and when that began.
//
// An image that is an absolute path names a folder or an archive (package imagefiles) whose files the sandbox sees in place of the host's; every
// other image stands for the host's. This driver has no volumes, services and other runtimes, and no networks but none, host and the proxy.
// Capabilities has the limits that it cannot hold on a machine.
package native

// Config configures a Driver.
type Config struct {
	// Folder keeps the records of sandboxes; two instances must not share one.
	Folder string
	// Images keeps the unpacked archives of images.
	Images string
	// Supervisor finds flynn-sandboxd. It is called when the first sandbox is made.
	Supervisor func() (string, error)
}
