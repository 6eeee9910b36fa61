package setup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/model/prove"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/instances"
	"github.com/flynnhost/flynn/host/plugin/jail"
	"github.com/flynnhost/flynn/host/plugin/kind"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
)

// ChannelProof is what a platform said about a channel.
type ChannelProof struct {
	// Detail is what the plugin says about its account, such as "@my_bot".
	Detail string `json:"detail"`
	// Senders is what the platform proves about senders.
	Senders message.SenderProof `json:"senders"`
	Took    time.Duration       `json:"took_ns"`
	// Login is true if the account works once a person has linked it to a device, by a code that comes while flynn runs.
	Login bool `json:"login,omitempty"`
	// Contained are the restrictions of its process, as it tested them.
	Contained []jail.Measure `json:"-"`
}

// CredentialError is the refusal of a credential by the platform of a channel, in the words of the plugin.
type CredentialError string

func (e CredentialError) Error() string { return string(e) }

// DegradedError is about a channel that runs and reports that something is amiss, in the words of the plugin.
type DegradedError string

func (e DegradedError) Error() string { return string(e) }

// channelTimeout bounds the wait for the platform.
const channelTimeout = 30 * time.Second

// buildTimeout bounds the build of a plugin in a clone.
const buildTimeout = 10 * time.Minute

// quiet is how long a plugin that says nothing about its platform must stay ready.
const quiet = 1500 * time.Millisecond

// ProveChannel runs the plugin of a channel until its platform accepts the account, and stops it. Messages that arrive in that time are not
// acknowledged, so that the platform keeps them. It must not run beside a flynn with the same channel.
func ProveChannel(ctx context.Context, c *config.Config, name string, launcher []string) (ChannelProof, error) {
	ch, ok := c.Channels[name]
	if !ok {
		return ChannelProof{}, fmt.Errorf("no channel %q", name)
	}
	if err := provide(ctx, c, ch.Plugin); err != nil {
		return ChannelProof{}, err
	}
	var bus event.Bus
	states := make(chan plugin.Status, 64)
	event.On(&bus, func(e plugin.StateChanged) {
		select {
		case states <- e.Status:
		default: // the wait has ended
		}
	})
	run, err := os.MkdirTemp("/tmp", "ft") // short enough for sockets, and not that of a running host
	if err != nil {
		return ChannelProof{}, err
	}
	defer func() { _ = os.RemoveAll(run) }()
	host, err := plugin.New(plugin.Config{
		RunDir: filepath.Join(run, "r"), Dir: c.Plugins.Dir, StateDir: filepath.Join(c.Store.Dir, "state"), DevPaths: c.Plugins.DevPaths, Events: &bus,
		Contain: instances.Containment(c, launcher),
		Where:   func(section, instance string, key []string) string { return instances.Where(c, section, instance, key) },
	})
	if err != nil {
		return ChannelProof{}, err
	}
	senders := make(listener, 1)
	err = host.Add(plugin.Instance{
		Name: name, Plugin: ch.Plugin, Kind: channelkind.Name, Settings: ch.Settings, Secrets: instances.Reveal(ch.Secrets),
	}, senders)
	if err != nil {
		return ChannelProof{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, channelTimeout)
	defer cancel()
	began, ended := time.Now(), make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { ended <- host.Run(ctx) })
	detail, err := settle(ctx, states, ended)
	login := errors.Is(err, errLogin)
	if login {
		err = nil
	}
	took, contained := time.Since(began), host.Containment(name)
	cancel()
	running.Wait()
	if err != nil {
		return ChannelProof{}, err
	}
	return ChannelProof{Detail: prove.OneLine(detail), Senders: <-senders, Took: took, Login: login, Contained: contained}, <-ended
}

// provide installs a plugin that comes with Flynn before the wait for its platform begins: in a clone its build may take minutes.
func provide(ctx context.Context, c *config.Config, name string) error {
	if _, dev := c.Plugins.DevPaths[name]; dev {
		return nil
	}
	store, err := plugin.OpenStore(c.Plugins.Dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	return store.Provide(ctx, slog.New(slog.DiscardHandler), name)
}

// errLogin is the error of an account that a person has to link to a device.
var errLogin = errors.New("a person has to link the account to a device")

// settle waits until the platform has accepted or refused the account.
func settle(ctx context.Context, states <-chan plugin.Status, ended chan error) (detail string, err error) {
	last, began := "the plugin did not start", time.Now()
	var still <-chan time.Time
	for {
		select {
		case s := <-states:
			still = nil
			switch s.State {
			case plugin.Ready:
				if s.Detail != "" {
					return s.Detail, nil
				}
				still = time.After(quiet)
			case plugin.Backoff, plugin.Quarantined, plugin.Disabled:
				return "", errors.New(prove.OneLine(s.LastError))
			case plugin.Degraded:
				last = prove.OneLine(s.Detail)
				if s.Login {
					return "", errLogin
				}
				if why, refused := strings.CutPrefix(last, plugin.CredentialRefused); refused {
					return "", CredentialError(strings.TrimPrefix(why, ": "))
				}
			default:
				last = "the plugin is " + string(s.State)
			}
		case <-still:
			return "", nil
		case err := <-ended:
			ended <- err
			if err == nil {
				err = ctx.Err()
			}
			return "", err
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				err := fmt.Errorf("not accepted within %v: %s", time.Since(began).Round(time.Second), last)
				if strings.HasPrefix(last, string(plugin.Degraded)) {
					err = DegradedError(err.Error())
				}
				return "", err
			}
			return "", ctx.Err()
		}
	}
}

// listener is the handler of a plugin on trial: it listens and acknowledges nothing.
type listener chan message.SenderProof

// Serve implements plugin.Handler.
func (l listener) Serve(ctx context.Context, conn *kind.Conn) error {
	client := channelkind.NewClient(conn)
	select {
	case l <- client.Capabilities().Senders:
	default:
	}
	return client.Receive(ctx, 1, func(channelkind.Event, func(error)) {})
}

// Plugin is a plugin that a channel can use.
type Plugin struct {
	plugin.Manifest
	Settings *plugin.Settings
}

// FindPlugin returns the plugin that a configuration means by a name.
func FindPlugin(c *config.Config, name string) (Plugin, error) {
	if dir, ok := c.Plugins.DevPaths[name]; ok {
		m, err := plugin.ReadManifest(dir)
		if err != nil {
			return Plugin{}, err
		}
		s, err := plugin.ReadSettings(dir)
		return Plugin{m, s}, err
	}
	store, err := plugin.OpenStore(c.Plugins.Dir)
	if err != nil {
		return Plugin{}, err
	}
	if err := store.Installed(name, pluginNames(c)...); err != nil {
		return Plugin{}, err
	}
	m, err := store.VerifiedManifest(name)
	if err != nil {
		return Plugin{}, err
	}
	s, err := store.Settings(name, "")
	return Plugin{m, s}, err
}

func pluginNames(c *config.Config) []string {
	var names []string
	for name := range c.Plugins.DevPaths {
		names = append(names, name)
	}
	return names
}

// ChannelPlugins returns the names of the plugins that channels of a configuration can use.
func ChannelPlugins(c *config.Config) []string {
	names := pluginNames(c)
	if store, err := plugin.OpenStore(c.Plugins.Dir); err == nil {
		locked, _ := store.List()
		for _, l := range locked {
			names = append(names, l.Name)
		}
		available, _ := store.Available()
		for _, a := range available {
			names = append(names, a.Name)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		p, err := FindPlugin(c, name)
		return err != nil || !slices.Contains(p.Kinds, channelkind.Name)
	})
}
