// Package toolv1 is generated from flynn/tool/v1/tool.proto: the contract of a tool provider.
//
// Read the .proto; every field is explained there. Only this file is written by hand.
package toolv1
