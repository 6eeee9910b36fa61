// Package plugin installs, verifies, starts, supervises and stops plugin processes, and is the only package that speaks
// with them.
//
// Start with Host: New, Add for each configured instance, Run. A user of an instance gives Add a Handler, which is called with a connection
// whenever the instance is ready. Store is the folder of installed plugins and its lock. A supervisor keeps up one instance
// (supervisor.go), a launcher starts one process (launch.go), in a jail (package jail).
//
// Everything here holds for every kind of plugin. What is different is in a folder of each kind below kind, and kinds.go lists them: the
// table of plugin.toml, what Describe has to confirm, and the client of the kind's own service.
//
// A plugin is crash isolation first. What else holds it in depends on the system (Containment): limits, no privileges, and a view of
// files and sockets cut down by Landlock, a filter of calls and a root of its own; each process says from inside which of these hold. It
// still runs as the host's user. What it sends is treated as hostile in any case; everything that comes out of a kind's client is checked
// and bounded. The package keeps no messages and retries none: that is the business of the users, such as host/channel.
//
// No process is to outlive its host: its standard input ends, on Linux the kernel signals it, and what it has started and left behind is
// ended by the next host, in its control group or by its environment (strays_linux.go). A process with a view of files of its own sees
// /etc/resolv.conf and /etc/hosts change; one that is held in by Landlock alone, on a system without namespaces of mounts, is refused a file
// that was put in the place of another, until it is restarted.
//
// Several versions of a plugin lie side by side in the store. A running Host follows the lock (follow.go): another version is tried
// beside the one at work, or after it where two must not be at work at a time, and given up when it fails (canary.go).
//
// # What is taken from go-plugin, and what is not
//
// go-plugin starts the process, checks the cookie and the protocol number, and sets up mutual TLS. Everything after the
// handshake line is our own connection, for four reasons: its Kill gives a fixed 2 s to one pid and none to its
// children; a client that fails between handshake and first call leaks its connection; its receive limit is 2 GiB;
// and its broker opens sockets that plugins in other languages cannot serve. Its reader of standard error is not used either: a JSON
// line whose "@message" is not a string panics the host, and so does a certificate in the handshake line of a
// plugin without TLS. The runner therefore hands go-plugin one checked line and nothing else.
package plugin
