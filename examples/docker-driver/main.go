// Command docker-driver is a whole driver of sandboxes: it makes them with the docker command, or with podman, which takes the same arguments.
// Copy it to begin one for another engine.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/sdk/sandbox"
)

func main() { sandbox.Main(&engine{}) }

// The supervisor listens at socketName in listenFolder, which is a folder of this machine: no network leads to a container without one.
const (
	listenFolder = "/.flynn-listen"
	socketName   = "socket"
	nameFile     = "name" // of the container, for sweep
)

// engine drives an engine by its command. It keeps nothing in memory: a container's id is its name, and its files are in a folder of that name.
type engine struct {
	settings struct {
		Command string `json:"command"` // by default docker
		Host    string `json:"host"`    // address of the engine; by default the command's own
		Folder  string `json:"folder"`  // for sockets, with a short path; by default in the state folder
	}
	state string
}

func (e *engine) Describe() sandbox.Description {
	return sandbox.Description{Name: "docker-driver", Version: "0.1.0"}
}

func (e *engine) Configure(_ context.Context, c sandbox.Config) error {
	e.state = c.StateDir
	e.settings.Command, e.settings.Folder = "docker", filepath.Join(c.StateDir, "s")
	if err := c.Decode(&e.settings); err != nil {
		return err
	}
	if !filepath.IsAbs(e.settings.Folder) || len(e.settings.Folder) > 40 {
		return sandbox.FieldErrors{{Path: "folder", Message: fmt.Sprintf("write an absolute path of at most 40 bytes, not %q: the path of a socket is short", e.settings.Folder)}}
	}
	return os.MkdirAll(e.settings.Folder, 0o700)
}

// run runs the command and returns its output.
func (e *engine) run(ctx context.Context, args ...string) (string, error) {
	var stdout strings.Builder
	err := e.runInto(ctx, &stdout, args...)
	return stdout.String(), err
}

// runInto runs the command, and writes its output while it runs.
func (e *engine) runInto(ctx context.Context, stdout io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, e.settings.Command, args...)
	if e.settings.Host != "" {
		cmd.Env = append(os.Environ(), "DOCKER_HOST="+e.settings.Host, "CONTAINER_HOST="+e.settings.Host)
	}
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	err := cmd.Run()
	if err == nil {
		return nil
	}
	said := strings.TrimSpace(stderr.String())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case strings.Contains(said, "Cannot connect") || strings.Contains(said, "connection refused") || errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%w: %s %s: %s: start it, or set host", sandbox.ErrUnavailable, e.settings.Command, args[0], said)
	case strings.Contains(said, "No such image") || strings.Contains(said, "Unable to find image") || strings.Contains(said, "image not known"):
		return fmt.Errorf("%w: run %s pull", sandbox.ErrNoImage, e.settings.Command)
	}
	return fmt.Errorf("%s %s: %w: %s", e.settings.Command, args[0], err, said)
}

func (e *engine) Capabilities(ctx context.Context) (sandbox.Capabilities, error) {
	out, err := e.run(ctx, "info", "--format", "{{json .}}")
	var is about
	if err == nil {
		err = json.Unmarshal([]byte(out), &is)
	}
	if err != nil {
		return sandbox.Capabilities{}, err
	}
	return sandbox.Capabilities{
		Engine: e.settings.Command + " " + is.ServerVersion + is.Version.Version, Address: e.settings.Host,
		Networks: []string{sandbox.NetworkNone}, Binds: true, Features: is.features(),
	}, nil
}

// about is what is used of the answer of docker info, and of that of podman info, which has another shape.
type about struct {
	ServerVersion   string
	SecurityOptions []string // such as name=seccomp,profile=builtin

	Version struct{ Version string }
	Host    struct {
		Security struct{ SeccompEnabled, Rootless bool }
	}
}

// features are what every container has. The host tests each of them before it uses the driver.
func (a about) features() []sandbox.Feature {
	all := []sandbox.Feature{sandbox.Snapshots}
	filter, users := a.Host.Security.SeccompEnabled, a.Host.Security.Rootless
	for _, option := range a.SecurityOptions {
		filter = filter || strings.HasPrefix(option, "name=seccomp") && !strings.Contains(option, "unconfined")
		users = users || option == "name=userns" || option == "name=rootless"
	}
	if filter {
		all = append(all, sandbox.Seccomp)
	}
	if users {
		all = append(all, sandbox.UserNamespaces)
	}
	return all
}

// folder is where a container's name, identity and socket are. Its own name is short, because the path of a socket is.
func (e *engine) folder(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(e.settings.Folder, hex.EncodeToString(sum[:12]))
}

func (e *engine) Create(ctx context.Context, c sandbox.Container) (string, error) {
	if made, err := e.inspect(ctx, c.Name); err == nil {
		if made.Config.Labels[sandbox.LabelKey] == c.Key {
			return c.Name, nil
		}
		return "", fmt.Errorf("there is another container %s", c.Name)
	} else if !errors.Is(err, errGone) {
		return "", err
	}
	identity := filepath.Join(e.folder(c.Name), "identity")
	if err := os.MkdirAll(e.folder(c.Name), 0o700); err != nil {
		return "", err
	}
	_ = os.Remove(identity) // of an attempt that was interrupted
	if err := errors.Join(os.WriteFile(filepath.Join(e.folder(c.Name), nameFile), []byte(c.Name), 0o600), os.WriteFile(identity, c.Identity, 0o400)); err != nil {
		return "", err
	}
	c.Mounts = append(c.Mounts, sandbox.Mount{Source: identity, Target: sandbox.IdentityPath, ReadOnly: true},
		sandbox.Mount{Source: e.folder(c.Name), Target: listenFolder})
	c.Entrypoint = append(c.Entrypoint, listenFolder+"/"+socketName)
	_, err := e.run(ctx, arguments(c)...)
	for err != nil && strings.Contains(err.Error(), "already in use") { // the engine still makes it for a call that was given up
		made, gone := e.inspect(ctx, c.Name)
		if gone == nil && made.Config.Labels[sandbox.LabelKey] == c.Key {
			return c.Name, nil
		}
		if !errors.Is(gone, errGone) {
			return "", errors.Join(err, gone)
		}
		time.Sleep(20 * time.Millisecond)
		_, err = e.run(ctx, arguments(c)...)
	}
	switch {
	case err == nil:
		return c.Name, nil
	case ctx.Err() != nil: // the engine may make it all the same: the next call with the key needs the files, and Remove removes them
		return "", err
	}
	return "", errors.Join(err, os.RemoveAll(e.folder(c.Name)))
}

// arguments are those of docker create. The ones that are not taken from c are the same for every container.
func arguments(c sandbox.Container) []string {
	args := []string{
		"create", "--rm", "--pull=never", "--name=" + c.Name, "--hostname=sandbox", "--user=0:0", "--workdir=/", "--network=" + c.Network, "--ipc=private",
		"--read-only", "--tmpfs=/tmp:rw,exec,nosuid,nodev,mode=1777,size=64m", "--shm-size=64m", "--cap-drop=ALL",
		"--cap-add=SETUID", "--cap-add=SETGID", "--cap-add=KILL", "--security-opt=no-new-privileges", "--log-driver=none", "--no-healthcheck",
		"--ulimit=nofile=1024:1024", "--ulimit=core=0:0",
		"--sysctl=kernel.shm_rmid_forced=1", "--sysctl=kernel.msgmni=32", "--sysctl=kernel.sem=250 32000 32 128",
		"--memory=" + strconv.FormatInt(c.MemoryBytes, 10), "--memory-swap=" + strconv.FormatInt(c.MemoryBytes, 10),
		"--cpus=" + strconv.FormatFloat(c.CPUs, 'f', -1, 64), "--pids-limit=" + strconv.FormatInt(c.PidsLimit, 10),
		"--entrypoint=" + c.Entrypoint[0],
	}
	for _, variable := range []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"} { // the image's would change the supervisor
		args = append(args, "--env="+variable+"=")
	}
	for name, value := range c.Labels {
		args = append(args, "--label="+name+"="+value)
	}
	for _, host := range c.Hosts {
		args = append(args, "--add-host="+host)
	}
	for _, m := range c.Mounts {
		args = append(args, "--mount="+mount(m))
	}
	return append(append(args, c.Image), c.Entrypoint[1:]...)
}

// mount is a mount as a record of CSV, which --mount takes.
func mount(m sandbox.Mount) string {
	fields := []string{"type=bind", "source=" + m.Source, "target=" + m.Target, "bind-propagation=rprivate"}
	if m.Kind == sandbox.Memory {
		fields = []string{"type=tmpfs", "target=" + m.Target, "tmpfs-mode=1777", "tmpfs-size=" + strconv.FormatInt(m.Bytes, 10)}
	}
	if m.Alone {
		fields = append(fields, "bind-nonrecursive=true")
	}
	if m.ReadOnly {
		fields = append(fields, "readonly")
	}
	for i, f := range fields {
		fields[i] = `"` + strings.ReplaceAll(f, `"`, `""`) + `"`
	}
	return strings.Join(fields, ",")
}

// Pull runs docker pull, whose lines say how far it is.
func (e *engine) Pull(ctx context.Context, image string, progress func(string)) error {
	return e.runInto(ctx, &lines{tell: progress}, "pull", "--", image)
}

// lines calls a function for each line of output, which comes in pieces.
type lines struct {
	tell func(string)
	rest string
}

func (l *lines) Write(p []byte) (int, error) {
	all := strings.Split(l.rest+string(p), "\n")
	for _, line := range all[:len(all)-1] {
		l.tell(strings.TrimSpace(line))
	}
	l.rest = all[len(all)-1]
	return len(p), nil
}

func (e *engine) Start(ctx context.Context, id string) error {
	_, err := e.run(ctx, "start", id)
	return err
}

func (e *engine) Endpoint(_ context.Context, id string) (sandbox.Endpoint, error) {
	return sandbox.Endpoint{Network: "unix", Address: filepath.Join(e.folder(id), socketName)}, nil
}

func (e *engine) Remove(ctx context.Context, id string) error {
	_, err := e.run(ctx, "rm", "--force", "--volumes", id)
	for err == nil || isGone(err) || strings.Contains(err.Error(), "is already in progress") { // it returns before the container is gone
		if _, err = e.inspect(ctx, id); errors.Is(err, errGone) {
			return os.RemoveAll(e.folder(id))
		}
		if err == nil {
			time.Sleep(20 * time.Millisecond)
		}
	}
	return err
}

// inspected is what is used of the answer of docker inspect.
type inspected struct {
	Name    string
	Created time.Time
	State   struct{ Status string }
	Config  struct {
		Image  string
		Labels map[string]string
	}
}

var errGone = errors.New("there is no such container")

func isGone(err error) bool {
	return err != nil && (strings.Contains(strings.ToLower(err.Error()), "no such container") || strings.Contains(err.Error(), "no container with name"))
}

func (e *engine) inspect(ctx context.Context, name string) (inspected, error) {
	all, err := e.inspectAll(ctx, name)
	if err == nil && len(all) == 0 {
		err = errGone
	}
	if err != nil {
		return inspected{}, err
	}
	return all[0], nil
}

func (e *engine) inspectAll(ctx context.Context, names ...string) (all []inspected, err error) {
	out, err := e.run(ctx, append([]string{"container", "inspect", "--"}, names...)...)
	if isGone(err) {
		return nil, errGone
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	return all, err
}

func (e *engine) List(ctx context.Context, instance string) ([]sandbox.Owned, error) {
	out, err := e.run(ctx, "ps", "--all", "--no-trunc", "--filter=label="+sandbox.LabelInstance+"="+instance, "--format={{.Names}}")
	var owned []sandbox.Owned
	for _, name := range strings.Fields(out) {
		c, gone := e.inspect(ctx, name)
		if errors.Is(gone, errGone) { // meanwhile
			continue
		}
		if gone != nil {
			return nil, gone
		}
		owned = append(owned, sandbox.Owned{
			ID: name, Name: name, Image: c.Config.Image, State: c.State.Status, Labels: c.Config.Labels, Created: c.Created,
		})
	}
	return owned, errors.Join(err, e.sweep(ctx))
}

// sweep removes the folders of containers that ended by themselves.
func (e *engine) sweep(ctx context.Context) error {
	folders, err := os.ReadDir(e.settings.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range folders {
		info, gone := f.Info()
		if gone != nil || time.Since(info.ModTime()) < 10*time.Minute { // its container may be about to be made
			continue
		}
		at := filepath.Join(e.settings.Folder, f.Name())
		name, unnamed := os.ReadFile(filepath.Join(at, nameFile))
		if unnamed != nil { // it was not completed, or is one of an earlier version, which has the container's name
			name = []byte(f.Name())
		}
		if _, gone := e.inspect(ctx, string(name)); errors.Is(gone, errGone) {
			err = errors.Join(err, os.RemoveAll(at))
		}
	}
	return err
}
