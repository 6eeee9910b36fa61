// Package plugin installs, verifies, starts, supervises and stops plugin processes, and is the only package that talks to them.
//
// Start with Host: New, Add for each configured instance, Run. The user of an instance passes a Handler to Add, which is called with a
// connection whenever the instance is ready. Store is the folder of installed plugins and its lock. A supervisor keeps one instance running
// (supervisor.go), a launcher starts one process (launch.go), in a jail (package jail).
//
// Everything here applies to every kind of plugin. The differences are in a folder for each kind below kind, listed in kinds.go: the table
// of plugin.toml, what Describe has to confirm, and the client of the kind's own service.
//
// A separate process first of all isolates crashes. How else it is contained depends on the system (Containment): limits, no privileges, and
// restricted files and sockets by Landlock, a seccomp filter and its own root; each process reports from inside which of these work. It
// still runs as the host's user. Everything that it sends is treated as hostile: the clients of the kinds check and bound it. The package
// stores no messages and repeats none: that is the business of its users, such as host/channel.
//
// No process may outlive its host: its standard input is closed, on Linux the kernel signals it, and the next host ends whatever it started
// and left behind, by its control group or its environment (strays_linux.go). A process with its own view of files sees changes of
// /etc/resolv.conf and /etc/hosts; one that only Landlock restricts, on a system without mount namespaces, cannot read a file that
// replaced another until it is restarted.
//
// The store can hold several versions of a plugin. A running Host follows the lock (follow.go): it tries another version beside the running
// one, or after it if two must not run at the same time, and returns to the old one if that fails (canary.go).
//
// # What is used of go-plugin, and what is not
//
// go-plugin starts the process, checks the cookie and the protocol number, and sets up mutual TLS. Everything after the
// handshake line is our own connection, for four reasons: its Kill gives a fixed 2 s to one pid and none to its
// children; a client that fails between handshake and first call leaks its connection; its receive limit is 2 GiB;
// and its broker opens sockets that plugins in other languages cannot serve. Its reader of standard error is not used either: a JSON
// line whose "@message" is not a string panics the host, and so does a certificate in the handshake line of a
// plugin without TLS. The runner therefore passes go-plugin one checked line and nothing else.
package plugin
