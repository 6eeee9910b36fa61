package conform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// configChecks are about Configure and Status.
func configChecks() []check {
	fields := "answer wrong settings with errors in ConfigureResponse, each with the path of its key; never with a crash"
	return []check{
		{name: "configure", run: configureGood, next: "put settings that work into [settings] and [secrets] of " + FileName + ", and let config.schema of plugin.toml take them"},
		{name: "configure-grease", run: configureGrease, next: "ignore fields and log levels that you do not know"},
		{name: "configure-unknown-key", run: unknownKey, next: fields},
		{name: "configure-wrong-type", run: wrongType, next: fields},
		{name: "configure-missing-secret", run: missingSecret, next: fields},
		{name: "configure-garbage", run: garbageSettings, next: "answer settings that are not JSON with INVALID_ARGUMENT or field errors"},
		{name: "secret-in-error", run: secretInError, next: "leave the values of secrets out of errors"},
		{name: "status", run: statusAtOnce, next: "send the present state as soon as Status is called"},
		{name: "log-flood", run: logsNeverBlock, next: "write logs without holding up calls"},
	}
}

func configureGood(ctx context.Context, b *bench) error {
	if _, err := b.ready(ctx); err != nil {
		return err
	}
	return b.taken()
}

// taken holds the settings that work against the schema that plugin.toml names: with it the host would not start the plugin.
func (b *bench) taken() error {
	s, err := plugin.ReadSettings(b.kit.dir)
	if err != nil {
		return err
	}
	settings, _ := b.settings()
	wrong, err := s.Check(settings)
	for _, w := range wrong {
		err = errors.Join(err, fmt.Errorf("config.schema does not take settings that work: %q: %s", w.Key, w.Problem))
	}
	return err
}

func configureGrease(ctx context.Context, b *bench) error {
	s, good, err := b.configurable(ctx)
	if err != nil {
		return err
	}
	good.LogLevel = 77
	out, err := s.plugin.Configure(ctx, grease(good))
	if err == nil && len(out.GetErrors()) > 0 {
		err = errors.New(fieldErrors(out))
	}
	return err
}

// configurable is a process before Configure, and a request that works.
func (b *bench) configurable(ctx context.Context) (*subject, *pluginv1.ConfigureRequest, error) {
	if err := b.needPlatform(ctx); err != nil {
		return nil, nil, err
	}
	s, err := b.start(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	return s, b.good(s), nil
}

// refused makes a Configure that has to come back with an error at path.
func (s *subject) refused(ctx context.Context, r *pluginv1.ConfigureRequest, what, path string) error {
	out, err := s.plugin.Configure(ctx, r)
	switch {
	case err != nil:
		return fmt.Errorf("%s: Configure answers a status instead of field errors: %w", what, err)
	case len(out.GetErrors()) == 0:
		return fmt.Errorf("%s: Configure takes it without a word", what)
	case !slices.ContainsFunc(out.GetErrors(), func(e *pluginv1.FieldError) bool { return strings.Contains(e.GetPath(), path) }):
		return fmt.Errorf("%s: no field error has %q in its path: %s", what, path, fieldErrors(out))
	}
	return s.alive(ctx)
}

func unknownKey(ctx context.Context, b *bench) error {
	s, _, err := b.configurable(ctx)
	if err != nil {
		return err
	}
	settings, secrets := b.settings()
	settings["no_such_key"] = true
	return s.refused(ctx, b.configure(s, settings, secrets), "an unknown key no_such_key", "no_such_key")
}

func wrongType(ctx context.Context, b *bench) error {
	if err := b.needPlatform(ctx); err != nil {
		return err
	}
	settings, secrets := b.settings()
	if len(settings) == 0 {
		return skip("there are no settings to spoil: put some into [settings] of %s", FileName)
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		s, err := b.start(ctx, false) // a new one, in case that the last one took it
		if err != nil {
			return err
		}
		spoilt := maps.Clone(settings)
		spoilt[key] = [][]any{{map[string]any{"of": "another type"}}}
		if err := s.refused(ctx, b.configure(s, spoilt, secrets), "the key "+key+" with a value of another type", key); err != nil {
			return err
		}
	}
	return nil
}

func missingSecret(ctx context.Context, b *bench) error {
	if err := b.needPlatform(ctx); err != nil {
		return err
	}
	settings, secrets := b.settings()
	tried := 0
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if slices.Contains(b.kit.file.Optional, name) {
			continue
		}
		s, err := b.start(ctx, false)
		if err != nil {
			return err
		}
		without := maps.Clone(secrets)
		delete(without, name)
		if err := s.refused(ctx, b.configure(s, settings, without), "without the secret "+name, name); err != nil {
			return err
		}
		tried++
	}
	if tried == 0 {
		return skip("no secret is needed: those in [secrets] of %s are, unless they stand in optional_secrets", FileName)
	}
	return nil
}

func garbageSettings(ctx context.Context, b *bench) error {
	for _, text := range []string{"{", "[]", `"text"`, "\xff\x00"} {
		s, good, err := b.configurable(ctx)
		if err != nil {
			return err
		}
		good.SettingsJson = []byte(text)
		out, err := s.plugin.Configure(ctx, good)
		if err == nil && len(out.GetErrors()) > 0 {
			continue
		}
		if err := code(err, fmt.Sprintf("Configure with the settings %q", text), codes.InvalidArgument); err != nil {
			return err
		}
		if err := s.alive(ctx); err != nil {
			return err
		}
	}
	return nil
}

func secretInError(ctx context.Context, b *bench) error {
	const secret = "conform-s3cr3t-value"
	if len(b.kit.manifest.Config.Secrets) == 0 {
		return skip("plugin.toml names no secrets")
	}
	s, _, err := b.configurable(ctx)
	if err != nil {
		return err
	}
	settings, _ := b.settings()
	settings["no_such_key"] = true
	secrets := map[string]string{}
	for _, name := range b.kit.manifest.Config.Secrets {
		secrets[name] = secret
	}
	out, err := s.plugin.Configure(ctx, b.configure(s, settings, secrets))
	if text := fieldErrors(out) + describe(err); strings.Contains(text, secret) {
		return errors.New("the value of a secret stands in the answer: " + strings.ReplaceAll(text, secret, "[the secret]"))
	}
	return nil
}

func statusAtOnce(ctx context.Context, b *bench) error {
	s, err := b.ready(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.patience())
	defer cancel()
	stream, err := s.plugin.Status(ctx, grease(&pluginv1.StatusRequest{}))
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		return fmt.Errorf("no state came within %v: %w", b.patience(), err)
	}
	return nil
}

// logsNeverBlock makes many calls while the plugin logs all that it can.
func logsNeverBlock(ctx context.Context, b *bench) error {
	s, err := b.ready(ctx) // at the debug level
	if err != nil {
		return err
	}
	for range 200 {
		if err := s.alive(ctx); err != nil {
			return err
		}
	}
	return nil
}
