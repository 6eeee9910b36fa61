// Package conform tries whether a plugin, in whatever language, keeps to the contract of sdk/proto.
//
// Begin with Run. Each check starts the plugin through the launcher of host/plugin, does one thing to it, and ends it: no
// check sees what another one left. A check passes, fails with what is wrong and what to do next, or is skipped with the reason: what
// could not be tried is never shown as a pass. Besides ordinary use the checks send what a later host may send (fields, values and
// frames that the plugin cannot know) and what a broken one might.
//
// Where a check needs settings or a platform, they come from the file conform.toml beside plugin.toml:
//
//	[settings]                        # with which the plugin works
//	address = "127.0.0.1:6667"
//	[secrets]
//	token = "test"
//	[fake]                            # a program that pretends to be the platform, see sdk/plugintest/fake
//	package = "./faketest/fake"       # in Go; or command = ["node", "fake.mjs"]
//	redelivers = true                 # the platform says again what nobody acknowledged
//	[[calls]]                         # for tools: a call that succeeds
//	tool = "echo"
//	arguments = { text = "hi" }
//
// The kit judges the plugin's side of the contract alone. It cannot see whether the plugin talks to the network before Configure,
// and it does not try to break what contains a plugin: that is for the tests of host/plugin.
package conform
