// Package channel is for writing a channel plugin: a program that connects Flynn to a chat platform.
//
// Implement Channel and pass it to Main. The package handles the rest: the handshake with the host, sequence numbers, credit, acks, replay
// after a broken stream, repeated idempotency keys, logging, shutdown, and the end of the process when its host is gone.
//
//	func main() { channel.Main(&irc{}) }
//
// Further one-method interfaces declare what a platform can do besides receiving and sending (Editor, Typer,
// Deleter, Reacter, Fetcher, Uploader, Resolver, Reconciler): implement one, and the package declares the ability to the host.
//
// The methods of a Channel are called in this order: Describe at any time; Configure once; then Run, and concurrently with it Send and the
// optional methods, from many goroutines. When the context of Run ends, close every connection and return. Calls other than Send, Fetch and
// Upload end after a minute.
//
// Where several hosts share the work, the host that has the channel gives the process a lease and renews it. The package obeys it, by a clock
// that goes on while the process or the machine is suspended: when a lease expires, the context of Run ends with the cause ErrLeaseExpired, and
// events are refused; a Send that has not begun is not sent, and the context of one that has begun ends a moment later, its Patience at once.
// If Run has not returned after half a second, the process ends. With the next lease Run is called again. So nobody else has to be asked
// before a call of the platform: use the context that the method was given, keep no connection outside Run, and do not wait for the host
// there without that context. A host alone grants no leases; then Run is called once.
//
// When a host has died, its successor waits until the lease of the other process must have expired. If sending needs nothing that Run has,
// because it is a request of its own, set Capabilities.SendsApart: Send and the optional methods are called at once then, and Run after the wait.
//
// The host has an event only when Deliver returns nil (or the function given to DeliverAsync is called with nil): it is on disk then.
// Acknowledge it to the platform then, and not before, so that nothing is lost when either side dies. Events may arrive twice; the host
// drops repeats by their ID. ErrMalformed means that no host ever accepts the event: do not send it again.
//
// The host starts a plugin that is only a channel with GOMAXPROCS=1, because relaying messages is fastest on one thread. A plugin that
// computes sets runtime.GOMAXPROCS itself.
//
// Write logs with Config.Log. Standard output belongs to the handshake. Test with sdk/plugintest.
package channel
