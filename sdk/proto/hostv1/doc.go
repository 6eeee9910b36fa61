// Package hostv1 is generated from flynn/host/v1/host.proto: the host's services for plugins.
//
// Read the .proto; every field is explained there. Only this file is written by hand.
package hostv1
