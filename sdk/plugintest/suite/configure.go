package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/flynnhost/flynn/sdk/plugintest/wire"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// configureChecks are about Configure and Status.
func configureChecks() []Check {
	fields := "answer wrong settings with errors in ConfigureResponse, each with the path of its key; never with a crash"
	return []Check{
		{Name: "configure", Run: func(t *T) { t.ready() }, Next: "give the suite settings and secrets that work, and take them"},
		{Name: "configure-grease", Run: configureGrease, Next: "ignore fields and log levels that you do not know"},
		{Name: "configure-unknown-key", Run: unknownKey, Next: fields},
		{Name: "configure-wrong-type", Run: wrongType, Next: fields},
		{Name: "configure-missing-secret", Run: missingSecret, Next: fields},
		{Name: "configure-garbage", Run: garbageSettings, Next: "answer settings that are not JSON with INVALID_ARGUMENT or field errors"},
		{Name: "secret-in-error", Run: secretInError, Next: "leave the values of secrets out of errors"},
		{Name: "status", Run: statusAtOnce, Next: "send the present state as soon as Status is called"},
		{Name: "log-flood", Run: logsNeverBlock, Next: "write logs without holding up calls"},
	}
}

func configureGrease(t *T) {
	p := t.unconfigured()
	good := p.good()
	good.LogLevel = 77
	out, err := p.plugin.Configure(t.ctx, wire.Grease(good))
	t.must(err)
	if len(out.GetErrors()) > 0 {
		t.Fail("%s", fieldErrors(out))
	}
}

// refuses makes a Configure call that must fail with an error at path.
func (p *process) refuses(r *pluginv1.ConfigureRequest, what, path string) {
	out, err := p.plugin.Configure(p.t.ctx, r)
	switch {
	case err != nil:
		p.t.Fail("%s: Configure answers a status instead of field errors: %w", what, err)
	case len(out.GetErrors()) == 0:
		p.t.Fail("%s: Configure accepts it", what)
	case !slices.ContainsFunc(out.GetErrors(), func(e *pluginv1.FieldError) bool { return strings.Contains(e.GetPath(), path) }):
		p.t.Fail("%s: no field error has %q in its path: %s", what, path, fieldErrors(out))
	}
	p.alive()
}

func unknownKey(t *T) {
	settings, secrets := t.Settings()
	settings["no_such_key"] = true
	p := t.unconfigured()
	p.refuses(p.configure(settings, secrets), "an unknown key no_such_key", "no_such_key")
}

func wrongType(t *T) {
	settings, secrets := t.Settings()
	if len(settings) == 0 {
		t.Skip("there are no settings to spoil: put some into %s", t.plugin.Source)
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		p := t.unconfigured() // a new one, in case the last one accepted the settings
		spoilt := maps.Clone(settings)
		spoilt[key] = [][]any{{map[string]any{"of": "another type"}}}
		p.refuses(p.configure(spoilt, secrets), "the key "+key+" with a value of another type", key)
	}
}

func missingSecret(t *T) {
	settings, secrets := t.Settings()
	needed := slices.DeleteFunc(slices.Sorted(maps.Keys(secrets)), func(name string) bool { return slices.Contains(t.plugin.Optional, name) })
	if len(needed) == 0 {
		t.Skip("no secret is needed: the secrets of %s are, unless they are optional", t.plugin.Source)
	}
	for _, name := range needed {
		p := t.unconfigured()
		without := maps.Clone(secrets)
		delete(without, name)
		p.refuses(p.configure(settings, without), "without the secret "+name, name)
	}
}

func garbageSettings(t *T) {
	for _, text := range []string{"{", "[]", `"text"`, "\xff\x00"} {
		p := t.unconfigured()
		r := p.good()
		r.SettingsJson = []byte(text)
		out, err := p.plugin.Configure(t.ctx, r)
		if err == nil && len(out.GetErrors()) > 0 {
			continue
		}
		t.answers(err, fmt.Sprintf("Configure with the settings %q", text), codes.InvalidArgument)
		p.alive()
	}
}

func secretInError(t *T) {
	const secret = "conform-s3cr3t-value"
	if len(t.plugin.Named) == 0 {
		t.Skip("the plugin names no secrets")
	}
	settings, _ := t.Settings()
	settings["no_such_key"] = true
	secrets := map[string]string{}
	for _, name := range t.plugin.Named {
		secrets[name] = secret
	}
	p := t.unconfigured()
	out, err := p.plugin.Configure(t.ctx, p.configure(settings, secrets))
	if text := fieldErrors(out) + describe(err); strings.Contains(text, secret) {
		t.Fail("the value of a secret stands in the answer: %s", strings.ReplaceAll(text, secret, "[the secret]"))
	}
}

func statusAtOnce(t *T) {
	p := t.ready()
	ctx, cancel := t.soon()
	defer cancel()
	stream, err := p.plugin.Status(ctx, wire.Grease(&pluginv1.StatusRequest{}))
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fail("no state came within %v: %w", t.config.Patience, err)
	}
}

// logsNeverBlock makes many calls while the plugin logs as much as it can: the suite configures the debug level.
func logsNeverBlock(t *T) {
	p := t.ready()
	for range 200 {
		p.alive()
	}
}
