// Package author is what people who write policies use: it scaffolds a policy's folder, builds its
// module, runs its cases against the very module that ships, and explains one decision.
//
// Start with New, Build, Test and Explain; the layout of a folder is in Manifest and Case. A case is asked through package
// host/policy, the engine of the live host, with the policy's limits in force. The package does not
// touch a running host.
package author

// names of the files in a policy's folder.
const (
	manifestFile = "policy.toml"
	casesDir     = "cases"
)
