package policy

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/policy/abi"
	"pgregory.net/rapid"
)

func TestAnswersHaveOneEncoding(t *testing.T) {
	long := strings.Repeat("n", maxOutput)
	for _, c := range []struct {
		name     string
		raw      func(region []byte) int64
		decision int64
		rule     int64
		fields   map[abi.Field]string
	}{
		{"abstain", RouteAnswer{}.encode, abi.RouteAbstain, 0, nil},
		{"agent", RouteAnswer{Agent: "coder", Rule: 3}.encode, abi.RouteAgent, 3, map[abi.Field]string{abi.OutAgent: "coder"}},
		{"drop", RouteAnswer{Drop: true, Reason: "spam"}.encode, abi.RouteDrop, 0, map[abi.Field]string{abi.OutReason: "spam"}},
		{"agent and drop", RouteAnswer{Agent: "coder", Drop: true}.encode, invalid, 0, nil},
		{"agent too long", RouteAnswer{Agent: long}.encode, invalid, 0, nil},
		{"nothing", Restriction{}.encode, 0, 0, nil},
		{"all", Restriction{Deny: true, Ask: true, Sandbox: true, Rule: 1 << 30}.encode, 7, 1<<24 - 1, nil},
		{"a sandbox's name implies it", Restriction{SandboxName: "strict", Reason: "r"}.encode, abi.ToolSandbox, 0,
			map[abi.Field]string{abi.OutSandbox: "strict", abi.OutReason: "r"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			region := make([]byte, maxOutput)
			raw := c.raw(region)
			if raw&0xff != c.decision || raw>>8&0xffffff != c.rule {
				t.Errorf("decision %d, rule %d; want %d, %d", raw&0xff, raw>>8&0xffffff, c.decision, c.rule)
			}
			if (raw>>32 == 0) != (c.fields == nil) {
				t.Fatalf("output frame of %d bytes, want fields %v", raw>>32, c.fields)
			}
			for id, want := range c.fields {
				out, ok := openFrame(region[:raw>>32], abi.FrameOutput)
				if got := out.str(id); !ok || got != want {
					t.Errorf("field %d is %q, want %q", id, got, want)
				}
			}
		})
	}
}

// The name and the reason of an answer are mostly views of the region that the output frame overwrites.
func TestOutputMayAliasTheRegion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		region := []byte(rapid.StringN(0, -1, 600).Draw(t, "region") + strings.Repeat("pad", 60))
		part := func(label string) string {
			from := rapid.IntRange(0, len(region)).Draw(t, label)
			return view(region[from:rapid.IntRange(from, min(len(region), from+50)).Draw(t, label+" end")])
		}
		name, reason := part("name"), part("reason")
		wantName, wantReason := strings.Clone(name), strings.Clone(reason)
		n, ok := writeOutput(region, abi.OutAgent, name, reason)
		if !ok {
			t.Fatal("refused")
		}
		out, _ := openFrame(region[:n], abi.FrameOutput)
		if got := out.str(abi.OutAgent); got != wantName {
			t.Errorf("name %q, want %q", got, wantName)
		}
		if got := out.str(abi.OutReason); got != wantReason {
			t.Errorf("reason %q, want %q", got, wantReason)
		}
	})
}

func TestALongReasonIsCutBetweenRunes(t *testing.T) {
	region := make([]byte, maxOutput)
	n, ok := writeOutput(region, abi.OutAgent, "coder", strings.Repeat("ü€", maxOutput))
	out, _ := openFrame(region[:n], abi.FrameOutput)
	reason := out.str(abi.OutReason)
	if !ok || n > maxOutput || len(reason) < maxOutput-100 || !utf8.ValidString(reason) {
		t.Errorf("ok %v, %d bytes, a reason of %d bytes, valid %v", ok, n, len(reason), utf8.ValidString(reason))
	}
}

// A policy configured for a kind that it registered nothing for must fail: zero would restrict nothing.
func TestAnUnregisteredHookFails(t *testing.T) {
	hooks.route, hooks.tool = nil, nil
	for name, got := range map[string]int64{"route": decideRoute(nil, 0), "tool": decideTool(nil, 0)} {
		if got != invalid {
			t.Errorf("%s: got %d", name, got)
		}
	}
}

func TestAWrongFrameFails(t *testing.T) {
	hooks.tool = func(ToolFacts) Restriction { return Restriction{} }
	t.Cleanup(func() { hooks.tool = nil })
	route := make([]byte, 16)
	binary.LittleEndian.PutUint32(route, abi.Magic)
	binary.LittleEndian.PutUint32(route[4:], abi.FrameRoute)
	binary.LittleEndian.PutUint32(route[8:], abi.HeaderSize)
	for name, got := range map[string]int64{
		"empty":         decideTool(nil, 0),
		"of the other":  decideTool(route, 16),
		"beyond region": decideTool(route, 17),
	} {
		if got != invalid {
			t.Errorf("%s: got %d", name, got)
		}
	}
}
