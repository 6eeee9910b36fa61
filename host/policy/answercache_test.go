package policy

import (
	"bytes"
	"testing"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// A string remembered from an earlier decision must never stand for another one.

func TestAgentListSeesEveryChange(t *testing.T) {
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
		if first := s.agentList(names); s.agentList(names) != first {
			t.Errorf("%s: the same list is made twice", name)
		}
		change()
		if got, want := s.agentList(names).value, newAgentList(names).value; !bytes.Equal(got, want) {
			t.Errorf("%s: the frame has %q, the list is %q", name, got, names)
		}
	}
}

func TestKnownAnswersAreKnownByAllTheirBytes(t *testing.T) {
	frame := output(abi.OutAgent, "main")
	raw := int64(abi.RouteAgent | 3<<8 | len(frame)<<32)
	var k answerCache
	k.keep(false, raw, frame, &decision{code: abi.RouteAgent, rule: 3, name: "main"})
	var v decision
	if !k.find(false, raw, bytes.Clone(frame), &v) || v.name != "main" || v.rule != 3 {
		t.Errorf("what was kept is not found: %+v", v)
	}
	if k.find(true, raw, frame, &v) || k.find(false, raw+1<<8, frame, &v) || k.find(false, raw, frame[:len(frame)-1], &v) {
		t.Error("another answer is taken for it")
	}
	for at := range frame {
		other := bytes.Clone(frame)
		other[at]++
		if k.find(false, raw, other, &v) {
			t.Errorf("it is found though byte %d differs", at)
		}
	}
	long := output(abi.OutReason, string(make([]byte, maxCachedSize)))
	k.keep(false, raw, long, &decision{})
	if k.find(false, raw, long, &v) {
		t.Error("a long answer is kept")
	}
}

func TestAnswersThatMeetAreBothKnown(t *testing.T) {
	var k answerCache
	place := k.at(0, nil)
	var met []int64
	for rule := int64(0); len(met) < 3; rule++ {
		if raw := abi.RouteDrop | rule<<8; k.at(raw, nil) == place {
			met = append(met, raw)
		}
	}
	for _, raw := range met {
		k.keep(false, raw, nil, &decision{rule: uint32(raw) >> 8})
	}
	for n, want := range []bool{false, true, true} {
		var v decision
		if got := k.find(false, met[n], nil, &v); got != want || got && v.rule != uint32(met[n])>>8 {
			t.Errorf("answer %d is found: %v, %+v", n, got, v)
		}
	}
}

// TestWhereAnAgentWasIsOnlyWhereItIsLookedForFirst: the same answer is about another list from one decision to the next.
func TestWhereAnAgentWasIsOnlyWhereItIsLookedForFirst(t *testing.T) {
	v := decision{code: abi.RouteAgent, name: "main"}
	for _, list := range [][]string{{"main"}, {"other", "main"}, {"main", "other"}, {"a", "b", "main"}} {
		for v.place = -1; v.place < 4; v.place++ {
			var a RouteAnswer
			if err := a.read(&v, list); err != nil || !a.Decided || a.Agent != "main" {
				t.Errorf("%q, place %d: %+v, %v", list, v.place, a, err)
			}
			if err := new(RouteAnswer).read(&v, []string{"other", "mai", "maine"}); err == nil {
				t.Errorf("place %d: an agent that is not there is chosen", v.place)
			}
		}
	}
}
