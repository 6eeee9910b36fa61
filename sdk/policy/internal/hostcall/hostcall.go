// Package hostcall has the imports of module "flynn1" as Go functions.
//
// Inside a module they call the host. In native tests of a policy there is no host, and they call what package policytest has installed.
// The functions that read obey one rule: nothing is written unless it fits, the full length is returned, and -1 means absent.
package hostcall
