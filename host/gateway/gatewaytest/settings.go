package gatewaytest

import (
	"context"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
)

// Settings has the answers of the subjects that package admin implements: what is set here, and store.ErrNotFound for all that changes
// something unless the matching function is set.
type Settings struct {
	File     gateway.Configuration
	Keys     []gateway.ConfigurationKey
	Former   []gateway.FormerConfiguration
	Kept     []gateway.StoredSecret
	Existing []gateway.Channel
	Kinds    []gateway.ChannelKind
	Found    gateway.Examination

	Check  func(gateway.ConfigurationEdit) (gateway.ConfigurationCheck, error)
	Edit   func(gateway.ConfigurationEdit) (gateway.ConfigurationEdited, error)
	Secret func(name, value string) (gateway.StoredSecret, error)
	Prove  func(gateway.NewChannel) (gateway.ChannelAccount, error)
	Add    func(gateway.NewChannel) (gateway.ChannelAccount, error)
	Change func(name string, c gateway.ChannelChange) error
	Remove func(name string) error
	Mended func(code string) ([]gateway.Finding, error)
}

var (
	_ gateway.Configurations = Settings{}
	_ gateway.Secrets        = Settings{}
	_ gateway.Channels       = Settings{}
	_ gateway.Doctor         = Settings{}
)

// Configuration implements gateway.Configurations.
func (s Settings) Configuration(context.Context) (gateway.Configuration, error) { return s.File, nil }

// ConfigurationKeys implements gateway.Configurations.
func (s Settings) ConfigurationKeys(context.Context, string) ([]gateway.ConfigurationKey, error) {
	return s.Keys, nil
}

// CheckConfiguration implements gateway.Configurations.
func (s Settings) CheckConfiguration(_ context.Context, e gateway.ConfigurationEdit) (gateway.ConfigurationCheck, error) {
	return call(s.Check, e)
}

// EditConfiguration implements gateway.Configurations.
func (s Settings) EditConfiguration(_ context.Context, e gateway.ConfigurationEdit, _ string) (gateway.ConfigurationEdited, error) {
	return call(s.Edit, e)
}

// Restart implements gateway.Configurations.
func (s Settings) Restart(context.Context, string) (gateway.Restarting, error) {
	return gateway.Restarting{}, store.ErrNotFound
}

// FormerConfigurations implements gateway.Configurations.
func (s Settings) FormerConfigurations(context.Context) ([]gateway.FormerConfiguration, error) {
	return s.Former, nil
}

// Secrets implements gateway.Secrets.
func (s Settings) Secrets(context.Context) ([]gateway.StoredSecret, error) { return s.Kept, nil }

// SetSecret implements gateway.Secrets.
func (s Settings) SetSecret(_ context.Context, name, value, _ string) (gateway.StoredSecret, error) {
	if s.Secret == nil {
		return gateway.StoredSecret{}, store.ErrNotFound
	}
	return s.Secret(name, value)
}

// Channels implements gateway.Channels.
func (s Settings) Channels(context.Context) ([]gateway.Channel, error) { return s.Existing, nil }

// ChannelKinds implements gateway.Channels.
func (s Settings) ChannelKinds(context.Context) ([]gateway.ChannelKind, error) { return s.Kinds, nil }

// ProveChannel implements gateway.Channels.
func (s Settings) ProveChannel(_ context.Context, c gateway.NewChannel) (gateway.ChannelAccount, error) {
	return call(s.Prove, c)
}

// AddChannel implements gateway.Channels.
func (s Settings) AddChannel(_ context.Context, c gateway.NewChannel, _ string) (gateway.ChannelAccount, error) {
	return call(s.Add, c)
}

// ChangeChannel implements gateway.Channels.
func (s Settings) ChangeChannel(_ context.Context, name string, c gateway.ChannelChange, _ string) error {
	if s.Change == nil {
		return store.ErrNotFound
	}
	return s.Change(name, c)
}

// RemoveChannel implements gateway.Channels.
func (s Settings) RemoveChannel(_ context.Context, name, _ string) error {
	if s.Remove == nil {
		return store.ErrNotFound
	}
	return s.Remove(name)
}

// Examine implements gateway.Doctor.
func (s Settings) Examine(context.Context) (gateway.Examination, error) { return s.Found, nil }

// Mend implements gateway.Doctor.
func (s Settings) Mend(_ context.Context, code string) ([]gateway.Finding, error) {
	return call(s.Mended, code)
}

func call[In, Out any](do func(In) (Out, error), in In) (out Out, err error) {
	if do == nil {
		return out, store.ErrNotFound
	}
	return do(in)
}
