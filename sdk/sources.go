// Package sdk embeds the sources of the guest SDKs for policies, so that `flynn policy dev new` and `flynn policy dev build` work without a network
// and with exactly the contract of this Flynn; and those of the SDK for plugins, for `flynn plugin dev new` in builds that are not releases.
//
// The packages that other people import lie below it: sdk/policy and its neighbours.
package sdk

import "embed"

// PolicySources holds policy/*.go and the packages that it imports, the C header policy/c/flynn.h, the Rust crate policy/rust and the npm
// package policy/assemblyscript.
//
//go:embed policy/*.go policy/abi/abi.go policy/internal/hostcall/*.go policy/policytest/*.go policy/c/flynn.h
//go:embed policy/rust/Cargo.toml policy/rust/src/*.rs policy/assemblyscript/*.ts policy/assemblyscript/*.json
var PolicySources embed.FS

// PluginSources holds the packages that Go plugins import, with their tests, and plugin.mod and plugin.sum, the go.mod and go.sum of a
// module of these packages.
//
//go:embed channel/*.go tool/*.go sandbox/*.go plugin/*.go backoff/*.go cache/*.go cut/*.go hostapi/*.go internal/process/*.go plugintest/*.go plugintest/fake/*.go
//go:embed plugintest/platform/*.go plugintest/suite/*.go plugintest/wire/*.go uptime/*.go webapi/*.go proto/*/*.go plugin.mod plugin.sum
var PluginSources embed.FS
