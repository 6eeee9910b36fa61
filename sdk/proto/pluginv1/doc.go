// Package pluginv1 is generated from flynn/plugin/v1/plugin.proto: the base contract that every plugin serves.
//
// Read the .proto; every field is explained there. Only this file is written by hand.
package pluginv1
