// Package hostcall is the imports of module "flynn1" as Go functions.
//
// Inside a module they go to the host. On the machine that a policy is written on there is no host, and they go to whatever
// package policytest installed. The functions that read obey one rule: nothing is written
// unless it fits, the full length comes back, and -1 means absent.
package hostcall
