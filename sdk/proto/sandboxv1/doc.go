// Package sandboxv1 is generated from flynn/sandbox/v1/sandbox.proto: the contract of a sandbox driver.
//
// Read the .proto; every field is explained there. Only this file is written by hand.
package sandboxv1
