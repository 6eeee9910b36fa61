package plugin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/plugin/jail"
	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/host/plugin/service"
)

// Config configures a Host. Dir is required.
type Config struct {
	// Dir holds the installed plugins and their lock, see Store.
	Dir string
	// StateDir holds a folder for each instance of a plugin that asks for state; by default Dir/state.
	StateDir string
	// RunDir holds sockets while the host runs. Its path must be short, and nothing else may use it; by default it is a folder in
	// $XDG_RUNTIME_DIR or the temporary directory, with a name derived from StateDir.
	RunDir string
	// DevPaths maps a plugin's name to a folder with plugin.toml that runs without being installed and locked.
	DevPaths map[string]string
	// Contain configures the jail of the processes.
	Contain Containment
	// Attach maps instances to the addresses ("unix:/PATH") of processes that a developer has started.
	Attach map[string]string
	// Version of the host, semver without "v"; plugins may require a minimum. Empty satisfies all of them.
	Version string
	// Services are the host services for plugins that ask for them; nil means none. Run serves them.
	Services *service.Server
	Log      *slog.Logger
	// Kinds are the kinds that may run; by default AllKinds.
	Kinds Kinds
	// Where returns the position of an instance's setting in flynn.toml, such as "flynn.toml:12: ", given the section and the instance; nil
	// leaves positions out.
	Where func(section, instance string, key []string) string
	// Events gets StateChanged, one at a time per instance, and Called; it may be nil.
	Events *event.Bus
}

// Instance is one configured use of a plugin: one process.
type Instance struct {
	Name     string
	Plugin   string
	Kind     kind.Name
	Settings map[string]any
	Secrets  map[string]string
	// Critical instances keep WaitCritical from returning until they are ready.
	Critical bool
	// Grant is what the operator grants this instance.
	Grant Grant
	// Lease is the right of this host to run the instance, where one of several hosts may: a process runs while Left is above 0. nil: it runs
	// always. It is ignored for a plugin that several hosts may run at the same time.
	Lease kind.Lease
}

// Grant is what an instance may use in addition to its plugin's manifest. Only the operator can give it.
type Grant struct {
	Read, Write []string // files and folders; absolute
	Network     []string // "host:port", or "*" for any
	Sockets     []string // unix sockets to connect to
	Memory      int64    // bytes above which it is ended with its children; 0: the manifest's value
}

// Handler uses a ready instance.
type Handler interface {
	// Serve is called whenever the instance has become ready. ctx ends when the process is gone or has to stop; Serve returns
	// when it does not use c any more. A return before that is a failure of the instance, which is restarted.
	Serve(ctx context.Context, c *kind.Conn) error
}

// Host runs plugin processes. A plugin that fails never keeps another one from working.
type Host struct {
	config   Config
	store    *Store
	log      *slog.Logger
	timeouts timeouts
	// lookupEnv finds the variables of the host that plugins may see.
	lookupEnv func(string) (string, bool)
	nameFiles []string                                                        // files whose changes processes see
	random    func() float64                                                  // of the pause after a failure
	start     func(context.Context, *supervisor, launchSpec) (process, error) // launches; replaced by tests
	spaces    func() jail.Namespaces                                          // in which processes can be started
	groups    *jail.Groups                                                    // nil if there are none, for the reason in noGroups
	noGroups  string
	names     *jail.Names // nil if processes see nameFiles themselves

	providing sync.Mutex      // one plugin is provided at a time
	provided  map[string]bool // guarded by providing

	mu          sync.Mutex
	running     map[string]string      // by plugin: the version that its instances run, which only follow changes
	ctx         context.Context        // of Run; nil before
	closed      bool                   // Run is stopping
	supervisors map[string]*supervisor // by instance
	logs        map[string]*recent     // of all past and present instances, by name
	working     sync.WaitGroup         // one for each supervisor that runs
	changed     chan struct{}          // closed and replaced at each change of state

	claimed  chan struct{} // closed once Run has the run folder, or has failed to get it
	claim    func(error)   // closes it, the first time
	claimErr error         // valid once claimed is closed
}

// New prepares a host. Nothing runs before Run.
func New(c Config) (*Host, error) {
	store, err := OpenStore(c.Dir)
	if err != nil {
		return nil, err
	}
	if c.Kinds == nil {
		c.Kinds = AllKinds()
	}
	store.kinds, store.others = c.Kinds, slices.Sorted(maps.Keys(c.DevPaths))
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.StateDir == "" {
		c.StateDir = filepath.Join(store.dir, "state")
	}
	if c.RunDir == "" {
		if c.RunDir, err = defaultRunDir(c.StateDir); err != nil {
			return nil, err
		}
	}
	h := &Host{
		config: c, store: store, log: c.Log.With("component", "plugin"), timeouts: defaultTimeouts(),
		supervisors: map[string]*supervisor{}, logs: map[string]*recent{}, changed: make(chan struct{}), lookupEnv: os.LookupEnv, random: rand.Float64, running: map[string]string{}, provided: map[string]bool{},
		spaces: sync.OnceValue(jail.FindNamespaces), nameFiles: jail.NameFiles(),
	}
	h.start = h.launch
	h.claimed = make(chan struct{})
	var once sync.Once
	h.claim = func(err error) { once.Do(func() { h.claimErr = err; close(h.claimed) }) }
	return h, nil
}

// Run supervises all instances, including those that are added later. When ctx ends it stops them concurrently, and returns when every
// process is gone.
func (h *Host) Run(ctx context.Context) error {
	release, err := claimRunDir(h.config.RunDir, h.log)
	h.claim(err)
	if err != nil {
		return err
	}
	defer release()
	defer h.openGroups()()
	sweepSiblings(h.config.RunDir, h.log)
	if err := h.openNames(); err != nil {
		return err
	}
	endServices, err := h.offerServices()
	if err != nil {
		return err
	}
	defer endServices()
	h.mu.Lock()
	if h.ctx != nil {
		h.mu.Unlock()
		return errors.New("run the plugin host: it can run only once")
	}
	h.ctx = ctx
	for _, sup := range h.supervisors {
		h.begin(sup)
	}
	h.mu.Unlock()
	h.working.Go(func() { h.follow(ctx) })
	if h.names != nil {
		h.working.Go(func() { h.names.Follow(ctx, h.timeouts.namesEvery) })
	}
	<-ctx.Done()
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.working.Wait()
	return nil
}

// begin runs sup. h.mu is held and Run is under way.
func (h *Host) begin(sup *supervisor) {
	ctx, stop := context.WithCancel(h.ctx)
	sup.stop = stop
	h.working.Go(func() {
		defer close(sup.ended)
		defer stop()
		sup.run(ctx)
	})
}

// Add adds an instance and, while Run is under way, starts it.
func (h *Host) Add(i Instance, use Handler) error {
	if err := h.checkInstance(i); err != nil {
		return err
	}
	i.Critical = i.Critical || h.declaredCritical(i.Plugin)
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.supervisors[i.Name]; ok {
		return fmt.Errorf("add plugin instance %s: there is one already", i.Name)
	}
	if h.closed {
		return fmt.Errorf("add plugin instance %s: the host is stopping", i.Name)
	}
	sup := newSupervisor(h, i, use, h.recentOf(i.Name))
	h.supervisors[i.Name] = sup
	if h.ctx != nil {
		h.begin(sup)
	}
	return nil
}

// declaredCritical reports whether a plugin.toml declares its plugin critical. The file is not verified for that: a change could only keep
// the host from serving, and a plugin that differs from the lock does not run anyway.
func (h *Host) declaredCritical(name string) bool {
	if dir, ok := h.config.DevPaths[name]; ok {
		p, err := loadDev(dir, h.config.Kinds)
		if err != nil {
			return false
		}
		defer p.close()
		return p.manifest.Critical
	}
	m, err := h.store.Manifest(name)
	return err == nil && m.Critical
}

func (h *Host) checkInstance(i Instance) error {
	switch {
	case !validName().MatchString(i.Name):
		return fmt.Errorf("add plugin instance %q: a name has 1 to 40 letters, digits, - or _", i.Name)
	case !validPlugin().MatchString(i.Plugin):
		return fmt.Errorf("add plugin instance %s: %q is not a plugin's name", i.Name, i.Plugin)
	case h.config.Kinds.Get(i.Kind) == nil:
		return fmt.Errorf("add plugin instance %s: kind is %q, must be %s", i.Name, i.Kind, h.config.Kinds)
	}
	return nil
}

// Remove stops an instance and returns when its process is gone.
func (h *Host) Remove(name string) error {
	h.mu.Lock()
	sup, ok := h.supervisors[name]
	delete(h.supervisors, name)
	running := ok && sup.stop != nil
	h.mu.Unlock()
	if !ok {
		return fmt.Errorf("remove plugin instance %s: there is none", name)
	}
	if running {
		sup.stop()
		<-sup.ended
	}
	return nil
}

// Restart stops the process of an instance and starts it again at once; a quarantine ends.
func (h *Host) Restart(name string) error {
	sup, err := h.supervisor(name)
	if err == nil {
		sup.restart()
	}
	return err
}

// supervisor returns the supervisor of an instance.
func (h *Host) supervisor(name string) (*supervisor, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sup, ok := h.supervisors[name]
	if !ok {
		return nil, fmt.Errorf("%w: %s: flynn plugin list shows the instances", ErrNoInstance, name)
	}
	return sup, nil
}

// Status returns the status of every instance, by name.
func (h *Host) Status() []Status {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.supervisors))
	h.mu.Unlock()
	out := make([]Status, len(all))
	for i, sup := range all {
		out[i] = sup.snapshot()
	}
	slices.SortFunc(out, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// CriticalDown returns an error that names the critical instances that are not ready; nil if all are.
func (h *Host) CriticalDown() error {
	var down error
	for _, s := range h.Status() {
		if s.Critical && s.State != Ready && s.State != Degraded && s.State != Standby {
			down = errors.Join(down, fmt.Errorf("critical plugin instance %s is %s%s", s.Name, s.State, because(s.LastError)))
		}
	}
	return down
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// WaitCritical returns when every critical instance is ready, or with an error when one of them is quarantined.
func (h *Host) WaitCritical(ctx context.Context) error {
	for {
		h.mu.Lock()
		changed := h.changed
		h.mu.Unlock()
		waiting, err := criticalWaiting(h.Status())
		if err != nil || !waiting {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for critical plugins: %w", ctx.Err())
		}
	}
}

func criticalWaiting(all []Status) (waiting bool, err error) {
	for _, s := range all {
		if !s.Critical {
			continue
		}
		if s.State == Quarantined {
			err = errors.Join(err, fmt.Errorf("critical plugin instance %s is quarantined: %s", s.Name, s.LastError))
		}
		waiting = waiting || s.State != Ready && s.State != Degraded && s.State != Standby
	}
	return waiting, err
}

// announce publishes the current state of an instance.
func (h *Host) announce(s Status) {
	h.mu.Lock()
	close(h.changed)
	h.changed = make(chan struct{})
	h.mu.Unlock()
	h.config.Events.Publish(StateChanged{s})
}

// defaultRunDir is short enough for a socket in it, different for each host of a machine, and the same at the next start, which cleans it
// up.
func defaultRunDir(stateDir string) (string, error) {
	whole, err := filepath.Abs(stateDir)
	if err != nil {
		return "", fmt.Errorf("name the plugin run folder: %w", err)
	}
	sum := sha256.Sum256([]byte(whole))
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return fmt.Sprintf("%s/flynn-%x", dir, sum[:4]), nil
	}
	name := fmt.Sprintf("flynn-%d-%x", os.Getuid(), sum[:4])
	if dir := filepath.Join(os.TempDir(), name); len(dir)+socketTail <= maxSocket {
		return dir, nil
	}
	return filepath.Join("/tmp", name), nil // the folder for temporary files of macOS has a long name
}
