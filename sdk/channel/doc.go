// Package channel is for writing a channel plugin: a program that connects Flynn to a chat platform.
//
// Implement Channel, hand it to Main, and the package does the rest: the handshake with the host, sequence
// numbers, credit, acks, replay after a broken stream, repeated idempotency keys, logging, an orderly end, and
// the end of the process when its host is gone.
//
//	func main() { channel.Main(&irc{}) }
//
// Further one-method interfaces declare what a platform can do besides receiving and sending (Editor, Typer,
// Deleter, Reacter, Fetcher, Uploader, Resolver, Reconciler): implement one, and the package declares the ability to the host.
//
// The methods of a Channel are called in this order: Describe at any time; Configure once; then Run, once, and
// beside it Send and the optional ones, from many goroutines. When the context of Run ends, return. Calls other than Send and the transfer of
// files end after a minute.
//
// An event counts as taken over only when Deliver returns nil (or the function given to DeliverAsync is called
// with nil): the host has it on disk. Acknowledge it to the platform then, and not before; then nothing is lost
// when either side dies. Events may arrive twice; the host drops repeats by their EventID. ErrMalformed means that no host ever takes an
// event: do not send it again.
//
// The host starts a plugin that is only a channel with GOMAXPROCS=1, since passing messages on is quickest on one thread. A plugin that computes
// sets runtime.GOMAXPROCS itself.
//
// Write logs with Config.Log. Standard output belongs to the handshake. Test with sdk/plugintest.
package channel
