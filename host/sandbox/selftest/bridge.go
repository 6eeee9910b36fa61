package selftest

import (
	"context"

	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

const (
	bridgeRow     = "bridges"
	bridgeSetting = "upgrade Flynn: its bridges must refuse this; until then leave bridges out of [sandbox]"
	// bridgeCommand is the command of the suite's own bridge, which accepts little and runs a program that does nothing.
	bridgeCommand = "flynn-verify-bridge"
)

// withBridge replaces the owner's bridges by the suite's.
func withBridge(s spec.Spec) spec.Spec {
	second := s
	second.Bridges = nil
	s.Bridges = []spec.Bridge{{
		Name: bridgeCommand, In: &second, Program: "/bin/true", Workspace: "ro",
		Forms: []bridge.Form{
			{Args: []bridge.Arg{{Pattern: "say"}, {Pattern: "[ -~]*", Rest: true}}, Flags: map[string]string{"--limit": "[0-9]+"}},
			{Args: []bridge.Arg{{Pattern: "show"}, {Path: true}}},
		},
	}}
	return s
}

// calling attacks the bridge with the call in $b. Only the bridge's own message counts as a refusal.
func calling(call string) attack {
	text := "b=" + bridgeCommand + "; command -v $b >/dev/null || b=./$b\nout=$( { " + call + "; } 2>&1 )\n" +
		`case "$out" in *"refused for security"*) echo "held: the bridge refuses";; *) echo "breach: the bridge says:" $out;; esac`
	return func(ctx context.Context, s *Subject) (Finding, error) {
		bridged := *s
		bridged.Target = s.Proxied
		f, err := script(text)(ctx, &bridged)
		if err == nil && f.Status == Pass && s.Logged != nil && s.Logged() {
			return breached("it was refused, and the log has it as allowed"), nil
		}
		return f, err
	}
}

// bridgeProbes try to run more than is allowed. In the controls, a script that accepts everything replaces the bridge.
func bridgeProbes() []Probe {
	standIn := "printf '#!/bin/sh\\necho \"$@\"\\n' >" + bridgeCommand + " && chmod 755 " + bridgeCommand
	var probes []Probe
	for _, p := range []struct{ name, why, script string }{
		{"flag", "a flag such as -c has the program run another", "$b say -c id"},
		{"flag-with-value", "a flag such as --upload-pack= has the program run another", "$b say --upload-pack=id x"},
		{"value-of-a-flag", "a flag in the place of a value is read as a flag", "$b say --limit --exec"},
		{"not-anchored", "a pattern that looks only at a part lets anything pass", "$b say --limit=5x"},
		{"end-of-flags", "what follows it is read in another way", "$b say -- x"},
		{"file", "programs put a file's content in place of @name", "$b say @/etc/passwd"},
		{"file-behind-a-key", "programs put a file's content in place of key=@name", "$b say body=@/etc/passwd"},
		{"line-break", "one argument is read as two lines", "$b say \"$(printf 'a\\nb')\""},
		{"path", "files of the second container are not the session's", "$b show ../etc/passwd"},
		{"absolute-path", "files of the second container are not the session's", "$b show /etc/passwd"},
		{"link", "a link leads where a path must not", "ln -sf /proc/self/environ verify-link; $b show verify-link"},
		{"directory", "paths count from the working directory", "d=$(pwd)/$b; [ -x $d ] && b=$d; cd /tmp; $b show passwd"},
	} {
		probes = append(probes, Probe{
			Name: "bridge/" + p.name, Row: bridgeRow, Why: p.why, Setting: bridgeSetting, Run: calling(p.script),
			Control: always(Control{Weakness: docker.Weakness{Powerful: true}, Root: true, Setup: standIn}),
		})
	}
	return probes
}
