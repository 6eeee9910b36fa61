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
	"time"

	"github.com/flynnhost/flynn/host/plugin/cell"
	"github.com/flynnhost/flynn/host/plugin/service"
)

// Kind is a sort of plugin, as plugin.toml names it.
type Kind string

// The sorts of plugin.
const (
	Channel Kind = "channel"
	Tools   Kind = "tools"
)

// Config configures a Host. Dir is required.
type Config struct {
	// Dir holds the installed plugins and their lock, see Store.
	Dir string
	// StateDir holds a folder for each instance of a plugin that asks for state; Dir/state
	StateDir string
	// RunDir holds sockets while the host runs. It has to be short and is the host's alone; a folder in $XDG_RUNTIME_DIR,
	// or one of the user in the temporary directory, whose name comes from StateDir.
	RunDir string
	// DevPaths maps a plugin's name to a folder with plugin.toml that runs without being installed and locked.
	DevPaths map[string]string
	// Contain says how the processes are held in.
	Contain Containment
	// Attach maps instances to the addresses ("unix:/PATH") of processes that a developer has started himself.
	Attach map[string]string
	// Version of the host, semver without "v"; plugins may ask for a least one. Empty means that any will do.
	Version string
	// Services is what plugins are offered that ask for it; nil offers nothing. Run serves it.
	Services *service.Server
	Log      *slog.Logger

	// Where says where the setting of an instance stands, such as "flynn.toml:12: "; nil says nothing.
	Where func(kind Kind, instance string, key []string) string
	// OnState is called with every change of an instance's state, one at a time per instance. It must not block.
	OnState func(Status)
	// OnCall is called after every call to a plugin. It must not block.
	OnCall func(instance, method string, took time.Duration, err error)
}

// Instance is one configured use of a plugin: one process.
type Instance struct {
	Name     string
	Plugin   string
	Kind     Kind
	Settings map[string]any
	Secrets  map[string]string
	// Critical instances keep WaitCritical from returning until they are ready.
	Critical bool
	// Grant is what the operator allows this instance.
	Grant Grant
}

// Grant is what an instance may use beside what its plugin's manifest asks for: an operator's word, which no plugin can give itself.
type Grant struct {
	Read, Write []string // files and folders; absolute
	Network     []string // "host:port", or "*" for any
	Sockets     []string // unix sockets to connect to
	Memory      int64    // bytes at which it is ended with what it starts; 0: what the manifest says
}

// Handler uses a ready instance.
type Handler interface {
	// Serve is called whenever the instance has become ready. ctx ends when the process is gone or has to stop; Serve returns
	// when its use of c is over. A return before that is a failure of the instance, which is restarted.
	Serve(ctx context.Context, c *Client) error
}

// Host runs plugin processes. A plugin that fails never keeps another one from working.
type Host struct {
	config Config
	store  *Store
	log    *slog.Logger
	pace   pace
	// lookupEnv finds the variables of the host that plugins may see.
	lookupEnv func(string) (string, bool)
	nameFiles []string                                                     // that processes see change
	random    func() float64                                               // of the pause after a failure
	start     func(ctx context.Context, u *unit, o order) (process, error) // launches; replaced by tests
	spaces    func() cell.Namespaces                                       // in which processes can be started
	groups    *cell.Groups                                                 // nil where there are none, for the reason of noGroups
	noGroups  string
	names     *cell.Names // nil where the files for names are shown as they are

	mu      sync.Mutex
	running map[string]string // by plugin: the version that its instances run, which only follow changes
	ctx     context.Context   // of Run; nil before
	closed  bool              // Run waits for the last ones
	units   map[string]*unit
	logs    map[string]*recent // of all instances that there were, by name
	working sync.WaitGroup     // one for each unit that runs
	changed chan struct{}      // closed and replaced at each change of state

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
	store.others = slices.Sorted(maps.Keys(c.DevPaths))
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
		config: c, store: store, log: c.Log.With("component", "plugin"), pace: defaultPace(),
		units: map[string]*unit{}, logs: map[string]*recent{}, changed: make(chan struct{}), lookupEnv: os.LookupEnv, random: rand.Float64, running: map[string]string{},
		spaces: sync.OnceValue(cell.FindNamespaces), nameFiles: cell.NameFiles(),
	}
	h.start = h.launch
	h.claimed = make(chan struct{})
	var once sync.Once
	h.claim = func(err error) { once.Do(func() { h.claimErr = err; close(h.claimed) }) }
	return h, nil
}

// Run supervises all instances, those that are added later included. When ctx ends it stops them, side by side, and returns
// when every process is gone.
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
		return errors.New("run the plugin host: it ran before")
	}
	h.ctx = ctx
	for _, u := range h.units {
		h.begin(u)
	}
	h.mu.Unlock()
	h.working.Go(func() { h.follow(ctx) })
	if h.names != nil {
		h.working.Go(func() { h.names.Follow(ctx, h.pace.namesEvery) })
	}
	<-ctx.Done()
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.working.Wait()
	return nil
}

// begin runs u. h.mu is held and Run is under way.
func (h *Host) begin(u *unit) {
	ctx, stop := context.WithCancel(h.ctx)
	u.stop = stop
	h.working.Go(func() {
		defer close(u.ended)
		defer stop()
		u.run(ctx)
	})
}

// Add adds an instance and, while Run is under way, starts it.
func (h *Host) Add(i Instance, use Handler) error {
	if err := checkInstance(i); err != nil {
		return err
	}
	i.Critical = i.Critical || h.declaredCritical(i.Plugin)
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.units[i.Name]; ok {
		return fmt.Errorf("add plugin instance %s: there is one already", i.Name)
	}
	if h.closed {
		return fmt.Errorf("add plugin instance %s: the host is stopping", i.Name)
	}
	u := newUnit(h, i, use, h.recentOf(i.Name))
	h.units[i.Name] = u
	if h.ctx != nil {
		h.begin(u)
	}
	return nil
}

// declaredCritical reports whether a plugin.toml calls its plugin critical. Nothing is verified for that: who could change the file could do
// no more than keep the host from serving, and a plugin that is not what was locked does not run anyway.
func (h *Host) declaredCritical(name string) bool {
	if dir, ok := h.config.DevPaths[name]; ok {
		m, err := ReadManifest(dir)
		return err == nil && m.Critical
	}
	m, err := h.store.Manifest(name)
	return err == nil && m.Critical
}

func checkInstance(i Instance) error {
	switch {
	case !validName().MatchString(i.Name):
		return fmt.Errorf("add plugin instance %q: a name has 1 to 40 letters, digits, - or _", i.Name)
	case !validPlugin().MatchString(i.Plugin):
		return fmt.Errorf("add plugin instance %s: %q is not a plugin's name", i.Name, i.Plugin)
	case i.Kind != Channel && i.Kind != Tools:
		return fmt.Errorf("add plugin instance %s: kind is %q, want channel or tools", i.Name, i.Kind)
	}
	return nil
}

// Remove stops an instance and returns when its process is gone.
func (h *Host) Remove(name string) error {
	h.mu.Lock()
	u, ok := h.units[name]
	delete(h.units, name)
	running := ok && u.stop != nil
	h.mu.Unlock()
	if !ok {
		return fmt.Errorf("remove plugin instance %s: there is none", name)
	}
	if running {
		u.stop()
		<-u.ended
	}
	return nil
}

// Restart stops the process of an instance and starts it again at once; a quarantine ends.
func (h *Host) Restart(name string) error {
	h.mu.Lock()
	u, ok := h.units[name]
	h.mu.Unlock()
	if !ok {
		return noInstance(name)
	}
	u.restart()
	return nil
}

// Status tells how every instance is, by name.
func (h *Host) Status() []Status {
	h.mu.Lock()
	units := slices.Collect(maps.Values(h.units))
	h.mu.Unlock()
	out := make([]Status, len(units))
	for i, u := range units {
		out[i] = u.snapshot()
	}
	slices.SortFunc(out, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// CriticalDown says which critical instances are not ready; nil when all are.
func (h *Host) CriticalDown() error {
	var down error
	for _, s := range h.Status() {
		if s.Critical && s.State != Ready && s.State != Degraded {
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
		waiting = waiting || s.State != Ready && s.State != Degraded
	}
	return waiting, err
}

// announce tells the watchers that u's state is s now.
func (h *Host) announce(s Status) {
	h.mu.Lock()
	close(h.changed)
	h.changed = make(chan struct{})
	h.mu.Unlock()
	if h.config.OnState != nil {
		h.config.OnState(s)
	}
}

// defaultRunDir is short enough for a socket below it, another one for each host of a machine, and the same one at the next start,
// which sweeps it.
func defaultRunDir(stateDir string) (string, error) {
	whole, err := filepath.Abs(stateDir)
	if err != nil {
		return "", fmt.Errorf("name the plugin run folder: %w", err)
	}
	sum := sha256.Sum256([]byte(whole))
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return fmt.Sprintf("%s/flynn-%x", dir, sum[:4]), nil
	}
	return fmt.Sprintf("%s/flynn-%d-%x", os.TempDir(), os.Getuid(), sum[:4]), nil
}
