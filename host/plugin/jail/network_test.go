package jail

import (
	"fmt"
	"testing"
)

func TestPorts(t *testing.T) {
	for name, c := range map[string]struct {
		network  []string
		settings map[string]any
		want     string
	}{
		"none":                {nil, nil, "[] false"},
		"one":                 {[]string{"example.com:443"}, nil, "[53 443] false"},
		"several hosts":       {[]string{"*:6667", "*:6697"}, nil, "[53 6667 6697] false"},
		"any port":            {[]string{"example.com:*"}, nil, "[] true"},
		"no port":             {[]string{"example.com"}, nil, "[] true"},
		"a URL in settings":   {nil, map[string]any{"base_url": "http://127.0.0.1:8081/bot"}, "[8081] false"},
		"a scheme's own port": {nil, map[string]any{"base_url": "wss://example.com"}, "[53 443] false"},
		"deep in settings":    {[]string{"a:1"}, map[string]any{"servers": []any{map[string]any{"address": "irc.example.com:7000"}}}, "[1 53 7000] false"},
		"no name to look up":  {[]string{"192.0.2.1:25", "[::1]:26", "localhost:27"}, nil, "[25 26 27] false"},
		"words in settings":   {nil, map[string]any{"topic": "note: this", "time": "12:30"}, "[30 53] false"},
		"ports out of range":  {nil, map[string]any{"a": "h:70000", "b": "h:0", "c": "h:-1"}, "[] false"},
	} {
		t.Run(name, func(t *testing.T) {
			n := networkOf(c.network, c.settings)
			if got := fmt.Sprint(n.ports, n.all); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
