package backend

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/store"
)

// Sandboxes are the live sandboxes. terminals.go has their terminals.
type Sandboxes struct {
	Fleet interface {
		Live() []sandbox.Living
		LiveSession(id string) (*sandbox.Session, error)
		Usage(ctx context.Context, id string) (driver.Usage, error)
		Containers(ctx context.Context) ([]driver.Owned, error)
		SnapshotBytes(session message.WorkspaceKey) int64
		Specs() map[string]spec.Spec
		Address() string
	}
	Tests  SelfTests
	Log    egress.Records
	Halted Halted
	Audit  Audit
}

// SelfTests runs one self-test at a time.
type SelfTests interface {
	// StartSelfTest starts one.
	StartSelfTest(ctx context.Context, name, by string) error
	SelfTest() selftest.State
}

var _ gateway.Sandboxes = Sandboxes{}

const (
	usageTimeout = 3 * time.Second // of all containers together
	maxLive      = 500
	maxProcesses = 100
)

// Sandboxes implements gateway.Sandboxes.
func (s Sandboxes) Sandboxes(ctx context.Context) ([]gateway.LiveSandbox, error) {
	live := s.Fleet.Live()
	live = live[:min(len(live), maxLive)]
	out := make([]gateway.LiveSandbox, len(live))
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	var asking sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i, l := range live {
		out[i] = liveSandbox(l, s.Fleet.Address())
		out[i].Snapshots = s.Fleet.SnapshotBytes(l.Session)
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			if u, err := s.Fleet.Usage(ctx, l.ID); err == nil {
				out[i].Memory, out[i].Tasks = u.Memory, u.Processes
			}
		})
	}
	asking.Wait()
	return out, nil
}

func liveSandbox(l sandbox.Living, address string) gateway.LiveSandbox {
	processes := []machine.Process{}
	for _, p := range l.Processes[:min(len(l.Processes), maxProcesses)] {
		p.Script, p.Result, p.News = clipped(p.Script, listedText), nil, nil
		processes = append(processes, p)
	}
	return gateway.LiveSandbox{
		ID: l.ID, Session: l.Session, Agent: l.Session.Agent(), Name: l.Name, Image: l.Image, Driver: address, Runtime: l.Spec.Runtime, Network: l.Spec.Network,
		Since: l.Since, Idle: l.Idle, Processes: processes, TasksLimit: l.Spec.PidsLimit, MemoryLimit: l.Spec.MemoryBytes,
	}
}

// Containers implements gateway.Sandboxes.
func (s Sandboxes) Containers(ctx context.Context) ([]gateway.Container, error) {
	owned, err := s.Fleet.Containers(ctx)
	if err != nil {
		return nil, as(err, store.ErrConflict) // there is no engine
	}
	return Containers(owned), nil
}

// Containers returns containers of the engine as the gateway shows them.
func Containers(owned []driver.Owned) []gateway.Container {
	list := []gateway.Container{}
	for _, o := range owned {
		list = append(list, gateway.Container{
			ID: o.ID, Name: strings.TrimPrefix(o.Name, "/"), Session: message.WorkspaceKey(o.Labels[driver.LabelSession]),
			Sandbox: o.Labels[driver.LabelSandbox], Expires: o.Labels[driver.LabelExpires],
			State: o.State, Image: o.Image, Created: o.Created.UTC().Format(time.RFC3339),
		})
	}
	return list
}

// SandboxRules implements gateway.Sandboxes.
func (s Sandboxes) SandboxRules(context.Context) ([]gateway.SandboxRules, error) {
	out, specs := []gateway.SandboxRules{}, s.Fleet.Specs()
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		made := specs[name]
		r := gateway.SandboxRules{
			Name: name, Image: made.Image, Network: made.Network, Allow: append([]string{}, made.Allowlist...), Credentials: []string{}, Bridges: []string{},
			EgressLimit: made.EgressLimit,
		}
		for _, c := range made.Credentials {
			r.Credentials = append(r.Credentials, c.Host)
		}
		for _, b := range made.Bridges {
			r.Bridges = append(r.Bridges, b.Name)
		}
		out = append(out, r)
	}
	return out, nil
}

// SandboxFiles implements gateway.Sandboxes.
func (s Sandboxes) SandboxFiles(ctx context.Context, id, dir string) (gateway.SandboxFolder, error) {
	box, err := s.Fleet.LiveSession(id)
	if err != nil {
		return gateway.SandboxFolder{}, ofSandbox(err)
	}
	list, err := box.List(ctx, dir)
	if err != nil {
		return gateway.SandboxFolder{}, ofSandbox(err)
	}
	out := gateway.SandboxFolder{Ref: refOf(dir), Entries: []gateway.SandboxFile{}, More: max(0, len(list)-gateway.MaxFolder)}
	for _, info := range list[:min(len(list), gateway.MaxFolder)] {
		out.Entries = append(out.Entries, sandboxFile(info, path.Join(dir, info.Name)))
	}
	return out, nil
}

// OpenSandboxFile implements gateway.Sandboxes.
func (s Sandboxes) OpenSandboxFile(ctx context.Context, id, name string) (io.ReadCloser, gateway.SandboxFile, error) {
	box, err := s.Fleet.LiveSession(id)
	if err != nil {
		return nil, gateway.SandboxFile{}, ofSandbox(err)
	}
	r, info, err := box.Open(ctx, name)
	if err != nil {
		return nil, gateway.SandboxFile{}, ofSandbox(err)
	}
	info.Name = path.Base(name)
	return r, sandboxFile(info, name), nil
}

func sandboxFile(info machine.FileInfo, name string) gateway.SandboxFile {
	kind := "other"
	switch {
	case info.Mode.IsDir():
		kind = "folder"
	case info.Mode.IsRegular():
		kind = "file"
	case info.Mode.Type() == fs.ModeSymlink:
		kind = "link"
	}
	return gateway.SandboxFile{
		Name: strings.ToValidUTF8(info.Name, "\uFFFD"), Ref: refOf(name), Kind: kind, Size: info.Size, Mode: info.Mode.String(), Mtime: info.Mtime,
	}
}

// refOf names a path, which may have any bytes, in an address.
func refOf(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

// ofSandbox turns an error of a sandbox into one of the gateway.
func ofSandbox(err error) error {
	switch {
	case errors.Is(err, machine.ErrNotFound):
		return as(err, store.ErrNotFound)
	case errors.Is(err, machine.ErrOutside), errors.Is(err, machine.ErrNotRegular):
		return gateway.BadRequest(err.Error())
	case errors.Is(err, machine.ErrTooLarge):
		return as(err, gateway.ErrNotKept)
	}
	return err
}

// Egress implements gateway.Sandboxes.
func (s Sandboxes) Egress(ctx context.Context, f egress.RecordFilter) ([]egress.Record, string, error) {
	list, err := s.Log.ListEgress(ctx, f)
	if err != nil {
		return nil, "", err
	}
	slices.Reverse(list)
	if len(list) < f.Limit {
		return list, "", nil
	}
	return list, list[len(list)-1].ID, nil
}

// StartSelfTest implements gateway.Sandboxes.
func (s Sandboxes) StartSelfTest(ctx context.Context, name, by string) (selftest.State, error) {
	err := s.Tests.StartSelfTest(ctx, name, by)
	switch {
	case errors.Is(err, machine.ErrNotFound):
		err = as(err, store.ErrNotFound)
	case err != nil:
		err = as(err, store.ErrConflict)
	}
	return s.Tests.SelfTest(), err
}

// SelfTest implements gateway.Sandboxes.
func (s Sandboxes) SelfTest(context.Context) (selftest.State, error) { return s.Tests.SelfTest(), nil }
