// Package hostv1 is generated from flynn/host/v1/host.proto: what the host offers to a plugin.
//
// Read the .proto; every field is explained there. Only this file is written by hand.
package hostv1
