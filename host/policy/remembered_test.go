package policy

import (
	"bytes"
	"testing"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// What is remembered from decision to decision must never stand for anything else.

func TestRosterSeesEveryChange(t *testing.T) {
	s := &Set{}
	var names []string
	for name, change := range map[string]func(){
		"a name, in place":  func() { names[1] = "other" },
		"one more":          func() { names = append(names, "more") },
		"fewer":             func() { names = names[:2] },
		"a part of a name":  func() { names[0] = names[0][:2] },
		"in another order":  func() { names[0], names[1] = names[1], names[0] },
		"none":              func() { names = nil },
		"none, but present": func() { names = []string{} },
	} {
		names = []string{"main", "coder", "helper"}
		if first := s.roster(names); s.roster(names) != first {
			t.Errorf("%s: the same list is made twice", name)
		}
		change()
		if got, want := s.roster(names).value, newRoster(names).value; !bytes.Equal(got, want) {
			t.Errorf("%s: the frame has %q, the list is %q", name, got, names)
		}
	}
}

func TestKnownAnswersAreKnownByAllTheirBytes(t *testing.T) {
	frame := output(abi.OutAgent, "main")
	raw := int64(abi.RouteAgent | 3<<8 | len(frame)<<32)
	var k known
	k.keep(KindRoute, raw, frame, &verdict{code: abi.RouteAgent, rule: 3, name: "main"})
	var v verdict
	if !k.find(KindRoute, raw, bytes.Clone(frame), &v) || v.name != "main" || v.rule != 3 {
		t.Errorf("what was kept is not found: %+v", v)
	}
	if k.find(KindTool, raw, frame, &v) || k.find(KindRoute, raw+1<<8, frame, &v) || k.find(KindRoute, raw, frame[:len(frame)-1], &v) {
		t.Error("another answer is taken for it")
	}
	for at := range frame {
		other := bytes.Clone(frame)
		other[at]++
		if k.find(KindRoute, raw, other, &v) {
			t.Errorf("it is found though byte %d differs", at)
		}
	}
	long := output(abi.OutReason, string(make([]byte, maxKnownSize)))
	k.keep(KindRoute, raw, long, &verdict{})
	if k.find(KindRoute, raw, long, &v) {
		t.Error("a long answer is kept")
	}
}
