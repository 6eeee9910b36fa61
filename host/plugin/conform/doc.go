// Package conform runs the conformance suite of sdk/plugintest/suite over a plugin that is a process: it is behind `flynn plugin dev conform`.
//
// Start with Run. A check starts the plugin through the launcher of host/plugin, with the folder and services that the host would give it.
// The suite takes everything else from plugin.toml and from the file conform.toml beside it:
//
//	[settings]                        # that work
//	address = "127.0.0.1:6667"
//	[secrets]
//	token = "test"
//	[fake]                            # a program that pretends to be the platform, see sdk/plugintest/fake
//	package = "./faketest/fake"       # in Go; or command = ["node", "fake.mjs"]
//	redelivers = true                 # the platform delivers again what was not acknowledged
//	[[calls]]                         # for tools: a call that succeeds
//	tool = "echo"
//	arguments = { text = "hi" }
//
// The checks are in the suite, except for two that are about plugin.toml.
package conform
