package channels

import (
	"errors"
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/schema"
)

// TestRefusal finds the fields of a form that an error is about.
func TestRefusal(t *testing.T) {
	one := setup.ChannelAnswers{Name: "tg", Secrets: map[string]config.Secret{"token": "x"}}
	for name, c := range map[string]struct {
		err  error
		want []gateway.Fault
	}{
		"the configuration": {config.Errors{{Key: "channels.tg.token_file", Problem: "open x", Hint: "y"}, {Key: "channels.tg.access", Problem: "no"}, {Key: "access", Problem: "z"}},
			[]gateway.Fault{{Location: "secrets.token", Message: "open x (y)"}, {Location: "settings.access", Message: "no"}, {Location: "access", Message: "z"}}},
		"the platform": {setup.CredentialError("401"), []gateway.Fault{{Location: "secrets.token", Message: "401"}}},
		"the plugin": {errors.New(`configure: flynn.toml:32: channels.tg.secrets.token: must be "1:A"; flynn.toml:33: channels.tg.mode: must be "poll"`),
			[]gateway.Fault{{Location: "secrets.token", Message: `must be "1:A"`}, {Location: "settings.mode", Message: `must be "poll"`}}},
		"something else": {errors.New("the plugin did not start; channels.other.mode: x"), nil},
	} {
		var r *gateway.Refusal
		if err := refusal(one, c.err); !errors.As(err, &r) || !slices.Equal(r.Faults, c.want) || r.Text == "" {
			t.Errorf("%s: %+v", name, err)
		}
	}
	var r *gateway.Refusal
	if err := refusal(setup.ChannelAnswers{Name: `a.b"`}, errors.New(`configure: channels."a.b\"".mode: no`)); !errors.As(err, &r) || len(r.Faults) > 1 {
		t.Errorf("%v", err)
	}
}

func TestFormField(t *testing.T) {
	s, err := schema.Compile([]byte(`{"type":"object","required":["b"],"properties":{"a_key":{"type":"string","enum":["x","y"],"default":"x","description":"Help."},
		"b":{"type":"integer","title":"Bee","default":5},"c":{"type":["string","integer"]}}}`), schema.Settings)
	if err != nil {
		t.Fatal(err)
	}
	var got []gateway.FormField
	for _, f := range s.Fields() {
		got = append(got, formField(f))
	}
	want := []gateway.FormField{
		{Name: "b", Type: config.TypeInteger, Title: "Bee", Default: "5", Required: true},
		{Name: "a_key", Type: config.TypeText, Title: "A key", Help: "Help.", Default: "x", Enum: []string{"x", "y"}},
		{Name: "c", Type: config.TypeText, Title: "C"},
	}
	for i := range want {
		if i >= len(got) || got[i].Name != want[i].Name || got[i].Type != want[i].Type || got[i].Title != want[i].Title || got[i].Help != want[i].Help ||
			got[i].Default != want[i].Default || got[i].Required != want[i].Required || !slices.Equal(got[i].Enum, want[i].Enum) {
			t.Errorf("field %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	if !isHostKey("access") || isHostKey("plugin") || isHostKey("address") {
		t.Error("the host's own keys")
	}
}
