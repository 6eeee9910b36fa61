//go:build !linux

package plugin

import "os/exec"

// namespaces are for Linux alone.
type namespaces struct{ why string }

func findNamespaces() namespaces { return namespaces{why: "this system has no namespaces"} }

func (namespaces) apply(*exec.Cmd) {}

// memoryGroups are for Linux alone, too.
type memoryGroups struct{}

func openMemoryGroups(string) (*memoryGroups, error) { return nil, errNoGroups }

func (*memoryGroups) bury(string) {}

func (*memoryGroups) close() {}

func (*memoryGroups) add(string, int64) (*memoryGroup, error) { return nil, errNoGroups }

// memoryGroup limits one process and what it starts.
type memoryGroup struct{ dir string }

func (*memoryGroup) occupied() bool { return false }

func (*memoryGroup) exceeded() bool { return false }

func (*memoryGroup) remove() {}
