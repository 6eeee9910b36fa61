// Package channelv1 is generated from flynn/channel/v1/channel.proto: the contract of a channel: events in over one stream, everything outbound by unary calls.
//
// Read the .proto; every field is explained there. Only this file is written by hand.
package channelv1
