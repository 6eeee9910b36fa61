package channels

import (
	"errors"
	"regexp"
	"strings"

	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
)

// fault is the error of single faults; nil if there are none.
func fault(faults []gateway.Fault) error {
	if len(faults) == 0 {
		return nil
	}
	return &gateway.Refusal{Text: faults[0].Location + ": " + faults[0].Message, Faults: faults}
}

// settingFaults checks settings against the plugin's schema; the keys of the host are checked with the whole file.
func settingFaults(p setup.Plugin, all map[string]any) (faults []gateway.Fault) {
	own := map[string]any{}
	for key, value := range all {
		if !isHostKey(key) && !strings.HasSuffix(key, "_env") && !strings.HasSuffix(key, "_file") {
			own[key] = value
		}
	}
	wrong, err := p.Settings.Check(own)
	if err != nil {
		return []gateway.Fault{{Location: "settings", Message: err.Error()}}
	}
	for _, w := range wrong {
		faults = append(faults, gateway.Fault{Location: strings.Join(append([]string{"settings"}, w.Key...), "."), Message: w.Problem})
	}
	return faults
}

// refusal finds the fields of a form that an error is about.
func refusal(a setup.ChannelAnswers, err error) error {
	var all config.Errors
	var token setup.CredentialError
	switch {
	case errors.As(err, &all):
		var faults []gateway.Fault
		for _, e := range all {
			text := e.Problem
			if e.Hint != "" {
				text += " (" + e.Hint + ")"
			}
			faults = append(faults, gateway.Fault{Location: field(a.Name, e.Key), Message: text})
		}
		return fault(faults)
	case errors.As(err, &token):
		place := "secrets"
		if len(a.Secrets) == 1 {
			for name := range a.Secrets {
				place += "." + name
			}
		}
		return fault([]gateway.Fault{{Location: place, Message: string(token)}})
	}
	if faults := placed(a.Name, err.Error()); len(faults) > 0 {
		return fault(faults)
	}
	return &gateway.Refusal{Text: err.Error()}
}

// field is the field of a form that a key of the configuration belongs to.
func field(name, key string) string {
	rest, ok := strings.CutPrefix(key, config.KeyString("channels", name)+".")
	switch {
	case !ok:
		return key
	case strings.HasSuffix(rest, "_file"), strings.HasSuffix(rest, "_env"):
		return "secrets." + strings.TrimSuffix(strings.TrimSuffix(rest, "_file"), "_env")
	case strings.HasPrefix(rest, "secrets."):
		return rest
	}
	return "settings." + rest
}

// placed finds what a plugin says about its settings: FILE:LINE: channels.NAME.KEY: PROBLEM, one after the other.
func placed(name, text string) (faults []gateway.Fault) {
	at := regexp.MustCompile(`(?:^|; |: )(?:[^;:]+:\d+: |[^;: ]+: )?(channels\.` + regexp.QuoteMeta(config.KeyString(name)) + `\.[^:;\s]+): ([^;]+)`)
	for _, m := range at.FindAllStringSubmatch(text, 20) {
		faults = append(faults, gateway.Fault{Location: field(name, m[1]), Message: m[2]})
	}
	return faults
}
