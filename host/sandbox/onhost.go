package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/reconcile"
	"github.com/flynnhost/flynn/host/sandbox/removeall"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// maxHostFiles bounds the files that one call copies for a program of this machine, in bytes.
const maxHostFiles = 64 << 20

// hostCall is a call of a bridge to a program of this machine. Only its arguments confine the program, so it gets neither the workspace,
// whose files could influence it or change meanwhile, nor the daemon's environment: it runs in a new folder with copies of the files that
// its arguments name.
type hostCall struct {
	bs      *bridges
	bridge  spec.Bridge
	session message.WorkspaceKey
	there   string // stands for the folder in the arguments
	folder  string
}

// run executes an accepted call.
func (h *hostCall) run(ctx context.Context, call bridge.Accepted, stdin []byte, out bridge.Output) (code int, err error) {
	base, err := os.MkdirTemp(h.bs.Run, reconcile.HostCallPrefix+h.bs.Host.ID()+"-")
	if err != nil {
		return 0, fmt.Errorf("make a folder for the call: %w", err)
	}
	defer func() { err = errors.Join(err, removeall.Folder(base)) }()
	h.folder = filepath.Join(base, "work")
	if err := h.layOut(call); err != nil {
		return 1, err
	}
	env, err := h.bs.withSecrets(h.bridge, h.bridge.Env)
	if err != nil {
		return 0, err
	}
	host, err := machine.NewHost(machine.HostConfig{
		Workspace: h.folder, Homes: filepath.Join(base, "home"), DefaultTimeout: h.bridge.Limit(), MaxTimeout: h.bridge.Limit(), Log: h.bs.Log,
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	r, err := host.Exec(ctx, machine.Command{
		Script: "exec " + quoteArgv(append([]string{h.bridge.Program}, h.arguments(call)...)), Dir: call.Dir, Env: env, Stdin: stdin,
		Timeout: h.bridge.Limit(), MaxOutput: h.bridge.MaxOutput,
		Progress: func(stream machine.Stream, p []byte) { out(stream == machine.Stderr, p) },
	})
	if err != nil {
		return 0, err
	}
	return bridgedResult(h.bridge, r, out)
}

// arguments returns the arguments with the paths of the copies.
func (h *hostCall) arguments(call bridge.Accepted) []string {
	argv := make([]string, len(call.Argv))
	for i, a := range call.Argv {
		if rest, is := strings.CutPrefix(a, h.there); is && (rest == "" || rest[0] == '/') {
			a = h.folder + rest
		}
		argv[i] = a
	}
	return argv
}

// layOut creates the folder with the working directory and the files that the call names.
func (h *hostCall) layOut(call bridge.Accepted) error {
	if err := os.MkdirAll(filepath.Join(h.folder, call.Dir), 0o700); err != nil {
		return err
	}
	if len(call.Paths) == 0 {
		return nil
	}
	root, err := os.OpenRoot(h.bs.Workspaces.Path(h.session))
	if err != nil {
		return fmt.Errorf("look into the workspace: %w", err)
	}
	defer root.Close()
	room := int64(maxHostFiles)
	for _, name := range call.Paths {
		n, err := h.copy(root, name, room)
		if err != nil {
			return err
		}
		room -= n
	}
	return nil
}

// copy copies one file. A missing file is left to the program to report. The kernel refuses a link that leads out of the workspace, also
// one that was created meanwhile.
func (h *hostCall) copy(root *os.Root, name string, room int64) (int64, error) {
	from, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("copy %q: %w", name, err)
	}
	defer from.Close()
	if info, err := from.Stat(); err != nil || !info.Mode().IsRegular() {
		return 0, errors.Join(err, fmt.Errorf("%q is not a regular file, and nothing else is given to a program of the host", name))
	}
	to := filepath.Join(h.folder, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return 0, err
	}
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(file, io.LimitReader(from, room+1))
	if err == nil && n > room {
		err = fmt.Errorf("the files are larger than %d bytes together", maxHostFiles)
	}
	return n, errors.Join(err, file.Close())
}
