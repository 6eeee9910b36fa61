// Package conform runs the conformance suite of sdk/plugintest/suite over a plugin that is a process: it is behind `flynn plugin conform`.
//
// Begin with Run. A check starts the plugin through the launcher of host/plugin, its folder and services as the host would give them. What the suite needs to
// know besides comes from plugin.toml and from the file conform.toml beside it:
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
// The checks are in the suite, but for the two that are about plugin.toml alone.
package conform
