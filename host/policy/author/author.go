// Package author has the tools for writing policies: it makes a policy's folder, builds its
// module, runs its cases with the module that ships, and explains decisions.
//
// Start with New, Build, Test and ExplainCase; the layout of a folder is in Manifest and Case. A case is asked through package
// host/policy, the engine of the live host, with the policy's limits. The package does not
// touch a running host.
package author

// names of the files in a policy's folder.
const (
	manifestFile = "policy.toml"
	casesDir     = "cases"
)
