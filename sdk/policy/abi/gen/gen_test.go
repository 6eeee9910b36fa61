package main

import (
	"bytes"
	"os"
	"testing"
)

func TestTheCommittedFilesAreCurrent(t *testing.T) {
	for template, target := range map[string]string{
		"flynn.h.tmpl": "c/flynn.h", "abi.rs.tmpl": "rust/src/abi.rs", "abi.ts.tmpl": "assemblyscript/abi.ts",
	} {
		want, err := generate("../abi.go", template)
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile("../../" + target)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, want) {
			t.Errorf("sdk/policy/%s is out of date: run go generate ./sdk/policy/abi/gen", target)
		}
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
