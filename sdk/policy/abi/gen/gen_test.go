package main

import (
	"bytes"
	"os"
	"testing"
)

func TestTheCommittedHeaderIsCurrent(t *testing.T) {
	want, err := generate("../abi.go", "flynn.h.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../c/flynn.h")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("sdk/policy/c/flynn.h is out of date: run go generate ./sdk/policy/abi/gen")
	}
}

func TestSnake(t *testing.T) {
	for in, want := range map[string]string{
		"Magic": "MAGIC", "MinuteOfDay": "MINUTE_OF_DAY", "MatchCIDR": "MATCH_CIDR", "MatchRE2": "MATCH_RE2",
		"OutAgent": "OUT_AGENT", "UnixTime": "UNIX_TIME", "TextInFrame": "TEXT_IN_FRAME",
	} {
		if got := snake(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
