// Package abi is the contract between Flynn and a policy module, "flynn 1", in numbers.
//
// The host and every guest SDK take their constants from here; the headers of
// other languages are generated from this file. It has no dependency, so that a
// Go policy stays small.
//
// # Calls
//
// A policy is a core WebAssembly module (wasm32, one memory). It exports
//
//	memory
//	flynn_abi() -> i32                 Major<<16 | Minor
//	flynn_buffer(min i32) -> i32       address of a region of at least min bytes, 8-aligned; 0 when impossible
//	flynn_route(len i32) -> i64        if it routes
//	flynn_tool(len i32) -> i64         if it guards tools
//	_initialize()                      if its toolchain makes one
//
// and may import from module "flynn1", all with the rule "nothing is written unless it fits; the
// full length comes back; -1 means absent":
//
//	get(field, index, buf, cap i32) -> i32
//	arg(ptr, len, buf, cap i32) -> i32         JSON Pointer into the tool's arguments; strings unquoted, else JSON text
//	arg_kind(ptr, len i32) -> i32              KindAbsent, KindNull, KindBool, KindNumber, KindString, KindArray, KindObject
//	data(key, keylen, buf, cap i32) -> i32     the policy's own configured data
//	match(kind, pat, patlen, s, slen i32) -> i32   1 yes, 0 no, -1 bad pattern
//	trace(rule, hit i32)
//	log(level, ptr, len i32)
//
// # Frame
//
// The host writes one frame of facts at the start of the region, little-endian, 8-aligned:
//
//	offset 0   u32 Magic
//	       4   u16 kind (FrameRoute, FrameTool, FrameOutput)
//	       6   u16 count of table entries
//	       8   u32 total length in bytes
//	      12   u32 0
//	      16   count entries of 12 bytes, sorted by field id: u16 field, u16 type, u32 offset, u32 length
//	      ...  values; offsets count from the frame's start
//
// A string is UTF-8 without terminator. An int is 8 bytes, 8-aligned. A bool is one byte, 0 or 1.
// A list is a run of strings, each behind a u32 length. Unknown fields are skipped; ids are never reused.
//
// # Answer
//
// Bits 0-7 are the decision, 8-31 a reason or rule number, 32-63 the length of an output frame at the start of the same region (0: none). A
// route decision is RouteAbstain, RouteAgent (output field OutAgent) or RouteDrop. A tool decision is a bit set of ToolDeny, ToolAsk and
// ToolSandbox (output field OutSandbox, or the default sandbox when absent); 0 restricts nothing. Anything else is an error.
package abi

// Version of this contract.
const (
	Major = 1
	Minor = 1

	Version = Major<<16 | Minor
	// Module is the import module's name; it carries the major version.
	Module = "flynn1"
)

// Frame layout.
const (
	Magic      = 0x314e4c46 // "FLN1"
	HeaderSize = 16
	EntrySize  = 12

	FrameRoute  = 1
	FrameTool   = 2
	FrameOutput = 3

	TypeString = 1
	TypeInt    = 2
	TypeBool   = 3
	TypeList   = 4
)

// Decisions.
const (
	RouteAbstain = 0
	RouteAgent   = 1
	RouteDrop    = 2

	ToolDeny    = 1 << 0
	ToolAsk     = 1 << 1
	ToolSandbox = 1 << 2
)

// Field names one fact.
type Field uint16

// Facts of every frame.
const (
	Channel          Field = 1  // string: channel instance
	Conversation     Field = 2  // string
	ConversationKind Field = 3  // string: dm, group, thread
	Parent           Field = 4  // string: parent conversation of a thread
	Sender           Field = 5  // string: "instance:platform-id"
	SenderName       Field = 6  // string
	Account          Field = 7  // string: authenticated account, or absent
	Role             Field = 8  // string: owner, member, guest
	Text             Field = 9  // string: the first TextInFrame bytes, cut at a rune
	TextLen          Field = 10 // int: bytes of the whole text
	Addressed        Field = 11 // bool: private chat or mention
	Attachments      Field = 12 // int
	Labels           Field = 13 // list: provenance labels of the session
	Door             Field = 14 // string: channel, web, terminal
	UnixTime         Field = 15 // int: seconds
	MinuteOfDay      Field = 16 // int: 0 to 1439, in Zone
	Weekday          Field = 17 // int: 0 is Sunday, in Zone
	Zone             Field = 18 // string: IANA name of the host's zone
	Seed             Field = 19 // int: the only randomness there is
	Candidate        Field = 20 // string: agent by the static table, or absent
	Agents           Field = 21 // list: agents that may be chosen
	Edited           Field = 22 // bool: the message replaces an earlier one; absent is false. Since 1.1, as all to SessionAge
	Mentioned        Field = 23 // bool: the message names Flynn; absent is false
	AttachmentTypes  Field = 24 // list: media types of the attachments, "" where unknown; absent where none is known
	SenderRoles      Field = 25 // list: roles that the platform gives the sender, as the channel tells them; absent without any
	SessionTokens    Field = 26 // int: model tokens that the session has used; absent is 0
	SessionCost      Field = 27 // int: what they cost, in millionths of a dollar; absent is 0
	SessionAge       Field = 28 // int: seconds since the session began; absent is 0

	Agent       Field = 32 // string
	Tool        Field = 33 // string
	Effect      Field = 34 // string: read, write, execute, network, as the host knows it
	Session     Field = 35 // string
	ArgsDigest  Field = 36 // string: sha256 of the canonical arguments, hex
	Sandboxed   Field = 37 // bool: would run in a sandbox as things stand
	CallsInTurn Field = 38 // int: tool calls of the turn before this one, denied ones included
	Turns       Field = 39 // int: turns of the session before this one; in a routing frame since 1.1, absent is 0
)

// Fields of an output frame.
const (
	OutAgent   Field = 64 // string
	OutSandbox Field = 65 // string
	OutReason  Field = 66 // string, for people
)

// TextInFrame bounds the text carried in a frame, in bytes; get(Text, 0, ...) reads all of it.
const TextInFrame = 1024

// Kinds of matching, for the import match.
const (
	MatchGlob   = 1 // Flynn's globs, as in routing
	MatchCIDR   = 2
	MatchRE2    = 3
	MatchDomain = 4 // s is pat or a subdomain of it
)

// Kinds of JSON values, for the import arg_kind.
const (
	KindAbsent = 0
	KindNull   = 1
	KindBool   = 2
	KindNumber = 3
	KindString = 4
	KindArray  = 5
	KindObject = 6
)
