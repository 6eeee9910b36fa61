package sandbox

import "testing"

func TestParseNoRoutes(t *testing.T) {
	const names = "Ip: Forwarding DefaultTTL OutDiscards OutNoRoutes ReasmTimeout\n"
	for _, c := range []struct {
		name, text string
		want       int64
	}{
		{"empty", "", 0},
		{"none", names + "Ip: 1 64 0 0 0\n", 0},
		{"both families", names + "Ip: 1 64 0 3 0\nIcmp: a\nIcmp: 1\nIp6OutNoRoutes                  \t4\n", 7},
		{"cut off", names + "Ip: 1 64", 0},
		{"values without names", "Ip: 1 64 0 3 0\n", 0},
		{"nonsense", names + "Ip: a b c -3 x\nIp6OutNoRoutes 99999999999999999999\n", 0},
		{"names twice", names + names + "Ip: 1 64 0 3 0\n", 0},
	} {
		if got := parseNoRoutes(c.text); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func FuzzParseNoRoutes(f *testing.F) {
	f.Add("Ip: A OutNoRoutes\nIp: 1 2\nIp6OutNoRoutes 3\n")
	f.Add("Ip:\nIp:\n")
	f.Fuzz(func(t *testing.T, text string) {
		if n := parseNoRoutes(text); n < 0 {
			t.Errorf("%d", n)
		}
	})
}
